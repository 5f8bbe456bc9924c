package renderreport

import (
	"fmt"
	"strings"
	"time"
)

// The picture is drawn in a box of these units and stretched to the width of the
// page, whatever that is; what is text stands beside it, not in it.
const (
	boxWidth  = 10000
	boxHeight = 24
	minWidth  = 22 // a short execution is still seen
)

// drawing is the time line as the template needs it.
type drawing struct {
	Lanes  []drawnLane
	Ticks  []tick
	Breaks []drawnMark
	Loads  bool // at least one lane shows load
	More   int
}

type drawnLane struct {
	Name  string
	Runs  int64
	Share string // part of the window that was worked
	Busy  time.Duration
	Bars  []drawnBar
	Area  string // the path of the load
	Bad   string // and of what ended badly
}

type drawnBar struct {
	X, W  int
	Y, H  int
	Class string
	Title string
}

type tick struct {
	X     int     // in the box
	At    float64 // in per cent
	Label string
	Edge  string // "first" and "last" labels stay within the picture
}

type drawnMark struct {
	X     int
	At    float64
	Title string
}

// fates are the ways in which an execution ends, as they are drawn: who can't
// tell the colours apart sees the height.
var fates = map[string]struct {
	class string
	word  string
	full  bool
}{
	"success":       {"ok", "succeeded", false},
	"failed":        {"bad", "failed", true},
	"retry":         {"warn", "failed, to be tried again", true},
	"timeout":       {"warn", "timed out", true},
	"interrupted":   {"lost", "interrupted", true},
	"lost":          {"lost", "lost", true},
	"lease_expired": {"lost", "its lease ran out", true},
	"cancelled":     {"off", "cancelled", false},
	"paused":        {"off", "paused", false},
	"stopped":       {"off", "stopped with its worker", false},
	"":              {"run", "runs", false},
}

func draw(f *Facts, c clock) drawing {
	w := c.window
	d := drawing{More: f.Timeline.More, Ticks: ticks(c)}
	for _, l := range f.Timeline.Lanes {
		lane := drawnLane{Name: clean(l.Executor), Runs: l.Runs, Busy: time.Duration(l.Busy), Share: share(float64(l.Busy), float64(w.Length()))}
		for _, b := range l.Bars {
			lane.Bars = append(lane.Bars, drawBar(b, w, c))
		}
		if len(l.Load) > 0 {
			d.Loads = true
			lane.Area = area(l.Load, func(x Load) float64 { return x.Busy })
			lane.Bad = area(l.Load, func(x Load) float64 { return x.Busy * x.Bad })
		}
		d.Lanes = append(d.Lanes, lane)
	}
	for _, m := range f.Breaks {
		if x, ok := place(m.At, w); ok {
			d.Breaks = append(d.Breaks, drawnMark{X: x, At: percent(x), Title: "a worker ended at " + c.short(m.At) + ", " + clean(m.Executor)})
		}
	}
	return d
}

// place is where a moment lies in the box.
func place(t time.Time, w Window) (int, bool) {
	if w.Length() <= 0 {
		return 0, false
	}
	x := float64(t.Sub(w.Since)) / float64(w.Length()) * boxWidth
	return int(min(max(x, 0), boxWidth)), x >= 0 && x <= boxWidth
}

func percent(x int) float64 { return float64(x) * 100 / boxWidth }

func drawBar(b Bar, w Window, c clock) drawnBar {
	from, _ := place(b.From, w)
	to, until := boxWidth, "still at it"
	if !b.To.IsZero() {
		to, _ = place(b.To, w)
		until = span(b.To.Sub(b.From))
	}
	fate, known := fates[b.Outcome]
	if !known {
		fate.class, fate.word = "off", clean(b.Outcome)
	}
	bar := drawnBar{X: from, W: max(to-from, minWidth), Y: 5, H: boxHeight - 10, Class: fate.class}
	bar.X = min(bar.X, boxWidth-bar.W)
	if fate.full {
		bar.Y, bar.H = 1, boxHeight-2
	}
	bar.Title = fmt.Sprintf("%s %s: %s (%s, %s)", clean(b.Type), clean(b.TaskID), fate.word, c.short(b.From), until)
	return bar
}

// area is a closed path of steps, one a column.
func area(columns []Load, of func(Load) float64) string {
	var p strings.Builder
	fmt.Fprintf(&p, "M0 %d", boxHeight)
	last := -1
	for i, c := range columns {
		// What was worked at all is seen.
		h := int(of(c)*(boxHeight-2) + 0.5)
		if h == 0 && of(c) > 0 {
			h = 1
		}
		if h != last {
			fmt.Fprintf(&p, "H%dV%d", i*boxWidth/len(columns), boxHeight-h)
			last = h
		}
	}
	fmt.Fprintf(&p, "H%dV%dZ", boxWidth, boxHeight)
	return p.String()
}

func share(part, whole float64) string {
	if whole <= 0 || part <= 0 {
		return "0 %"
	}
	p := part / whole * 100
	if p < 1 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", min(p, 100))
}

// steps are the distances of the lines on the axis.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour, 28 * 24 * time.Hour, 91 * 24 * time.Hour,
}

// maxTicks labels still fit on a phone.
const maxTicks = 6

// ticks are the round times of the zone within the window.
func ticks(c clock) []tick {
	w := c.window
	if w.Length() <= 0 {
		return nil
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if w.Length()/s <= maxTicks {
			step = s
			break
		}
	}
	layout := "15:04"
	if step >= 24*time.Hour {
		layout = "2 Jan"
	}
	var all []tick
	for t := firstTick(w.Since.In(c.zone), step); !t.After(w.Until) && len(all) <= 2*maxTicks; t = nextTick(t, step) {
		x, ok := place(t, w)
		if !ok {
			continue
		}
		k := tick{X: x, At: percent(x), Label: t.Format(layout)}
		if x < boxWidth/25 {
			k.Edge = "first"
		} else if x > boxWidth-boxWidth/25 {
			k.Edge = "last"
		}
		all = append(all, k)
	}
	return all
}

// firstTick is the first round time at or after t, counted from its midnight.
func firstTick(t time.Time, step time.Duration) time.Time {
	y, m, d := t.Date()
	at := time.Date(y, m, d, 0, 0, 0, 0, t.Location())
	for at.Before(t) {
		at = nextTick(at, step)
	}
	return at
}

// nextTick goes by the clock on the wall: a night with a change of the time has
// round hours on its axis, too.
func nextTick(t time.Time, step time.Duration) time.Time {
	if step >= 24*time.Hour {
		return t.AddDate(0, 0, int(step/(24*time.Hour)))
	}
	y, m, d := t.Date()
	every := int(step / time.Minute)
	minutes := (t.Hour()*60+t.Minute())/every*every + every
	next := time.Date(y, m, d, 0, minutes, 0, 0, t.Location())
	if !next.After(t) { // a time that exists twice
		next = t.Add(step)
	}
	return next
}
