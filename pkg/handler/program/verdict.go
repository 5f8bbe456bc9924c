package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

const sigKill = syscall.SIGKILL

// How much text goes where.
const (
	maxQuote = 500      // last words of a failure, in the summary
	maxText  = 64 << 10 // a result that is text and not JSON
)

// verdict turns the program's end into the handler's answer.
func (x *execution) verdict() (any, error) {
	r := handler.Report{Program: x.program}
	switch status := x.child.status; {
	case x.child.stolen != nil: // neither is known
	case status.Signaled():
		r.Signal = unix.SignalName(status.Signal())
	default:
		code := status.ExitStatus()
		r.ExitCode = &code
	}
	switch {
	case x.order != nil:
		r.Summary = x.remark(fmt.Sprintf("%s: %s; %s", reason(x.order), strings.Join(x.how, ", "), x.ending()))
		return r, &stopped{x.order, r.Summary}
	case r.ExitCode != nil && *r.ExitCode == 0:
		var note string
		r.Result, note = x.result()
		if remark := x.remark(note); remark != "" {
			r.Summary = strings.TrimSpace(cutText(string(r.Result), maxQuote) + " (" + remark + ")")
		}
		return r, nil
	}
	r.Summary = x.remark(x.ending())
	err := errors.New(r.Summary)
	if r.ExitCode != nil && x.p.fatal[*r.ExitCode] {
		return r, handler.Fatal(err)
	}
	return r, handler.Retryable(err)
}

// stopped is the error of a program that was ended by an order: it is the order's,
// in other words.
type stopped struct {
	order error
	text  string
}

func (s *stopped) Error() string { return s.text }
func (s *stopped) Unwrap() error { return s.order }

// reason is the order in one word.
func reason(err error) string {
	switch {
	case errors.Is(err, handler.ErrCancelled):
		return "cancelled"
	case errors.Is(err, handler.ErrPaused):
		return "paused"
	case errors.Is(err, handler.ErrStopping):
		return "the worker stopped"
	case errors.Is(err, handler.ErrTimeout):
		return "timeout"
	default:
		return "no longer this worker's"
	}
}

// ending says how the program ended, with its last words when that was no success.
func (x *execution) ending() string {
	var how string
	switch status := x.child.status; {
	case x.child.stolen != nil:
		how = fmt.Sprintf("its exit status was taken by something else in the worker that waits for any child (wait4: %v)", x.child.stolen)
	case status.Signaled():
		how = fmt.Sprintf("signal %d (%s)", int(status.Signal()), strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG"))
		if status.CoreDump() {
			how += ", core dumped"
		}
		if status.Signal() == sigKill && x.order == nil {
			how += ", out of memory?"
		}
	case status.ExitStatus() == 0:
		return "exit 0"
	default:
		how = fmt.Sprintf("exit %d", status.ExitStatus())
		if hint := x.hint(status.ExitStatus()); hint != "" {
			how += " (" + hint + ")"
		}
	}
	if words := x.quote(); words != "" {
		how += ": " + words
	}
	return how
}

// hint explains the exit statuses that a shell gives.
func (x *execution) hint(code int) string {
	switch {
	case code == 126 || code == 127:
		if err := inspect(x.path, x.p.path); err != nil {
			return err.Error()
		}
		if code == 126 {
			return "a command could not be executed"
		}
		return "a command was not found"
	case code > 128 && code < 128+65:
		if name := unix.SignalName(syscall.Signal(code - 128)); name != "" {
			return fmt.Sprintf("128 + %d: a process in it ended by %s?", code-128, name)
		}
	}
	return ""
}

// quote is the last line of stderr, or of stdout when there was none.
func (x *execution) quote() string {
	line, _ := x.errout.last.text()
	if len(line) == 0 {
		line, _ = x.out.last.text()
	}
	return cutText(clean(string(line)), maxQuote)
}

// remark adds to a summary what else a person should know.
func (x *execution) remark(summary string) string {
	parts := []string{summary}
	if summary == "" {
		parts = nil
	}
	if r := x.speech.remark(); r != "" {
		parts = append(parts, r)
	}
	for _, p := range x.left {
		parts = append(parts, fmt.Sprintf("left alive, because this user may not kill it: process %d (%s)", p.PID, clean(p.Comm)))
	}
	return cutText(strings.Join(parts, "; "), task.MaxSummaryBytes)
}

// result is the last line of stdout as JSON. What is no JSON (or would not be taken
// by the database) becomes a JSON string.
func (x *execution) result() (result json.RawMessage, note string) {
	line, whole := x.out.last.text()
	if len(line) == 0 {
		return nil, ""
	}
	if whole && json.Valid(line) && depth(line) <= maxDepth {
		if utf8.Valid(line) {
			return json.RawMessage(line), ""
		}
		if line = []byte(clean(string(line))); len(line) <= task.MaxJSONBytes {
			return json.RawMessage(line), ""
		}
	}
	if !whole || len(line) > maxText {
		note = fmt.Sprintf("the last line of stdout is no JSON of at most %d bytes; its beginning is kept", task.MaxJSONBytes)
	}
	return quoted(cutText(clean(string(line)), maxText)), note
}

// quoted is a JSON string, with nothing escaped that need not be.
func quoted(s string) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return json.RawMessage(`""`) // a string always encodes
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

// clean makes text that any reader takes: bad UTF-8 and NUL become the replacement
// mark (the log keeps the bytes).
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cutText shortens s to at most n bytes of whole characters.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
