package operator

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// WaitOptions is what the flags of `wait` say.
type WaitOptions struct {
	IDs           []string
	Timeout       string
	ProgramStatus bool // end with the program's own exit status, 128+n for a signal
	Quiet         bool
}

// ended is a task that has come to its end.
type ended struct {
	id     string
	status task.Status
	last   store.Execution // its last execution; zero when history has none
}

// Wait waits for the end of tasks. Its exit status is theirs: 0 all SUCCESS,
// 1 FAILED, 2 DEAD, 3 CANCELLED, the largest of several; 124 when the timeout
// passed. Ctrl-C ends only the waiting.
func (d *Desk) Wait(ctx context.Context, o WaitOptions) error {
	limit, err := waitLimit(o.Timeout)
	if err != nil {
		return err
	}
	if o.ProgramStatus && len(o.IDs) != 1 {
		return cmdline.Usagef("--program-status is for one task, but %d ids were given", len(o.IDs))
	}
	if err := d.open(reads); err != nil {
		return err
	}
	ends, err := d.await(ctx, o.IDs, limit, func(e ended) error {
		if d.JSON || o.Quiet {
			return nil
		}
		return d.say("%s", endLine(e))
	})
	var exit Exit
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	code := int(exit)
	if err == nil {
		code = waitCode(ends, o.ProgramStatus)
	}
	if d.JSON {
		if err := WriteJSON(d.Out, waitObject(o.IDs, ends, code)); err != nil {
			return err
		}
	}
	if code == ExitWaitTimeout && !o.Quiet {
		d.note("%s: not at its end after %s", d.Program, o.Timeout)
	}
	return Exit(code)
}

// waitLimit reads a --timeout; 0 is none.
func waitLimit(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return ParseDuration("--timeout", text)
}

func endLine(e ended) string {
	line := esc(e.id) + "  " + string(e.status)
	if words := endWords(&e.last); words != "" {
		line += "  " + words
	}
	return line
}

// waitCode is the largest of the tasks' statuses, or the program's own.
func waitCode(ends []ended, program bool) int {
	code := ExitOK
	for _, e := range ends {
		switch e.status {
		case task.Failed:
			code = max(code, ExitWaitFailed)
		case task.Dead:
			code = max(code, ExitWaitDead)
		case task.Cancelled:
			code = max(code, ExitWaitCancelled)
		}
		if !program {
			continue
		}
		if own, ok := programStatus(&e.last); ok {
			return own
		}
	}
	return code
}

// programStatus is what a shell would say of the program: its exit status, or
// 128 + n when signal n killed it.
func programStatus(x *store.Execution) (int, bool) {
	if x.Signal != "" {
		if n := unix.SignalNum(x.Signal); n != syscall.Signal(0) {
			return 128 + int(n), true
		}
	}
	if x.ExitCode != nil {
		return *x.ExitCode, true
	}
	return 0, false
}

func waitObject(ids []string, ends []ended, code int) object {
	tasks := []object{}
	for _, id := range ids {
		o := object{{"task_id", id}, {"status", nil}, {"exit_code", (*int)(nil)}, {"signal", nil}, {"result", nil}}
		for _, e := range ends {
			if e.id == id {
				o = object{{"task_id", id}, {"status", string(e.status)}, {"exit_code", e.last.ExitCode}, {"signal", orNull(e.last.Signal)}, {"result", orNull(e.last.Result)}}
			}
		}
		tasks = append(tasks, o)
	}
	return object{{"exit_status", code}, {"tasks", tasks}}
}

// await waits until all tasks are in a final state and calls each for every one
// as it gets there, in the order of the ends. An id that does not exist is an
// error at once; one that vanishes meanwhile (pruned) is one then.
func (d *Desk) await(ctx context.Context, ids []string, limit time.Duration, each func(ended) error) (ends []ended, err error) {
	open, seen := []string{}, map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			open, seen[id] = append(open, id), true
		}
	}
	deadline := time.Now().Add(limit) // by the monotonic clock
	nobody := nobodyWatch{d: d}
	for {
		var left []string
		for _, id := range open {
			t, err := d.get(id)
			if err != nil {
				return ends, err
			}
			if !t.Status.Final() {
				left = append(left, id)
				continue
			}
			e := ended{id: id, status: t.Status, last: d.lastExecution(&t)}
			ends = append(ends, e)
			if err := each(e); err != nil {
				return ends, err
			}
		}
		if open = left; len(open) == 0 {
			return ends, nil
		}
		if err := nobody.look(); err != nil {
			return ends, err
		}
		if limit > 0 && time.Now().After(deadline) {
			return ends, Exit(ExitWaitTimeout)
		}
		if !d.pause(ctx, limit, deadline) {
			return ends, Exit(ExitInterrupted)
		}
	}
}

// pause waits for the next look: a change of the database, or half a second.
func (d *Desk) pause(ctx context.Context, limit time.Duration, deadline time.Time) bool {
	next := lookAgain
	if limit > 0 {
		next = min(next, max(time.Until(deadline), 0)+time.Millisecond)
	}
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-d.Store.Changes():
		// A busy database changes a thousand times a second; nobody reads that fast.
		return sleep(ctx, 20*time.Millisecond)
	}
}

// nobodyWatch tells once, and again when it becomes so again, that waiting is in
// vain because no worker is alive.
type nobodyWatch struct {
	d      *Desk
	looked time.Time
	told   bool
}

// lookForWorkers is how often a command that waits looks for living workers.
const lookForWorkers = 2 * time.Second

func (n *nobodyWatch) look() error {
	if !n.looked.IsZero() && time.Since(n.looked) < lookForWorkers {
		return nil
	}
	n.looked = time.Now()
	workers, err := n.d.workers()
	if err != nil {
		return err
	}
	why := nobodyWorks(workers, n.d.Now())
	if why != "" && !n.told {
		n.d.note("warning: %s", why)
	}
	n.told = why != ""
	return nil
}

// lastExecution is the newest execution of a task, as far as history has it.
func (d *Desk) lastExecution(t *task.Task) store.Execution {
	if t.ExecID == 0 {
		return store.Execution{}
	}
	x, err := d.Store.Execution(t.ExecID)
	if err != nil {
		return store.Execution{} // history is for people, and may have been pruned
	}
	return x
}

// oneLine is a summary on one line of a table.
func oneLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return screen.Escape(first)
}
