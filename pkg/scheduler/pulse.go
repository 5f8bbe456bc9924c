package scheduler

import (
	"sync/atomic"
	"time"
)

// Pulse is what the loop shows of itself to whoever writes the control byte: a
// byte a second must mean that the loop moves, not that a ticker goroutine runs.
type Pulse struct {
	last    atomic.Pointer[time.Time] // the loop's last round
	turning atomic.Pointer[time.Time] // since when a turn with the database is under way
	drains  atomic.Bool
}

// Beat notes a round of the loop; turning is when the turn under way began.
func (p *Pulse) Beat(now time.Time, turning *time.Time) {
	p.last.Store(&now)
	p.turning.Store(turning)
}

// State says what the control byte should be.
type State byte

// The control bytes (DESIGN §8). No byte at all means that the loop hangs.
const (
	Hung     State = 0
	Alive    State = '.'
	Stalled  State = 'B' // the loop lives, the database does not answer
	Draining State = 'D'
)

// Limits of a healthy pulse: the loop wakes each second, and a turn that takes
// longer than a few fsyncs of a slow disk is a database that does not answer.
const (
	loopLimit = 5 * time.Second
	turnLimit = 2 * time.Second
)

// State judges the loop at now.
func (p *Pulse) State(now time.Time) State {
	last := p.last.Load()
	if last == nil || now.Sub(*last) > loopLimit {
		return Hung
	}
	if t := p.turning.Load(); t != nil && now.Sub(*t) > turnLimit {
		return Stalled
	}
	if p.drains.Load() {
		return Draining
	}
	return Alive
}
