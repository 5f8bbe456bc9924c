package renderreport

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/task"
)

func render(t *testing.T, f *Facts, title string, zone *time.Location) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, f, title, zone); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTextStaysText: whatever stands in an id, a type or an error, no element,
// attribute or invisible character comes of it.
func TestTextStaysText(t *testing.T) {
	f := busyNight()
	f.Host, f.Version = hostile, hostile
	f.Disk.DataDir = hostile
	f.Schedules[0].Name, f.Schedules[0].Skips[0].Reason = hostile, hostile
	f.Workers[0] = Worker{ID: hostile, Host: hostile, Version: hostile, Standing: Standing(hostile)}
	f.Timeline.Lanes[0].Executor = hostile
	f.Timeline.Lanes[0].Bars[0].Outcome = hostile
	f.Active[0].Progress, f.Active[0].Executor, f.Active[0].Reason = hostile, hostile, task.Reason(hostile)
	f.Incidents[0].Reason = task.Reason(hostile)
	f.Breaks[0].Executor = hostile
	f.Retried[0].Cause = hostile
	page := render(t, f, hostile, shanghai)
	for _, bad := range []string{"<script", "\x1b", "\x00", "\u202e", "\xff"} {
		if i := strings.Index(page, bad); i >= 0 {
			t.Errorf("%q stands in the page: …%q…", bad, page[max(0, i-80):i+40])
		}
	}
	if !json.Valid([]byte(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(page) + `"`)) {
		t.Error("the page is not clean text")
	}
	// Only elements that the templates hold.
	for _, m := range regexp.MustCompile(`<([a-zA-Z!][^\s>/]*)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(pageText+`<time`, "<"+m[1]) {
			t.Errorf("an element <%s> that is not ours", m[1])
		}
	}
	if n := len(regexp.MustCompile(`(?i)\son[a-z]+\s*=|javascript:|<link|<img|<iframe|url\(`).FindAllString(page, -1)); n > 0 {
		t.Errorf("%d handlers or references", n)
	}
}

// TestSelfContained: nothing is fetched from anywhere.
func TestSelfContained(t *testing.T) {
	page := render(t, busyNight(), "Shift report", shanghai)
	for _, m := range regexp.MustCompile(`(?:src|href|action|data)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") {
			t.Errorf("the page refers to %s", m[1])
		}
	}
	for _, link := range regexp.MustCompile(`href="#([a-z]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("the link to #%s leads nowhere", link[1])
		}
	}
	if !strings.Contains(page, `content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;"`) && !strings.Contains(page, `default-src 'none'`) {
		t.Error("no policy forbids the rest")
	}
}

// TestEveryFindingLeadsToItsSection, in every kind of night.
func TestEveryFindingLeadsToItsSection(t *testing.T) {
	for name, f := range map[string]*Facts{"busy": busyNight(), "quiet": quietNight(), "empty": emptyNight(), "heavy": heavyNight()} {
		page := render(t, f, "Shift report", time.UTC)
		for _, x := range findings(f) {
			if !strings.Contains(page, `id="`+x.Link+`"`) {
				t.Errorf("%s: %q leads to #%s, which is not there", name, x.Text, x.Link)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		facts    func() *Facts
		tone     string
		headline string
		detail   string
	}{
		"empty":    {emptyNight, "idle", "Nothing ran", "No execution ended; nothing waits; no worker has ever reported."},
		"quiet":    {quietNight, "good", "A quiet shift: nothing failed", "All 96 executions that ended succeeded; 3 tasks are planned."},
		"busy":     {busyNight, "bad", "9 tasks failed, 1 task is lost", "398 of 432 executions ended in success; 3 tasks run now; 21 tasks wait to run."},
		"one slow": {func() *Facts { f := quietNight(); f.SlowTotal = 1; return f }, "look", "1 task is slow", ""},
		"work waits, nobody there": {func() *Facts {
			f := quietNight()
			f.Workers[0].Standing = Dead
			f.Waiting.Due, f.Waiting.Oldest = 5, []WaitingTask{{ID: "x", Type: "y", Due: at(11.9)}}
			return f
		}, "bad", "Work waits, and no worker is there", ""},
		"a queue that is worked off": {func() *Facts {
			f := quietNight()
			f.Waiting.Due, f.Waiting.Oldest = 5, []WaitingTask{{ID: "x", Type: "y", Due: at(11.9)}}
			return f
		}, "good", "A quiet shift: nothing failed", ""},
		"something late": {func() *Facts {
			f := quietNight()
			f.Waiting.Due, f.Waiting.Oldest = 5, []WaitingTask{{ID: "x", Type: "y", Due: at(11)}}
			return f
		}, "look", "Nothing failed, but there is something to look at", ""},
		"the disk is nearly full": {func() *Facts { f := quietNight(); f.Disk.Free = 1e9; return f }, "look", "Nothing failed, but there is something to look at", ""},
	} {
		v := judge(c.facts())
		if v.Tone != c.tone || v.Headline != c.headline || c.detail != "" && v.Detail != c.detail {
			t.Errorf("%s: %s %q %q", name, v.Tone, v.Headline, v.Detail)
		}
	}
}

// TestSavedFactsAreTheFacts: what is read back is what was saved, so that a
// resumed report is the same.
func TestSavedFactsAreTheFacts(t *testing.T) {
	once := throughJSON(t, heavyNight()) // bytes that are no text are replaced here
	if twice := throughJSON(t, once); !reflect.DeepEqual(once, twice) {
		t.Error("the facts change when they are read back")
	}
	if quiet := quietNight(); !reflect.DeepEqual(quiet, throughJSON(t, quiet)) {
		t.Error("a field of the facts is not saved")
	}
}

func throughJSON(t *testing.T, f *Facts) *Facts {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Facts
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

// TestSmall: a page stays small, whatever the night was like.
func TestSmall(t *testing.T) {
	f := heavyNight()
	for range MaxLanes - len(f.Timeline.Lanes) {
		f.Timeline.Lanes = append(f.Timeline.Lanes, f.Timeline.Lanes[0])
	}
	for range MaxTypes - len(f.Types) {
		f.Types = append(f.Types, f.Types[0])
	}
	if n := len(render(t, f, "Shift report", shanghai)); n > 200<<10 {
		t.Errorf("%d bytes", n)
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 999 * time.Microsecond: "0 s", 80 * time.Millisecond: "80 ms", 1900 * time.Millisecond: "1.9 s", 3 * time.Second: "3 s",
		59 * time.Second: "59 s", 59*time.Second + 700*time.Millisecond: "1 min", 61 * time.Second: "1 min 1 s", 59*time.Minute + 59*time.Second: "59 min 59 s",
		59*time.Minute + 59*time.Second + 600*time.Millisecond: "1 h", 2*time.Hour + 3*time.Minute: "2 h 3 min", 47 * time.Hour: "47 h", 50 * time.Hour: "2 d 2 h",
		400 * 24 * time.Hour: "400 d", -5 * time.Second: "−5 s",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) is %q, wanted %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1204331: "1,204,331", -1000: "−1,000"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) is %q, wanted %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1500: "2 kB", 2_100_000: "2.1 MB", 48_000_000: "48 MB", 10_000_000_000: "10.0 GB", 250_000_000_000: "250 GB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("bytesOf(%d) is %q, wanted %q", n, got, want)
		}
	}
	for s, want := range map[string]string{
		"nightly@2026-12-01T02:00:00Z": "nightly@2026-12-01T02:00:00Z", "a b": "'a b'", "it's": `'it'\''s'`, "-x": "-- '-x'", "$(x)": "'$(x)'", "": "''",
	} {
		if got := shellWord(s); got != want {
			t.Errorf("shellWord(%q) is %s, wanted %s", s, got, want)
		}
	}
	for s, want := range map[string]string{
		"naïve 表格 ☕": "naïve 表格 ☕", "a\nb\tc": "a⏎ b c", "\x1b[31m": `\x1b[31m`, "\u202egpj": `\u202egpj`, "\xffx": `\xffx`, "\u0085": `\u0085`,
	} {
		if got := clean(s); got != want {
			t.Errorf("clean(%q) is %q, wanted %q", s, got, want)
		}
	}
}

// TestTicksOnOddNights: the axis has round times of the wall clock in the nights
// in which it is set, and in zones that are not whole hours away.
func TestTicksOnOddNights(t *testing.T) {
	for _, c := range []struct {
		zone  string
		since string
		hours int
		want  string
	}{
		{"Asia/Shanghai", "2026-12-01T12:00:00Z", 12, "20:00 22:00 00:00 02:00 04:00 06:00 08:00"},
		{"Asia/Kolkata", "2026-12-01T12:15:00Z", 12, "18:00 20:00 22:00 00:00 02:00 04:00"},
		{"Europe/Berlin", "2026-10-24T20:00:00Z", 12, "22:00 00:00 02:00 04:00 06:00 08:00"}, // 03:00 twice
		{"Europe/Berlin", "2026-03-28T20:00:00Z", 12, "22:00 00:00 03:00 04:00 06:00 08:00 10:00"},
		{"UTC", "2026-12-01T12:00:00Z", 1, "12:00 12:10 12:20 12:30 12:40 12:50 13:00"},
		{"UTC", "2026-12-01T12:00:00Z", 24 * 30, "8 Dec 15 Dec 22 Dec 29 Dec"},
	} {
		since, err := time.Parse(time.RFC3339, c.since)
		if err != nil {
			t.Fatal(err)
		}
		w := Window{since, since.Add(time.Duration(c.hours) * time.Hour)}
		var got []string
		last := -1
		for _, k := range ticks(clock{zone: mustZone(c.zone), window: w}) {
			got = append(got, k.Label)
			if k.X <= last {
				t.Errorf("%s %s: the ticks go back", c.zone, c.since)
			}
			last = k.X
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s from %s: %s, wanted %s", c.zone, c.since, s, c.want)
		}
	}
}
