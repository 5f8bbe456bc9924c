package sim

import (
	"errors"
	"slices"
	"sync"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// effects is the world outside the database: what the tasks really did. It sees
// overlaps, resumes behind a checkpoint and steps that are missing.
type effects struct {
	n *night

	mu     sync.Mutex
	tasks  map[string]*testimony
	pulled int // how often retries were drawn in: their times are no longer known
	starts int
	again  int // steps made more than once
	rings  map[string]int
}

// testimony is what one task has done.
type testimony struct {
	attempts int
	attempt  int64
	living   []entity // of all its executions
	last     int      // the step at which the attempt stands
	reached  int
	acked    int
	done     map[int]bool
	repeats  int
	failures int64 // that were its own
	recorded int64 // executions whose end is in the database
	lastEnd  int64 // the last of them
	spared   int64 // executions that a reboot cut off: nobody is charged
	final    task.Status

	notBefore time.Duration // of the next start, on the night's clock
	jumps     int           // of the clock, when that was noted
	pulled    int
}

// entity is something that may work on a task.
type entity interface{ alive() bool }

func newEffects(n *night) *effects {
	return &effects{n: n, tasks: map[string]*testimony{}, rings: map[string]int{}}
}

func (e *effects) of(id string) *testimony {
	t := e.tasks[id]
	if t == nil {
		t = &testimony{done: map[int]bool{}}
		e.tasks[id] = t
	}
	return t
}

// start is the first word of an execution, which begins behind step from.
func (e *effects) start(id string, attempt int64, from int, who entity) {
	jumps, now := e.n.jumpCount(), e.n.m.at()
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.of(id)
	e.starts++
	t.attempts++
	for _, other := range t.living {
		if other != who && other.alive() {
			e.n.overlap("I2 %s: execution %d begins while one of %d lives", id, attempt, t.attempt)
		}
	}
	t.living = []entity{who}
	switch {
	case attempt <= t.attempt:
		e.n.wrong("I4 %s: execution %d after %d", id, attempt, t.attempt)
	case t.final != "":
		e.n.wrong("I14 %s: execution %d after it was %s", id, attempt, t.final)
	case from < t.acked:
		e.n.wrong("I6 %s: execution %d begins at %d, and checkpoint %d was acknowledged", id, attempt, from, t.acked)
	case from > t.reached:
		e.n.wrong("I6 %s: execution %d begins at %d, and only %d steps were made", id, attempt, from, t.reached)
	case now < t.notBefore-time.Millisecond && jumps == t.jumps && e.pulled == t.pulled:
		e.n.wrong("I5 %s: its retry came %v early", id, t.notBefore-now)
	}
	t.attempt, t.last, t.notBefore = attempt, from, 0
	e.n.trace("start %d", from)
}

// join adds something that the execution started.
func (e *effects) join(id string, who entity) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.of(id)
	t.living = append(t.living, who)
}

// step is one step's effect.
func (e *effects) step(id string, attempt int64, k int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.of(id)
	if attempt != t.attempt {
		e.n.overlap("I2 %s: execution %d makes step %d, and %d has begun", id, attempt, k, t.attempt)
		return
	}
	if k != t.last+1 {
		e.n.wrong("I7 %s: step %d after step %d", id, k, t.last)
	}
	if t.done[k] {
		t.repeats++
		e.again++
		if t.repeats >= t.attempts {
			e.n.wrong("I7 %s: %d steps repeated in %d executions", id, t.repeats, t.attempts)
		}
	}
	t.done[k], t.last, t.reached = true, k, max(t.reached, k)
	e.n.trace("step %d", k)
}

// ack: the checkpoint behind step k is durable, the handler was told.
func (e *effects) ack(id string, k int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.of(id)
	t.acked = max(t.acked, k)
}

// reboot is about to end everything: what works now is no crash of its worker's.
func (e *effects) reboot() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tasks {
		if t.attempt > t.lastEnd && slices.ContainsFunc(t.living, entity.alive) {
			t.spared++
		}
	}
}

// fail: the execution goes wrong, and nobody else is to blame.
func (e *effects) fail(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of(id).failures++
}

func (e *effects) failures(id string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of(id).failures
}

// turned looks at what a turn has written.
func (e *effects) turned(fs []store.Finish, r *store.TurnResult) {
	jumps, at, wall := e.n.jumpCount(), e.n.m.at(), e.n.m.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, f := range r.Finished {
		id := fs[i].Fence.TaskID
		if t := e.of(id); f.Err == nil && fs[i].Fence.ExecID != t.lastEnd { // an end whose answer was lost comes twice
			t.recorded++
			t.lastEnd = fs[i].Fence.ExecID
		}
		switch {
		case errors.Is(f.Err, store.ErrNotMine):
			e.n.tally("results refused", 1)
		case f.Err != nil:
			e.n.wrong("I1 %s: its result was refused: %v", id, f.Err)
		case f.Status.Final():
			e.of(id).final = f.Status
		case f.Status == task.Retrying:
			t := e.of(id)
			in := fs[i].RetryAt.Round(0).Sub(wall) // the row has the wall clock's time, and it may have been set meanwhile
			t.notBefore, t.jumps, t.pulled = at+in, jumps, e.pulled
		}
	}
}

func (e *effects) pulledIn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulled++
}

// fired counts how often an occurrence became a task.
func (e *effects) fired(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if e.rings[id]++; e.rings[id] > 1 {
			e.n.wrong("I4 %s fired %d times", id, e.rings[id])
		}
	}
}
