package sim

import (
	"slices"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// wanted is how each kind of job ends when nobody interferes.
var wanted = map[string]task.Status{
	well: task.Success, fatal: task.Failed, never: task.Dead, hangs: task.Success, panics: task.Success,
	fails: task.Success, poison: task.Dead, stubborn: task.Success,
}

// check compares the database with what was accepted and with what really happened.
func (n *night) check(u *users) Verdict {
	v := Verdict{Seed: n.o.Seed, Hours: n.m.at(), Ended: map[string]int{}}
	rows := map[string]task.Task{}
	if err := u.a.s.List(store.Filter{}, func(_ int64, t *task.Task) error {
		rows[t.ID] = *t
		v.Ended[string(t.Status)]++
		return nil
	}); err != nil {
		n.wrong("I8 list: %v", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, j := range u.maybe {
		if _, there := rows[id]; there {
			u.accepted[id] = j
		}
	}
	v.Tasks = len(u.accepted)
	for id, j := range u.accepted {
		t, there := rows[id]
		if !there {
			n.wrong("I1 %s was accepted and is not there", id)
			continue
		}
		n.checkEnd(&t, wanted[j.End], u.wished[id])
		n.checkWork(&t, &j)
	}
	n.checkEvents(u, rows)
	if found, err := u.a.s.Check(store.Indexes); err != nil || len(found) > 0 {
		n.wrong("I8 the file: %v %v", found, err)
	}
	n.conclude(&v)
	return v
}

// checkEnd: a task ended as it had to, or for a reason that its row can prove.
func (n *night) checkEnd(t *task.Task, want task.Status, wished bool) {
	switch {
	case !t.Status.Final():
		n.wrong("I1 %s has not ended: %s", t.ID, t.Status)
	case t.Status == want:
	case t.Status == task.Cancelled && wished:
	case t.Status == task.Dead && t.Reason == task.CrashesExhausted:
		n.tally("condemned for crashes", 1)
		if t.CrashCount < maxCrashes {
			n.wrong("I5 %s is condemned after %d crashes of %d", t.ID, t.CrashCount, maxCrashes)
		}
	case t.Status == task.Dead && t.RetryCount == t.MaxRetry+1:
		n.tally("out of retries", 1)
	default:
		n.wrong("I1 %s ended %s (%s), not %s", t.ID, t.Status, t.Reason, want)
	}
}

// checkWork: the executions that were counted, and the steps that were made.
func (n *night) checkWork(t *task.Task, j *job) {
	n.eff.mu.Lock()
	defer n.eff.mu.Unlock()
	e := n.eff.of(t.ID)
	if int64(e.attempts) > t.Executions {
		n.wrong("I5 %s began %d times, and %d executions are counted", t.ID, e.attempts, t.Executions)
	}
	if cut := t.Executions - e.recorded - e.spared; t.CrashCount > cut {
		n.wrong("I5 %s is charged with %d crashes, and %d executions were cut off", t.ID, t.CrashCount, cut)
	}
	if t.Status != task.Success {
		return
	}
	for k := 1; k <= j.Steps; k++ {
		if !e.done[k] {
			n.wrong("I7 %s: SUCCESS without step %d of %d", t.ID, k, j.Steps)
			return
		}
	}
}

// ledger is what the events say of each task.
type ledger struct {
	at      map[string]task.Status // where its last change led
	ended   map[int64]task.Status  // how an execution ended
	retries map[string]int64       // by its own failures and timeouts
	expired map[string]int64       // by leases that ran out: counted or free
	failed  map[string]int64       // by its own failures alone
}

// checkEvents: the changes of the tasks add up, and the rows agree with them.
func (n *night) checkEvents(u *users, rows map[string]task.Task) {
	var events []store.Event
	if err := u.a.s.EventsSince(time.Time{}, func(e store.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		n.wrong("I8 events: %v", err)
	}
	slices.SortFunc(events, func(a, b store.Event) int { return int(a.ID - b.ID) })
	l := ledger{map[string]task.Status{}, map[int64]task.Status{}, map[string]int64{}, map[string]int64{}, map[string]int64{}}
	for i := range events {
		n.enter(&l, &events[i])
	}
	for id, t := range rows {
		n.balance(&l, id, &t)
	}
}

// enter: every change is in the table of pkg/task, those of a task are one chain,
// and an execution ends once.
func (n *night) enter(l *ledger, e *store.Event) {
	if err := task.Check(e.From, e.To, e.Reason); err != nil {
		n.wrong("I3 %s: %v", e.TaskID, err)
	}
	if was, known := l.at[e.TaskID]; known && was != e.From {
		n.wrong("I3 %s: %s to %s after %s", e.TaskID, e.From, e.To, was)
	}
	l.at[e.TaskID] = e.To
	n.moves[task.Transition{From: e.From, To: e.To, Reason: e.Reason}]++
	if e.From == task.Running && e.To != task.Lost && e.ExecID > 0 {
		if before, twice := l.ended[e.ExecID]; twice {
			n.wrong("I4 %s: execution %d ended %s and %s", e.TaskID, e.ExecID, before, e.To)
		}
		l.ended[e.ExecID] = e.To
	}
	switch {
	case e.Reason == task.LeaseExpired:
		l.expired[e.TaskID]++
	case e.To == task.Retrying:
		l.retries[e.TaskID]++
	}
	if e.Reason == task.RetryableError {
		l.failed[e.TaskID]++
	}
}

// balance: the chain ends where the row stands, and the retries agree with what
// happened.
func (n *night) balance(l *ledger, id string, t *task.Task) {
	if was, known := l.at[id]; known && was != t.Status {
		n.wrong("I3 %s: the row says %s, its last event %s", id, t.Status, was)
	}
	if k := l.retries[id]; t.RetryCount < k || t.RetryCount > k+l.expired[id] {
		n.wrong("I5 %s: retry_count %d after %d failures and %d expired leases", id, t.RetryCount, k, l.expired[id])
	}
	if own := n.eff.failures(id); l.failed[id] > own {
		n.wrong("I5 %s is charged with %d failures, and had %d of its own", id, l.failed[id], own)
	}
}
