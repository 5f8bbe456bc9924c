package renderreport

import (
	"sort"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// verdict is the first thing that is read: how the shift went, in one line, and
// what needs a person.
type verdict struct {
	Tone     string // good, look, bad, idle: the colour and the sign beside it
	Headline string
	Detail   string
	Findings []finding
}

// finding is one thing to look at, with the section that tells more.
type finding struct {
	Tone string
	Text string
	Link string
}

// lateAfter is how long something due may wait before it is worth a line: a
// queue that is being worked off is no finding.
const lateAfter = 15 * time.Minute

// nearlyFull is when the file system is worth a line.
const nearlyFull = 0.9

func judge(f *Facts) verdict {
	v := verdict{Findings: findings(f)}
	serious := 0
	for _, x := range v.Findings {
		if x.Tone == "bad" {
			serious++
		}
	}
	switch {
	case serious > 0:
		v.Tone, v.Headline = "bad", headline(f)
	case len(v.Findings) > 0:
		v.Tone, v.Headline = "look", headline(f)
	case f.Runs.Started == 0 && f.Runs.Ended() == 0 && f.ActiveTotal == 0:
		v.Tone, v.Headline = "idle", "Nothing ran"
	default:
		v.Tone, v.Headline = "good", "A quiet shift: nothing failed"
	}
	v.Detail = detail(f)
	return v
}

// headline names the gravest thing, and the next one.
func headline(f *Facts) string {
	var parts []string
	add := func(n int64, one, many string) {
		if n > 0 {
			parts = append(parts, count(n, one, many))
		}
	}
	add(f.Failures.Total, "task failed", "tasks failed")
	add(f.Now[task.Lost], "task is lost", "tasks are lost")
	add(f.SlowTotal, "task is slow", "tasks are slow")
	if len(parts) == 0 {
		if nobody(f) && f.Waiting.Due > 0 {
			return "Work waits, and no worker is there"
		}
		return "Nothing failed, but there is something to look at"
	}
	if len(parts) > 2 {
		parts = parts[:2]
	}
	return strings.Join(parts, ", ")
}

// detail is the shift in numbers.
func detail(f *Facts) string {
	var parts []string
	switch ended := f.Runs.Ended(); {
	case ended == 0:
		parts = append(parts, "No execution ended")
	case ended == f.Runs.Succeeded && ended == 1:
		parts = append(parts, "The one execution that ended succeeded")
	case ended == f.Runs.Succeeded:
		parts = append(parts, "All "+number(ended)+" executions that ended succeeded")
	default:
		parts = append(parts, number(f.Runs.Succeeded)+" of "+count(ended, "execution", "executions")+" ended in success")
	}
	if n := f.Now[task.Running]; n > 0 {
		parts = append(parts, count(n, "task runs", "tasks run")+" now")
	}
	switch due, later := f.Waiting.Due, f.Waiting.Later; {
	case due > 0:
		parts = append(parts, count(due, "task waits", "tasks wait")+" to run")
	case later > 0:
		parts = append(parts, count(later, "task is", "tasks are")+" planned")
	default:
		parts = append(parts, "nothing waits")
	}
	if len(f.Workers) == 0 {
		parts = append(parts, "no worker has ever reported")
	}
	return strings.Join(parts, "; ") + "."
}

// nobody reports that no executor is alive as far as the record shows.
func nobody(f *Facts) bool {
	for _, w := range f.Workers {
		if w.Standing == Alive {
			return false
		}
	}
	return true
}

func findings(f *Facts) []finding {
	var all []finding
	add := func(tone, link, text string) { all = append(all, finding{tone, text, link}) }
	if n := f.Failures.Total; n > 0 {
		add("bad", "failures", count(n, "task", "tasks")+" failed for good: "+byType(f.Failures))
	}
	if n := f.Now[task.Lost]; n > 0 {
		add("bad", "active", count(n, "task is lost: its worker", "tasks are lost: their worker")+" is silent or dead, and nobody has taken over yet")
	}
	if f.SlowTotal > 0 {
		add("look", "active", count(f.SlowTotal, "running task is slow: its", "running tasks are slow: their")+" progress does not move")
	}
	lateTasks(f, add)
	workersAmiss(f, add)
	if n := f.Runs.Interrupted; n > 0 {
		add("look", "incidents", count(n, "execution was", "executions were")+" interrupted by the end of a worker; what was in hand goes on from its checkpoint")
	}
	if f.SkipsTotal > 0 {
		add("look", "schedules", count(f.SkipsTotal, "scheduled run", "scheduled runs")+" did not take place")
	}
	diskAmiss(f, add)
	return all
}

// byType says which types failed, the most frequent first.
func byType(f Failures) string {
	counts := map[string]int64{}
	var names []string
	for _, g := range f.Groups {
		if counts[g.Type] == 0 {
			names = append(names, g.Type)
		}
		counts[g.Type] += g.Count
	}
	sort.SliceStable(names, func(i, j int) bool { return counts[names[i]] > counts[names[j]] })
	rest := f.Total
	var parts []string
	for _, n := range names[:min(len(names), 3)] {
		parts = append(parts, number(counts[n])+" "+cut(clean(n), 60))
		rest -= counts[n]
	}
	if rest > 0 {
		parts = append(parts, number(rest)+" of other types")
	}
	return strings.Join(parts, ", ")
}

func lateTasks(f *Facts, add func(tone, link, text string)) {
	if len(f.Waiting.Oldest) == 0 {
		return
	}
	late := f.At.Sub(f.Waiting.Oldest[0].Due)
	switch {
	case nobody(f):
		add("bad", "waiting", count(f.Waiting.Due, "task is", "tasks are")+" due, and no worker is alive")
	case late > lateAfter:
		add("look", "waiting", "The oldest due task has waited for "+rough(late))
	}
}

func workersAmiss(f *Facts, add func(tone, link, text string)) {
	counts := map[Standing]int64{}
	for _, w := range f.Workers {
		counts[w.Standing]++
	}
	if n := counts[Dead]; n > 0 {
		add("look", "workers", count(n, "executor is", "executors are")+" dead: ended without a good-bye and not started again")
	}
	if n := counts[Silent]; n > 0 {
		add("look", "workers", count(n, "executor has", "executors have")+" been silent for longer than a heartbeat should take")
	}
}

func diskAmiss(f *Facts, add func(tone, link, text string)) {
	d := f.Disk
	if !d.Known {
		return
	}
	if d.Total > 0 && float64(d.Free) < (1-nearlyFull)*float64(d.Total) {
		add("look", "disk", "The file system has "+bytesOf(d.Free)+" left of "+bytesOf(d.Total))
	}
	if d.Budget > 0 && d.Taken() > d.Budget {
		add("look", "disk", "Nightshift takes "+bytesOf(d.Taken())+", more than its budget of "+bytesOf(d.Budget))
	}
}
