package cron

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The table that the schedulers of the property tests share: tasks by id, skips,
// and the row of the schedule with its condition.
type record struct {
	tasks    map[string]run
	refused  int // inserts of an id that existed
	skipped  int
	skips    []Skip
	state    State
	first    time.Time // when the schedule was first seen
	observed func(d Decision, l Look)
}

type run struct {
	at, seen time.Time
	final    bool
}

func (r *record) unfinished() bool {
	for _, t := range r.tasks {
		if !t.final {
			return true
		}
	}
	return false
}

// write is the store's transaction: nothing unless the row is as it was read.
func (r *record) write(read State, d Decision, l Look) bool {
	if !d.Changed || r.state.ConsideredUntil != read.ConsideredUntil {
		return false
	}
	if read.ConsideredUntil.IsZero() {
		r.first = l.Now
	}
	enabled := r.state.Enabled
	r.state = d.State
	r.state.Enabled = enabled
	for _, f := range d.Fires {
		if _, exists := r.tasks[f.ID]; exists {
			r.refused++
			continue
		}
		r.tasks[f.ID] = run{at: f.At, seen: l.Now}
	}
	for _, k := range d.Skips {
		r.skipped += k.Count
		r.skips = append(r.skips, k)
	}
	if r.observed != nil {
		r.observed(d, l)
	}
	return true
}

// looker is one of several schedulers. A look is a read, and later the write of
// what was decided on it.
type looker struct {
	since   time.Time
	last    time.Time
	pending *pendingLook
}

type pendingLook struct {
	read State
	look Look
}

const poll = 5 * time.Second

func (k *looker) read(r *record, wall time.Time) {
	gap := wall.Sub(k.last)
	if k.last.IsZero() || gap < -time.Second || gap > time.Minute {
		k.since = time.Time{}
	}
	look := Look{Now: wall, Since: k.since, Poll: poll, Unfinished: r.unfinished()}
	if k.since.IsZero() {
		k.since = wall
	}
	k.last = wall
	k.pending = &pendingLook{read: r.state, look: look}
}

func (k *looker) commit(s *Schedule, r *record) {
	if k.pending == nil {
		return
	}
	p := k.pending
	k.pending = nil
	r.write(p.read, s.Decide(p.read, p.look), p.look)
}

// world is a schedule, its record, some schedulers and a wall clock.
type world struct {
	t       *rapid.T
	s       *Schedule
	record  *record
	lookers []*looker
	wall    time.Time
}

func anySchedule(t *rapid.T, missed []Missed, overlap []Overlap) (*Schedule, time.Time) {
	n := nights[rapid.IntRange(0, len(nights)-1).Draw(t, "night")]
	d := Definition{Name: "s", Task: "job", MissedLimit: MaxMissedLimit,
		Missed:  rapid.SampledFrom(missed).Draw(t, "missed"),
		Overlap: rapid.SampledFrom(overlap).Draw(t, "overlap")}
	if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		d.Every = (time.Duration(rapid.IntRange(20, 7200).Draw(t, "every")) * time.Second).String()
	} else {
		d.Cron, d.Zone = anyExpr(t), n.zone
	}
	s, err := d.Compile()
	if err != nil {
		t.Skip(err)
	}
	return s, day(t, n.from).Add(time.Duration(rapid.IntRange(0, 2*86400).Draw(t, "start")) * time.Second)
}

func newWorld(t *rapid.T, missed []Missed, overlap []Overlap) *world {
	s, start := anySchedule(t, missed, overlap)
	w := &world{t: t, s: s, wall: start, record: &record{tasks: map[string]run{}, state: State{Enabled: true}}}
	for range rapid.IntRange(1, 3).Draw(t, "schedulers") {
		w.lookers = append(w.lookers, &looker{})
	}
	return w
}

// step lets a little happen: time passes, somebody looks, somebody writes what
// it decided a while ago, a run ends, a process starts anew.
func (w *world) step() {
	k := w.lookers[rapid.IntRange(0, len(w.lookers)-1).Draw(w.t, "who")]
	switch rapid.IntRange(0, 9).Draw(w.t, "step") {
	case 0, 1, 2:
		k.read(w.record, w.wall)
	case 3, 4, 5:
		k.commit(w.s, w.record)
	case 6:
		w.wall = w.wall.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(w.t, "ms")) * time.Millisecond)
	case 7:
		w.wall = w.wall.Add(time.Duration(rapid.IntRange(0, 6*3600).Draw(w.t, "down")) * time.Second)
	case 8:
		w.finishAll()
	case 9:
		*k = looker{}
	}
}

func (w *world) finishAll() {
	for id, r := range w.record.tasks {
		r.final = true
		w.record.tasks[id] = r
	}
}

// settle looks once more, alone and in order.
func (w *world) settle() {
	for _, k := range w.lookers {
		k.commit(w.s, w.record)
	}
	w.finishAll()
	k := &looker{}
	k.read(w.record, w.wall)
	k.commit(w.s, w.record)
}

func (w *world) check() {
	for id, r := range w.record.tasks {
		if r.at.After(r.seen) {
			w.t.Fatalf("%s was fired early, at %s", id, r.seen)
		}
		if own := w.s.Rule.Next(r.at.Add(-1)); !own.Equal(r.at) {
			w.t.Fatalf("%s is no occurrence of %s", id, w.s.Rule)
		}
	}
}

// With a clock that only goes forward each occurrence is either fired or
// recorded as skipped, exactly once, however many look and however they race.
func TestEachOccurrenceIsFiredOrSkippedExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, []Missed{MissedSkip, MissedOnce, MissedAll}, []Overlap{OverlapSkip, OverlapAllow})
		w.record.observed = w.policy
		for range rapid.IntRange(5, 120).Draw(t, "steps") {
			w.step()
		}
		w.settle()
		w.check()
		r := w.record
		if r.refused > 0 {
			t.Fatalf("%d occurrences were fired a second time", r.refused)
		}
		want := w.s.Rule.Occurrences(r.first, w.wall, 1<<20)
		if len(want) != len(r.tasks)+r.skipped {
			t.Fatalf("%d occurrences, %d fired and %d skipped", len(want), len(r.tasks), r.skipped)
		}
		for _, o := range want {
			_, fired := r.tasks[w.s.ID(o)]
			within := 0
			for _, k := range r.skips {
				if !o.Before(k.From) && !o.After(k.To) {
					within++
				}
			}
			if !fired && within != 1 {
				t.Fatalf("%s was not fired, and is in %d records of skips", o, within)
			}
		}
	})
}

// policy checks each decision against what the policies promise.
func (w *world) policy(d Decision, l Look) {
	missed, stand := 0, 0
	for _, k := range d.Skips {
		if k.Reason == SkipMissed {
			missed += k.Count
		}
	}
	for _, f := range d.Fires {
		stand += f.StandsFor - 1
		if w.s.Missed == MissedSkip && l.Now.Sub(f.At) > whileLooking {
			w.t.Fatalf("skip fired %s at %s", f.ID, l.Now)
		}
	}
	if w.s.Missed == MissedOnce && missed != stand {
		w.t.Fatalf("once: %d were missed, runs stand for %d", missed, stand)
	}
	if w.s.Missed == MissedAll && missed > 0 {
		w.t.Fatalf("all left out %d", missed)
	}
	if w.s.Missed == MissedAll && w.s.Overlap == OverlapAllow && len(d.Skips) > 0 {
		w.t.Fatalf("all and allow skipped: %+v", d.Skips)
	}
	if w.s.Overlap == OverlapSkip && w.s.Missed != MissedAll && (len(d.Fires) > 1 || l.Unfinished && len(d.Fires) > 0) {
		w.t.Fatalf("%d fired, one running already: %t", len(d.Fires), l.Unfinished)
	}
}

// With `all` and `allow` every occurrence that lies between the first look and
// the last is fired once, wherever the clock jumped meanwhile and in both
// directions: nothing is forgotten for an hour that was shown twice or for a
// year that was not.
func TestNothingIsForgottenWhateverTheClockDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, []Missed{MissedAll}, []Overlap{OverlapAllow})
		w.settle()
		latest := w.wall
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			w.step()
			if rapid.IntRange(0, 9).Draw(t, "jump?") == 0 {
				w.jump()
			}
			if w.wall.After(latest) {
				latest = w.wall
			}
		}
		w.wall = latest.Add(time.Hour)
		w.settle()
		w.check()
		for _, o := range w.s.Rule.Occurrences(w.record.first, w.wall, 1<<20) {
			if _, fired := w.record.tasks[w.s.ID(o)]; !fired {
				t.Fatalf("%s was forgotten", o)
			}
		}
	})
}

// jump sets the wall clock: by seconds, hours, days, or to another age.
func (w *world) jump() {
	by := time.Duration(rapid.IntRange(-3000, 3000).Draw(w.t, "by")) * time.Second
	switch rapid.IntRange(0, 3).Draw(w.t, "scale") {
	case 1:
		by *= 10
	case 2:
		by *= 40
	}
	w.wall = w.wall.Add(by)
}

// Once the clock is right again, a schedule is back to normal within a minute:
// each occurrence that comes while somebody looks runs, although the clock was
// a year ahead or decades behind before.
func TestAfterAWrongClockTheScheduleIsBackWithinAMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, []Missed{MissedSkip, MissedOnce}, []Overlap{OverlapAllow})
		for range rapid.IntRange(1, 30).Draw(t, "steps before") {
			w.step()
		}
		right := w.wall
		for range rapid.IntRange(0, 3).Draw(t, "wrong clocks") {
			w.wall = w.wall.Add(time.Duration(rapid.IntRange(-400*24, 400*24).Draw(t, "hours")) * time.Hour)
			for range rapid.IntRange(1, 20).Draw(t, "steps wrong") {
				w.step()
			}
		}
		for _, k := range w.lookers {
			k.commit(w.s, w.record) // decided under the wrong clock, written under the right one
		}
		w.wall = right
		k := &looker{}
		for w.wall.Before(right.Add(3 * time.Hour)) {
			k.read(w.record, w.wall)
			k.commit(w.s, w.record)
			w.finishAll()
			w.wall = w.wall.Add(poll)
		}
		w.check()
		until := w.wall.Add(-2 * poll)
		for _, o := range w.s.Rule.Occurrences(right.Add(time.Minute), until, 1<<20) {
			if _, fired := w.record.tasks[w.s.ID(o)]; !fired {
				t.Fatalf("%s did not run; tasks: %v", o, slices.Sorted(maps.Keys(w.record.tasks)))
			}
		}
	})
}

// A definition that changes while schedulers run: the old rule holds up to the
// change, the new one from it, and nothing falls between.
func TestAChangeNeitherForgetsNorRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, []Missed{MissedAll}, []Overlap{OverlapAllow})
		w.settle()
		begun := w.record.first
		want := map[string]bool{}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			for range rapid.IntRange(0, 20).Draw(t, "steps") {
				w.step()
			}
			// A look that was decided under the old rule and is written after the
			// change finds the row changed.
			stale := *w.lookers[0]
			old := w.s
			w.s, _ = anySchedule(t, []Missed{MissedAll}, []Overlap{OverlapAllow})
			if !w.s.Rule.Same(old.Rule) {
				for _, o := range old.Rule.Occurrences(begun, w.wall, 1<<20) {
					want[old.ID(o)] = true
				}
				begun = w.wall
			}
			look := Look{Now: w.wall, Poll: poll}
			w.record.write(w.record.state, w.s.Change(old, w.record.state, look), look)
			if !w.s.Rule.Same(old.Rule) && stale.pending != nil && stale.pending.read.ConsideredUntil != w.record.state.ConsideredUntil {
				before := len(w.record.tasks)
				stale.commit(old, w.record)
				if len(w.record.tasks) != before {
					t.Fatal("a decision by the old rule was written after the change")
				}
			}
			for _, k := range w.lookers {
				k.pending = nil
			}
		}
		w.wall = w.wall.Add(time.Hour)
		w.settle()
		for _, o := range w.s.Rule.Occurrences(begun, w.wall, 1<<20) {
			want[w.s.ID(o)] = true
		}
		got := slices.Sorted(maps.Keys(w.record.tasks))
		if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(got, wanted) {
			t.Fatalf("fired\n%v\nwant\n%v", got, fmt.Sprint(wanted))
		}
	})
}
