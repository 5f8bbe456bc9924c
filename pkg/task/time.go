package task

import (
	"fmt"
	"time"
)

// TimeLayout is the one form in which a time is stored: UTC ISO 8601 of fixed
// width with milliseconds, so that the order of the texts is the order of the
// times (the seed, §5.2).
const TimeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t as it is stored, truncated to the millisecond.
func FormatTime(t time.Time) string {
	return t.UTC().Format(TimeLayout)
}

// ParseTime reads a stored time. It accepts exactly TimeLayout: what people
// write is normalised where it comes in, by the schema and the command line.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(TimeLayout, s)
	if err != nil || len(s) != len(TimeLayout) {
		return time.Time{}, fmt.Errorf("stored time %q is not of the form %s", s, TimeLayout)
	}
	return t.UTC(), nil
}

// OnSecond shortens a wait of d, by less than a second, so that it ends on a whole second of the
// wall clock: what is done again and again is done at the same moments everywhere in the process,
// and the machine is woken once for all of it. A d below a second is returned as it is.
func OnSecond(now time.Time, d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d - time.Duration(now.Add(d).Nanosecond())
}
