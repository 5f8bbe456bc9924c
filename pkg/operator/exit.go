package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
)

// Exit statuses of every verb (sysexits.h), beside those that a verb documents
// for itself.
const (
	ExitOK          = 0
	ExitUsage       = 64 // the command line is wrong
	ExitInput       = 65 // a payload, an id, a line of a batch is wrong
	ExitNoInput     = 66 // no such task, schedule or file
	ExitUnavailable = 69 // the database can't be used now
	ExitCantCreate  = 73 // it exists already, or can't be made
	ExitIO          = 74
	ExitTryAgain    = 75
	ExitNoPerm      = 77
	ExitConfig      = 78
	ExitInterrupted = 130 // Ctrl-C, as a shell reports it
)

// Statuses of single verbs.
const (
	ExitWaitFailed    = 1   // wait: a task FAILED
	ExitWaitDead      = 2   // wait: a task is DEAD
	ExitWaitCancelled = 3   // wait: a task is CANCELLED
	ExitWaitTimeout   = 124 // wait: --timeout passed, as timeout(1) says it
	ExitFinished      = 1   // cancel, pause, resume: the task had already finished
	ExitNoWorker      = 3   // status: no worker is alive (LSB: the program is not running)
	ExitUnwell        = 1   // doctor, db check, config check: something is wrong
)

// Error is a refusal with its exit status.
type Error struct {
	Code    int
	Message string // what was wrong, with the value
	Hint    string // what to do; may be empty
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// fail makes an Error.
func fail(code int, hint, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Exit is an exit status that needs no words: they have been said.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitCode is the status that a command ends with for err.
func ExitCode(err error) int {
	var (
		exit    Exit
		own     *Error
		usage   *cmdline.UsageError
		bad     *BadJSON
		missing *config.MissingError
		conf    *config.Errors
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &bad):
		return ExitInput
	case errors.As(err, &missing):
		return ExitNoInput
	case errors.As(err, &conf):
		return ExitConfig
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	if code := store.ExitCode(err); code != ExitUnavailable {
		return code
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ExitNoPerm
	case errors.Is(err, fs.ErrNotExist):
		return ExitNoInput
	case errors.Is(err, fs.ErrExist):
		return ExitCantCreate
	}
	return ExitUnavailable
}

// sentence writes a line to the error stream, broken between words where that is
// a terminal. A stream that can't be written has nobody who listens.
func sentence(w io.Writer, text string) {
	s := screen.Detect(w, os.Getenv)
	if !s.Terminal {
		s.Width = 0 // COLUMNS is for tables; a script matches whole lines
	}
	s.Color = false
	_ = s.Print(w, s.Wrap(screen.Text(text), 2))
}

// Report writes err as people read it, one sentence a line, and returns the exit
// status. Values in it are escaped: a message can't move the cursor either.
func Report(w io.Writer, program string, err error) int {
	var exit Exit
	if err == nil || errors.As(err, &exit) {
		return ExitCode(err)
	}
	for _, line := range strings.Split(strings.TrimRight(err.Error(), "\n"), "\n") {
		sentence(w, program+": "+screen.Escape(line))
	}
	return ExitCode(err)
}
