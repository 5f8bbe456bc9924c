package operator

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"nightshift/pkg/task"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TI-01, TI-02: every way a person writes a time is the instant that was meant,
// or it is refused. A time without a zone is the caller's local time.
func TestTI01EveryWayATimeIsWritten(t *testing.T) {
	shanghai := zone(t, "Asia/Shanghai")
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, shanghai)
	for _, c := range []struct{ in, want string }{
		{"2026-12-01 10:00", "2026-12-01T02:00:00.000Z"},
		{" 2026-12-01 10:00", "2026-12-01T02:00:00.000Z"},
		{"2026-12-01 10:00:30", "2026-12-01T02:00:30.000Z"},
		{"2026-12-01T10:00", "2026-12-01T02:00:00.000Z"},
		{"2026-12-01T10:00:00+02:00", "2026-12-01T08:00:00.000Z"},
		{"2026-12-01T10:00:00+0200", "2026-12-01T08:00:00.000Z"},
		{"2026-12-01 10:00 +02:00", "2026-12-01T08:00:00.000Z"},
		{"2026-12-01T10:00:00Z", "2026-12-01T10:00:00.000Z"},
		{"2026-12-01T10:00:00.123456789Z", "2026-12-01T10:00:00.123Z"},
		{"2026-12-01", "2026-11-30T16:00:00.000Z"},
		{"now", "2026-12-01T01:00:00.000Z"},
		{"10:30", "2026-12-01T02:30:00.000Z"},
		{"8:30", "2026-12-02T00:30:00.000Z"}, // the next one is tomorrow's
		{"08:59:59", "2026-12-02T00:59:59.000Z"},
		{"@1767225600", "2026-01-01T00:00:00.000Z"},
	} {
		got, err := ParseTime(c.in, now, shanghai)
		if err != nil || task.FormatTime(got) != c.want {
			t.Errorf("%q is %s, %v, want %s", c.in, task.FormatTime(got), err, c.want)
		}
	}
	for _, in := range []string{
		"", "  ", "1767225600", "1767225600000", "2461000", "20261201", "2026", "2026-02-30", "2026-12-31T24:00:00Z",
		"2016-12-31T23:59:60Z", "10000-01-01", "tomorrow", "12/01/2026", "2026-12-01 10:00 CET", "25:00", "10:61", "@-1", "@1e9",
		"@999999999999999", "2026-12-01 10", "NULL", "10:30pm", "2026-12-01\n10:00",
	} {
		got, err := ParseTime(in, now, shanghai)
		if err == nil {
			t.Errorf("%q is taken for %s", in, task.FormatTime(got))
		} else if !strings.Contains(err.Error(), "is no time") {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := ParseTime("1767225600", now, shanghai); !strings.Contains(err.Error(), "@1767225600") {
		t.Errorf("a Unix time is refused without the right form: %v", err)
	}
}

// TI-03: the night on which 02:30 does not exist.
func TestTI03LocalTimesThatDoNotExist(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	now := time.Date(2026, 3, 28, 22, 0, 0, 0, berlin)
	if got, err := ParseTime("2026-03-29 02:30", now, berlin); err == nil {
		t.Errorf("a time that the clocks leave out is taken for %v", got)
	}
	got, err := ParseTime("02:30", now, berlin)
	if err != nil || task.FormatTime(got) != "2026-03-30T00:30:00.000Z" {
		t.Errorf("the next 02:30 is %v, %v", got, err)
	}
	if got, err := ParseTime("2026-10-25 02:30", now, berlin); err != nil || got.Format("2006-01-02 15:04") != "2026-10-25 02:30" {
		t.Errorf("a time that comes twice is %v, %v", got, err)
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "1 day": 24 * time.Hour, "30d": 30 * 24 * time.Hour, "2 hours 30 minutes": 150 * time.Minute,
		"90s": 90 * time.Second, " 5 min ": 5 * time.Minute, "1 hour and 5 min": 65 * time.Minute, "1 week": 7 * 24 * time.Hour,
		"0": 0, "500ms": 500 * time.Millisecond, "1.5h": 90 * time.Minute, "2 Hours": 2 * time.Hour,
	} {
		if got, err := ParseDuration("--in", in); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"30":         "it has no unit: 30s for seconds, 30m for minutes",
		"":           "is no duration",
		"soon":       "is no duration",
		"-5m":        "is no duration",
		"5 months":   "is no duration",
		"1e18s":      "is no duration",
		"1 day 2":    "is no duration",
		"99999999d":  "is no duration",
		"1h 1h":      "is no duration",
		"5m; rm -rf": "is no duration",
	} {
		if got, err := ParseDuration("--in", in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v, want an error with %q", in, got, err, want)
		}
	}
	if got, err := ParseOffset("--in", "-5m"); err != nil || got != -5*time.Minute {
		t.Errorf("a negative offset is %v, %v", got, err)
	}
	if got, err := ParseOffset("--in", "+1 day"); err != nil || got != 24*time.Hour {
		t.Errorf("a positive offset is %v, %v", got, err)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"24h": "2026-11-30T09:00:00.000Z", "7d": "2026-11-24T09:00:00.000Z", "2 hours ago": "2026-12-01T07:00:00.000Z",
		"2026-11-01": "2026-11-01T00:00:00.000Z", "22:30": "2026-11-30T22:30:00.000Z", "08:00": "2026-12-01T08:00:00.000Z",
	} {
		if got, err := ParseSince("--since", in, now, time.UTC); err != nil || task.FormatTime(got) != want {
			t.Errorf("%q is %s, %v, want %s", in, task.FormatTime(got), err, want)
		}
	}
	if _, err := ParseSince("--since", "yesterday", now, time.UTC); err == nil || !strings.Contains(err.Error(), "neither a time nor a duration") {
		t.Errorf("got %v", err)
	}
}

// IN-09, IN-14: numbers are whole and of 64 bits, or refused with the value.
func TestIN09Numbers(t *testing.T) {
	for in, want := range map[string]int64{"-9223372036854775808": -1 << 63, "-1": -1, "0": 0, " 8 ": 8, "9223372036854775807": 1<<63 - 1} {
		if got, err := ParseNumber("--priority", in, -1<<63); err != nil || got != want {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"9223372036854775808", "1.5", "high", "", "0x10", "1e3", "٣"} {
		if got, err := ParseNumber("--priority", in, -1<<63); err == nil || !strings.Contains(err.Error(), in) {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
	if _, err := ParseNumber("--max-retry", "-1", 0); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("got %v", err)
	}
}
