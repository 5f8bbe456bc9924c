package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	robfig "github.com/robfig/cron/v3"
)

// maxExprBytes bounds what is looked at: the longest sensible expression, with
// every minute named, has about 200 bytes.
const maxExprBytes = 1024

// ParseError says what is wrong in an expression, and where.
type ParseError struct {
	Expr   string
	Column int    // of the first wrong character, from 1; 0: the whole expression
	Field  string // "minute", "hour", "day of month", "month", "day of week"; "": none
	Value  string // the part that is wrong
	Why    string
}

func (e *ParseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cron %q: ", cut(e.Expr, 80))
	if e.Column > 0 {
		fmt.Fprintf(&b, "column %d: ", e.Column)
	}
	if e.Field != "" {
		b.WriteString(e.Field + " ")
	}
	if e.Value != "" {
		fmt.Fprintf(&b, "%q: ", cut(e.Value, 40))
	}
	b.WriteString(e.Why)
	return b.String()
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// descriptors are the short forms of Vixie's cron.
var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// field describes one of the five.
type field struct {
	name     string
	min, max int
	names    []string           // for min, min+1 …
	option   robfig.ParseOption // which of the library's fields reads it
}

// The library knows weekdays 0 to 6 only. Its hours, 0 to 23, read a weekday up
// to 7 just as well once the names are replaced and the bounds checked.
var fields = [5]field{
	{name: "minute", min: 0, max: 59, option: robfig.Minute},
	{name: "hour", min: 0, max: 23, option: robfig.Hour},
	{name: "day of month", min: 1, max: 31, option: robfig.Dom},
	{name: "month", min: 1, max: 12, option: robfig.Month,
		names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 7, option: robfig.Hour,
		names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Parse reads a cron expression of five fields, or one of @yearly, @monthly,
// @weekly, @daily, @hourly and their synonyms, to be read in the zone of that
// name (empty: UTC). Errors are *ParseError or *ZoneError.
func Parse(expr, zone string) (*Rule, error) {
	loc, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	r := &Rule{text: strings.TrimSpace(expr), zone: loc}
	if err := r.parse(expr); err != nil {
		err.Expr = expr
		return nil, err
	}
	return r, nil
}

func (r *Rule) parse(expr string) *ParseError {
	switch {
	case len(expr) > maxExprBytes:
		return &ParseError{Why: fmt.Sprintf("it has %d bytes; at most %d are read", len(expr), maxExprBytes)}
	case !utf8.ValidString(expr):
		return &ParseError{Why: "it is not valid UTF-8"}
	}
	words := split(expr)
	if len(words) == 0 {
		return &ParseError{Why: "it is empty; five fields are needed: minute hour day-of-month month day-of-week"}
	}
	if first := words[0]; strings.HasPrefix(first.text, "@") || strings.Contains(first.text, "=") {
		plain, err := describe(words)
		if err != nil {
			return err
		}
		words = split(plain)
	}
	if len(words) != len(fields) {
		return countError(words)
	}
	var sets [5]uint64
	for i, w := range words {
		set, err := fields[i].parse(w)
		if err != nil {
			return err
		}
		sets[i] = set
	}
	r.cal = newCalendar(sets, words)
	if !r.cal.possible() {
		return &ParseError{Column: words[2].column, Field: "day of month", Value: words[2].text,
			Why: "no month that is admitted has such a day: it would never run"}
	}
	r.hints = hints(&r.cal, sets, words)
	return nil
}

// newCalendar folds Sunday's second number into the first, and notes the three
// properties that depend on how a field is written.
func newCalendar(sets [5]uint64, words []word) calendar {
	const everyHour = 1<<24 - 1
	star := func(i int) bool { return strings.HasPrefix(words[i].text, "*") }
	weekdays := sets[4]&0x7f | sets[4]>>7&1
	c := calendar{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: weekdays}
	c.eitherDay = !star(2) && !star(4)
	c.everyHour = sets[1] == everyHour
	c.repeats = star(0) || c.everyHour
	return c
}

// word is a run of characters that are not space, and where it begins.
type word struct {
	text   string
	column int // in characters, from 1
}

func split(s string) []word {
	var out []word
	column, start, startColumn := 0, -1, 0
	for i, c := range s {
		column++
		switch space := c == ' ' || c == '\t' || c == '\n' || c == '\r'; {
		case space && start >= 0:
			out = append(out, word{s[start:i], startColumn})
			start = -1
		case !space && start < 0:
			start, startColumn = i, column
		}
	}
	if start >= 0 {
		out = append(out, word{s[start:], startColumn})
	}
	return out
}

// describe replaces an @ form; what is known from elsewhere gets its own answer.
func describe(words []word) (string, *ParseError) {
	w := words[0]
	bad := func(why string) (string, *ParseError) {
		return "", &ParseError{Column: w.column, Value: w.text, Why: why}
	}
	name := strings.ToLower(w.text)
	plain, known := descriptors[name]
	switch {
	case strings.HasPrefix(name, "tz=") || strings.HasPrefix(name, "cron_tz="):
		return bad("the time zone has a key of its own: zone")
	case strings.Contains(name, "="):
		return bad("settings have no place in an expression")
	case name == "@every":
		return bad("a fixed interval has a key of its own: every")
	case name == "@reboot":
		return bad("a start of the machine is not a time; add the task when it starts")
	case !known:
		return bad("unknown; known are @yearly, @monthly, @weekly, @daily, @hourly, @annually, @midnight")
	case len(words) > 1:
		return "", &ParseError{Column: words[1].column, Value: words[1].text, Why: "nothing may follow " + w.text}
	}
	return plain, nil
}

func countError(words []word) *ParseError {
	e := &ParseError{Why: fmt.Sprintf("it has %d fields; five are needed: minute hour day-of-month month day-of-week", len(words))}
	if len(words) > len(fields) {
		e.Column, e.Value = words[len(fields)].column, words[len(fields)].text
		if len(words) == 6 {
			e.Why = "a sixth field; five are read, without seconds or years (for seconds use every)"
		}
	}
	return e
}

// parse reads one field: items, separated by commas.
func (f *field) parse(w word) (uint64, *ParseError) {
	var set uint64
	column := w.column
	for _, item := range strings.Split(w.text, ",") {
		got, why := f.item(item)
		if why != "" {
			if item == "" {
				item = w.text
			}
			return 0, &ParseError{Column: column, Field: f.name, Value: item, Why: why}
		}
		set |= got
		column += utf8.RuneCountInString(item) + 1
	}
	return set, nil
}

// item reads *, a number or a range, each with an optional step. The shape is
// checked here and the library does the reading: alone it takes *-5 for *, +5
// for 5 and nothing at all for an empty list.
func (f *field) item(item string) (set uint64, why string) {
	body, step, stepped := strings.Cut(item, "/")
	low, high, ranged := strings.Cut(body, "-")
	if why := f.shape(item, low, high, step, ranged, stepped); why != "" {
		return 0, why
	}
	plain := f.number(low, false)
	if ranged {
		plain += "-" + f.number(high, true)
	}
	if f.names != nil && low == "*" && f.min == 0 {
		plain = fmt.Sprintf("%d-%d", f.min, f.max-1) // the library's hours would read * as 0-23
	} else if f.names != nil && stepped && !ranged && f.min == 0 {
		plain += fmt.Sprintf("-%d", f.max-1)
	}
	if stepped {
		plain += "/" + step
	}
	parsed, err := robfig.NewParser(f.option).Parse(plain)
	if err != nil {
		return 0, reason(err, plain)
	}
	spec, ok := parsed.(*robfig.SpecSchedule)
	if !ok {
		return 0, fmt.Sprintf("it was read as a %T", parsed)
	}
	const star = 1 << 63 // the library's note that the item was a *
	switch f.option {
	case robfig.Minute:
		set = spec.Minute
	case robfig.Dom:
		set = spec.Dom
	case robfig.Month:
		set = spec.Month
	default:
		set = spec.Hour
	}
	set &^= star
	if set == 0 || set>>uint(f.max+1) != 0 {
		return 0, f.outside()
	}
	return set, ""
}

// shape refuses what is not `*`, a value or a range, with an optional step.
func (f *field) shape(item, low, high, step string, ranged, stepped bool) string {
	switch {
	case item == "":
		return "an empty place in the list"
	case foreign(item):
		return "? L W # and ~ of other programs are not read here; write numbers, names, * - , and /"
	case low == "*" && ranged:
		return "* already is the whole range"
	case low != "*" && !f.value(low):
		return f.unreadable(low)
	case ranged && !f.value(high):
		return f.unreadable(high)
	case stepped && !digits(step):
		return "the step after / must be a number"
	case ranged && f.wraps(low, high):
		last := f.max
		if last == 7 {
			last = 6 // 7 is Sunday once more
		}
		return fmt.Sprintf("the range ends before it begins; write %s-%d,%d-%s", low, last, f.min, high)
	}
	return ""
}

// foreign recognises what Quartz, Jenkins and cronie have beyond Vixie's cron:
// ?, L, LW, 15W, 5L, MON#2, 0~59, H.
func foreign(item string) bool {
	if strings.ContainsAny(item, "?#~") {
		return true
	}
	switch strings.ToUpper(strings.TrimLeft(item, "0123456789")) {
	case "L", "W", "LW", "H":
		return true
	}
	return false
}

func (f *field) wraps(low, high string) bool {
	a, errA := strconv.Atoi(f.number(low, false))
	b, errB := strconv.Atoi(f.number(high, true))
	return errA == nil && errB == nil && a > b && a <= f.max
}

func (f *field) value(s string) bool { return digits(s) || f.named(s) }

// digits admits what fits an int everywhere; the library does the bounds.
func digits(s string) bool {
	if s == "" || len(s) > 6 {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

func (f *field) named(s string) bool {
	for _, n := range f.names {
		if strings.EqualFold(n, s) {
			return true
		}
	}
	return false
}

// number replaces a name. Sunday at the end of a range is 7: SAT-SUN.
func (f *field) number(s string, end bool) string {
	for i, n := range f.names {
		if !strings.EqualFold(n, s) {
			continue
		}
		if end && f.max == 7 && i == 0 {
			return "7"
		}
		return strconv.Itoa(f.min + i)
	}
	return s
}

func (f *field) unreadable(s string) string {
	if len(s) > 3 && len(f.names) > 0 && f.named(s[:3]) {
		return fmt.Sprintf("names have three letters: %s", strings.ToUpper(s[:3]))
	}
	if s == "" {
		return "a number is missing"
	}
	if strings.Trim(s, "0123456789") == "" {
		return f.outside()
	}
	if len(f.names) > 0 {
		return fmt.Sprintf("%q is neither a number nor one of %s", cut(s, 20), strings.ToUpper(strings.Join(f.names, " ")))
	}
	return fmt.Sprintf("%q is not a number", cut(s, 20))
}

func (f *field) outside() string {
	return fmt.Sprintf("not within %d-%d", f.min, f.max)
}

// reason is the library's complaint without the text it repeats at its end.
func reason(err error, plain string) string {
	return strings.TrimSuffix(err.Error(), ": "+plain)
}

// hints says what is valid and often not meant.
func hints(c *calendar, sets [5]uint64, words []word) []string {
	var out []string
	if c.eitherDay {
		out = append(out, fmt.Sprintf("day of month %q and day of week %q: either of them is enough, not both are needed", words[2].text, words[4].text))
	}
	for i, f := range fields[:2] {
		body, step, stepped := strings.Cut(words[i].text, "/")
		n, err := strconv.Atoi(step)
		if !stepped || body != "*" || err != nil || n < 1 {
			continue
		}
		switch {
		case bits.OnesCount64(sets[i]) == 1:
			out = append(out, fmt.Sprintf("%s %q: such a step admits %d only", f.name, words[i].text, f.min))
		case (f.max+1)%n != 0:
			out = append(out, fmt.Sprintf("%s %q: counted from %d each time, so that the last interval is shorter", f.name, words[i].text, f.min))
		}
	}
	return out
}
