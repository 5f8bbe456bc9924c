package scheduler

import (
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// loop is the state of one Run. Only its goroutine touches it.
type loop struct {
	s   *Scheduler
	set *Settings // refreshed at each step

	idle     []string              // free slots, in the order in which they became free
	ended    []executor.Completion // ended, not yet in the database
	look     bool                  // something may be due
	turned   chan turn
	turning  *time.Time // the turn under way began then; nil: none
	alarm    executor.Timer
	tick     executor.Timer
	drainEnd executor.Timer

	draining  bool
	forced    bool
	abandoned bool
	held      bool // an operator's drain is on
	trouble   trouble
	watch     ownWatch
	diary     diary
}

func (s *Scheduler) newLoop() *loop {
	return &loop{
		s: s, set: s.current(), idle: append([]string(nil), s.cfg.Slots...),
		look: true, turned: make(chan turn, 1), diary: diary{log: s.log},
		tick: s.cfg.Deps.Clock.NewTimer(time.Second),
	}
}

func (l *loop) close() {
	for _, t := range []executor.Timer{l.alarm, l.tick, l.drainEnd} {
		if t != nil {
			t.Stop()
		}
	}
}

func (l *loop) now() time.Time { return l.s.cfg.Deps.Clock.Now() }

func (l *loop) lookNow() { l.look = true }

// step does what can be done now: begin a turn with the database, or set the
// alarm for what is due next.
func (l *loop) step() {
	l.set = l.s.current()
	if l.turning != nil || !l.trouble.over(l.now()) {
		return
	}
	claims := l.look && l.free() > 0 && !l.draining && !l.abandoned
	if len(l.ended) == 0 && !claims {
		return
	}
	l.look = false
	l.beginTurn(claims)
}

// free counts the slots that a claim in the next turn could fill: those idle,
// and those whose end that turn writes.
func (l *loop) free() int { return len(l.idle) + len(l.ended) }

// over reports that nothing is left to do: drained, and all ends written.
func (l *loop) over() bool {
	return (l.draining || l.abandoned) && l.turning == nil && len(l.ended) == 0 &&
		len(l.idle)+l.abandonedSlots() == len(l.s.cfg.Slots)
}

func (l *loop) abandonedSlots() int {
	n := 0
	for _, x := range l.s.Board() {
		if x == nil {
			n++
		}
	}
	return n
}

func (l *loop) verdict() error {
	if l.abandoned {
		return ErrAbandoned
	}
	return nil
}

// startAll puts tasks that are RUNNING under our executors into their slots. It takes
// in the ends of short ones as it goes: the next turn then has nearly all of a batch, and
// a batch that falls apart into two costs two COMMITs.
func (l *loop) startAll(claimed []task.Task, set *Settings) {
	l.occupy(claimed)
	for i := range claimed {
		l.start(claimed[i], set)
		if (i+1)%startChunk == 0 || i == len(claimed)-1 {
			l.gather()
		}
	}
}

const startChunk = 8

// occupy takes the claimed tasks' slots out of those that are idle.
func (l *loop) occupy(claimed []task.Task) {
	taken := make(map[string]bool, len(claimed))
	for i := range claimed {
		taken[claimed[i].ExecutorID] = true
	}
	l.idle = slices.DeleteFunc(l.idle, func(slot string) bool { return taken[slot] })
}

// start puts one of them into its slot. set are the settings under which it was
// claimed: a reload may have dropped its type.
func (l *loop) start(t task.Task, set *Settings) {
	slot := t.ExecutorID
	ty, known := set.Types[t.Type]
	if !known { // claims and recovery look only at known types
		panic("scheduler: task " + t.ID + " of unknown type " + t.Type)
	}
	if t.Timeout != nil {
		ty.Timeout = time.Duration(*t.Timeout) * time.Second
	}
	l.diary.note(hclog.Info, "task starts", "task", t.ID, "type", t.Type, "exec", t.ExecID, "worker", slot,
		"retry", t.RetryCount, "resumed", t.Checkpoint != "")
	x := executor.Start(t, ty, l.s.cfg.Deps, func(c executor.Completion) { l.s.ends <- c })
	l.s.mu.Lock()
	l.s.board[slot] = x
	l.s.mu.Unlock()
	if l.draining {
		x.Order(handler.ErrStopping, l.forced)
	}
}

// end notes that an execution has ended; the next turn writes it.
func (l *loop) end(c executor.Completion) {
	t := &c.Execution.Task
	took := l.now().Sub(c.Execution.Started()).Round(time.Millisecond)
	switch {
	case c.Abandoned:
		l.diary.note(hclog.Error, "handler obeys nothing: the worker drains and ends", "task", t.ID, "exec", t.ExecID, "took", took)
		l.abandon(c)
	case c.Lost:
		l.diary.note(hclog.Warn, "task is no longer ours, nothing is written", "task", t.ID, "exec", t.ExecID, "worker", t.ExecutorID)
		l.ended = append(l.ended, c)
	default:
		if l.s.log.IsDebug() {
			l.diary.note(hclog.Debug, "execution ended", "task", t.ID, "exec", t.ExecID, "outcome", c.Finish.Outcome, "took", took)
		}
		l.ended = append(l.ended, c)
	}
}

// gather takes the other ends that are there by now, and those that come while it
// does. Short tasks that started together end together: without it the first of them
// would get a transaction of its own, and every second COMMIT would be for one task.
func (l *loop) gather() {
	for before := -1; before < len(l.ended); {
		before = len(l.ended)
		runtime.Gosched()
		for there := true; there; {
			select {
			case c := <-l.s.ends:
				l.end(c)
			default:
				there = false
			}
		}
	}
}

// vacate makes a slot idle again.
func (l *loop) vacate(slot string) {
	l.s.mu.Lock()
	delete(l.s.board, slot)
	l.s.mu.Unlock()
	l.idle = append(l.idle, slot)
	l.look = true
}

// abandon keeps the slot of a handler that cannot be stopped, and drains the
// others. Its row says RUNNING and bears the wish; a timeout leaves an expired
// lease behind, and a heartbeat that is later than that: so recovery sees that it
// overran while its worker lived, and counts it. Without the beat a task that obeys
// nothing would cost a worker each time and never come to its last retry.
func (l *loop) abandon(c executor.Completion) {
	l.abandoned = true
	t := &c.Execution.Task
	l.s.mu.Lock()
	l.s.board[t.ExecutorID] = nil
	l.s.mu.Unlock()
	if c.Finish.Verdict == store.Timeout {
		now := l.now()
		expired := []store.Renewal{{Fence: t.Fence(), Lease: now.Add(-time.Second)}}
		if err := l.s.cfg.Store.RenewLeases(now, expired); err != nil {
			l.diary.note(hclog.Error, "lease of an abandoned task", "task", t.ID, "err", err)
		}
		if err := l.s.cfg.Beat(); err != nil {
			l.diary.note(hclog.Error, "heartbeat behind an abandoned task", "task", t.ID, "err", err)
		}
	}
	l.beginDrain()
}

// beginDrain stops claiming and tells what runs to stop at its next checkpoint.
func (l *loop) beginDrain() {
	if l.draining {
		return
	}
	l.draining = true
	l.s.pulse.drains.Store(true)
	l.diary.note(hclog.Info, "draining: no new claims", "running", len(l.s.Board()), "deadline", l.set.DrainTimeout)
	l.orderAll(false)
	l.drainEnd = l.s.cfg.Deps.Clock.NewTimer(l.set.DrainTimeout)
}

// force ends the drain's patience: TERM, then KILL.
func (l *loop) force() {
	l.forced = true
	l.diary.note(hclog.Warn, "drain deadline passed: what still runs is stopped", "running", len(l.s.Board()))
	l.orderAll(true)
}

func (l *loop) orderAll(force bool) {
	for _, x := range l.s.Board() {
		if x != nil {
			x.Order(handler.ErrStopping, force)
		}
	}
}
