package supervisor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"nightshift/pkg/liveness"
)

const (
	lookEach   = time.Second            // the longest sleep of the loop
	busyEach   = 5 * time.Millisecond   // between two rounds against orphans
	ownPause   = 2 * time.Second        // waking so much too late: we were stopped ourselves
	firstDelay = 200 * time.Millisecond // doubled with each failure, after one restart at once
	maxDelay   = 30 * time.Second
	healthy    = time.Minute     // READY for so long, and earlier failures are forgotten
	degraded   = 8               // failures in a row; from then on it is a trouble that lasts
	patience   = time.Minute     // between two log lines, or two tries, about a trouble that lasts
	huntLimit  = 2 * time.Second // for a dead worker's tree to end; then it is named, and hunted again
)

// The states of a slot.
const (
	waiting  = "waiting"  // no process; to start at nextStart
	clearing = "clearing" // what the last worker left is being killed, its lock taken
	starting = "starting" // lives, has not said READY
	ready    = "ready"
	leaving  = "leaving" // was asked to go, and will be made to
	stopped  = "stopped"
)

// slot is one worker id and the process that has it. What is exported is in status.json.
type slot struct {
	ID       string `json:"worker"`
	State    string `json:"state"`
	PID      int    `json:"pid"`
	Reason   string `json:"reason"`
	Starts   int    `json:"starts"`
	Failures int    `json:"failures"` // in a row

	place                          *liveness.Slot
	child                          *liveness.Child
	readyAt, nextStart, quietUntil time.Duration
	files                          string // the fingerprint of what was started
	config, rolled                 bool   // that does not work; it was told to go by a roll
}

// tend does what is due for one slot, and says when the next thing is.
func (s *supervisor) tend(w *slot, now time.Duration) (next time.Duration) {
	if w.child != nil {
		return s.watch(w, now)
	}
	switch {
	case w.State == clearing:
		if s.busy { // orphans may be this slot's
			return now + busyEach
		}
		if lock, done, err := w.place.Cleared(); done {
			s.start(w, lock, err, now)
			return now
		}
	case s.stopping:
		w.State = stopped
	case now < w.nextStart && (!w.config || w.files == liveness.Fingerprint(s.Command)):
		return w.nextStart
	default:
		w.State, w.nextStart = clearing, min(w.nextStart, now)
		w.place.Clear(huntLimit, s.news)
	}
	return now + lookEach
}

// start puts a new worker into a slot that is clear, if one is due. It has the slot's lock
// from its first moment on; nobody has it while the slot waits, so that neighbours can take
// the tasks of a worker that does not come back.
func (s *supervisor) start(w *slot, lock *liveness.Lock, err error, now time.Duration) {
	if w.State = waiting; err != nil { // somebody lives on, or we cannot see: never two in a slot
		w.nextStart = max(w.nextStart, now+lookEach)
		s.complain(w, err.Error(), now, true)
		return
	}
	s.family.Tell(syscall.SIGUSR2) // to the neighbours: now the lock proves the death
	if s.stopping || now < w.nextStart {
		lock.Release()
		return
	}
	w.files = liveness.Fingerprint(s.Command)
	if w.child, err = s.family.Start(w.place, lock, s.Command); err != nil {
		s.failed(w, err.Error(), liveness.StartCode(err), now)
		return
	}
	w.PID, w.State, w.Starts = w.child.PID, starting, w.Starts+1
	if w.Failures < degraded && !w.config {
		w.quietUntil = 0
		s.log.Info("worker started", "worker", w.ID, "pid", w.PID, "cgroup", w.place.Grouped())
	}
}

// watch follows the worker in a slot from its start to its end.
func (s *supervisor) watch(w *slot, now time.Duration) (next time.Duration) {
	if death, dead := w.child.Dead(); dead {
		s.failed(w, fmt.Sprintf("%s after %s", death, (now-w.child.Began).Round(time.Millisecond)), death.Code(), now)
		w.PID, w.child, w.State = 0, nil, clearing // its tree, whatever becomes of the slot
		w.place.Clear(huntLimit, s.news)
		return now + lookEach
	}
	stage, begun, next := w.child.Watch(now, s.Limits)
	if stage != liveness.Working {
		w.State = leaving
	}
	switch {
	case begun:
		s.complain(w, stage.String()+", threads "+liveness.ThreadStates(w.PID), now, false)
		if stage == liveness.Stuck && s.stopping {
			w.State, w.child = stopped, nil // nothing helps
		}
	case w.State == starting && w.child.Line.Ready():
		w.State, w.readyAt, w.config, w.Reason = ready, now, false, ""
		if now >= w.quietUntil {
			s.log.Info("worker ready", "worker", w.ID, "pid", w.PID, "took", (now - w.child.Began).Round(time.Millisecond))
		}
		if s.rolling == w {
			s.roll(slices.Index(s.slots, w)+1, now)
		}
	case w.State == ready:
		if w.Reason = w.child.Line.Word(); w.Failures > 0 && now-w.readyAt >= healthy {
			s.log.Info("worker is well again", "worker", w.ID, "pid", w.PID, "failures", w.Failures)
			w.Failures = 0
		}
	}
	return next
}

// failed decides when to try again.
func (s *supervisor) failed(w *slot, why string, code int, now time.Duration) {
	w.State, w.config = waiting, false
	if w.nextStart = now; w.rolled || s.stopping {
		w.rolled = false
		s.log.Info("worker ended as told", "worker", w.ID, "how", why)
		return
	}
	w.nextStart += backoff(w.Failures)
	w.Failures++
	switch code {
	case 64, 78, 126, 127: // its configuration or command line: nothing that passes by itself
		w.config, w.nextStart = true, now+patience
	case 69, 75: // not now
		w.nextStart = max(w.nextStart, now+time.Second)
	}
	s.complain(w, why, now, w.config || w.Failures >= degraded)
	if s.rolling == w {
		s.rolling = nil
		s.log.Error("roll ended: the new worker does not start; the others are as they were", "worker", w.ID)
	}
}

// complain says what is wrong with a slot: at once, or each minute if it lasts.
func (s *supervisor) complain(w *slot, why string, now time.Duration, lasts bool) {
	if w.Reason = why; now >= w.quietUntil {
		s.log.Warn("worker trouble", "worker", w.ID, "pid", w.PID, "why", why, "failures", w.Failures,
			"next_start", max(w.nextStart-now, 0).Round(time.Millisecond))
		if lasts {
			w.quietUntil = now + patience
		}
	}
}

// backoff is the delay after so many failures in a row; jitter keeps slots out of step.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(maxDelay, firstDelay<<min(failures-1, 20))
	return d + rand.N(d/5)
}
