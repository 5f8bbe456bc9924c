package operator

import (
	"fmt"
	"strings"

	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// statusLines draws a StatusView. On a terminal it takes one screen: the lists
// share what room there is, and each says how much it leaves out.
func statusLines(v *StatusView, s screen.Style) []screen.Line {
	head := append([]screen.Line{titleLine(v, s)}, warningLines(v, s)...)
	counts := countLines(v)
	disk := diskLine(v)

	workers, failures, plans := executorRows(v), len(v.Failures), len(v.Plans)
	room := s.Height
	if room > 0 {
		// One line stays free for the prompt below; a title line for each list.
		room -= len(head) + len(counts) + 1 /* disk */ + 1 /* prompt */ + 1 /* workers */
		if failures > 0 {
			room--
		}
		if plans > 0 {
			room--
		}
		shares := share(room, []int{len(workers), failures, plans}, []int{2, 1, 1})
		workers = workers[:min(shares[0], len(workers))]
		failures, plans = shares[1], shares[2]
	} else {
		plans = min(plans, 10)
	}
	lines := append(head, workerLines(v, s, workers)...)
	lines = append(lines, counts...)
	lines = append(lines, failureLines(v, s, failures)...)
	lines = append(lines, planLines(v, s, plans)...)
	return append(lines, disk)
}

// share divides room among lists in rounds, each of which gives a list as many
// lines as its weight, as long as it wants more.
func share(room int, wants, weights []int) []int {
	got := make([]int, len(wants))
	for given := true; given; {
		given = false
		for i := range wants {
			n := max(min(weights[i], wants[i]-got[i], room), 0)
			got[i], room, given = got[i]+n, room-n, given || n > 0
		}
	}
	return got
}

// label is the name of a part, in the first column.
func label(name string) screen.Span {
	return screen.Span{Text: screen.PadRight(name, 11), Color: screen.Bold}
}

func titleLine(v *StatusView, s screen.Style) screen.Line {
	line := screen.Line{label("Nightshift"), {Text: s.Time(v.Now)}, {Text: "  " + esc(v.Database), Color: screen.Dim}}
	if v.Draining {
		line = append(line[:2:2], screen.Span{Text: "  DRAINING", Color: screen.Yellow}, line[2])
	}
	return line
}

// warningsShown is how many warnings a screen bears.
const warningsShown = 4

func warningLines(v *StatusView, s screen.Style) []screen.Line {
	var lines []screen.Line
	for i, w := range v.Warnings {
		if s.Height > 0 && i == warningsShown && len(v.Warnings) > warningsShown+1 {
			lines = append(lines, screen.Line{{Text: fmt.Sprintf("! and %d more warnings (status --json has them all)", len(v.Warnings)-i), Color: screen.Yellow}})
			break
		}
		lines = append(lines, s.Wrap(screen.Line{{Text: "! " + w, Color: screen.Yellow}}, 2)...)
	}
	return lines
}

// executorRow is one line of the list of workers.
type executorRow struct {
	worker *Worker
	row    store.Heartbeat
	first  bool // of its worker
}

// executorRows puts those at work and those in trouble before the idle and the
// stopped: a screen that is too small leaves out the least interesting.
func executorRows(v *StatusView) []executorRow {
	var first, last []executorRow
	for i := range v.Workers {
		w := &v.Workers[i]
		for k, e := range w.Executors {
			r := executorRow{w, e, k == 0}
			switch {
			case e.CurrentTaskID != "" && w.Life.Lives(), w.Life != Alive && w.Life != Stopped && k == 0:
				first = append(first, r)
			case w.Life == Alive || k == 0:
				last = append(last, r)
			}
		}
	}
	return append(first, last...)
}

func workerLines(v *StatusView, s screen.Style, shown []executorRow) []screen.Line {
	lives := map[Life]int{}
	slots, busy, all := 0, 0, len(executorRows(v))
	for i := range v.Workers {
		w := &v.Workers[i]
		lives[w.Life]++
		if w.Life.Lives() {
			slots, busy = slots+w.Slots(), busy+w.Busy()
		}
	}
	var parts []string
	for _, l := range []Life{Alive, Draining, Suspect, Offline, Gone, Unknown, Stopped} {
		if lives[l] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", lives[l], l))
		}
	}
	summary := "none"
	if len(parts) > 0 {
		summary = fmt.Sprintf("%s; %d of %s busy", strings.Join(parts, ", "), busy, screen.Plural(int64(slots), "slot"))
	}
	if all > len(shown) {
		summary += fmt.Sprintf("; %d not shown", all-len(shown))
	}
	lines := []screen.Line{{label("Workers"), {Text: summary}}}
	if len(shown) == 0 {
		return lines
	}
	table := screen.Table{Style: s, Indent: 2, Columns: []screen.Column{
		{Min: 4, Keep: 9}, {Keep: 8}, {Min: 8, Keep: 6}, {Min: 12, Keep: 7}, {Keep: 5}, {Keep: 4},
	}}
	for _, r := range shown {
		table.Row(executorCells(v, s, r)...)
	}
	return append(lines, table.Lines()[1:]...) // the columns speak for themselves
}

func executorCells(v *StatusView, s screen.Style, r executorRow) []screen.Cell {
	w, e := r.worker, r.row
	cells := []screen.Cell{{Text: esc(e.WorkerID)}, {Text: string(w.Life), Color: lifeColor(w.Life)}}
	if e.CurrentTaskID == "" || !w.Life.Lives() {
		why := esc(w.Why)
		if w.Life == Alive && why == "" {
			why = "idle"
		}
		if w.Life == Stopped {
			why = screen.Ago(w.Stopped, v.Now)
		}
		return append(cells, screen.Cell{}, screen.Cell{Text: why, Color: screen.Dim})
	}
	t := findTask(v.Active, e.CurrentTaskID)
	progress, kind, since := e.Progress, "", ""
	if t != nil {
		kind = esc(t.Type)
		if t.Progress != "" {
			progress = t.Progress // newer than the last heartbeat
		}
		if started := v.Started[t.ID]; !started.IsZero() {
			since = words(v.Now.Sub(started))
		}
		if t.Control != task.NoControl {
			since += " (" + string(t.Control) + ")"
		}
	}
	shown := screen.Cell{Text: progressCell(progress, s)}
	if !e.SlowSince.IsZero() {
		shown = screen.Cell{Text: strings.TrimSpace(shown.Text + " slow " + words(v.Now.Sub(e.SlowSince))), Color: screen.Yellow}
	}
	return append(cells, screen.Cell{Text: kind}, screen.Cell{Text: esc(e.CurrentTaskID)}, shown, screen.Cell{Text: since})
}

// progressCell is progress with a bar, as wide as the screen can bear: a bar that
// is cut says nothing.
func progressCell(progress string, s screen.Style) string {
	bar, room := 12, 30
	if s.Width > 0 {
		bar, room = min(max(s.Width/10, 6), 22), max(s.Width/8, 8)
	}
	text := screen.Shorten(esc(progress), room, s.ASCII)
	if f, ok := screen.Fraction(progress); ok {
		return screen.Bar(f, bar, s.ASCII) + " " + text
	}
	return text
}

func findTask(tasks []task.Task, id string) *task.Task {
	for i := range tasks {
		if tasks[i].ID == id {
			return &tasks[i]
		}
	}
	return nil
}

func countLines(v *StatusView) []screen.Line {
	row := func(name string, states ...task.Status) screen.Line {
		line := screen.Line{label(name)}
		for i, s := range states {
			gap := ""
			if i > 0 {
				gap = "  "
			}
			n := v.Counts[s]
			color := statusColor(s)
			if n == 0 {
				color = screen.Dim
			}
			text := fmt.Sprintf("%s%s %s", gap, s, screen.Count(n))
			if s == task.Pending && v.Due > 0 {
				text += fmt.Sprintf(" (due %s)", screen.Count(v.Due))
			}
			line = append(line, screen.Span{Text: text, Color: color})
		}
		return line
	}
	lines := []screen.Line{
		row("Tasks", task.Pending, task.Running, task.Retrying, task.Paused, task.Lost),
		row("", task.Success, task.Failed, task.Dead, task.Cancelled),
	}
	if v.Oldest != nil {
		lines = append(lines, screen.Line{label("Waiting"), {Text: fmt.Sprintf("longest: %s %s, due %s", esc(v.Oldest.Type), esc(v.Oldest.ID), screen.Until(v.Oldest.NextRun, v.Now))}})
	}
	return lines
}

func failureLines(v *StatusView, s screen.Style, n int) []screen.Line {
	if v.Failed == 0 {
		return nil
	}
	title := fmt.Sprintf("%s in the last day", screen.Count(v.Failed))
	if int64(n) < v.Failed {
		title += fmt.Sprintf(", %d shown (list --status FAILED,DEAD --since 24h)", n)
	}
	lines := []screen.Line{{label("Failed"), {Text: title}}}
	if n == 0 {
		return lines
	}
	table := screen.Table{Style: s, Indent: 2, Columns: []screen.Column{{Keep: 9}, {Min: 8, Keep: 7}, {Min: 12, Keep: 8}, {Keep: 5}, {Min: 10, Keep: 6}}}
	for _, f := range v.Failures[:min(n, len(v.Failures))] {
		how := f.How
		if how == "" {
			how = reasonText(f.Task.Reason)
		}
		table.Row(
			screen.Cell{Text: string(f.Task.Status), Color: statusColor(f.Task.Status)}, screen.Cell{Text: esc(f.Task.Type)},
			screen.Cell{Text: esc(f.Task.ID)}, screen.Cell{Text: screen.Ago(f.Task.UpdatedAt, v.Now)}, screen.Cell{Text: how},
		)
	}
	return append(lines, table.Lines()[1:]...)
}

func planLines(v *StatusView, s screen.Style, n int) []screen.Line {
	if len(v.Plans) == 0 {
		return nil
	}
	title := "next runs"
	if n < len(v.Plans) {
		title = fmt.Sprintf("next runs, %d of %d shown", n, len(v.Plans))
	}
	lines := []screen.Line{{label("Schedules"), {Text: title}}}
	if n == 0 {
		return lines
	}
	table := screen.Table{Style: s, Indent: 2, Columns: []screen.Column{{Min: 8, Keep: 9}, {Keep: 8}, {Keep: 7}, {Min: 8, Keep: 5}}}
	for _, p := range v.Plans[:n] {
		table.Row(screen.Cell{Text: esc(p.Schedule)}, screen.Cell{Text: screen.Until(p.At, v.Now)}, screen.Cell{Text: p.Local}, screen.Cell{Text: esc(p.Type)})
	}
	return append(lines, table.Lines()[1:]...)
}

func diskLine(v *StatusView) screen.Line {
	text := fmt.Sprintf("database %s, write-ahead log %s", screen.Bytes(v.Size.Database), screen.Bytes(v.Size.WAL))
	if v.Size.FreeDisk > 0 {
		text += fmt.Sprintf("; %s free", screen.Bytes(v.Size.FreeDisk))
	}
	return screen.Line{label("Disk"), {Text: text}}
}
