package renderreport

import (
	"errors"
	"math"
	"sort"
	"strings"
	"time"

	"nightshift/pkg/store"
)

func isGone(err error) bool { return errors.Is(err, store.ErrNotFound) }

// tally sums executions up in bounded memory: what grows is the number of types,
// of executors and, up to maxRetriedKnown, of tasks that failed an attempt.
type tally struct {
	window  Window
	at      time.Time
	seen    int64
	runs    Runs
	types   map[string]*typeTally
	lanes   map[string]*laneTally
	bars    int              // kept in all lanes; -1: too many, the lanes show load
	retries map[string]int64 // failed attempts, by task
	lastBad map[string]int64 // exec_id of the last of them
	breaks  map[int64]Mark   // interruptions, one a moment
}

// maxRetriedKnown bounds the search for the most retried tasks; a night with
// more failing tasks than that has other news.
const maxRetriedKnown = 100_000

func newTally(w Window, at time.Time) *tally {
	return &tally{
		window: w, at: at, types: map[string]*typeTally{}, lanes: map[string]*laneTally{},
		retries: map[string]int64{}, lastBad: map[string]int64{}, breaks: map[int64]Mark{},
	}
}

func (t *tally) add(r *store.Run) {
	t.seen++
	end := r.End
	if end.IsZero() {
		end = t.at
	}
	from, to := later(r.Start, t.window.Since), earlier(end, t.window.Until)
	busy := max(0, to.Sub(from))
	ty := t.ofType(r.TaskType)
	t.lane(r, from, to, busy)
	t.runs.Busy += Span(busy)
	ty.Runs.Busy += Span(busy)
	if !r.Start.Before(t.window.Since) {
		t.runs.Started++
		ty.Runs.Started++
	}
	switch {
	case r.End.IsZero():
		ty.Running++
		return
	case !r.End.Before(t.window.Until):
		return // it ended later: not in this shift
	}
	t.runs.count(r.Outcome)
	ty.Runs.count(r.Outcome)
	took := max(0, r.End.Sub(r.Start))
	ty.Longest = max(ty.Longest, Span(took))
	if r.Outcome == "success" {
		ty.times.add(took)
	}
	if r.Outcome == "interrupted" || r.Outcome == "lost" {
		// A worker that ends takes all of its executors with it.
		moment := max(5*time.Second, t.window.Length()/1000)
		t.breaks[r.End.UnixNano()/int64(moment)] = Mark{At: r.End, Executor: r.ExecutorID}
	}
	if r.Outcome == "retry" || r.Outcome == "timeout" || r.Outcome == "failed" {
		if _, known := t.retries[r.TaskID]; known || len(t.retries) < maxRetriedKnown {
			t.retries[r.TaskID]++
			t.lastBad[r.TaskID] = r.ExecID
		}
	}
}

// count puts an outcome of exec_history into its place.
func (r *Runs) count(outcome string) {
	switch outcome {
	case "success":
		r.Succeeded++
	case "failed":
		r.Failed++
	case "retry":
		r.Retried++
	case "timeout":
		r.Retried++
		r.TimedOut++
	case "cancelled":
		r.Cancelled++
	case "paused":
		r.Paused++
	case "stopped":
		r.Stopped++
	default: // interrupted, lost, lease_expired, and what a later version may add
		r.Interrupted++
	}
}

type typeTally struct {
	TypeRuns
	times histogram
}

// maxTypesKnown bounds the memory; types come from the configuration, but any
// text may be inserted.
const maxTypesKnown = 1000

func (t *tally) ofType(name string) *typeTally {
	if t.types[name] == nil {
		if len(t.types) >= maxTypesKnown {
			name = "(others)"
		}
		if name == "" {
			name = "(removed tasks)"
		}
		if t.types[name] == nil {
			t.types[name] = &typeTally{TypeRuns: TypeRuns{Type: name}}
		}
	}
	return t.types[name]
}

// laneTally is one executor's line while it is drawn.
type laneTally struct {
	Lane
	busy [Buckets]time.Duration
	bad  [Buckets]int64
	runs [Buckets]int64
}

// maxLanesKnown bounds the memory: executors come and go with the number of slots.
const maxLanesKnown = 512

func (t *tally) lane(r *store.Run, from, to time.Time, busy time.Duration) {
	l := t.lanes[r.ExecutorID]
	if l == nil {
		if len(t.lanes) >= maxLanesKnown {
			return
		}
		l = &laneTally{Lane: Lane{Executor: r.ExecutorID}}
		t.lanes[r.ExecutorID] = l
	}
	l.Runs++
	l.Busy += Span(busy)
	switch {
	case t.bars >= 0 && t.bars < MaxBars:
		t.bars++
		bar := Bar{From: r.Start, To: r.End, TaskID: r.TaskID, Type: r.TaskType, Outcome: r.Outcome}
		l.Bars = append(l.Bars, bar)
	case t.bars == MaxBars:
		t.bars = -1
	}
	l.spread(t.window, r.Outcome, from, to)
}

// spread adds one execution to the columns that it touches.
func (l *laneTally) spread(w Window, outcome string, from, to time.Time) {
	column := w.Length() / Buckets
	if column <= 0 {
		return
	}
	bad := outcome != "success" && outcome != "" && outcome != "cancelled" && outcome != "paused" && outcome != "stopped"
	first := min(max(int(from.Sub(w.Since)/column), 0), Buckets-1)
	last := min(max(int(to.Sub(w.Since)/column), first), Buckets-1)
	for i := first; i <= last; i++ {
		begin := w.Since.Add(time.Duration(i) * column)
		l.busy[i] += max(0, earlier(to, begin.Add(column)).Sub(later(from, begin)))
		l.runs[i]++
		if bad {
			l.bad[i]++
		}
	}
}

// sumUp writes the sums into the facts.
func (t *tally) sumUp(f *Facts) {
	f.Runs = t.runs
	f.Types, f.MoreTypes = t.typeRuns()
	f.Timeline = t.timeline()
	for id, times := range t.retries {
		if times > 1 {
			f.Retried = append(f.Retried, Retried{ID: id, Times: times})
		}
	}
	sort.Slice(f.Retried, func(i, j int) bool {
		a, b := f.Retried[i], f.Retried[j]
		return a.Times > b.Times || a.Times == b.Times && a.ID < b.ID
	})
	f.Retried = f.Retried[:min(len(f.Retried), MaxRetried)]
	for _, m := range t.breaks {
		f.Breaks = append(f.Breaks, m)
	}
	sort.Slice(f.Breaks, func(i, j int) bool { return f.Breaks[i].At.Before(f.Breaks[j].At) })
	f.Breaks = f.Breaks[max(0, len(f.Breaks)-MaxMarks):]
}

func (t *tally) typeRuns() ([]TypeRuns, int) {
	var all []TypeRuns
	for _, ty := range t.types {
		// The columns are a tenth wide: no percentile may be beyond the longest.
		ty.Median, ty.P95 = min(Span(ty.times.at(0.5)), ty.Longest), min(Span(ty.times.at(0.95)), ty.Longest)
		all = append(all, ty.TypeRuns)
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].Runs.Busy > all[j].Runs.Busy || all[i].Runs.Busy == all[j].Runs.Busy && all[i].Type < all[j].Type
	})
	if len(all) <= MaxTypes {
		return all, 0
	}
	rest := TypeRuns{Type: "(other types)"}
	for _, x := range all[MaxTypes-1:] {
		rest.Runs = rest.Runs.plus(x.Runs)
		rest.Running += x.Running
		rest.Longest = max(rest.Longest, x.Longest)
	}
	more := len(all) - MaxTypes + 1
	return append(all[:MaxTypes-1], rest), more
}

func (r Runs) plus(o Runs) Runs {
	return Runs{
		Started: r.Started + o.Started, Succeeded: r.Succeeded + o.Succeeded, Failed: r.Failed + o.Failed, Retried: r.Retried + o.Retried,
		TimedOut: r.TimedOut + o.TimedOut, Cancelled: r.Cancelled + o.Cancelled, Paused: r.Paused + o.Paused,
		Interrupted: r.Interrupted + o.Interrupted, Stopped: r.Stopped + o.Stopped, Busy: r.Busy + o.Busy,
	}
}

func (t *tally) timeline() Timeline {
	var all []*laneTally
	for _, l := range t.lanes {
		all = append(all, l)
	}
	sort.Slice(all, func(i, j int) bool { return executorBefore(all[i].Executor, all[j].Executor) })
	line := Timeline{More: max(0, len(all)-MaxLanes)}
	column := float64(t.window.Length() / Buckets)
	for _, l := range all[:min(len(all), MaxLanes)] {
		if t.bars < 0 {
			l.Bars = nil
			for i := range l.busy {
				x := Load{Busy: math.Round(min(1, float64(l.busy[i])/column)*1000) / 1000}
				if l.runs[i] > 0 {
					x.Bad = math.Round(float64(l.bad[i])/float64(l.runs[i])*1000) / 1000
				}
				l.Load = append(l.Load, x)
			}
		}
		line.Lanes = append(line.Lanes, l.Lane)
	}
	return line
}

// executorBefore orders w2 before w10, and w1.2 before w1.10.
func executorBefore(a, b string) bool {
	if len(a) != len(b) && strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return len(a) < len(b)
	}
	return a < b
}

// histogram holds durations in columns that are each a tenth wider than the one
// before: a percentile of any number of them, within a tenth, in 2 KiB.
type histogram struct {
	columns [256]int64
	n       int64
}

// growth of the columns; the first ends at a millisecond, the last after a year.
const growth = 1.1

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > time.Millisecond {
		i = 1 + int(math.Log(float64(d)/float64(time.Millisecond))/math.Log(growth))
	}
	h.columns[min(i, len(h.columns)-1)]++
	h.n++
}

// at is the duration that this part of them did not exceed.
func (h *histogram) at(part float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	want := int64(math.Ceil(part * float64(h.n)))
	sum := int64(0)
	for i, c := range h.columns {
		if sum += c; sum >= want {
			if i == 0 {
				return time.Millisecond
			}
			// The middle of the column, so that the error is half of it.
			return time.Duration(math.Pow(growth, float64(i)-0.5) * float64(time.Millisecond)).Round(time.Millisecond)
		}
	}
	return 0
}

// groups gathers failures by cause in bounded memory.
type groups struct {
	total int64
	known map[string]*Failure
	types map[string]int64
}

// maxGroupsKnown bounds the memory; what comes after that is counted only.
const maxGroupsKnown = 5000

func newGroups() *groups { return &groups{known: map[string]*Failure{}, types: map[string]int64{}} }

func (g *groups) add(t *store.FailedTask) {
	g.total++
	if _, known := g.types[t.Type]; known || len(g.types) < maxTypesKnown {
		g.types[t.Type]++
	}
	key := t.Type + "\x00" + string(t.Status) + "\x00" + likeness(t.Cause)
	x := g.known[key]
	if x == nil {
		if len(g.known) >= maxGroupsKnown {
			return
		}
		x = &Failure{Type: t.Type, Status: t.Status, Reason: t.Reason, First: t.At}
		g.known[key] = x
	}
	x.Count++
	if t.At.Before(x.First) {
		x.First = t.At
	}
	if !t.At.Before(x.Last) {
		x.Last, x.Cause, x.Reason = t.At, cut(t.Cause, MaxCauseText), t.Reason
	}
	x.Tasks = append(x.Tasks, FailedTask{ID: t.ID, At: t.At, Attempts: t.Executions, ExitCode: t.ExitCode, Signal: t.Signal, LogPath: t.LogPath})
	sort.SliceStable(x.Tasks, func(i, j int) bool { return x.Tasks[i].At.After(x.Tasks[j].At) })
	x.Tasks = x.Tasks[:min(len(x.Tasks), MaxGroupIDs)]
}

// likeness is a cause without what differs from task to task: its numbers and
// what lies behind its first 200 bytes.
func likeness(cause string) string {
	var b strings.Builder
	digits := false
	for _, r := range cause[:min(len(cause), 200)] {
		digit := r >= '0' && r <= '9'
		if digit && digits {
			continue
		}
		digits = digit
		if digit {
			r = '0'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (g *groups) failures() Failures {
	f := Failures{Total: g.total, Others: g.total}
	for _, x := range g.known {
		f.Groups = append(f.Groups, *x)
	}
	sort.Slice(f.Groups, func(i, j int) bool {
		a, b := f.Groups[i], f.Groups[j]
		switch {
		case a.Count != b.Count:
			return a.Count > b.Count
		case !a.Last.Equal(b.Last):
			return a.Last.After(b.Last)
		}
		return a.Type < b.Type
	})
	f.Groups = f.Groups[:min(len(f.Groups), MaxGroups)]
	for _, x := range f.Groups {
		f.Others -= x.Count
	}
	return f
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
