package executor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// storeTroubleWait is the pause between two tries of a checkpoint that the disk
// would not take: the handler waits at its step boundary meanwhile.
const storeTroubleWait = time.Second

// Checkpoint makes state durable under the fence and tells the handler to stop
// where someone wants it to. It implements handler.Recorder.
func (x *Execution) Checkpoint(ctx context.Context, state json.RawMessage, progress string) error {
	if err := x.lostAlready(); err != nil {
		return err
	}
	control, err := x.write(ctx, string(state), progress)
	switch {
	case errors.Is(err, store.ErrNotMine):
		x.Order(handler.ErrLost, true)
		return x.tell(handler.ErrLost)
	case err != nil:
		return err
	}
	x.moved(string(state), progress)
	if x.deps.Moved != nil {
		x.deps.Moved(&x.Task, progress)
	}
	x.heed(control)
	return x.tell(x.stopNow())
}

// StillMine asks without a write; it implements handler.Recorder.
func (x *Execution) StillMine(context.Context) error {
	if err := x.lostAlready(); err != nil {
		return err
	}
	return x.tell(x.stopNow())
}

// write retries what may pass (a full disk, a database that does not answer)
// until the handler is stopped by force: a checkpoint that was refused for such
// a reason is not the task's failure.
func (x *Execution) write(ctx context.Context, state, progress string) (task.Control, error) {
	for {
		control, err := x.deps.Store.Checkpoint(x.fence, state, progress, x.deps.Clock.Now())
		if err == nil || errors.Is(err, store.ErrNotMine) || !store.Transient(err) {
			return control, err
		}
		t := x.deps.Clock.NewTimer(storeTroubleWait)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return task.NoControl, err
		}
	}
}

func (x *Execution) lostAlready() error {
	if errors.Is(x.currentOrder().err, handler.ErrLost) {
		return handler.ErrLost
	}
	return nil
}

// moved notes that the handler speaks, and when its progress last changed.
func (x *Execution) moved(state, progress string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.spoken = true
	if state != "" {
		x.checkpoint = state // where another call of the handler in this execution begins
	}
	if state != "" || progress != x.progress {
		x.progressAt, x.slow = x.deps.Clock.Now(), false
	}
	if progress != "" {
		x.progress = progress
	}
}

// heed turns what the row's control column says into an order.
func (x *Execution) heed(c task.Control) {
	switch c {
	case task.Cancel:
		x.Order(handler.ErrCancelled, false)
	case task.Kill:
		x.Order(handler.ErrCancelled, true)
	case task.Pause:
		x.Order(handler.ErrPaused, false)
	}
}

// Heed is for whoever sees the control column between two checkpoints.
func (x *Execution) Heed(c task.Control) { x.heed(c) }

// stopNow is what a checkpoint answers: the order in force, unless it is the
// timeout, which comes by the ladder and not by a reply.
func (x *Execution) stopNow() error {
	o := x.currentOrder()
	if errors.Is(o.err, handler.ErrTimeout) {
		return nil
	}
	return o.err
}

// tell remembers the first stop that the handler was told: from then on its
// return value does not matter.
func (x *Execution) tell(err error) error {
	if err == nil {
		return nil
	}
	x.mu.Lock()
	first := x.told == nil
	if first {
		x.told = err
	}
	x.mu.Unlock()
	if first {
		x.signal()
	}
	return err
}
