package renderreport

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clean is any text, fit to be read: bytes that are no text, control characters
// and those that turn the direction of writing are shown, not obeyed.
func clean(s string) string {
	plain := utf8.ValidString(s)
	for _, r := range s {
		plain = plain && !hidden(r)
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString("⏎ ")
		case r == '\t':
			b.WriteByte(' ')
		case r < 0x80 && hidden(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// hidden are characters that nobody sees, and that make others look different.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r == 0xfeff ||
		r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// cut shortens s to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// shellWord is an id as it can be typed into a shell.
func shellWord(s string) string {
	plain := s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+,%", r))
	})
	if plain {
		return s
	}
	quoted := "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	if strings.HasPrefix(s, "-") {
		return "-- " + quoted
	}
	return quoted
}

// number is n with a comma at each thousand.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// count is a number and its noun: "1 task", "3 tasks".
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// span is a duration in words, two units at most.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + span(-d)
	case d < time.Millisecond:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	case d < time.Minute-500*time.Millisecond:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	}
	for _, u := range []struct {
		large, small     time.Duration
		largeIs, smallIs string
	}{
		{time.Minute, time.Second, "min", "s"},
		{time.Hour, time.Minute, "h", "min"},
		{24 * time.Hour, time.Hour, "d", "h"},
	} {
		r := d.Round(u.small)
		next := map[string]time.Duration{"min": time.Hour, "h": 48 * time.Hour, "d": 1 << 62}[u.largeIs]
		if r >= next {
			continue
		}
		n, rest := r/u.large, r%u.large/u.small
		if rest == 0 {
			return fmt.Sprintf("%d %s", n, u.largeIs)
		}
		return fmt.Sprintf("%d %s %d %s", n, u.largeIs, rest, u.smallIs)
	}
	return d.String()
}

// bytesOf is an amount of data in words.
func bytesOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	case n < 10*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n < 100*1000*1000*1000:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f GB", float64(n)/1e9)
}

// failureWords say why a task ended for good.
var failureWords = map[string]string{
	"fatal_error":       "an error that no retry cures",
	"retries_exhausted": "all retries are used up",
	"crashes_exhausted": "took its worker down again and again",
}

// incidentWords say what befell tasks.
var incidentWords = map[string]string{
	"worker_crash":   "Tasks whose worker crashed",
	"worker_offline": "Tasks whose worker fell silent",
	"worker_back":    "Tasks whose worker came back",
	"lease_expired":  "Tasks whose lease ran out",
	"takeover":       "Tasks taken over",
}

// lostWords say what a lost task waits for.
var lostWords = map[string]string{
	"worker_crash":   "its worker crashed; it is about to be taken over",
	"worker_offline": "its worker is silent; taken over once its death is proven",
}

// askedWords say what a person wants of a task.
var askedWords = map[string]string{"cancel": "end", "kill": "end at once", "pause": "pause", "resume": "go on"}

// skipWords say why an occurrence did not run.
var skipWords = map[string]string{
	"missed":       "missed: nobody was there to start it",
	"missed_limit": "missed, beyond missed_limit",
	"overlap":      "the run before had not ended",
	"disabled":     "the schedule was switched off",
}

// inWords is the plain text for a known word, or the word itself.
func inWords(table map[string]string, word string) string {
	if s, ok := table[word]; ok {
		return s
	}
	return strings.ReplaceAll(clean(word), "_", " ")
}

// clock writes times of a report in its zone.
type clock struct {
	zone   *time.Location
	window Window
}

// short is the time of day, with the day where it is not plain which one.
func (c clock) short(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	l := t.In(c.zone)
	switch {
	case c.window.Length() < 20*time.Hour && !t.Before(c.window.Since.Add(-time.Hour)) && !t.After(c.window.Until):
		return l.Format("15:04")
	case t.Sub(c.window.Until).Abs() < 6*24*time.Hour:
		return l.Format("Mon 15:04")
	case l.Year() == c.window.Until.In(c.zone).Year():
		return l.Format("2 Jan 15:04")
	}
	return l.Format("2 Jan 2006")
}

// html is short with the exact moment behind it.
func (c clock) html(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + exact + `" title="` + template.HTMLEscapeString(c.full(t)) + `">` + template.HTMLEscapeString(c.short(t)) + `</time>`)
}

// period is the window in words.
func (c clock) period() string {
	from, to := c.window.Since.In(c.zone), c.window.Until.In(c.zone)
	layout := "Mon 2 Jan 2006, 15:04"
	if from.Year() == to.Year() {
		layout = "Mon 2 Jan, 15:04"
	}
	end := to.Format("Mon 2 Jan 2006, 15:04")
	if from.YearDay() == to.YearDay() && from.Year() == to.Year() {
		end = to.Format("15:04")
		layout = "Mon 2 Jan 2006, 15:04"
	}
	return from.Format(layout) + " – " + end + " (" + span(c.window.Length().Round(time.Minute)) + ")"
}

// zoneName is the zone with its distance from UTC at the end of the window.
func (c clock) zoneName() string {
	name, end := c.zone.String(), c.window.Until.In(c.zone)
	switch name {
	case "UTC":
		return name
	case "Local":
		name = end.Format("MST")
	}
	return clean(name) + ", UTC" + end.Format("-07:00")
}

// full is a moment with its day and zone.
func (c clock) full(t time.Time) string { return t.In(c.zone).Format("Mon 2 Jan 2006, 15:04 MST") }

// ago says how long before the look a moment was, or how long after.
func (c clock) ago(t, at time.Time) string {
	d := at.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d < -time.Second:
		return "in " + rough(-d)
	case d < 2*time.Second:
		return "now"
	}
	return rough(d) + " ago"
}

// rough is a duration in one unit.
func rough(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 36*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour).Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Round(24*time.Hour).Hours()/24))
}
