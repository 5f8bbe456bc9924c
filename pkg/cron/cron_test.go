package cron

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

func parse(t *testing.T, expr, zone string) *Rule {
	t.Helper()
	r, err := Parse(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if v, err := time.Parse(layout, s); err == nil {
			return v
		}
	}
	t.Fatalf("time %q", s)
	return time.Time{}
}

// shown lists the occurrences between two instants as the zone's wall clock.
func shown(t *testing.T, r *Rule, from, to string) string {
	t.Helper()
	var out []string
	for _, o := range r.Occurrences(at(t, from), at(t, to), 1000) {
		out = append(out, o.In(r.Zone()).Format("2T15:04-07:00"))
	}
	return strings.Join(out, " ")
}

// Daily rules were skipped in spring and ran twice in autumn; interval rules
// lost or gained an hour.
func TestTI03NightsOfTheClockChange(t *testing.T) {
	for _, c := range []struct{ name, expr, zone, from, to, want string }{
		{"Berlin, spring, daily: once, after the gap", "30 2 * * *", "Europe/Berlin", "2026-03-28", "2026-03-31",
			"28T02:30+01:00 29T03:00+02:00 30T02:30+02:00"},
		{"Berlin, autumn, daily: once, the first of two", "30 2 * * *", "Europe/Berlin", "2026-10-24", "2026-10-27",
			"24T02:30+02:00 25T02:30+02:00 26T02:30+01:00"},
		{"Berlin, spring, each quarter", "*/15 * * * *", "Europe/Berlin", "2026-03-29T00:29Z", "2026-03-29T01:31Z",
			"29T01:30+01:00 29T01:45+01:00 29T03:00+02:00 29T03:15+02:00 29T03:30+02:00"},
		{"Berlin, spring, hourly", "0 * * * *", "Europe/Berlin", "2026-03-28T23:59Z", "2026-03-29T02:00Z",
			"29T01:00+01:00 29T03:00+02:00 29T04:00+02:00"},
		{"Berlin, spring, half past each hour: no substitute", "30 * * * *", "Europe/Berlin", "2026-03-28T23:59Z", "2026-03-29T02:00Z",
			"29T01:30+01:00 29T03:30+02:00"},
		{"Berlin, autumn, hourly: both twos", "0 * * * *", "Europe/Berlin", "2026-10-24T22:59Z", "2026-10-25T02:00Z",
			"25T01:00+02:00 25T02:00+02:00 25T02:00+01:00 25T03:00+01:00"},
		{"Berlin, autumn, each half hour within two hours: real intervals", "*/30 2 * * *", "Europe/Berlin", "2026-10-24T22:59Z", "2026-10-25T03:00Z",
			"25T02:00+02:00 25T02:30+02:00 25T02:00+01:00 25T02:30+01:00"},
		{"Berlin, spring, the same: one run for all", "*/30 2 * * *", "Europe/Berlin", "2026-03-28T23:59Z", "2026-03-29T03:00Z",
			"29T03:00+02:00"},
		{"Berlin, spring, every second hour", "0 */2 * * *", "Europe/Berlin", "2026-03-28T22:59Z", "2026-03-29T03:00Z",
			"29T00:00+01:00 29T03:00+02:00 29T04:00+02:00"},
		{"New York, spring", "30 2 * * *", "America/New_York", "2026-03-07T12:00Z", "2026-03-09T12:00Z",
			"8T03:00-04:00 9T02:30-04:00"},
		{"New York, autumn", "30 1 * * *", "America/New_York", "2026-10-31T12:00Z", "2026-11-02T12:00Z",
			"1T01:30-04:00 2T01:30-05:00"},
		{"Lord Howe, spring: the half hour that is not", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00Z", "2026-10-05T00:00Z",
			"4T02:30+11:00 5T02:15+11:00"},
		{"Lord Howe, autumn: the half hour that is twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00Z", "2026-04-06T00:00Z",
			"5T01:45+11:00 6T01:45+10:30"},
		{"Lord Howe, autumn, interval", "*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:29Z", "2026-04-04T15:30Z",
			"5T01:30+11:00 5T01:45+11:00 5T01:30+10:30 5T01:45+10:30 5T02:00+10:30"},
		{"Apia, the day that was not: once on each day that was", "0 9 * * *", "Pacific/Apia", "2011-12-28T20:00Z", "2012-01-01T00:00Z",
			"29T09:00-10:00 31T09:00+14:00 1T09:00+14:00"},
		{"Apia, a rule for the day that was not", "0 9 30 * *", "Pacific/Apia", "2011-12-01", "2012-01-31",
			"31T00:00+14:00 30T09:00+14:00"},
		{"Casablanca, Ramadan begins: two hours of two", "30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", "2026-02-16T12:00Z",
			"15T02:30+01:00 16T02:30+00:00"},
		{"Casablanca, Ramadan ends: no hour of two", "30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00Z", "2026-03-23T12:00Z",
			"22T03:00+01:00 23T02:30+01:00"},
		{"Santiago: a day without midnight", "0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", "2026-09-07T12:00Z",
			"6T01:00-03:00 7T00:00-03:00"},
		{"Santiago: a day whose last hour is twice", "30 23 * * *", "America/Santiago", "2026-04-04T12:00Z", "2026-04-06T12:00Z",
			"4T23:30-03:00 5T23:30-04:00"},
		{"a substitute and a run of its own at the same minute are one", "0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T03:00Z",
			"29T03:00+02:00 29T03:30+02:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shown(t, parse(t, c.expr, c.zone), c.from, c.to)
			if want := strings.TrimSpace(c.want); got != want {
				t.Errorf("%q in %s:\n got %s\nwant %s", c.expr, c.zone, got, want)
			}
		})
	}
}

// An expression that never matches hung the process at full load, or was
// accepted and never ran.
func TestTI05ExpressionsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		expr   string
		column int
		says   string
	}{
		{"0 0 30 2 *", 5, "it would never run"},
		{"0 0 31 4,6,9,11 *", 5, "it would never run"},
		{"0 0 30 2 */2", 5, "it would never run"},
		{"61 * * * *", 1, `minute "61": end of range (61) above maximum (59)`},
		{"* * *", 0, "it has 3 fields; five are needed"},
		{"@fortnightly", 1, "unknown; known are @yearly"},
		{"0 0 L * *", 5, "of other programs"},
		{"0 0 15W * *", 5, "of other programs"},
		{"0 0 * * MON#2", 9, "of other programs"},
		{"0 0 ? * *", 5, "of other programs"},
		{"*/0 * * * *", 1, "step of range should be a positive number"},
		{"5-1 * * * *", 1, "the range ends before it begins; write 5-59,0-1"},
		{"0 0 * * FRI-MON", 9, "write FRI-6,0-MON"},
		{strings.Repeat(",", 4096), 0, "at most 1024 are read"},
		{"1,,2 * * * *", 3, "an empty place in the list"},
		{", * * * *", 1, "an empty place in the list"},
		{"*-5 * * * *", 1, "* already is the whole range"},
		{"+5 * * * *", 1, `"+5" is not a number`},
		{"-5 * * * *", 1, "a number is missing"},
		{"1-2-3 * * * *", 1, `"2-3" is not a number`},
		{"1/2/3 * * * *", 1, "the step after / must be a number"},
		{"10,20,x * * * *", 7, `minute "x": "x" is not a number`},
		{"0  24 * * *", 4, `hour "24": end of range (24) above maximum (23)`},
		{"0 0 0 * *", 5, "below minimum (1)"},
		{"0 0 32 * *", 5, "above maximum (31)"},
		{"0 0 1 13 *", 7, "above maximum (12)"},
		{"0 0 * * 8", 9, "not within 0-7"},
		{"0 0 * * 22", 9, "not within 0-7"},
		{"0 0 * * monday", 9, "names have three letters: MON"},
		{"0 0 * foo *", 7, "neither a number nor one of JAN FEB"},
		{"MON * * * *", 1, `"MON" is not a number`},
		{"99999999999999999999 * * * *", 1, "not within 0-59"},
		{"0 30 2 * * *", 12, "a sixth field"},
		{"TZ=UTC", 1, "a key of its own: zone"},
		{"CRON_TZ=Europe/Berlin 0 2 * * *", 1, "a key of its own: zone"},
		{"FOO=1 * * * * *", 1, "settings have no place"},
		{"@every 90s", 1, "a key of its own: every"},
		{"@reboot", 1, "not a time"},
		{"@daily 5", 8, "nothing may follow @daily"},
		{"", 0, "it is empty"},
		{" \t ", 0, "it is empty"},
		{"* * * * \xff", 0, "not valid UTF-8"},
		{"０ 0 * * *", 1, "is not a number"},
		{"每 0 * * *", 1, "is not a number"},
	} {
		start := time.Now()
		_, err := Parse(c.expr, "")
		var bad *ParseError
		if !errors.As(err, &bad) {
			t.Errorf("%q: %v, want a ParseError", cut(c.expr, 30), err)
			continue
		}
		if bad.Column != c.column || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q:\n got column %d: %v\nwant column %d: … %s", cut(c.expr, 30), bad.Column, err, c.column, c.says)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q took %s", cut(c.expr, 30), took)
		}
		if len(err.Error()) > 300 {
			t.Errorf("%q: a message of %d bytes", cut(c.expr, 30), len(err.Error()))
		}
	}
}

// The search gave up because eight years pass without a leap day.
func TestTI06LeapDaysAndLongMonths(t *testing.T) {
	for _, c := range []struct{ expr, zone, after, want string }{
		{"0 0 29 2 *", "", "2026-12-01", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2096-03-01", "2104-02-29T00:00:00Z"},
		{"0 0 29 2 *", "Europe/Berlin", "2096-03-01", "2104-02-28T23:00:00Z"},
		{"0 0 29 2 */7", "", "2088-03-01", "2128-02-29T00:00:00Z"}, // a Sunday: forty years on, over 2100
		{"0 12 * * *", "", "2028-02-28T13:00Z", "2028-02-29T12:00:00Z"},
		{"0 0 31 * *", "", "2026-01-31", "2026-03-31T00:00:00Z"},
		{"0 0 31 * *", "", "2026-03-31", "2026-05-31T00:00:00Z"},
		{"0 0 30 * *", "", "2026-01-31", "2026-03-30T00:00:00Z"},
		{"@monthly", "", "2026-01-31", "2026-02-01T00:00:00Z"},
		{"@yearly", "Asia/Shanghai", "2026-01-31", "2026-12-31T16:00:00Z"},
	} {
		got := parse(t, c.expr, c.zone).Next(at(t, c.after))
		if s := got.Format(time.RFC3339); s != c.want {
			t.Errorf("%q in %q after %s: %s, want %s", c.expr, c.zone, c.after, s, c.want)
		}
	}
}

// `0 2 10 12 3` was taken for "the 10th if it is a Wednesday"; Vixie's rule is
// either, unless a field begins with *.
func TestTI07DayOfMonthAndDayOfWeek(t *testing.T) {
	days := func(expr, from, to string) string {
		var out []string
		for _, o := range parse(t, expr, "").Occurrences(at(t, from), at(t, to), 100) {
			out = append(out, o.Format("Mon2"))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ expr, from, to, want string }{
		{"0 2 10 12 3", "2026-12-01", "2026-12-31", "Wed2 Wed9 Thu10 Wed16 Wed23 Wed30"},
		{"0 0 13 * 5", "2026-08-01", "2026-08-31", "Fri7 Thu13 Fri14 Fri21 Fri28"},
		{"0 0 1-7 * */7", "2026-08-01T01:00Z", "2026-10-31", "Sun2 Sun6 Sun4"},   // the first Sunday
		{"0 0 */10 * 1", "2026-08-01T01:00Z", "2026-12-31", "Mon31 Mon21 Mon21"}, // both, for the day begins with *
		{"0 0 * * 7", "2026-08-01T01:00Z", "2026-08-16", "Sun2 Sun9 Sun16"},
		{"0 0 * * 0,7", "2026-08-01T01:00Z", "2026-08-16", "Sun2 Sun9 Sun16"},
		{"0 0 * * 5-7", "2026-08-01T01:00Z", "2026-08-09", "Sun2 Fri7 Sat8 Sun9"},
		{"0 0 * * SAT-SUN", "2026-08-01T01:00Z", "2026-08-09", "Sun2 Sat8 Sun9"},
		{"0 0 * * MON-FRI", "2026-08-01T01:00Z", "2026-08-09", "Mon3 Tue4 Wed5 Thu6 Fri7"},
		{"0 0 * * Sun", "2026-08-01T01:00Z", "2026-08-09", "Sun2 Sun9"},
		{"0 0 * * 1-7/2", "2026-08-02T01:00Z", "2026-08-09", "Mon3 Wed5 Fri7 Sun9"},
		{"0 0 * * */2", "2026-08-02T01:00Z", "2026-08-09", "Tue4 Thu6 Sat8 Sun9"},
		{"0 0 * * 4/2", "2026-08-02T01:00Z", "2026-08-09", "Thu6 Sat8"},
		{"0 0 25/3 8 *", "2026-08-01", "2026-12-31", "Tue25 Fri28 Mon31"},
		{"0 0 1 jan,Jul *", "2026-08-01", "2027-12-31", "Fri1 Thu1"},
	} {
		if got := days(c.expr, c.from, c.to); got != c.want {
			t.Errorf("%q: %s, want %s", c.expr, got, c.want)
		}
	}
	hint := parse(t, "0 2 10 12 3", "").Hints()
	if len(hint) != 1 || !strings.Contains(hint[0], "either of them is enough") {
		t.Errorf("hints: %q", hint)
	}
}

func TestHintsNameWhatSurprises(t *testing.T) {
	for expr, says := range map[string]string{
		"*/7 * * * *":  "the last interval is shorter",
		"0 */24 * * *": "admits 0 only",
		"*/15 * * * *": "",
		"0 2 * * 1":    "",
		"0 2 1 * *":    "",
		"0 0 */2 * 1":  "",
	} {
		hints := strings.Join(parse(t, expr, "").Hints(), "; ")
		if !strings.Contains(hints, says) || (says == "" && hints != "") {
			t.Errorf("%q: %q", expr, hints)
		}
	}
}

// A minimal container knew no zone, or took an unknown one for UTC.
func TestTI13Zones(t *testing.T) {
	t.Setenv("ZONEINFO", "/nonexistent")
	for name, nearest := range map[string]string{
		"Europe/Berlim":       "Europe/Berlin",
		"europe/berlin":       "Europe/Berlin",
		"Berlin":              "Europe/Berlin",
		"Asia/Berlin":         "Europe/Berlin",
		"Asia/Beijing":        "Asia/Shanghai",
		"America/New York":    "America/New_York",
		"US/Pacifc":           "US/Pacific",
		"right/Europe/Berlin": "Europe/Berlin",
	} {
		_, err := Parse("0 2 * * *", name)
		var z *ZoneError
		if !errors.As(err, &z) || z.Nearest != nearest {
			t.Errorf("%q: %v, want the nearest to be %s", name, err, nearest)
		}
	}
	for _, name := range []string{"Local", "local", "localtime", "Nowhere/Nothing", "UTC+8", "+08:00", "../etc/passwd", "/etc/localtime", "Europe", strings.Repeat("x", 10_000)} {
		_, err := LoadZone(name)
		var z *ZoneError
		if !errors.As(err, &z) || len(err.Error()) > 300 {
			t.Errorf("%q: %v, want a short ZoneError", cut(name, 30), err)
		}
	}
	if r := parse(t, "0 2 * * *", ""); r.Zone() != time.UTC {
		t.Errorf("the empty zone is %s, want UTC", r.Zone())
	}
}

func TestEveryListedZoneLoads(t *testing.T) {
	for _, name := range strings.Fields(zoneNames) {
		if _, err := LoadZone(name); err != nil {
			t.Error(err)
		}
	}
}

// Three days of a schedule of every minute are computed when a worker starts.
func TestTI11ThreeDaysOfMinutes(t *testing.T) {
	start := time.Now()
	got := parse(t, "* * * * *", "Europe/Berlin").Occurrences(at(t, "2026-10-24"), at(t, "2026-10-27"), 1<<20)
	took := time.Since(start)
	if len(got) != 4320 {
		t.Errorf("%d occurrences, want 4320", len(got))
	}
	if took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	t.Logf("4320 occurrences in %s", took)
}

func TestFixedIntervals(t *testing.T) {
	r, err := Every(90 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Next(at(t, "2026-12-01T16:04:05Z")).Format(time.RFC3339); got != "2026-12-01T16:04:30Z" {
		t.Errorf("next is %s", got)
	}
	if got := r.Next(at(t, "2026-12-01T16:04:30Z")).Format(time.RFC3339); got != "2026-12-01T16:06:00Z" {
		t.Errorf("next is %s", got)
	}
	if got := len(r.Occurrences(at(t, "2026-12-01"), at(t, "2026-12-02"), 1<<20)); got != 960 {
		t.Errorf("%d a day, want 960", got)
	}
	for _, d := range []time.Duration{0, -time.Second, time.Millisecond, 1500 * time.Millisecond, MaxEvery + time.Second} {
		if _, err := Every(d); err == nil {
			t.Errorf("every %s was accepted", d)
		}
	}
}

func TestNextEndsWithTheYear9999(t *testing.T) {
	for _, expr := range []string{"* * * * *", "0 0 29 2 *"} {
		for _, zone := range []string{"", "Europe/Berlin", "Pacific/Apia"} {
			if got := parse(t, expr, zone).Next(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)); !got.IsZero() {
				t.Errorf("%q in %q: %s", expr, zone, got)
			}
		}
	}
}

func TestOccurrenceIDs(t *testing.T) {
	when := at(t, "2026-12-02T02:00:00+08:00")
	id := OccurrenceID("nightly", when)
	if id != "nightly@2026-12-01T18:00:00Z" {
		t.Errorf("id %s", id)
	}
	if name, back, ok := SplitOccurrenceID(id); !ok || name != "nightly" || !back.Equal(when) {
		t.Errorf("%s came back as %s %s %v", id, name, back, ok)
	}
	for _, bad := range []string{"", "nightly", "@2026-12-01T18:00:00Z", "x@2026-12-01", "x@2026-12-01T18:00:00.000Z", "x@2026-12-01T18:00:00+00:00"} {
		if _, _, ok := SplitOccurrenceID(bad); ok {
			t.Errorf("%q was taken for an occurrence", bad)
		}
	}
	for _, bad := range []string{"", "a@b", " a", "a ", "a\nb", strings.Repeat("x", 201)} {
		if CheckName(bad) == nil {
			t.Errorf("name %q was accepted", bad)
		}
	}
	for _, good := range []string{"nightly", "巡检", "a b", "x/y.z-1"} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
}

func TestSpreadIsStableAndEven(t *testing.T) {
	when, seen := at(t, "2026-12-01T18:00:00Z"), map[int]int{}
	for i := range 1000 {
		d := Spread("s", when.Add(time.Duration(i)*time.Hour), time.Minute)
		if d < 0 || d >= time.Minute || d%time.Millisecond != 0 {
			t.Fatalf("spread %s", d)
		}
		seen[int(d/(6*time.Second))]++
	}
	for tenth := range 10 {
		if n := seen[tenth]; n < 50 || n > 150 {
			t.Errorf("tenth %d has %d of 1000", tenth, n)
		}
	}
	if s, other := Spread("s", when, time.Minute), Spread("t", when, time.Minute); s != 41*time.Second+462*time.Millisecond || s == other {
		t.Errorf("spread is %s for s and %s for t: it must depend on schedule and occurrence alone", s, other)
	}
	if Spread("s", when, 0) != 0 || Spread("s", when, time.Microsecond) != 0 {
		t.Error("no jitter, no spread")
	}
}

// Where no guard of ours applies, the library's own search is a second opinion.
func TestUTCAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := anyField(t, &fields[0], "minute") + " " + anyField(t, &fields[1], "hour") + " " +
			anyField(t, &fields[2], "day") + " " + anyField(t, &fields[3], "month") + " *"
		r, err := Parse(expr, "UTC")
		if err != nil {
			t.Skip(err)
		}
		theirs, err := robfig.ParseStandard(expr)
		if err != nil {
			t.Fatal(err)
		}
		when := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "from"), 0).UTC()
		for range 5 {
			mine, other := r.Next(when), theirs.Next(when)
			if other.IsZero() {
				return // five years without one: it gives up, we do not
			}
			if !mine.Equal(other) {
				t.Fatalf("%q after %s: %s, the library says %s", expr, when, mine, other)
			}
			when = mine
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 1-3,7 1 JAN sun", "@daily", "0 0 29 2 */7", "TZ=x", "1-2/3,*/4 * * * 7"} {
		f.Add(s)
	}
	base := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expr string) {
		r, err := Parse(expr, "Europe/Berlin")
		if err != nil {
			return
		}
		got := r.Occurrences(base, base.AddDate(500, 0, 0), 3)
		if len(got) == 0 {
			t.Fatalf("%q was accepted and is never due", expr)
		}
		if !slices.IsSortedFunc(got, time.Time.Compare) || !got[0].After(base) {
			t.Fatalf("%q: %v", expr, got)
		}
	})
}

func BenchmarkNextMinute(b *testing.B) { benchmarkNext(b, "* * * * *") }
func BenchmarkNextDaily(b *testing.B)  { benchmarkNext(b, "30 2 * * *") }
func BenchmarkNextLeap(b *testing.B)   { benchmarkNext(b, "0 0 29 2 */7") }

func benchmarkNext(b *testing.B, expr string) {
	r, err := Parse(expr, "Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; b.Loop(); i++ {
		r.Next(start.Add(time.Duration(i%1000) * time.Hour))
	}
}
