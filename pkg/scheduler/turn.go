package scheduler

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// turn is one exchange with the database: the ends of executions go in, claimed
// tasks come out, in one transaction.
type turn struct {
	ended  []executor.Completion
	result store.TurnResult
	looked bool      // a claim or a look was made: due is known
	due    time.Time // when something is due next; zero: nothing waits
	held   bool      // an operator's drain is on
	err    error
	set    *Settings // the settings it was made under
}

// beginTurn starts the exchange in a goroutine of its own, so that a database
// that does not answer leaves the loop alive.
func (l *loop) beginTurn(claims bool) {
	now := l.now()
	l.turning = &now
	t := turn{ended: l.ended, set: l.set}
	l.ended = nil
	var slots []string
	if claims {
		slots = l.slotsAfter(t.ended)
	}
	go func() {
		l.s.exchange(&t, slots)
		l.turned <- t
	}()
}

// slotsAfter lists the slots that are free once ended is written.
func (l *loop) slotsAfter(ended []executor.Completion) []string {
	slots := append(make([]string, 0, len(l.idle)+len(ended)), l.idle...)
	for i := range ended {
		slots = append(slots, ended[i].Execution.Task.ExecutorID)
	}
	return slots
}

// exchange writes and claims. The read that finds nothing due takes no write lock.
func (s *Scheduler) exchange(t *turn, slots []string) {
	now := s.cfg.Deps.Clock.Now()
	claim := s.claimFor(t, slots, now)
	if t.err != nil {
		return
	}
	if claim != nil && len(t.ended) == 0 {
		due, found, err := s.cfg.Store.NextDue(t.set.Rules)
		if err != nil || !found || due.After(now) {
			t.looked, t.err = err == nil, err
			if found {
				t.due = due
			}
			return
		}
	}
	finishes, err := s.finishesOf(t.ended, now)
	if t.err = err; err != nil || (claim == nil && len(finishes) == 0) {
		return
	}
	t.result, t.err = s.cfg.Store.Turn(finishes, claim)
	if t.err == nil && claim != nil {
		t.looked, t.due, t.held = true, t.result.NextDue, t.result.Held
	}
}

// finishesOf lists what is to be written. An execution that lost its task writes
// nothing; its end is only told, so that others may have the row.
func (s *Scheduler) finishesOf(ended []executor.Completion, now time.Time) ([]store.Finish, error) {
	finishes := make([]store.Finish, 0, len(ended))
	for i := range ended {
		if !ended[i].Lost {
			finishes = append(finishes, ended[i].Finish)
			continue
		}
		if err := s.cfg.Store.LetGo(ended[i].Execution.Task.Fence(), now); err != nil {
			return nil, err
		}
	}
	return finishes, nil
}

// claimFor says what may be claimed: nothing while an operator's drain is on (where
// a write is due in any case, the turn itself looks). A
// worker whose own last beat is old writes one first (DESIGN §4), so that nobody
// takes it for silent the moment it owns something.
func (s *Scheduler) claimFor(t *turn, slots []string, now time.Time) *store.ClaimRequest {
	if len(slots) == 0 {
		return nil
	}
	if len(t.ended) == 0 {
		if t.held, t.err = s.cfg.Store.Draining(); t.err != nil {
			return nil
		}
		if t.held {
			t.looked = true
			return nil
		}
	}
	if now.Sub(s.cfg.LastBeat()) > t.set.SuspectAfter {
		if t.err = s.cfg.Beat(); t.err != nil {
			return nil
		}
	}
	return &store.ClaimRequest{
		Worker: s.cfg.WorkerID, Executors: slots, Types: t.set.Rules, Now: now,
		NoTimeoutLease: t.set.NoTimeoutLease(), SuspectAt: t.set.suspectAt(), MaxExecutions: t.set.MaxExecutions,
	}
}

// turnedOver takes the result of a turn into the loop's state.
func (l *loop) turnedOver(t turn) {
	l.turning = nil
	if t.err != nil {
		l.ended = append(t.ended, l.ended...)
		l.look = true
		l.troubled(t.err)
		return
	}
	l.untroubled()
	written := t.result.Finished
	for _, c := range t.ended {
		if c.Lost {
			l.vacate(c.Execution.Task.ExecutorID)
			continue
		}
		l.finished(c, written[0])
		written = written[1:]
	}
	l.startAll(t.result.Claimed, t.set)
	if t.looked && t.held != l.held {
		l.held = t.held
		l.diary.note(hclog.Info, "claims", "held", t.held)
	}
	if t.looked {
		l.setAlarm(t.due)
	}
}

// finished logs the end of a task as the database has it, and frees its slot.
func (l *loop) finished(c executor.Completion, f store.FinishResult) {
	t := &c.Execution.Task
	switch {
	case errors.Is(f.Err, store.ErrNotMine):
		l.diary.note(hclog.Warn, "result refused: the task is no longer ours", "task", t.ID, "exec", t.ExecID, "worker", t.ExecutorID)
	case f.Err != nil:
		l.diary.note(hclog.Error, "result refused", "task", t.ID, "exec", t.ExecID, "err", f.Err)
	default:
		l.tellEnd(c, f.Status)
		if f.Status.Final() && c.Execution.LeavesDir() {
			l.s.cfg.Discard(t)
		}
	}
	l.vacate(t.ExecutorID)
}

func (l *loop) tellEnd(c executor.Completion, status task.Status) {
	t := &c.Execution.Task
	args := []any{"task", t.ID, "type", t.Type, "exec", t.ExecID, "worker", t.ExecutorID, "to", string(status),
		"outcome", c.Finish.Outcome, "took", l.now().Sub(c.Execution.Started()).Round(time.Millisecond)}
	switch status {
	case task.Success:
		l.diary.note(hclog.Info, "task ends", args...)
		return
	case task.Running, task.Paused:
		l.diary.note(hclog.Info, "task stops, to go on from its checkpoint", args...)
		return
	}
	args = append(args, "why", c.Finish.Summary)
	if status == task.Retrying {
		args = append(args, "next", task.FormatTime(c.Finish.RetryAt))
	}
	l.diary.note(hclog.Warn, "task ends", args...)
}

// setAlarm wakes the loop when something is due next. No timer is longer than
// the poll: timers stop while the machine sleeps, and a clock may be set.
func (l *loop) setAlarm(due time.Time) {
	if l.alarm != nil {
		l.alarm.Stop()
	}
	now := l.now()
	d := task.OnSecond(now, l.set.PollInterval)
	if !due.IsZero() {
		// Round reads the wall clocks alone: due is a wall time.
		if until := due.Sub(now.Round(0)); until < d {
			d = max(until, 0)
		}
		if d == 0 && len(l.idle) == 0 {
			d = l.set.PollInterval // a slot's end will look again
		}
	}
	l.alarm = l.s.cfg.Deps.Clock.NewTimer(max(d, minAlarm))
}

// minAlarm keeps a due time that another worker is just claiming from spinning
// the loop.
const minAlarm = time.Millisecond

// Trouble with the database: the first try again soon, then each few seconds,
// and one log line a minute with a count instead of one for each try (DB-09).
const (
	troubleFirst = 200 * time.Millisecond
	troubleMax   = 5 * time.Second
	troubleSay   = time.Minute
)

type trouble struct {
	wait  time.Duration
	until time.Time
	said  time.Time
	count int
}

func (t *trouble) over(now time.Time) bool { return t.wait == 0 || !now.Before(t.until) }

func (l *loop) troubled(err error) {
	now := l.now()
	tr := &l.trouble
	tr.wait = min(max(2*tr.wait, troubleFirst), troubleMax)
	tr.until = now.Add(tr.wait)
	tr.count++
	if tr.said.IsZero() || now.Sub(tr.said) >= troubleSay {
		l.diary.note(hclog.Error, "database does not take our writes: claims pause, results are kept", "err", err,
			"kept", len(l.ended), "tries", tr.count)
		tr.said = now
	}
	if l.alarm != nil {
		l.alarm.Stop()
	}
	l.alarm = l.s.cfg.Deps.Clock.NewTimer(tr.wait)
}

func (l *loop) untroubled() {
	if l.trouble.count > 0 {
		l.diary.note(hclog.Info, "database takes our writes again", "tries", l.trouble.count)
	}
	l.trouble = trouble{}
}
