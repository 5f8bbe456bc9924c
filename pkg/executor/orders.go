package executor

import (
	"errors"
	"time"

	"nightshift/pkg/handler"
)

// order is a wish for the execution's end. A stronger one replaces a weaker one;
// the same one with force makes it urgent.
type order struct {
	err   error // one of the handler's stop errors, or handler.ErrTimeout; nil: none
	force bool  // do not wait for a checkpoint
}

// strength ranks the orders: who no longer owns the task must stop whatever was
// asked before; a cancel ends more than a timeout, a pause or a drain does.
func strength(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, handler.ErrStopping):
		return 1
	case errors.Is(err, handler.ErrPaused):
		return 2
	case errors.Is(err, handler.ErrTimeout):
		return 3
	case errors.Is(err, handler.ErrCancelled):
		return 4
	default:
		return 5 // ErrLost
	}
}

// Order asks the execution to end: err is one of handler.ErrCancelled, ErrPaused,
// ErrStopping or ErrLost. Without force a handler that has checkpointed is told
// at its next checkpoint; with force it has KillGrace. Repeating is harmless.
func (x *Execution) Order(err error, force bool) { x.setOrder(order{err, force}) }

func (x *Execution) setOrder(o order) {
	x.mu.Lock()
	old := x.order
	switch {
	case strength(o.err) > strength(old.err):
		o.force = o.force || (old.force && !errors.Is(old.err, handler.ErrStopping))
		x.order = o
	case o.err == old.err && o.force && !old.force:
		x.order.force = true
	default:
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	x.signal()
}

func (x *Execution) currentOrder() order {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order
}

func (x *Execution) signal() {
	select {
	case x.change <- struct{}{}:
	default: // one pending signal is enough: the watcher reads the state anew
	}
}

// watch follows one call of the handler: the timeout, the orders, the grace.
type watch struct {
	x            *Execution
	selfStopping bool
	timeout      Timer
	cancelAt     Timer // when the handler's context ends
	abandonAt    Timer // when a handler that obeys nothing is given up
	sent         order // what was last handed on
	graceFor     error // the order whose grace runs
}

func (w *watch) close() {
	for _, t := range []Timer{w.timeout, w.cancelAt, w.abandonAt} {
		if t != nil {
			t.Stop()
		}
	}
}

func (w *watch) until(ended <-chan ending) ending {
	w.act() // an order may have come before the handler was called
	for {
		select {
		case e := <-ended:
			return e
		case <-fires(w.timeout):
			w.timeout = nil
			w.x.setOrder(order{err: handler.ErrTimeout})
		case <-w.x.change:
			w.act()
		case <-fires(w.cancelAt):
			w.cancelAt = nil
			w.x.cancel()
		case <-fires(w.abandonAt):
			return ending{abandoned: true, err: w.x.currentOrder().err}
		}
	}
}

// act hands on what is new: to a self-stopping handler through its channel, to
// a Go handler through its context.
func (w *watch) act() {
	x := w.x
	x.mu.Lock()
	o, told, spoken := x.order, x.told, x.spoken
	x.mu.Unlock()
	if o.err == nil {
		return
	}
	if w.selfStopping {
		// A drain first waits for the next checkpoint or the natural end.
		quiet := errors.Is(o.err, handler.ErrStopping) && !o.force
		if o != w.sent && !quiet {
			w.sent = o
			x.stop <- handler.StopOrder{Err: o.err, Force: o.force} // 8 places, at most 6 distinct orders
		}
		return
	}
	switch {
	case o.force || errors.Is(o.err, handler.ErrLost):
		x.cancel()
		w.arm(&w.abandonAt, KillGrace)
	case errors.Is(o.err, handler.ErrTimeout):
		x.cancel()
		w.grace(o.err, x.Type.Grace)
	case told != nil:
		// It knows, and may use its context to undo what it must.
		if w.graceFor == nil {
			w.graceFor = told
			w.arm(&w.cancelAt, x.Type.Grace)
			w.arm(&w.abandonAt, x.Type.Grace+KillGrace)
		}
	case !spoken && !errors.Is(o.err, handler.ErrStopping):
		x.cancel()
		w.grace(o.err, x.Type.Grace)
	}
}

// grace gives a handler whose context has ended this long to return; asking
// again for the same reason does not start it afresh.
func (w *watch) grace(why error, d time.Duration) {
	if w.graceFor == why {
		return
	}
	w.graceFor = why
	w.arm(&w.abandonAt, d)
}

func (w *watch) arm(t *Timer, d time.Duration) {
	if *t != nil {
		(*t).Stop()
	}
	*t = w.x.deps.Clock.NewTimer(d)
}

// fires is the timer's channel, or one that never fires.
func fires(t Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C()
}
