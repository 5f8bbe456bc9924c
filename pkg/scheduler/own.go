package scheduler

import (
	"slices"
	"time"

	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// ownWatch is what the loop remembers between two looks at its own rows.
type ownWatch struct {
	last    time.Time // the last look
	strange map[int64]int
	wall    time.Time // the last second's time, to see a step of the wall clock
}

// controlEvery bounds how often commits of others make us read our own rows.
const controlEvery = 100 * time.Millisecond

// stepLimit is how far the wall clock may drift from the monotonic one within a
// second before it counts as set (NTP slews 0.5 ms a second).
const stepLimit = time.Second

// everySecond does what must not wait for an event: controls, leases, slow
// tasks, steps of the wall clock.
func (l *loop) everySecond() {
	now := l.now()
	l.tick = l.s.cfg.Deps.Clock.NewTimer(task.OnSecond(now, time.Second))
	l.noticeStep(now)
	l.readOwn(now)
	l.noticeSlow(now)
}

// watchSoon reads the control columns of what runs, at most each controlEvery.
func (l *loop) watchSoon() {
	if now := l.now(); now.Sub(l.watch.last) >= controlEvery {
		l.readOwn(now)
	}
}

// readOwn looks at the rows that say they are ours: a person's wish, a lease
// that the wall clock has overtaken, a row and an execution that do not match.
func (l *loop) readOwn(now time.Time) {
	l.watch.last = now
	rows, err := l.s.cfg.Store.Controls(l.s.cfg.WorkerID)
	if err != nil {
		l.s.log.Debug("own rows", "err", err)
		return
	}
	board := l.s.Board()
	seen := make(map[string]bool, len(rows))
	var renew []store.Renewal
	for i := range rows {
		r := &rows[i]
		x := board[r.ExecutorID]
		if x == nil || x.Task.ExecID != r.ExecID {
			l.strange(r)
			continue
		}
		seen[r.ExecutorID] = true
		x.Heed(r.Control)
		if r.Status == task.Lost {
			l.comeBack(x, now)
		}
		if until, renewIt := l.leaseOf(x, r, now); renewIt {
			renew = append(renew, store.Renewal{Fence: x.Task.Fence(), Lease: until})
		}
	}
	if l.turning == nil {
		l.missing(board, seen, now)
	}
	if len(renew) == 0 {
		return
	}
	if err := l.s.cfg.Store.RenewLeases(now, renew); err != nil {
		l.s.log.Warn("lease not renewed", "err", err)
	}
}

// comeBack reports again for a task that was given up for silence alone: while
// nobody has taken it over, its old executor goes on (LOST → RUNNING).
func (l *loop) comeBack(x *executor.Execution, now time.Time) {
	if _, err := l.s.cfg.Store.Checkpoint(x.Task.Fence(), "", x.Progress(), now); err != nil {
		l.s.log.Warn("lost task not taken back", "task", x.Task.ID, "exec", x.Task.ExecID, "err", err)
		return
	}
	l.s.log.Info("back before anyone took over", "task", x.Task.ID, "exec", x.Task.ExecID)
}

// strangeTwice is how many looks, with no turn between them, prove that a row
// of ours is run by nobody: a claim whose COMMIT was answered by an I/O error.
const strangeTwice = 2

// strange adopts a RUNNING row that bears our name and that no slot runs.
func (l *loop) strange(r *store.OwnedTask) {
	if l.turning != nil || r.Status != task.Running || l.draining || !l.isIdle(r.ExecutorID) {
		return
	}
	if l.watch.strange == nil {
		l.watch.strange = map[int64]int{}
	}
	l.watch.strange[r.ExecID]++
	if l.watch.strange[r.ExecID] < strangeTwice {
		return
	}
	delete(l.watch.strange, r.ExecID)
	t, err := l.s.cfg.Store.Get(r.ID)
	if err != nil || t.ExecID != r.ExecID || t.Status != task.Running {
		return
	}
	if _, known := l.set.Types[t.Type]; !known {
		return
	}
	l.s.log.Warn("claimed without an answer, found again", "task", t.ID, "exec", t.ExecID)
	l.startAll([]task.Task{t}, l.set)
}

func (l *loop) isIdle(slot string) bool { return slices.Contains(l.idle, slot) }

// missing tells an execution whose row no longer bears its fence that the task
// is not ours any more (`takeover --force`).
func (l *loop) missing(board map[string]*executor.Execution, seen map[string]bool, now time.Time) {
	for slot, x := range board {
		if x == nil || seen[slot] || now.Sub(x.Started()) < time.Second || l.hasEnded(x) {
			continue
		}
		x.Order(handler.ErrLost, true)
	}
}

func (l *loop) hasEnded(x *executor.Execution) bool {
	return slices.ContainsFunc(l.ended, func(c executor.Completion) bool { return c.Execution == x })
}

// leaseOf says whether the row's lease must be stamped anew, and until when. The
// lease is a wall time for others to read; what counts here is the monotonic
// clock: a lease runs 2 × timeout from the start, and without a timeout it is
// renewed for as long as its owner lives.
func (l *loop) leaseOf(x *executor.Execution, r *store.OwnedTask, now time.Time) (time.Time, bool) {
	full := 2 * x.Type.Timeout
	left := full - now.Sub(x.Started())
	if x.Type.Timeout == 0 {
		full = l.set.NoTimeoutLease()
		left = full
	}
	if left <= 0 {
		return time.Time{}, false // it overran: the wardens of others may act
	}
	remaining := r.LeaseUntil.Sub(now.Round(0))
	if remaining > full+time.Minute || remaining < min(left, full/2)-time.Second {
		return now.Add(left), true
	}
	return time.Time{}, false
}

// noticeStep compares the wall clock with the monotonic one. After a step the
// retries that were stamped under the wrong time are drawn in.
func (l *loop) noticeStep(now time.Time) {
	last := l.watch.wall
	l.watch.wall = now
	if last.IsZero() {
		return
	}
	by := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
	if by.Abs() < stepLimit {
		return
	}
	l.s.log.Warn("the wall clock was set", "by", by.Round(time.Millisecond), "now", task.FormatTime(now))
	l.pullIn(now, last.Add(now.Sub(last)))
	if l.s.cfg.Stepped != nil {
		l.s.cfg.Stepped(by)
	}
	l.lookNow()
}

// pullIn draws in what was stamped under a clock that stood ahead; was is what the
// clock would say without its step, zero at the start.
func (l *loop) pullIn(now, was time.Time) {
	n, err := l.s.cfg.Store.PullIn(now, was, l.set.Backoff, l.s.cfg.Deps.Rand)
	if err != nil {
		l.s.log.Warn("tasks stamped under another clock not drawn in", "err", err)
	} else if n > 0 {
		l.s.log.Warn("tasks stamped under another clock were drawn in", "count", n)
	}
}

// noticeSlow warns once of each execution whose progress stands still.
func (l *loop) noticeSlow(now time.Time) {
	for slot, x := range l.s.Board() {
		if x == nil {
			continue
		}
		if !x.NoticeSlow(now) {
			continue
		}
		l.s.log.Warn("task is slow: its progress has not moved", "task", x.Task.ID, "exec", x.Task.ExecID,
			"worker", slot, "for", now.Sub(x.SlowSince()).Round(time.Second), "progress", x.Progress())
		if err := l.s.cfg.Store.Slow(x.Task.Fence(), now, l.set.SlowHook(&x.Task)); err != nil {
			l.s.log.Warn("slow task not recorded", "task", x.Task.ID, "err", err)
		}
	}
}
