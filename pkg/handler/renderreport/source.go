package renderreport

import (
	"context"
	"os"
	"sort"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// StoreOptions say where FromStore finds its facts. Only Store is required.
type StoreOptions struct {
	Store *store.Store

	DataDir   string // "": the disk is not measured
	LogDir    string
	TasksDir  string
	OutputDir string
	Budget    int64 // retention.disk_budget; 0: none

	Host, Version string
	SuspectAfter  time.Duration // silence beyond it is worth a word; default 90 s

	// Standing knows better than the heartbeat row how an executor fares (its lock
	// tells whether it is dead); nil: judged by the last beat.
	Standing func(store.Heartbeat) Standing
	// Next says when a schedule fires next; zero or nil: not shown.
	Next func(schedule string, after time.Time) time.Time
	Now  func() time.Time // nil: time.Now
}

// defaultSuspectAfter is three heartbeats (DESIGN §4).
const defaultSuspectAfter = 90 * time.Second

// FromStore is a Source over the database and the directories beside it. It
// writes nothing.
func FromStore(o StoreOptions) Source {
	if o.SuspectAfter == 0 {
		o.SuspectAfter = defaultSuspectAfter
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Host == "" {
		// A report without a name of the machine is still a report.
		o.Host, _ = os.Hostname()
	}
	return &fromStore{o}
}

type fromStore struct{ StoreOptions }

// Facts looks once. Several reads make it up: a task that ends meanwhile may be
// in one list and not in the other, as in any look at something that goes on.
func (s *fromStore) Facts(ctx context.Context, w Window) (*Facts, error) {
	began := s.Now()
	f := &Facts{Window: w, At: began.UTC().Truncate(time.Millisecond), Host: s.Host, Version: s.Version}
	tally, err := s.Store.Tally(f.At)
	if err != nil {
		return nil, err
	}
	f.Now, f.Waiting.Due = tally.Counts, tally.Due
	for _, look := range []func(context.Context, *Facts) error{
		s.runs, s.failures, s.mishaps, s.active, s.waiting, s.workers, s.schedules,
	} {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := look(ctx, f); err != nil {
			return nil, err
		}
	}
	if f.Disk, err = s.disk(ctx); err != nil {
		return nil, err
	}
	f.Took = Span(s.Now().Sub(began))
	return f, nil
}

// runs reads the executions of the window once and sums them up.
func (s *fromStore) runs(ctx context.Context, f *Facts) error {
	t := newTally(f.Window, f.At)
	if err := s.Store.RunsBetween(f.Window.Since, f.Window.Until, func(r *store.Run) error {
		t.add(r)
		if t.seen%10_000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}); err != nil {
		return err
	}
	t.sumUp(f)
	for i := range f.Retried {
		if err := s.explainRetried(&f.Retried[i], t.lastBad[f.Retried[i].ID]); err != nil {
			return err
		}
	}
	return nil
}

// explainRetried adds what the task is and what went wrong last.
func (s *fromStore) explainRetried(r *Retried, execID int64) error {
	got, err := s.Store.Get(r.ID)
	if isGone(err) {
		return nil // pruned meanwhile
	} else if err != nil {
		return err
	}
	r.Type, r.Status = got.Type, got.Status
	last, err := s.Store.Execution(execID)
	if err != nil && !isGone(err) {
		return err
	}
	r.Cause = cut(last.Result, MaxCauseText)
	return nil
}

func (s *fromStore) failures(_ context.Context, f *Facts) error {
	g := newGroups()
	if err := s.Store.FailedBetween(f.Window.Since, f.Window.Until, func(t *store.FailedTask) error {
		g.add(t)
		return nil
	}); err != nil {
		return err
	}
	f.Failures = g.failures()
	for i := range f.Types {
		f.Types[i].Failed = g.types[f.Types[i].Type]
	}
	return nil
}

func (s *fromStore) mishaps(_ context.Context, f *Facts) error {
	counts := map[task.Reason]*Incident{}
	if err := s.Store.MishapsBetween(f.Window.Since, f.Window.Until, func(m store.Mishap) error {
		i := counts[m.Reason]
		if i == nil {
			i = &Incident{Reason: m.Reason}
			counts[m.Reason] = i
		}
		i.Count++
		if m.At.After(i.Last) {
			i.Last = m.At
		}
		return nil
	}); err != nil {
		return err
	}
	for _, i := range counts {
		f.Incidents = append(f.Incidents, *i)
	}
	sort.Slice(f.Incidents, func(i, j int) bool {
		a, b := f.Incidents[i], f.Incidents[j]
		return a.Count > b.Count || a.Count == b.Count && a.Reason < b.Reason
	})
	return nil
}

func (s *fromStore) active(_ context.Context, f *Facts) error {
	running, err := s.Store.Running()
	if err != nil {
		return err
	}
	beats, err := s.Store.Heartbeats()
	if err != nil {
		return err
	}
	slow := map[string]store.Heartbeat{}
	for _, b := range beats {
		slow[b.WorkerID] = b
	}
	f.ActiveTotal = int64(len(running))
	for i := range running {
		t := &running[i]
		a := Active{ID: t.ID, Type: t.Type, Status: t.Status, Executor: t.ExecutorID, Progress: cut(t.Progress, MaxCauseText), Asked: t.Control, Reason: t.Reason}
		if b := slow[t.ExecutorID]; b.CurrentTaskID == t.ID && !b.SlowSince.IsZero() {
			a.SlowSince = b.SlowSince
			f.SlowTotal++
		}
		e, err := s.Store.Execution(t.ExecID)
		if err != nil && !isGone(err) {
			return err
		}
		a.Since = e.Start
		f.Active = append(f.Active, a)
	}
	rank := func(a Active) int {
		switch {
		case a.Status == task.Lost:
			return 0
		case !a.SlowSince.IsZero():
			return 1
		}
		return 2
	}
	sort.SliceStable(f.Active, func(i, j int) bool {
		a, b := f.Active[i], f.Active[j]
		return rank(a) < rank(b) || rank(a) == rank(b) && a.Since.Before(b.Since)
	})
	f.Active = f.Active[:min(len(f.Active), MaxActive)]
	return nil
}

func (s *fromStore) waiting(_ context.Context, f *Facts) error {
	oldest, err := s.Store.Waiting(f.At, MaxWaiting)
	if err != nil {
		return err
	}
	next, err := s.Store.Upcoming(f.At, MaxWaiting)
	if err != nil {
		return err
	}
	waits := &f.Waiting
	waits.Retrying, waits.Held = f.Now[task.Retrying], f.Now[task.Paused]
	waits.Later = max(0, f.Now[task.Pending]+f.Now[task.Retrying]-waits.Due)
	waits.Oldest, waits.Next = waiters(oldest), waiters(next)
	if waits.Held == 0 {
		return nil
	}
	var held []task.Task
	err = s.Store.List(store.Filter{Statuses: []task.Status{task.Paused}, Limit: MaxWaiting}, func(_ int64, t *task.Task) error {
		held = append(held, *t)
		return nil
	})
	waits.HeldList = waiters(held)
	return err
}

func waiters(tasks []task.Task) []WaitingTask {
	var all []WaitingTask
	for _, t := range tasks {
		all = append(all, WaitingTask{ID: t.ID, Type: t.Type, Status: t.Status, Due: t.NextRun, Retries: t.RetryCount, MaxRetry: t.MaxRetry})
	}
	return all
}

// longGone is how long before the window an executor may have been heard last
// and still be shown: rows of former set-ups stay in the table.
const longGone = 24 * time.Hour

func (s *fromStore) workers(_ context.Context, f *Facts) error {
	beats, err := s.Store.Heartbeats()
	if err != nil {
		return err
	}
	for _, b := range beats {
		w := Worker{
			ID: b.WorkerID, Host: b.Hostname, Version: b.Version, PID: b.PID, StartedAt: b.StartedAt, LastBeat: b.LastHeartbeat,
			StoppedAt: b.StoppedAt, Draining: b.Draining, Task: b.CurrentTaskID, Standing: s.standing(b, f.At),
		}
		if w.Standing != Alive && b.LastHeartbeat.Before(f.Window.Since.Add(-longGone)) || len(f.Workers) == MaxWorkers {
			f.MoreWorkers++
			continue
		}
		f.Workers = append(f.Workers, w)
	}
	return nil
}

func (s *fromStore) standing(b store.Heartbeat, at time.Time) Standing {
	switch {
	case !b.StoppedAt.IsZero():
		return Stopped
	case s.Standing != nil:
		return s.Standing(b)
	case at.Sub(b.LastHeartbeat) > s.SuspectAfter:
		return Silent
	}
	return Alive
}

func (s *fromStore) schedules(_ context.Context, f *Facts) error {
	skipped, err := s.Store.SkippedBetween(f.Window.Since, f.Window.Until)
	if err != nil {
		return err
	}
	of := map[string][]Skips{}
	for _, k := range skipped {
		f.SkipsTotal += k.Count
		of[k.Schedule] = append(of[k.Schedule], Skips{Reason: k.Reason, Count: k.Count, Last: k.Last})
	}
	states, err := s.Store.Schedules()
	if err != nil {
		return err
	}
	// Those that have something to tell first, if there are more than are shown.
	sort.SliceStable(states, func(i, j int) bool { return len(of[states[i].Name]) > 0 && len(of[states[j].Name]) == 0 })
	for _, st := range states[:min(len(states), MaxSchedules)] {
		sc := Schedule{Name: st.Name, Enabled: st.Enabled, Skips: of[st.Name]}
		last, err := s.Store.Occurrences(st.Name, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			sc.LastID, sc.LastAt, sc.LastIs = last[0].ID, last[0].CreatedAt, last[0].Status
		}
		if s.Next != nil && st.Enabled {
			sc.Next = s.Next(st.Name, f.At)
		}
		f.Schedules = append(f.Schedules, sc)
	}
	return nil
}
