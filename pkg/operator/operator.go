// Package operator is what the verbs of the command line do: they ask the store,
// the kernel and the configuration, and answer a person or a script.
//
// The rules of this room:
//   - Every verb is a method of Desk. cmd/worker parses flags and calls it.
//   - What is alive is asked of the kernel (a lock), never believed of a table.
//   - Whatever came from outside passes screen.Escape before it is shown; in the
//     documents of --json it comes out byte for byte.
//   - An error is one sentence: what was wrong, with which value, what to do. Its
//     exit status is decided in exit.go and nowhere else.
//   - Nothing is written to the database but through the store.
package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
)

// Desk is one command: where it reads and writes, and what it works on.
type Desk struct {
	Program string // the name that the program was called by
	Version string

	ConfigFlag, DataFlag string // --config and --data
	Config               *config.Config
	Store                *store.Store

	In          io.Reader
	Out, Err    io.Writer
	Style       screen.Style // of Out
	JSON        bool         // one document on Out instead of text for people
	ErrTerminal bool         // a person sees Err as it is written
	Asks        bool         // a person sits at In and can be asked

	Zone   *time.Location
	Now    func() time.Time
	Getenv func(string) string

	// Patience bounds how long a write waits for its turn; 0: maxWait.
	Patience time.Duration

	ask *prober // nil: the kernel
}

// Deadlines of an operator's command. A person at a terminal would rather hear
// who is in the way than wait.
const (
	// maxWait bounds how long a write waits for its turn (case DB-03).
	maxWait = 20 * time.Second
	// lookAgain is the poll behind wait and logs -f, beside the store's wake-ups:
	// often enough for a person, under 1 % of a processor.
	lookAgain = 500 * time.Millisecond
)

// note writes a sentence to the error stream: something that a script must not
// take for output.
func (d *Desk) note(format string, args ...any) {
	sentence(d.Err, fmt.Sprintf(format, args...))
}

// print writes lines to the output.
func (d *Desk) print(lines ...screen.Line) error { return d.Style.Print(d.Out, lines) }

// say writes one plain line to the output.
func (d *Desk) say(format string, args ...any) error {
	_, err := fmt.Fprintf(d.Out, format+"\n", args...)
	return err
}

// zone is the zone that times without one are read in, and shown in.
func (d *Desk) zone() *time.Location {
	if d.Zone != nil {
		return d.Zone
	}
	return time.Local
}

// sleep waits for d or for the end of ctx, and reports whether it slept it all.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
