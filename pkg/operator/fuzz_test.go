package operator

import (
	"errors"
	"testing"
	"time"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/task"
)

// FuzzTimes: what a person writes as a time or a duration is refused in words for people, or is a
// time that the database can hold.
func FuzzTimes(f *testing.F) {
	for _, text := range []string{
		"2026-12-01 22:30", "22:30", "8:30:15", "2026-12-01T22:30:00+08:00", "2026-12-01T14:30:00Z", "2026-12-01", "now", "@1796135400", "@253402300799",
		"9999-12-31T23:59:00-10:00", "0000-01-01T00:00:00+10:00", "0000-01-01", "9999-12-31", "2026-03-29 02:30", "1 day", "2 hours 30 minutes", "1h30m", "30d", "-5m",
		"24h ago", "1e9h", "106751d", "0", "", " ", "\x00", "2026-12-01 10:00 +02:00",
	} {
		f.Add(text, int64(1796135400))
	}
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		now := time.Unix(unix%maxUnix, 0)
		check := func(what string, at time.Time, err error) {
			var usage *cmdline.UsageError
			switch {
			case err != nil && (!errors.As(err, &usage) || usage.Hint == "" && usage.Message == ""):
				t.Errorf("%s %q: %T %v", what, text, err, err)
			case err == nil:
				stored := task.FormatTime(at)
				if back, err := task.ParseTime(stored); err != nil || !back.Equal(at.Truncate(time.Millisecond)) {
					t.Errorf("%s %q is stored as %s: %v", what, text, stored, err)
				}
			}
		}
		at, err := ParseTime(text, now, loc)
		check("time", at, err)
		if d, err := ParseDuration("--x", text); err != nil {
			check("duration", now, err)
		} else if d < 0 {
			t.Errorf("duration %q is %v", text, d)
		}
	})
}
