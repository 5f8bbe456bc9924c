package scheduler

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/cron"
	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// TimetableStore is what schedules need of the database.
type TimetableStore interface {
	SyncSchedules(defs []store.ScheduleDef, now time.Time) error
	Schedules() ([]store.ScheduleState, error)
	FireOccurrences(f store.Firing, now time.Time) (store.Fired, error)
}

// Timetable turns schedules into tasks. Every worker has one: the occurrence's
// id and the condition on considered_until let one of them through, whatever the
// clocks do. One goroutine runs it.
type Timetable struct {
	store TimetableStore
	clock executor.Clock
	log   hclog.Logger
	fired func() // called when tasks were added

	poll   func() time.Duration
	maxTry func(taskType string) int64

	mu     sync.Mutex
	wanted []*cron.Schedule // of the configuration, to be put on record
	synced bool

	wake     chan struct{}
	compiled map[string]compiled // by name: the definition on record, compiled
	lastLook time.Time           // with its monotonic reading
	since    time.Time           // the first look of an unbroken series (cron.Look)
	said     map[string]time.Time
}

type compiled struct {
	text     string
	schedule *cron.Schedule
}

// TimetableConfig is fixed for the timetable's life.
type TimetableConfig struct {
	Store  TimetableStore
	Clock  executor.Clock
	Logger hclog.Logger
	Fired  func()
	Poll   func() time.Duration
	// MaxRetry is what the tasks of a type are inserted with.
	MaxRetry func(taskType string) int64
}

// NewTimetable prepares a timetable of the given schedules; Run starts it.
func NewTimetable(c TimetableConfig, schedules []*cron.Schedule) *Timetable {
	return &Timetable{
		store: c.Store, clock: c.Clock, log: c.Logger, fired: c.Fired, poll: c.Poll, maxTry: c.MaxRetry, wanted: schedules,
		wake: make(chan struct{}, 1), compiled: map[string]compiled{}, said: map[string]time.Time{},
	}
}

// Reload puts other schedules on record at the next look. Safe from any goroutine.
func (t *Timetable) Reload(schedules []*cron.Schedule) {
	t.mu.Lock()
	t.wanted, t.synced = schedules, false
	t.mu.Unlock()
	t.Look()
}

// Look makes the timetable look at once. Safe from any goroutine.
func (t *Timetable) Look() {
	select {
	case t.wake <- struct{}{}:
	default: // a look is already asked for
	}
}

// Run looks at each occurrence's time, and at least each poll, until done is closed.
func (t *Timetable) Run(done <-chan struct{}) {
	for {
		next := t.Round()
		// No timer is longer than the poll: timers stop while the machine sleeps.
		now := t.clock.Now()
		wait := task.OnSecond(now, t.poll())
		if !next.IsZero() {
			wait = min(wait, next.Sub(now.Round(0)))
		}
		timer := t.clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-done:
			timer.Stop()
			return
		case <-t.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// Round looks once at every schedule and returns when the next occurrence is due.
func (t *Timetable) Round() (next time.Time) {
	now := t.clock.Now()
	t.noticeGap(now)
	if err := t.sync(now); err != nil {
		t.say("", now, "schedules are not on record", err)
		return time.Time{}
	}
	rows, err := t.store.Schedules()
	if err != nil {
		t.say("", now, "schedules cannot be read", err)
		return time.Time{}
	}
	for i := range rows {
		s, err := t.scheduleOf(&rows[i])
		if err != nil {
			t.say(rows[i].Name, now, "schedule on record cannot be read", err)
			continue
		}
		d := s.Decide(stateOf(&rows[i]), t.look(&rows[i], now))
		if err := t.write(s, &rows[i], d, "", now); err != nil {
			t.say(rows[i].Name, now, "schedule not moved on", err)
			continue
		}
		if !d.Next.IsZero() && (next.IsZero() || d.Next.Before(next)) {
			next = d.Next
		}
	}
	if t.since.IsZero() {
		t.since = now.Round(0)
	}
	return next
}

// gapLimit is how far two looks may be apart, and their clocks may disagree,
// before this process no longer counts as having looked all the time.
const (
	lookLate  = time.Minute
	lookDrift = time.Second
)

func (t *Timetable) noticeGap(now time.Time) {
	last := t.lastLook
	t.lastLook = now
	if last.IsZero() {
		return
	}
	drift := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
	if drift.Abs() > lookDrift || now.Sub(last) > t.poll()+lookLate {
		t.since = time.Time{}
	}
}

// sync puts the configuration's schedules on record: new ones, changed ones, and
// the removal of those that are gone. What an old definition left undecided is
// settled first, so that a change neither forgets nor fires twice.
func (t *Timetable) sync(now time.Time) error {
	t.mu.Lock()
	wanted, synced := t.wanted, t.synced
	t.mu.Unlock()
	if synced {
		return nil
	}
	defs := make([]store.ScheduleDef, 0, len(wanted))
	texts := make(map[string]string, len(wanted))
	for _, s := range wanted {
		text, err := s.Encode()
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.Name, err)
		}
		texts[s.Name] = text
		defs = append(defs, store.ScheduleDef{Name: s.Name, Definition: text, Enabled: true})
	}
	if err := t.store.SyncSchedules(defs, now); err != nil {
		return err
	}
	rows, err := t.store.Schedules()
	if err != nil {
		return err
	}
	byName := make(map[string]*cron.Schedule, len(wanted))
	for _, s := range wanted {
		byName[s.Name] = s
	}
	for i := range rows {
		r := &rows[i]
		s := byName[r.Name]
		if s == nil || texts[r.Name] == r.Definition {
			continue
		}
		old, err := t.scheduleOf(r)
		if err != nil {
			old = nil // unreadable: the new one counts from now
		}
		d := s.Change(old, stateOf(r), t.look(r, now))
		d.Changed = true
		if err := t.write(s, r, d, texts[r.Name], now); err != nil {
			return err
		}
		t.log.Info("schedule changed", "schedule", r.Name, "rule", s.Rule.String())
	}
	t.mu.Lock()
	t.synced = true
	t.mu.Unlock()
	return nil
}

func (t *Timetable) look(r *store.ScheduleState, now time.Time) cron.Look {
	return cron.Look{Now: now.Round(0).UTC(), Since: t.since, Poll: t.poll(), Unfinished: r.Unfinished}
}

func stateOf(r *store.ScheduleState) cron.State {
	return cron.State{ConsideredUntil: r.ConsideredUntil, High: r.High, Enabled: r.Enabled}
}

// scheduleOf compiles the definition on record: all workers go by it, also one
// whose own configuration is older.
func (t *Timetable) scheduleOf(r *store.ScheduleState) (*cron.Schedule, error) {
	if c, ok := t.compiled[r.Name]; ok && c.text == r.Definition {
		return c.schedule, nil
	}
	def, err := cron.Decode(r.Definition)
	if err != nil {
		return nil, err
	}
	s, err := def.Compile()
	if err != nil {
		return nil, err
	}
	t.compiled[r.Name] = compiled{r.Definition, s}
	return s, nil
}

// write records a decision: tasks, skips and how far was considered, in one
// transaction that only the first of several workers gets through.
func (t *Timetable) write(s *cron.Schedule, r *store.ScheduleState, d cron.Decision, definition string, now time.Time) error {
	if !d.Changed {
		return nil
	}
	if d.Back > 0 {
		t.log.Warn("the clock was set back below what schedules had considered", "schedule", r.Name, "by", d.Back.Round(time.Second))
	}
	f := store.Firing{
		Schedule: r.Name, Seen: r.ConsideredUntil, Until: d.State.ConsideredUntil, High: d.State.High, Definition: definition,
		NoOverlap: s.Overlap == cron.OverlapSkip && !d.Queue,
	}
	maxRetry := t.maxTry(s.Task)
	for _, o := range d.Fires {
		f.Tasks = append(f.Tasks, store.NewTask{
			ID: o.ID, Type: s.Task, Payload: payloadOf(s), Priority: s.Priority, NextRun: o.RunAt,
			MaxRetry: &maxRetry, Schedule: s.Name,
		})
	}
	for _, k := range d.Skips {
		f.Skips = append(f.Skips, store.Skip{
			Schedule: s.Name, Occurrence: k.From, Until: k.To, Count: k.Count, Reason: string(k.Reason), Run: k.By, At: now,
		})
	}
	got, err := t.store.FireOccurrences(f, now)
	if err != nil {
		return err
	}
	for _, id := range got.Inserted {
		t.log.Info("schedule fires", "schedule", s.Name, "task", id)
	}
	for _, k := range got.Skipped {
		t.log.Info("occurrence skipped", "schedule", s.Name, "at", task.FormatTime(k.Occurrence), "count", k.Count, "reason", k.Reason, "run", k.Run)
	}
	if len(got.Inserted) > 0 {
		t.fired()
	}
	return nil
}

func payloadOf(s *cron.Schedule) string {
	if len(s.Payload) == 0 {
		return "{}"
	}
	return string(s.Payload)
}

// say logs a trouble at most once a minute for each schedule.
func (t *Timetable) say(schedule string, now time.Time, msg string, err error) {
	if last, ok := t.said[schedule]; ok && now.Sub(last) < time.Minute {
		return
	}
	t.said[schedule] = now
	t.log.Warn(msg, "schedule", schedule, "err", err)
}
