package cron

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The oracle computes occurrences by looking at the wall clock in every single
// minute. It shares with the rule what the five fields admit, and nothing of how
// offsets are handled.
type oracle struct {
	rule  *Rule
	shown map[int64][]int64 // minute of the wall clock → the instants (minutes of UTC) that show it
	local []int64           // what the wall clock shows, minute by minute
	first int64             // minute of UTC of local[0]
}

func newOracle(r *Rule, from, to time.Time) *oracle {
	o := &oracle{rule: r, shown: map[int64][]int64{}, first: from.Unix()/60 - 4*1440}
	for u := o.first; u <= to.Unix()/60+4*1440; u++ {
		t := time.Unix(u*60, 0).In(r.zone)
		wall := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC).Unix() / 60
		o.shown[wall] = append(o.shown[wall], u)
		o.local = append(o.local, wall)
	}
	return o
}

func (o *oracle) admitted(wall int64) bool {
	t := time.Unix(wall*60, 0).UTC()
	c := &o.rule.cal
	has := func(set uint64, n int) bool { return set>>uint(n)&1 == 1 }
	return has(c.minutes, t.Minute()) && has(c.hours, t.Hour()) && o.admittedDay(wall)
}

func (o *oracle) admittedDay(wall int64) bool {
	t := time.Unix(wall*60, 0).UTC()
	c := &o.rule.cal
	has := func(set uint64, n int) bool { return set>>uint(n)&1 == 1 }
	date, weekday := has(c.days, t.Day()), has(c.weekdays, int(t.Weekday()))
	if c.eitherDay {
		return has(c.months, int(t.Month())) && (date || weekday)
	}
	return has(c.months, int(t.Month())) && date && weekday
}

// afterGap is the first minute whose wall clock is beyond one that never showed.
func (o *oracle) afterGap(wall int64) (utc, shows int64, ok bool) {
	for i := 1; i < len(o.local); i++ {
		if o.local[i-1] < wall && o.local[i] > wall {
			return o.first + int64(i), o.local[i], true
		}
	}
	return 0, 0, false
}

func (o *oracle) dayExists(wall int64) bool {
	day := wall / 1440 * 1440
	for m := day; m < day+1440; m++ {
		if len(o.shown[m]) > 0 {
			return true
		}
	}
	return false
}

// occurrences lists those with from < t <= to.
func (o *oracle) occurrences(from, to time.Time) []time.Time {
	set := map[int64]bool{}
	low, high := slices.Min(o.local), slices.Max(o.local)
	for wall := low; wall <= high; wall++ {
		if !o.admitted(wall) {
			continue
		}
		at := o.shown[wall]
		switch {
		case len(at) > 0 && o.rule.cal.repeats:
			for _, u := range at {
				set[u] = true
			}
		case len(at) > 0:
			set[at[0]] = true
		case !o.rule.cal.everyHour:
			u, shows, ok := o.afterGap(wall)
			if ok && (o.dayExists(wall) || !o.admittedDay(shows)) {
				set[u] = true
			}
		}
	}
	var out []time.Time
	for u := range set {
		if t := time.Unix(u*60, 0).UTC(); t.After(from) && !t.After(to) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// nights are places and times where a zone's offset changes, the odd ones first.
var nights = []struct{ zone, from, to string }{
	{"America/New_York", "2026-03-06", "2026-03-11"},
	{"America/New_York", "2026-10-30", "2026-11-04"},
	{"Europe/Berlin", "2026-03-27", "2026-03-31"},
	{"Europe/Berlin", "2026-10-23", "2026-10-27"},
	{"Australia/Lord_Howe", "2026-04-03", "2026-04-07"}, // half an hour
	{"Australia/Lord_Howe", "2026-10-02", "2026-10-06"},
	{"Pacific/Apia", "2011-12-28", "2012-01-02"},      // no 30 December
	{"Africa/Casablanca", "2026-02-13", "2026-02-17"}, // Ramadan: an hour back
	{"Africa/Casablanca", "2026-03-20", "2026-03-24"}, // and on again
	{"America/Santiago", "2026-09-04", "2026-09-08"},  // no midnight
	{"America/Santiago", "2026-04-03", "2026-04-07"},  // two hours of 23
	{"Antarctica/Troll", "2026-03-27", "2026-03-31"},  // two hours
	{"Pacific/Kwajalein", "1993-08-19", "1993-08-24"}, // no 21 August
	{"America/Caracas", "2007-12-07", "2007-12-11"},   // half an hour back for good
	{"Europe/Dublin", "2026-03-27", "2026-03-31"},     // summer is standard time
	{"Asia/Shanghai", "2026-02-26", "2026-03-03"},     // nothing
}

// anyField draws a field of an expression.
func anyField(t *rapid.T, f *field, label string) string {
	low := rapid.IntRange(f.min, f.max).Draw(t, label)
	high := rapid.IntRange(low, f.max).Draw(t, label+"-")
	step := rapid.IntRange(1, 1+(f.max-f.min)/2).Draw(t, label+"/")
	switch rapid.IntRange(0, 6).Draw(t, label+" form") {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", step)
	case 3:
		return fmt.Sprintf("%d-%d", low, high)
	case 4:
		return fmt.Sprintf("%d,%d", low, high)
	case 5:
		return fmt.Sprintf("%d-%d/%d", low, high, step)
	}
	return fmt.Sprint(low)
}

// anyExpr favours days that occur within a week, or little would be compared.
func anyExpr(t *rapid.T) string {
	expr := anyField(t, &fields[0], "minute") + " " + anyField(t, &fields[1], "hour")
	if rapid.IntRange(0, 3).Draw(t, "days") > 0 {
		return expr + " * * *"
	}
	return expr + " " + anyField(t, &fields[2], "day") + " * " + anyField(t, &fields[4], "weekday")
}

func TestEveryMinuteOfTheOddNightsAgreesWithTheWallClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nights[rapid.IntRange(0, len(nights)-1).Draw(t, "night")]
		expr := anyExpr(t)
		r, err := Parse(expr, n.zone)
		if err != nil {
			t.Skip(err) // a day that never is
		}
		from, to := day(t, n.from), day(t, n.to)
		got, want := r.Occurrences(from, to, 1<<20), newOracle(r, from, to).occurrences(from, to)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%q in %s, %s to %s:\n%s", expr, n.zone, n.from, n.to, difference(r, got, want))
		}
	})
}

func day(t interface{ Fatal(...any) }, s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func difference(r *Rule, got, want []time.Time) string {
	out := ""
	for _, g := range got {
		if !slices.ContainsFunc(want, g.Equal) {
			out += "too many: " + g.In(r.zone).Format(time.RFC3339) + "\n"
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, w.Equal) {
			out += "missing: " + w.In(r.zone).Format(time.RFC3339) + "\n"
		}
	}
	return out
}

func TestNextLastAndOccurrencesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nights[rapid.IntRange(0, len(nights)-1).Draw(t, "night")]
		r, err := Parse(anyExpr(t), n.zone)
		if err != nil {
			t.Skip(err)
		}
		from := day(t, n.from).Add(time.Duration(rapid.IntRange(0, 86400*1000).Draw(t, "ms")) * time.Millisecond)
		to := day(t, n.to)
		all := r.Occurrences(from, to, 1<<20)
		at, i := from, 0
		for ; i < min(len(all), 200); i++ {
			if at = r.Next(at); !at.Equal(all[i]) {
				t.Fatalf("Next gives %s, Occurrences %s", at, all[i])
			}
		}
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		last := r.Last(from, to, limit)
		if want := all[max(0, len(all)-limit):]; !slices.EqualFunc(last, want, time.Time.Equal) {
			t.Fatalf("Last gives %v, want %v", last, want)
		}
	})
}
