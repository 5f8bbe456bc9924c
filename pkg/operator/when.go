package operator

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/cmdline"
)

// timeForms is the end of every message about a time that could not be read.
const timeForms = `write it like "2026-12-01 22:30", 22:30, 2026-12-01T22:30:00+08:00, 2026-12-01T14:30:00Z, now or @1796135400 (Unix seconds)`

// layouts are the forms of a time, with whether they carry a zone of their own.
var layouts = []struct {
	form  string
	zoned bool
}{
	{"2006-01-02T15:04:05.999999999Z07:00", true},
	{"2006-01-02T15:04:05.999999999Z0700", true},
	{"2006-01-02T15:04Z07:00", true},
	{"2006-01-02T15:04Z0700", true},
	{"2006-01-02T15:04:05.999999999", false},
	{"2006-01-02T15:04", false},
	{"2006-01-02", false},
}

var clockForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,2}:\d{2}(:\d{2})?$`) })

// ParseTime reads a time that a person wrote. Without a zone it is in loc, the
// zone of the person; a time of day alone is the next one. What can mean two
// things, or nothing, is refused rather than guessed.
func ParseTime(text string, now time.Time, loc *time.Location) (time.Time, error) {
	t, err := readTime(text, now, loc)
	if err == nil && (t.Unix() < minUnix || t.Unix() > maxUnix) {
		err = &cmdline.UsageError{Message: fmt.Sprintf("%q is no time: in UTC it is not in the years 0000 to 9999", text), Hint: timeForms}
	}
	return t, err
}

func readTime(text string, now time.Time, loc *time.Location) (time.Time, error) {
	s := strings.TrimSpace(text)
	bad := func(why string) (time.Time, error) {
		return time.Time{}, &cmdline.UsageError{Message: fmt.Sprintf("%q is no time%s", text, why), Hint: timeForms}
	}
	switch {
	case s == "":
		return bad(": it is empty")
	case s == "now":
		return now, nil
	case strings.HasPrefix(s, "@"):
		sec, err := strconv.ParseInt(s[1:], 10, 64)
		if err != nil || sec < 0 || sec > maxUnix {
			return bad(": after @ stand the seconds since 1970")
		}
		return time.Unix(sec, 0), nil
	case strings.Trim(s, "0123456789.") == "":
		return bad(fmt.Sprintf(": a bare number can be a date or a Unix time; for the latter write @%s", s))
	case clockForm().MatchString(s):
		return nextClock(s, text, now.In(loc))
	}
	// "2026-12-01 10:00", as date and sqlite print it, is the form with the T.
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + strings.TrimSpace(s[11:])
	}
	s = strings.Replace(s, " +", "+", 1)
	for _, l := range layouts {
		t, err := time.ParseInLocation(l.form, s, loc)
		if err != nil {
			continue
		}
		if !l.zoned {
			if written, err := time.ParseInLocation(l.form, s, time.UTC); err != nil || t.Format(l.form) != written.Format(l.form) {
				return bad(fmt.Sprintf(": the clocks of %s leave it out that night", loc))
			}
		}
		return t, nil
	}
	return bad("")
}

// The seconds of the years 0000 to 9999, which the stored form can hold.
const (
	minUnix = -62167219200
	maxUnix = 253402300799
)

// nextClock is the next time that a clock on the wall shows s.
func nextClock(s, text string, now time.Time) (time.Time, error) {
	form := "15:04"
	if strings.Count(s, ":") == 2 {
		form = "15:04:05"
	}
	if len(s) == len(form)-1 {
		s = "0" + s
	}
	clock, err := time.Parse(form, s)
	if err != nil {
		return time.Time{}, &cmdline.UsageError{Message: fmt.Sprintf("%q is no time of day", text), Hint: timeForms}
	}
	for day := range 3 {
		t := time.Date(now.Year(), now.Month(), now.Day()+day, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
		// A night whose clocks leave that time out is not the one that is meant.
		if t.After(now) && t.Hour() == clock.Hour() && t.Minute() == clock.Minute() {
			return t, nil
		}
	}
	return time.Time{}, &cmdline.UsageError{Message: fmt.Sprintf("%q does not come within two days", text), Hint: timeForms}
}

var durationWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?)\s*(milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|min|m|hours?|hrs?|h|days?|d|weeks?|w)\s*(?:,|and\b)?\s*`)
})

// ParseDuration reads a duration as the configuration writes it (1h30m, 30d) or
// in words ("1 day", "2 hours 30 minutes"). flag is for messages.
func ParseDuration(flag, text string) (time.Duration, error) {
	rest, short := strings.TrimSpace(text), ""
	for rest != "" && rest != "0" {
		m := durationWords().FindStringSubmatch(rest)
		if m == nil {
			break
		}
		short += m[1] + shortUnit(strings.ToLower(m[2]))
		rest = rest[len(m[0]):]
	}
	d, err := config.ParseDuration(short + rest)
	if err != nil {
		e := &cmdline.UsageError{Message: fmt.Sprintf("%s %q is no duration", flag, text), Hint: `write it like 90s, 5m, 1h30m, "1 day" or 30d`}
		if strings.Trim(rest, "0123456789") == "" && rest != "" && short == "" {
			e.Hint = fmt.Sprintf("it has no unit: %ss for seconds, %sm for minutes", rest, rest)
		}
		return 0, e
	}
	return d, nil
}

func shortUnit(word string) string {
	switch {
	case strings.HasPrefix(word, "ms"), strings.HasPrefix(word, "milli"):
		return "ms"
	default:
		return word[:1]
	}
}

// ParseOffset is ParseDuration for a time relative to now: it may be negative.
func ParseOffset(flag, text string) (time.Duration, error) {
	s := strings.TrimSpace(text)
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		d, err := ParseDuration(flag, rest)
		return -d, err
	}
	return ParseDuration(flag, strings.TrimPrefix(s, "+"))
}

// ParseSince reads the value of --since and --before: a time, or how long ago.
func ParseSince(flag, text string, now time.Time, loc *time.Location) (time.Time, error) {
	if d, err := ParseDuration(flag, strings.TrimSuffix(strings.TrimSpace(text), " ago")); err == nil {
		return now.Add(-d), nil
	}
	t, err := ParseTime(text, now, loc)
	if err != nil {
		return t, &cmdline.UsageError{
			Message: fmt.Sprintf("%s %q is neither a time nor a duration", flag, text),
			Hint:    `write it like 24h, 7d, "2026-12-01 22:30" or 2026-12-01T14:30:00Z`,
		}
	}
	// A time of day is read as the next one; what is asked here is the last one.
	if clockForm().MatchString(strings.TrimSpace(text)) {
		t = t.AddDate(0, 0, -1)
	}
	return t, nil
}

// ParseNumber reads a whole number of 64 bits, the kind that the database takes.
func ParseNumber(flag, text string, least int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, cmdline.Usagef("%s %q is no whole number between -9223372036854775808 and 9223372036854775807", flag, text)
	}
	if n < least {
		return 0, cmdline.Usagef("%s %d is too small; the least is %d", flag, n, least)
	}
	return n, nil
}
