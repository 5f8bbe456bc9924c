// Package executor runs one claimed task in one slot and says how it ended.
//
// It enforces the timeout on the monotonic clock, hands a person's wish (cancel,
// pause) and the worker's own (drain) to the handler at its next checkpoint or by
// the ladder of DESIGN §7, turns a panic into an error, and fences every write
// with the execution's number. It never changes a status itself: what it returns
// is a store.Finish, which the scheduler writes.
//
// Invariants: a slot runs one execution at a time; an execution concludes once;
// after ErrLost it writes nothing more; a handler that cannot be stopped is
// reported as abandoned and nothing is written for it, because only the end of
// the process proves that it no longer runs.
package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// KillGrace is how long a handler may take after it was told to stop at once
// (`cancel --now`, the end of a drain): TERM, 5 s, KILL (DESIGN §3).
const KillGrace = 5 * time.Second

// Type is what the configuration says of a task type.
type Type struct {
	Handler   handler.Handler
	Timeout   time.Duration // 0: none
	Grace     time.Duration // from the stop reply to the kill
	SlowAfter time.Duration // progress unchanged for so long: a warning; 0: never
	Backoff   task.Backoff
}

// Recorder is what an execution needs of the store.
type Recorder interface {
	Checkpoint(f task.Fence, state, progress string, now time.Time) (task.Control, error)
}

// Place gives an execution its directory and its log.
type Place interface {
	// Open returns the execution's log. Errors are the worker's trouble, not the task's;
	// so are those of Dir.
	Open(t *task.Task) (Log, error)
	// Dir makes the task's own directory, or finds it; it stays until the task ends.
	Dir(t *task.Task) (string, error)
}

// Log is what an execution prints. Path is where it is kept, "" when nothing was printed
// so far; it must not wait for a Write.
type Log interface {
	io.WriteCloser
	Path() string
}

// Deps are the means of an execution, shared by all slots of a worker.
type Deps struct {
	Store Recorder
	Place Place
	Clock Clock
	Rand  func(n int64) int64 // in [0, n); safe for concurrent use
	// Moved is told of each durable checkpoint; may be nil. It must not block.
	Moved func(t *task.Task, progress string)
}

// Completion is how an execution ended.
type Completion struct {
	Execution *Execution
	Finish    store.Finish
	// Nothing is to be written: the task is no longer ours.
	Lost bool
	// The handler still runs: the worker must drain and end (its task stays
	// RUNNING and goes where the order says once the process is gone).
	Abandoned bool
}

// Execution is one run of one task. Its methods may be called from any goroutine.
type Execution struct {
	Task task.Task
	Type Type

	deps   Deps
	fence  task.Fence
	log    Log
	hasDir atomic.Bool // the task's directory was asked for

	ctx    context.Context
	cancel context.CancelFunc
	stop   chan handler.StopOrder
	change chan struct{} // an order came, or the handler was told of it

	mu         sync.Mutex
	order      order // the strongest wish so far
	told       error // what a checkpoint has answered, once it was a stop
	spoken     bool  // has checkpointed in this execution
	started    time.Time
	checkpoint string
	progress   string
	progressAt time.Time
	slow       bool
}

// Start begins t, already claimed, and calls done once from another goroutine.
func Start(t task.Task, ty Type, deps Deps, done func(Completion)) *Execution {
	now := deps.Clock.Now()
	ctx, cancel := context.WithCancel(context.Background())
	x := &Execution{
		Task: t, Type: ty, deps: deps, fence: t.Fence(), started: now,
		ctx: ctx, cancel: cancel,
		stop: make(chan handler.StopOrder, 8), change: make(chan struct{}, 1),
		checkpoint: t.Checkpoint, progress: t.Progress, progressAt: now,
	}
	go func() {
		defer cancel()
		done(x.run())
	}()
	return x
}

// Started is when the handler was last called, with the monotonic reading: time
// spent waiting for the machine to let it start counts towards no timeout.
func (x *Execution) Started() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.started
}

// Progress is the last reported progress line.
func (x *Execution) Progress() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.progress
}

// LeavesDir reports that the task may have a directory: this execution asked for
// it, or an earlier one may have.
func (x *Execution) LeavesDir() bool { return x.hasDir.Load() || x.Task.Executions > 1 }

// Slow reports whether progress has stood still for the type's SlowAfter.
func (x *Execution) Slow(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.isSlow(now)
}

// NoticeSlow is Slow for the one who tells of it: true once, until progress moves.
func (x *Execution) NoticeSlow(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.isSlow(now) && !x.slow
	x.slow = x.slow || first
	return first
}

func (x *Execution) isSlow(now time.Time) bool {
	return x.Type.SlowAfter > 0 && now.Sub(x.progressAt) >= x.Type.SlowAfter
}

// SlowSince is when the progress of a slow execution last moved.
func (x *Execution) SlowSince() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.progressAt
}

// run lives as long as the execution: prepare, call the handler, watch it. While
// the trouble is the worker's own, the slot waits and tries again.
func (x *Execution) run() Completion {
	if stopped := x.openPlace(); stopped != nil {
		return x.conclude(ending{err: stopped})
	}
	end := x.attempt()
	for end.isWorkersTrouble() {
		if stopped := x.waitForWorker(end.err); stopped != nil {
			end = ending{err: stopped}
			break
		}
		end = x.attempt()
	}
	if !end.abandoned { // an abandoned handler may still write
		end.logErr = x.log.Close()
	}
	return x.conclude(end)
}

// openPlace gets the log, or the order that ended the wait.
func (x *Execution) openPlace() error {
	for {
		log, err := x.deps.Place.Open(&x.Task)
		if err == nil {
			x.log = log
			return nil
		}
		if stopped := x.waitForWorker(fmt.Errorf("no place to run: %w", err)); stopped != nil {
			return stopped
		}
	}
}

// workerTroubleWait is how long a slot rests when the machine would not let it
// start a process: long enough for descriptors and processes to be freed.
const workerTroubleWait = 2 * time.Second

// waitForWorker holds the slot while the trouble is the worker's own: the task
// is not charged, and fewer run at once. An order ends the wait and is returned.
func (x *Execution) waitForWorker(cause error) error {
	x.setProgressQuietly("waiting: " + cause.Error())
	timer := x.deps.Clock.NewTimer(workerTroubleWait)
	defer timer.Stop()
	for {
		if o := x.currentOrder(); o.err != nil {
			return o.err
		}
		select {
		case <-timer.C():
			return nil
		case <-x.change:
		}
	}
}

func (x *Execution) setProgressQuietly(s string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = s
}

// ending is what one call of the handler came to.
type ending struct {
	result    any
	err       error
	abandoned bool
	logErr    error
}

func (e ending) isWorkersTrouble() bool {
	var f *handler.Failure
	return !e.abandoned && errors.As(e.err, &f) && f.Worker
}

// attempt calls the handler once and watches over it until it returns or, for
// one that obeys nothing, until it is given up.
func (x *Execution) attempt() ending {
	x.mu.Lock()
	x.started = x.deps.Clock.Now()
	x.mu.Unlock()
	ended := make(chan ending, 1)
	go func() {
		e := ending{}
		e.result, e.err = x.call()
		ended <- e
	}()
	_, selfStopping := x.Type.Handler.(handler.SelfStopping)
	w := watch{x: x, selfStopping: selfStopping}
	defer w.close()
	if x.Type.Timeout > 0 {
		w.timeout = x.deps.Clock.NewTimer(x.Type.Timeout)
	}
	return w.until(ended)
}

// call runs the handler; a panic is an error, with its stack in the task's log.
func (x *Execution) call() (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The stack belongs to the task's log; a full disk there must not hide the panic.
			if _, werr := fmt.Fprintf(x.log, "panic: %v\n%s", p, debug.Stack()); werr != nil {
				err = fmt.Errorf("panic: %v (its stack could not be logged: %w)", p, werr)
				return
			}
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	row := x.Task
	x.mu.Lock()
	row.Checkpoint = x.checkpoint
	x.mu.Unlock()
	t := handler.NewTask(&row, "", x.log, x, x.stop)
	t.DirOnDemand(x.makeDir)
	return x.Type.Handler.Run(x.ctx, t)
}

func (x *Execution) makeDir() (string, error) {
	x.hasDir.Store(true) // also when it fails half way
	return x.deps.Place.Dir(&x.Task)
}
