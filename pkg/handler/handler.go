// Package handler is the contract between Nightshift and the code that does a
// task's work, be it a Go function or a program in any language.
//
// A handler runs one task at a time in its own goroutine. It reports where it is
// with Task.Checkpoint, and goes on from Task.LastCheckpoint when it is started
// again after a crash, a reboot or a pause. What it returns decides what becomes
// of the task:
//
//	nil                 SUCCESS, with the result
//	Retryable(err)      RETRYING, with backoff (a plain error means the same)
//	Fatal(err)          FAILED at once
//	an Err… of this     what Checkpoint returned: the handler stopped because it
//	package             was asked to, and the task goes where that wish says
//
// Delivery is at least once: a step between two checkpoints may run again after a
// crash. Make it harmless with Task.Key, or by writing the effect and the position
// in one place.
package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"nightshift/pkg/task"
)

// Handler does the work of one task type. Run is called from one goroutine per
// execution, and several executions of one type may run at the same time.
// result is stored as JSON (a json.RawMessage unchanged, nil as no result).
type Handler interface {
	Run(ctx context.Context, t *Task) (result any, err error)
}

// Func makes a Handler of a function.
type Func func(ctx context.Context, t *Task) (result any, err error)

// Run calls f.
func (f Func) Run(ctx context.Context, t *Task) (any, error) { return f(ctx, t) }

// What Checkpoint returns when the handler should stop at this point. Return it
// (wrapped or not) after undoing what must be undone; the grace time runs.
var (
	ErrCancelled = errors.New("the task was cancelled")
	ErrPaused    = errors.New("the task was paused")
	ErrStopping  = errors.New("the worker is stopping; the task goes on from its checkpoint later")
	ErrLost      = errors.New("the task is no longer this executor's")
)

// ErrTooLarge is returned by Checkpoint for a state over 1 MiB; nothing was written.
var ErrTooLarge = fmt.Errorf("checkpoint is larger than %d bytes", task.MaxJSONBytes)

// Recorder makes a checkpoint durable. The executor implements it over the
// store, a test kit over memory. Safe for concurrent use.
type Recorder interface {
	// Checkpoint returns once state is on disk, or with one of the Err… above
	// (state is then durable too, except with ErrLost and ErrTooLarge).
	// An empty state leaves the stored one and moves progress alone.
	Checkpoint(ctx context.Context, state json.RawMessage, progress string) error
	// StillMine asks without writing; nil or one of the Err… above.
	StillMine(ctx context.Context) error
}

// SelfStopping is implemented by handlers that obey Task.Stop by themselves, such
// as the one that runs programs: their context is left alone, and they end what
// they run step by step. They return the order's error, wrapped with how it went,
// once they have begun to act on it.
type SelfStopping interface{ StopsItself() }

// StopOrder tells a handler that cannot be asked at a checkpoint (a program)
// to come to its end.
type StopOrder struct {
	Err   error // ErrCancelled, ErrPaused, ErrStopping, ErrLost or ErrTimeout
	Force bool  // do not wait for the next checkpoint
}

// ErrTimeout is the Err of a StopOrder when the task's time is up.
var ErrTimeout = errors.New("timeout")

// Task is what a handler sees of its task. It is made anew for each execution.
type Task struct {
	ID      string
	Type    string
	Payload json.RawMessage // the bytes that were inserted
	Attempt int64           // the execution's number (exec_id): unique, rising, the fencing token
	Retries int64           // failures of the task's own so far
	Log     io.Writer       // the execution's log file, capped; never nil

	// Stop delivers at most a few orders; only handlers that run something
	// which cannot call Checkpoint read it. A closed or nil channel never fires.
	Stop <-chan StopOrder

	dir        string
	makeDir    func() (string, error) // nil: dir is there
	checkpoint json.RawMessage
	rec        Recorder
}

// NewTask ties a task's row to the recorder of one execution; dir is there already
// (or DirOnDemand says how it is made). Only executors and test kits call it.
func NewTask(row *task.Task, dir string, log io.Writer, rec Recorder, stop <-chan StopOrder) *Task {
	t := &Task{
		ID: row.ID, Type: row.Type, Payload: json.RawMessage(row.Payload),
		Attempt: row.ExecID, Retries: row.RetryCount, dir: dir, Log: log, Stop: stop, rec: rec,
	}
	if row.Checkpoint != "" {
		t.checkpoint = json.RawMessage(row.Checkpoint)
	}
	return t
}

// DirOnDemand makes Dir call f the first time. Only executors call it.
func (t *Task) DirOnDemand(f func() (string, error)) { t.makeDir = f }

// Dir is a directory of the task's own, over all executions, which goes when the
// task has ended. It is made by the first call: most Go handlers need none. Return
// its error as it is: it is the worker's trouble and costs the task nothing. Call it
// from one goroutine.
func (t *Task) Dir() (string, error) {
	if t.makeDir != nil {
		dir, err := t.makeDir()
		if err != nil {
			return "", WorkerTrouble(fmt.Errorf("no directory: %w", err))
		}
		t.dir, t.makeDir = dir, nil
	}
	return t.dir, nil
}

// LastCheckpoint is the state that the last acknowledged Checkpoint stored, in
// this execution or an earlier one; nil when there is none.
func (t *Task) LastCheckpoint() json.RawMessage { return t.checkpoint }

// Resume decodes the last checkpoint into state and reports whether there was one.
func (t *Task) Resume(state any) (bool, error) {
	if t.checkpoint == nil {
		return false, nil
	}
	if err := json.Unmarshal(t.checkpoint, state); err != nil {
		return false, Fatal(fmt.Errorf("checkpoint of task %s: %w", t.ID, err))
	}
	return true, nil
}

// Checkpoint stores where the work stands: state is encoded as JSON (a
// json.RawMessage is kept as it is), progress is one short line for people. It is
// durable when Checkpoint returns nil. ErrCancelled, ErrPaused, ErrStopping and
// ErrLost say that the handler should stop here. Call it from one goroutine.
func (t *Task) Checkpoint(ctx context.Context, state any, progress string) error {
	raw, ok := state.(json.RawMessage)
	if !ok && state != nil {
		b, err := json.Marshal(state)
		if err != nil {
			return Fatal(fmt.Errorf("checkpoint of task %s: %w", t.ID, err))
		}
		raw = b
	}
	if len(raw) > task.MaxJSONBytes {
		return ErrTooLarge
	}
	err := t.rec.Checkpoint(ctx, raw, progress)
	if len(raw) > 0 && !errors.Is(err, ErrLost) && (err == nil || IsStop(err)) {
		t.checkpoint = append(json.RawMessage(nil), raw...)
	}
	return err
}

// StillMine reports without a write whether the work should go on: nil, or the
// error that Checkpoint would return.
func (t *Task) StillMine(ctx context.Context) error { return t.rec.StillMine(ctx) }

// Key is a stable idempotency key for the step at a business position: the same
// in every execution of the task, different for every task and position. Hand it
// to the other side of an effect, so that a repeated step is recognised there.
func (t *Task) Key(position string) string { return t.ID + ":" + position }

// IsStop reports that err says "stop here", not "this went wrong".
func IsStop(err error) bool {
	return errors.Is(err, ErrCancelled) || errors.Is(err, ErrPaused) || errors.Is(err, ErrStopping) || errors.Is(err, ErrLost)
}

// Failure is an error with what the executor needs to know about it.
type Failure struct {
	Err        error
	Fatal      bool          // FAILED at once, no retry
	RetryAfter time.Duration // > 0: wait at least this long before the next attempt
	Worker     bool          // the worker's own trouble (no process could be started): costs the task nothing
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retryable says that another attempt may succeed. A plain error means the same.
func Retryable(err error) error { return &Failure{Err: err} }

// RetryAfter is Retryable with a wait that the other side asked for; the
// backoff still applies where it is longer.
func RetryAfter(err error, d time.Duration) error { return &Failure{Err: err, RetryAfter: d} }

// Fatal says that no attempt can succeed.
func Fatal(err error) error { return &Failure{Err: err, Fatal: true} }

// WorkerTrouble says that the attempt never began for reasons that are not the
// task's (no descriptor, no process, no disk). It is tried again without cost.
func WorkerTrouble(err error) error { return &Failure{Err: err, Worker: true} }

// Report is what a handler that runs a program tells about its end beside
// result and error: it may be returned as the result (with or without an error).
type Report struct {
	Result   json.RawMessage // the result proper; nil: none
	Summary  string          // one line for people: "exit 3: no quota"
	ExitCode *int            // exit status; nil when killed by a signal or not a program
	Signal   string          // "SIGKILL" …; "" when it exited
	Program  string          // path and modification time of what was run
}

// Registry maps task types to handlers. Fill it before the worker starts; it is
// read-only afterwards.
type Registry map[string]Handler

// Types lists the registered types in order.
func (r Registry) Types() []string {
	names := make([]string, 0, len(r))
	for n := range r {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
