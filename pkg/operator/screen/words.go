package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Words writes a span of time for people: two units at most, the second left out
// where it says nothing: "95 s", "12 min", "3 h 12 min", "12 d 4 h".
func Words(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return pair(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "min")
	case d < 100*24*time.Hour:
		return pair(int64(d/(24*time.Hour)), "d", int64(d%(24*time.Hour)/time.Hour), "h")
	}
	return Count(int64(d/(24*time.Hour))) + " d"
}

func pair(a int64, unitA string, b int64, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unitA)
	}
	return fmt.Sprintf("%d %s %d %s", a, unitA, b, unitB)
}

// Ago says how long before now t was. A time ahead of now is "just now": the
// clock was set back, and no age is ever shown negative.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	if d := now.Sub(t); d >= time.Second {
		return Words(d) + " ago"
	}
	return "just now"
}

// Until says when t is: "in 5 min", "now", "12 s ago".
func Until(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return "never"
	case d >= time.Second:
		return "in " + Words(d)
	case d > -time.Second:
		return "now"
	default:
		return Words(-d) + " ago"
	}
}

// Time writes t in the style's zone with the zone's name or offset, or in the
// stored form when UTC is asked for. The zero time is "-".
func (s Style) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case s.UTC:
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t.In(s.zone()).Format("2006-01-02 15:04:05 MST")
}

// Clock is the short form of Time, for a column: the time alone for a day close
// to now, the date with it otherwise. The zone is named in the column's title.
func (s Style) Clock(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case s.UTC:
		return s.Time(t)
	}
	t, now = t.In(s.zone()), now.In(s.zone())
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// ZoneName is what Clock leaves out.
func (s Style) ZoneName(now time.Time) string {
	if s.UTC {
		return "UTC"
	}
	name, _ := now.In(s.zone()).Zone()
	return name
}

func (s Style) zone() *time.Location {
	if s.Zone == nil {
		return time.Local
	}
	return s.Zone
}

// Count writes n with a comma for each thousand.
func Count(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Plural is Count with its noun: "1 task", "1,204 tasks".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Bytes writes n in the unit that leaves one to four digits; powers of 1,000, as
// the configuration reads MB and GB.
func Bytes(n int64) string {
	if n < 10_000 {
		return Count(n) + " B"
	}
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	size := float64(n)
	for i, unit := range units {
		size /= 1000
		if size < 999.5 || i == len(units)-1 {
			if size < 9.95 {
				return fmt.Sprintf("%.1f %s", size, unit)
			}
			return fmt.Sprintf("%.0f %s", size, unit)
		}
	}
	return ""
}

// Fraction reads progress that says how far it is: "6000/10000", "63 %", with
// words around it or not. ok is false when it does not.
func Fraction(progress string) (f float64, ok bool) {
	for _, word := range strings.Fields(strings.ReplaceAll(progress, " %", "%")) {
		if n, found := strings.CutSuffix(word, "%"); found {
			if v, err := strconv.ParseFloat(n, 64); err == nil && v >= 0 && v <= 100 {
				return v / 100, true
			}
		}
		done, total, found := strings.Cut(word, "/")
		if !found {
			continue
		}
		d, err1 := strconv.ParseFloat(strings.ReplaceAll(done, ",", ""), 64)
		n, err2 := strconv.ParseFloat(strings.ReplaceAll(total, ",", ""), 64)
		if err1 == nil && err2 == nil && n > 0 && d >= 0 && d <= n {
			return d / n, true
		}
	}
	return 0, false
}

// Bar draws a fraction in width columns, brackets included.
func Bar(f float64, width int, ascii bool) string {
	full, empty := "█", "░"
	if ascii {
		full, empty = "#", "-"
	}
	inner := width - 2
	if inner < 1 {
		return ""
	}
	n := int(f * float64(inner))
	n = min(max(n, 0), inner)
	return "[" + strings.Repeat(full, n) + strings.Repeat(empty, inner-n) + "]"
}
