package renderreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// sections are the steps in which a page is made, in the order of the page.
var sections = []string{
	"head", "summary", "failures", "timeline", "active+waiting", "types", "incidents+schedules", "workers+disk", "calm", "foot",
}

// view is what the templates see.
type view struct {
	F      *Facts
	V      verdict
	D      drawing
	Title  string
	Period string
	Zone   string
	Style  template.CSS
	clock  clock
	parsed *template.Template
}

// newView prepares the facts. The page is a function of facts, title and zone
// alone: nothing else, no clock above all, may go into it.
func newView(f *Facts, title string, zone *time.Location) (*view, error) {
	c := clock{zone: zone, window: f.Window}
	v := &view{
		F: f, V: judge(f), D: draw(f, c), Title: clean(title), Period: c.period(), Zone: c.zoneName(),
		Style: template.CSS(pageStyle), clock: c,
	}
	var err error
	v.parsed, err = template.New("page").Funcs(v.words()).Parse(pageText)
	return v, err
}

// section renders one section. Names joined by + stand side by side where there
// is room.
func (v *view) section(name string) ([]byte, error) {
	var b bytes.Buffer
	parts := strings.Split(name, "+")
	if len(parts) > 1 {
		b.WriteString("<div class=\"pair\">")
	}
	for _, part := range parts {
		if err := v.parsed.ExecuteTemplate(&b, part, v); err != nil {
			return nil, handler.Fatal(fmt.Errorf("section %s: %w", part, err))
		}
	}
	if len(parts) > 1 {
		b.WriteString("</div>\n")
	}
	return b.Bytes(), nil
}

// has says which sections have something to tell; the others are one line each
// at the end, so that a quiet night is a short page.
type has struct {
	Failures, Timeline, Active, Waiting, Types, Incidents, Schedules, Workers, Disk bool
}

// Has is asked by the templates.
func (v *view) Has() has {
	f := v.F
	return has{
		Failures: len(f.Failures.Groups) > 0, Timeline: len(v.D.Lanes) > 0, Active: len(f.Active) > 0,
		Waiting:   len(f.Waiting.Oldest)+len(f.Waiting.Next)+len(f.Waiting.HeldList) > 0,
		Types:     len(f.Types) > 0,
		Incidents: len(f.Retried)+len(f.Incidents) > 0 || f.Runs.Bad()+f.Runs.Interrupted+f.Runs.Stopped > 0,
		Schedules: len(f.Schedules) > 0, Workers: len(f.Workers) > 0, Disk: f.Disk.Known,
	}
}

// Calm is what there is nothing to tell of.
func (v *view) Calm() []string {
	h := v.Has()
	var all []string
	for _, x := range []struct {
		told bool
		text string
	}{
		{h.Failures, "No task ended FAILED or DEAD."},
		{h.Timeline || h.Types, "No execution began or ended."},
		{h.Incidents, "No attempt ended badly or was interrupted."},
		{h.Active, "No task runs, and none is lost."},
		{h.Waiting, "No task waits."},
		{h.Schedules, "No schedule is set up."},
		{h.Workers, "No worker has ever reported to this database."},
		{h.Disk, "The disk was not measured."},
	} {
		if !x.told {
			all = append(all, x.text)
		}
	}
	return all
}

// words are what the templates say things with.
func (v *view) words() template.FuncMap {
	noun := func(one, many string) func(n int64) string {
		return func(n int64) string { return count(n, one, many) }
	}
	return template.FuncMap{
		"text": clean, "word": func(id string) string { return clean(shellWord(id)) },
		"number": number, "number64": func(n int) string { return number(int64(n)) },
		"minus": func(a, b int64) int64 { return a - b }, "len64": lengthOf,
		"bytes": bytesOf, "span": func(s Span) string { return span(time.Duration(s)) },
		"tasks": noun("task", "tasks"), "executions": noun("execution", "executions"), "attempts": noun("attempt", "attempts"),
		"time": v.clock.html, "full": v.clock.full, "since": func(t time.Time) string { return rough(v.F.At.Sub(t)) },
		"ago": func(t time.Time) string { return v.clock.ago(t, v.F.At) }, "sign": sign,
		"reason":   func(r task.Reason) string { return inWords(failureWords, string(r)) },
		"lost":     func(r task.Reason) string { return inWords(lostWords, string(r)) },
		"asked":    func(c task.Control) string { return inWords(askedWords, string(c)) },
		"incident": func(r task.Reason) string { return inWords(incidentWords, string(r)) },
		"skip":     func(s string) string { return inWords(skipWords, s) },
		"exit":     exit, "bar": outcomeBar, "meter": meter, "brokenOff": func(r Runs) int64 {
			return r.Cancelled + r.Paused + r.Interrupted + r.Stopped
		},
		"statusClass": statusClass, "standingClass": standingClass,
	}
}

func lengthOf(list any) (int64, error) {
	switch l := list.(type) {
	case []FailedTask:
		return int64(len(l)), nil
	case []Active:
		return int64(len(l)), nil
	case []WaitingTask:
		return int64(len(l)), nil
	}
	return 0, fmt.Errorf("len64 of %T", list)
}

// sign stands beside a colour for those who do not see it.
func sign(tone string) string {
	return map[string]string{"good": "✓", "look": "!", "bad": "✕", "idle": "–"}[tone]
}

func exit(t FailedTask) string {
	switch {
	case t.Signal != "":
		return clean(t.Signal)
	case t.ExitCode != nil:
		return fmt.Sprintf("exit status %d", *t.ExitCode)
	}
	return ""
}

func statusClass(s task.Status) string {
	switch s {
	case task.Success:
		return "ok"
	case task.Failed, task.Dead:
		return "bad"
	case task.Retrying:
		return "warn"
	case task.Running:
		return "run"
	case task.Lost:
		return "lost"
	}
	return ""
}

func standingClass(s Standing) string {
	return map[Standing]string{Alive: "ok", Silent: "warn", Dead: "bad"}[s]
}

// Tiles are the numbers below the verdict.
func (v *view) Tiles() []tile {
	f := v.F
	tiles := []tile{
		{f.Runs.Succeeded, "succeeded", "executions of this shift", ""},
		{f.Failures.Total, "failed", "tasks, for good", "bad"},
		{f.Runs.Bad(), "bad attempts", "executions that ended badly", "look"},
		{f.Runs.Interrupted, "interrupted", "gone on from a checkpoint", "lost"},
		{f.Now[task.Running], "running", "now", ""},
		{f.Waiting.Due, "due", "could run now", ""},
	}
	for i := range tiles {
		if tiles[i].N == 0 {
			tiles[i].Class = "none"
		}
		if tiles[i].N >= 1_000_000 {
			tiles[i].Class += " long" // it still fits on the narrowest phone
		}
	}
	return tiles
}

type tile struct {
	N     int64
	Name  string
	Note  string
	Class string
}

// parted is a bar of coloured parts, in per cent.
type parted struct {
	Label string
	Parts []part
}

type part struct {
	Class string
	Width float64
}

// outcomeBar shows how the executions of a type ended.
func outcomeBar(r Runs) *parted {
	ended := r.Ended()
	if ended == 0 {
		return nil
	}
	broken := r.Cancelled + r.Paused + r.Stopped
	p := &parted{Label: fmt.Sprintf("%d succeeded, %d failed, %d to be tried again, %d interrupted, %d broken off", r.Succeeded, r.Failed, r.Retried, r.Interrupted, broken)}
	for _, x := range []struct {
		class string
		n     int64
	}{{"ok", r.Succeeded}, {"bad", r.Failed}, {"warn", r.Retried}, {"lost", r.Interrupted}, {"off", broken}} {
		if x.n > 0 {
			// What happened at all is seen.
			p.Parts = append(p.Parts, part{x.class, max(2, round1(float64(x.n)*100/float64(ended)))})
		}
	}
	return p
}

// meter shows what is taken of the budget or, without one, of the file system.
func meter(d Disk) *parted {
	if d.Budget > 0 {
		full := round1(min(100, float64(d.Taken())*100/float64(d.Budget)))
		class := "run"
		if full > 100*nearlyFull {
			class = "warn"
		}
		return &parted{fmt.Sprintf("%s of a budget of %s", bytesOf(d.Taken()), bytesOf(d.Budget)), []part{{class, full}}}
	}
	if d.Total <= 0 {
		return nil
	}
	ours := min(100, float64(d.Taken())*100/float64(d.Total))
	others := max(0, float64(d.Total-d.Free)*100/float64(d.Total)-ours)
	return &parted{
		fmt.Sprintf("%s of a file system of %s, %s free", bytesOf(d.Taken()), bytesOf(d.Total), bytesOf(d.Free)),
		[]part{{"run", max(0.5, round1(ours))}, {"off", round1(others)}},
	}
}

func round1(x float64) float64 { return float64(int64(x*10+0.5)) / 10 }
