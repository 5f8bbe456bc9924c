package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"nightshift/pkg/handler"
)

// job is a task's payload: what it does.
type job struct {
	Steps int
	Each  time.Duration
	End   string // how it ends: one of the kinds below
	Fails int64  // failures before it goes well
	Fork  bool   // a program leaves a process behind
}

// The kinds of ends.
const (
	well     = "well"
	fatal    = "fatal"
	never    = "never"    // fails each time: DEAD
	hangs    = "hangs"    // until its timeout, Fails times
	panics   = "panics"   // Fails times
	fails    = "fails"    // Fails times
	poison   = "poison"   // kills its worker each time
	stubborn = "stubborn" // obeys nothing, once
)

// position is a checkpoint.
type position struct{ Step int }

// errWork is a failure of a task's own.
var errWork = errors.New("it went wrong")

// run is one execution in its worker; it implements entity.
type run struct {
	w     *worker
	t     *handler.Task
	job   job
	from  int
	slot  int
	over  atomic.Bool
	draws *rand.Rand
}

func (r *run) alive() bool { return !r.over.Load() && r.w.p.alive() }

func (w *worker) newRun(t *handler.Task) (*run, error) {
	r := &run{w: w, t: t, slot: w.slotOf(t.Attempt), draws: rand.New(rand.NewPCG(w.n.o.Seed, uint64(t.Attempt)))}
	if err := json.Unmarshal(t.Payload, &r.job); err != nil {
		return nil, handler.Fatal(err)
	}
	var at position
	if _, err := t.Resume(&at); err != nil {
		return nil, err
	}
	r.from = at.Step
	return r, nil
}

// goHandler does its steps in the worker's own process.
func (w *worker) goHandler(ctx context.Context, t *handler.Task) (any, error) {
	r, err := w.newRun(t)
	if err != nil {
		return nil, err
	}
	w.n.eff.start(t.ID, t.Attempt, r.from, r)
	defer r.over.Store(true)
	if r.job.End == poison {
		r.nap(context.Background(), time.Second)
		w.n.m.kill(w.p)
		w.p.gate()
	}
	for k := r.from + 1; k <= r.job.Steps; k++ {
		if err := r.nap(ctx, r.job.Each); err != nil {
			return nil, err
		}
		w.n.eff.step(t.ID, t.Attempt, k)
		if err := r.save(ctx, k); err != nil {
			return nil, err
		}
	}
	return r.conclude(ctx)
}

// save makes step k's checkpoint.
func (r *run) save(ctx context.Context, k int) error {
	err := r.t.Checkpoint(ctx, position{k}, fmt.Sprintf("%d/%d", k, r.job.Steps))
	if err == nil || errors.Is(err, handler.ErrCancelled) || errors.Is(err, handler.ErrPaused) || errors.Is(err, handler.ErrStopping) {
		r.w.n.eff.ack(r.t.ID, k)
	}
	return err
}

// conclude is how the job ends once its steps are made.
func (r *run) conclude(ctx context.Context) (any, error) {
	first := r.t.Retries < r.job.Fails
	switch {
	case r.job.End == fatal:
		return nil, handler.Fatal(errWork)
	case r.job.End == never, r.job.End == fails && first:
		r.w.n.eff.fail(r.t.ID)
		return nil, errWork
	case r.job.End == panics && first:
		r.w.n.eff.fail(r.t.ID)
		panic("a panic of the task's own")
	case r.job.End == hangs && first:
		<-ctx.Done()
		r.w.p.gate()
		return nil, ctx.Err()
	case r.job.End == stubborn && first:
		r.nap(context.Background(), time.Hour)
	}
	return position{r.job.Steps}, nil
}

// nap rests until d is over or the context ends; a dead worker's handler ends.
func (r *run) nap(ctx context.Context, d time.Duration) error {
	t := r.w.p.newTimer(d, laneWork+r.slot)
	defer r.w.p.forget(t)
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-r.w.p.gone:
	}
	r.w.p.gate()
	return ctx.Err()
}

// call is what a program says on descriptor 3.
type call struct {
	step   int
	answer chan error
}

// program does its steps in a process of its own, which can outlive its worker.
func (w *worker) program(ctx context.Context, t *handler.Task) (any, error) {
	r, err := w.newRun(t)
	if err != nil {
		return nil, err
	}
	child := w.fork(r)
	w.n.eff.start(t.ID, t.Attempt, r.from, child)
	defer w.reap(t.Attempt)
	calls, ended := make(chan call), make(chan struct{})
	go child.live(r, calls, ended)
	for {
		select {
		case c := <-calls:
			w.p.gate()
			c.answer <- r.save(ctx, c.step)
		case <-ended:
			w.p.gate()
			return r.conclude(ctx)
		case <-child.gone:
			w.p.gate()
			w.n.eff.fail(t.ID)
			return nil, fmt.Errorf("the program was killed: %w", errWork)
		case <-ctx.Done():
			w.p.gate()
			return nil, ctx.Err()
		case <-w.p.gone:
			w.p.gate()
		}
	}
}

// fork starts the program. It closes the worker's lock now and then, as Python
// does, and one in five has shed the signal that its parent's death would send.
func (w *worker) fork(r *run) *proc {
	c := w.n.m.spawn("program", fmt.Sprintf("program of %d", r.t.Attempt), w.p)
	w.n.m.mu.Lock()
	defer w.n.m.mu.Unlock()
	c.exec, c.survives = r.t.Attempt, r.draws.IntN(5) == 0
	if r.draws.IntN(3) == 0 {
		for _, l := range w.n.m.locks {
			delete(l.holders, c)
		}
	}
	return c
}

// live is the program: steps, each told to the worker and answered.
func (p *proc) live(r *run, calls chan<- call, ended chan<- struct{}) {
	n := p.m.n
	if r.job.Fork && r.draws.IntN(2) == 0 {
		heir := p.m.spawn("grandchild", fmt.Sprintf("grandchild of %d", r.t.Attempt), p)
		p.m.mu.Lock()
		heir.exec, heir.survives = r.t.Attempt, true
		p.m.mu.Unlock()
		n.eff.join(r.t.ID, heir)
	}
	for k := r.from + 1; k <= r.job.Steps; k++ {
		p.sleep(r.job.Each)
		n.eff.step(r.t.ID, r.t.Attempt, k)
		c := call{k, make(chan error, 1)}
		var err error
		select {
		case calls <- c:
			select {
			case err = <-c.answer:
			case <-r.w.p.gone:
				err = errWork
			case <-p.gone:
			}
		case <-r.w.p.gone:
			err = errWork
		case <-p.gone:
		}
		p.gate()
		if err != nil {
			p.linger(r)
			return
		}
	}
	select {
	case ended <- struct{}{}:
	case <-r.w.p.gone:
	case <-p.gone:
	}
	p.gate()
	p.linger(r)
}

// linger is the end of a program whose worker is gone, or which was told to stop:
// some take their time, some stay until they are killed.
func (p *proc) linger(r *run) {
	if r.draws.IntN(2) == 0 {
		p.sleep(time.Duration(p.random(int64(3 * time.Second))))
		p.m.end(p, 0)
		return
	}
	<-p.gone
}

// reap kills what an execution started, as the product's reaper does, and waits
// until it is gone.
func (w *worker) reap(attempt int64) {
	if !w.p.alive() {
		return
	}
	for _, p := range w.n.m.prey(w.p, w.p.mark, 0, []int64{attempt}) {
		w.n.m.kill(p)
		select {
		case <-p.gone:
		case <-w.p.gone:
		}
	}
	w.p.gate()
}
