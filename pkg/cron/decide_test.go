package cron

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func schedule(t *testing.T, d Definition) *Schedule {
	t.Helper()
	if d.Name == "" {
		d.Name = "s"
	}
	if d.Task == "" {
		d.Task = "job"
	}
	s, err := d.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// brief writes a decision in one line: the fired times, then the skips.
func brief(d Decision) string {
	var out []string
	for _, f := range d.Fires {
		s := f.At.Format("2T15:04:05")
		if f.StandsFor > 1 {
			s += fmt.Sprintf("(for %d)", f.StandsFor)
		}
		out = append(out, s)
	}
	for _, k := range d.Skips {
		s := fmt.Sprintf("-%s:%d", k.Reason, k.Count)
		if k.AtLeast {
			s += "+"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

var minutely = Definition{Cron: "* * * * *"}

func with(d Definition, change func(*Definition)) Definition {
	change(&d)
	return d
}

// After three days down a schedule of every minute ran 4,320 times at once, or
// not at all.
func TestTI11ThreeDaysDown(t *testing.T) {
	st := State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z"), Enabled: true}
	look := Look{Now: at(t, "2026-12-04T10:00:30Z"), Poll: 5 * time.Second}
	for missed, want := range map[Missed]string{
		MissedSkip: "-missed:4320",
		MissedOnce: "4T10:00:00(for 4320) -missed:4319",
	} {
		s := schedule(t, with(minutely, func(d *Definition) { d.Missed = missed }))
		if got := brief(s.Decide(st, look)); got != want {
			t.Errorf("%s: %s, want %s", missed, got, want)
		}
	}
	start := time.Now()
	all := schedule(t, with(minutely, func(d *Definition) { d.Missed = MissedAll })).Decide(st, look)
	if len(all.Fires) != 4320 || len(all.Skips) != 0 || !all.Queue {
		t.Errorf("all: %d fires, %d skips, want 4320 and none", len(all.Fires), len(all.Skips))
	}
	for i := 1; i < len(all.Fires); i++ {
		if !all.Fires[i].At.After(all.Fires[i-1].At) {
			t.Fatalf("fires are not in order: %s after %s", all.Fires[i].At, all.Fires[i-1].At)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	bounded := schedule(t, with(minutely, func(d *Definition) { d.Missed, d.MissedLimit = MissedAll, 100 })).Decide(st, look)
	if len(bounded.Fires) != 100 || !bounded.Fires[99].At.Equal(at(t, "2026-12-04T10:00:00Z")) || brief(Decision{Skips: bounded.Skips}) != "-missed_limit:4220" {
		t.Errorf("all, 100: %d fires, %s", len(bounded.Fires), brief(Decision{Skips: bounded.Skips}))
	}
}

// What is late by a poll, a restart or a busy database is not missed.
func TestLateIsNotMissed(t *testing.T) {
	s := schedule(t, Definition{Cron: "0 2 * * *", Missed: MissedSkip})
	before := at(t, "2026-12-01T12:00:00Z")
	for _, c := range []struct {
		name, now, since string
		want             string
	}{
		{"at once", "2026-12-02T02:00:00.002Z", "2026-12-01T12:00:00Z", "2T02:00:00"},
		{"a poll late", "2026-12-02T02:00:05Z", "2026-12-01T12:00:00Z", "2T02:00:00"},
		{"the database was busy for half a minute", "2026-12-02T02:00:30Z", "2026-12-01T12:00:00Z", "2T02:00:00"},
		{"the process began to look a moment ago", "2026-12-02T02:00:09Z", "2026-12-02T02:00:08Z", "2T02:00:00"},
		{"first look, seconds late", "2026-12-02T02:00:09Z", "", "2T02:00:00"},
		{"first look, half a minute late", "2026-12-02T02:00:30Z", "", "-missed:1"},
		{"began to look half a minute late", "2026-12-02T02:00:40Z", "2026-12-02T02:00:30Z", "-missed:1"},
		{"two minutes late", "2026-12-02T02:02:00Z", "2026-12-01T12:00:00Z", "-missed:1"},
	} {
		l := Look{Now: at(t, c.now), Poll: 5 * time.Second}
		if c.since != "" {
			l.Since = at(t, c.since)
		}
		if got := brief(s.Decide(State{ConsideredUntil: before, Enabled: true}, l)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestOnceIsOneRunForTheMissedAndThePresent(t *testing.T) {
	s := schedule(t, minutely)
	st := State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z"), Enabled: true}
	got := s.Decide(st, Look{Now: at(t, "2026-12-01T11:00:01Z"), Poll: 5 * time.Second})
	if want := "1T11:00:00(for 60) -missed:59"; brief(got) != want {
		t.Errorf("%s, want %s", brief(got), want)
	}
	if got.Skips[0].By != got.Fires[0].ID {
		t.Errorf("the skip names %q, want %s", got.Skips[0].By, got.Fires[0].ID)
	}
}

// The no-overlap rule forgot who was running when the scheduler restarted.
func TestDU07OverlapAfterARestart(t *testing.T) {
	st := State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z"), Enabled: true}
	late := Look{Now: at(t, "2026-12-01T10:05:30Z"), Poll: 5 * time.Second, Unfinished: true}
	onTime := Look{Now: at(t, "2026-12-01T10:01:00Z"), Poll: 5 * time.Second, Unfinished: true}
	for _, c := range []struct {
		name    string
		overlap Overlap
		look    Look
		want    string
	}{
		{"skip, on time", OverlapSkip, onTime, "-overlap:1"},
		{"skip, after a gap", OverlapSkip, late, "-overlap:5"},
		{"allow, on time", OverlapAllow, onTime, "1T10:01:00"},
		{"allow, after a gap", OverlapAllow, late, "1T10:05:00(for 5) -missed:4"},
	} {
		s := schedule(t, with(minutely, func(d *Definition) { d.Overlap = c.overlap }))
		if got := brief(s.Decide(st, c.look)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A job a little longer than its interval ran each second minute only, and
// nobody saw why.
func TestTI16LongerThanItsInterval(t *testing.T) {
	s := schedule(t, minutely)
	st := State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z"), Enabled: true}
	fired, skipped := 0, 0
	var runsUntil time.Time
	for now := at(t, "2026-12-01T10:00:00Z"); now.Before(at(t, "2026-12-01T10:20:30Z")); now = now.Add(time.Second) {
		d := s.Decide(st, Look{Now: now, Since: at(t, "2026-12-01T09:00:00Z"), Poll: 5 * time.Second, Unfinished: now.Before(runsUntil)})
		for range d.Fires {
			fired++
			runsUntil = now.Add(61 * time.Second)
		}
		for _, k := range d.Skips {
			skipped += k.Count
		}
		st = d.State
	}
	if fired != 10 || skipped != 10 {
		t.Errorf("%d fired, %d skipped, want 10 and 10", fired, skipped)
	}
}

func TestDisabledIsRecorded(t *testing.T) {
	st := State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z")}
	look := Look{Now: at(t, "2026-12-01T10:05:02Z"), Poll: 5 * time.Second}
	if got := brief(schedule(t, minutely).Decide(st, look)); got != "-disabled:5" {
		t.Errorf("by the operator: %s", got)
	}
	st.Enabled = true
	off := schedule(t, with(minutely, func(d *Definition) { d.Disabled = true }))
	if got := brief(off.Decide(st, look)); got != "-disabled:5" {
		t.Errorf("by the definition: %s", got)
	}
}

func TestAFirstSightFiresNothing(t *testing.T) {
	d := schedule(t, minutely).Decide(State{Enabled: true}, Look{Now: at(t, "2026-12-01T10:00:00Z")})
	if brief(d) != "" || !d.Changed || !d.State.ConsideredUntil.Equal(at(t, "2026-12-01T10:00:00Z")) {
		t.Errorf("%s %+v", brief(d), d)
	}
}

func TestNothingDueWritesNothing(t *testing.T) {
	d := schedule(t, Definition{Cron: "0 2 * * *"}).Decide(
		State{ConsideredUntil: at(t, "2026-12-01T10:00:00Z"), Enabled: true}, Look{Now: at(t, "2026-12-01T23:00:00Z")})
	if d.Changed || !d.Next.Equal(at(t, "2026-12-02T02:00:00Z")) {
		t.Errorf("%+v", d)
	}
}

// looks plays a list of clock readings through Decide, a table of ids beside it.
func looks(t *testing.T, s *Schedule, st State, readings ...string) (fired []string, last State) {
	t.Helper()
	table := map[string]bool{}
	for _, r := range readings {
		d := s.Decide(st, Look{Now: at(t, r), Poll: 5 * time.Second})
		for _, f := range d.Fires {
			if f.At.After(at(t, r)) {
				t.Errorf("%s fired early, at %s", f.ID, r)
			}
			if !table[f.ID] {
				table[f.ID] = true
				fired = append(fired, f.At.Format("2006-01-02T15:04"))
			}
		}
		st = d.State
	}
	return fired, st
}

// The timer drifted: seven seconds early, and once more at the hour.
func TestDU09AFewSecondsBack(t *testing.T) {
	s := schedule(t, Definition{Cron: "0 4 * * *"})
	st := State{ConsideredUntil: at(t, "2026-12-01T12:00:00Z"), Enabled: true}
	fired, _ := looks(t, s, st,
		"2026-12-02T03:59:53Z", "2026-12-02T03:59:59.999Z", "2026-12-02T04:00:00Z", // fires
		"2026-12-02T03:59:52Z", "2026-12-02T04:00:00Z", "2026-12-02T04:00:05Z", "2026-12-02T05:00:00Z")
	if got := strings.Join(fired, " "); got != "2026-12-02T04:00" {
		t.Errorf("fired %s", got)
	}
}

// The clock set back three hours: nothing fires twice for the repeated hours.
func TestTI08ClockSetBackThreeHours(t *testing.T) {
	s := schedule(t, with(Definition{Cron: "0 * * * *"}, func(d *Definition) { d.Overlap = OverlapAllow }))
	st := State{ConsideredUntil: at(t, "2026-12-01T09:30:00Z"), Enabled: true}
	fired, last := looks(t, s, st,
		"2026-12-01T10:00:01Z", "2026-12-01T11:00:01Z", "2026-12-01T12:00:01Z", "2026-12-01T13:00:01Z",
		"2026-12-01T10:00:06Z", // three hours back
		"2026-12-01T11:00:02Z", "2026-12-01T12:00:02Z", "2026-12-01T13:00:02Z", "2026-12-01T14:00:02Z")
	if got, want := strings.Join(fired, " "), "2026-12-01T10:00 2026-12-01T11:00 2026-12-01T12:00 2026-12-01T13:00 2026-12-01T14:00"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
	if !last.High.IsZero() {
		t.Errorf("the clock is past where it had been, and High still is %s", last.High)
	}
}

// A machine without a battery boots in 2000 and learns the time later; another
// is a year ahead for a moment.
func TestTI09WrongByYears(t *testing.T) {
	daily := schedule(t, Definition{Cron: "0 2 * * *", Overlap: OverlapAllow})
	all := schedule(t, Definition{Cron: "0 2 * * *", Overlap: OverlapAllow, Missed: MissedAll})
	st := State{ConsideredUntil: at(t, "2026-11-30T02:00:01Z"), Enabled: true}

	fired, _ := looks(t, daily, st, "2000-01-01T00:00:10Z", "2000-01-01T00:01:00Z", "2026-12-01T10:00:00Z", "2026-12-02T02:00:00Z")
	if got := strings.Join(fired, " "); got != "2026-12-01T02:00 2026-12-02T02:00" {
		t.Errorf("booted in 2000: fired %s", got)
	}
	fired, _ = looks(t, all, st, "2000-01-01T00:00:10Z", "2026-12-02T10:00:00Z")
	if got := strings.Join(fired, " "); got != "2026-12-01T02:00 2026-12-02T02:00" {
		t.Errorf("booted in 2000, all: fired %s", got)
	}
	fired, _ = looks(t, daily, State{Enabled: true}, "2000-01-01T00:00:10Z", "2026-12-01T10:00:00Z")
	if got := strings.Join(fired, " "); got != "2026-12-01T02:00" {
		t.Errorf("first seen in 2000: fired %s", got)
	}
	fired, last := looks(t, daily, st,
		"2026-12-01T02:00:00Z",
		"2027-12-01T10:00:00Z", // a year ahead: one for all
		"2026-12-01T10:00:10Z", // and back
		"2026-12-02T02:00:00Z", "2026-12-03T02:00:01Z",
		"2026-12-06T12:00:00Z") // days down, in the year that was thought to be over
	if got, want := strings.Join(fired, " "), "2026-12-01T02:00 2027-12-01T02:00 2026-12-02T02:00 2026-12-03T02:00 2026-12-06T02:00"; got != want {
		t.Errorf("a year ahead: fired %s, want %s", got, want)
	}
	if !last.High.Equal(at(t, "2027-12-01T10:00:00Z")) {
		t.Errorf("High is %s", last.High)
	}
	every := schedule(t, Definition{Cron: "* * * * *"})
	d := every.Decide(State{ConsideredUntil: at(t, "1970-01-01T00:00:10Z"), Enabled: true}, Look{Now: at(t, "2026-12-01T10:00:30Z")})
	if got := brief(d); got != "1T10:00:00(for 100000) -missed:99999+" {
		t.Errorf("since 1970: %s", got)
	}
}

// An occurrence whose time fell into the seconds of a wrong clock still runs.
func TestAnOccurrenceWithinAWrongClockRuns(t *testing.T) {
	s := schedule(t, Definition{Cron: "0 10 * * *", Overlap: OverlapAllow})
	st := State{ConsideredUntil: at(t, "2026-12-01T09:00:00Z"), Enabled: true}
	fired, _ := looks(t, s, st, "2026-12-01T09:59:50Z", "2027-12-01T09:59:55Z", "2026-12-01T10:00:03Z")
	if got, want := strings.Join(fired, " "), "2027-11-30T10:00 2026-12-01T10:00"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
}

func TestAClockSetBackIsSaid(t *testing.T) {
	d := schedule(t, minutely).Decide(State{ConsideredUntil: at(t, "2026-12-01T13:00:00Z"), Enabled: true}, Look{Now: at(t, "2026-12-01T10:00:30Z")})
	if d.Back != 3*time.Hour-30*time.Second || !d.Changed || !d.State.High.Equal(at(t, "2026-12-01T13:00:00Z")) {
		t.Errorf("%+v", d)
	}
}

func TestAChangedDefinition(t *testing.T) {
	two := schedule(t, Definition{Cron: "0 2 * * *"})
	three := schedule(t, Definition{Cron: "0 3 * * *"})
	st := State{ConsideredUntil: at(t, "2026-12-01T02:00:00Z"), Enabled: true}

	live := three.Change(two, st, Look{Now: at(t, "2026-12-01T12:00:00Z"), Since: at(t, "2026-12-01T00:00:00Z")})
	if brief(live) != "" || !live.Changed || !live.State.ConsideredUntil.Equal(at(t, "2026-12-01T12:00:00Z")) || !live.Next.Equal(at(t, "2026-12-02T03:00:00Z")) {
		t.Errorf("while it ran: %s %+v", brief(live), live)
	}
	down := three.Change(two, st, Look{Now: at(t, "2026-12-02T05:00:00Z")})
	if got := brief(down); got != "2T02:00:00" {
		t.Errorf("while it was down, what the old rule missed: %s", got)
	}
	if next := three.Decide(down.State, Look{Now: at(t, "2026-12-03T03:00:00Z")}); brief(next) != "3T03:00:00" {
		t.Errorf("then the new rule: %s", brief(next))
	}
	same := schedule(t, Definition{Cron: "0  2 * * *", Missed: MissedSkip})
	if d := same.Change(two, st, Look{Now: at(t, "2026-12-02T05:00:00Z")}); d.Changed || brief(d) != "" {
		t.Errorf("only the policy changed: %s %+v", brief(d), d)
	}
	back := three.Change(nil, st, Look{Now: at(t, "2026-12-09T05:00:00Z")})
	if brief(back) != "" || !back.State.ConsideredUntil.Equal(at(t, "2026-12-09T05:00:00Z")) {
		t.Errorf("it had been taken out: %s %+v", brief(back), back)
	}
}

func TestDefinitionsThatAreRefused(t *testing.T) {
	good := Definition{Name: "s", Cron: "0 2 * * *", Task: "job"}
	for key, change := range map[string]func(*Definition){
		"name":         func(d *Definition) { d.Name = "a@b" },
		"cron":         func(d *Definition) { d.Cron = "0 25 * * *" },
		"zone":         func(d *Definition) { d.Zone = "Europe/Berlim" },
		"every":        func(d *Definition) { d.Every = "90s" },
		"task":         func(d *Definition) { d.Task = "" },
		"payload":      func(d *Definition) { d.Payload = []byte("{") },
		"missed":       func(d *Definition) { d.Missed = "twice" },
		"missed_limit": func(d *Definition) { d.MissedLimit = -1 },
		"overlap":      func(d *Definition) { d.Overlap = "kill" },
		"jitter":       func(d *Definition) { d.Jitter = "-5s" },
	} {
		_, err := with(good, change).Compile()
		var bad *DefinitionError
		if !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, d := range map[string]Definition{
		"cron":  {Name: "s", Task: "job"},
		"every": {Name: "s", Task: "job", Every: "soon"},
		"zone":  {Name: "s", Task: "job", Every: "90s", Zone: "Europe/Berlin"},
	} {
		_, err := d.Compile()
		var bad *DefinitionError
		if !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestDefinitionsComeBackAsTheyWere(t *testing.T) {
	seven := int64(7)
	d := Definition{Name: "s", Cron: "0 2 * * *", Zone: "Asia/Shanghai", Task: "job", Payload: []byte(`{"n":12345678901234567890}`),
		Priority: &seven, Missed: MissedAll, MissedLimit: 5, Overlap: OverlapAllow, Jitter: "30s", Disabled: true}
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := back.Encode(); err != nil || again != text {
		t.Errorf("%s came back as %s (%v)", text, again, err)
	}
	if _, err := Decode(`{"name":"s","cron":"* * * * *","colour":"red"}`); err == nil {
		t.Error("the definition of a newer version was accepted")
	}
}
