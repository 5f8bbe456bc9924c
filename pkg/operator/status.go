package operator

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// StatusView is one moment of the night shift: what status shows.
type StatusView struct {
	Now      time.Time
	Database string
	Version  string
	Draining bool
	Workers  []Worker
	Counts   map[task.Status]int64
	Due      int64       // waiting tasks whose time has come
	Oldest   *task.Task  // of them, the one that has waited longest
	Active   []task.Task // RUNNING and LOST
	Started  map[string]time.Time
	Failed   int64 // FAILED and DEAD in the last day
	Failures []Failure
	Plans    []PlannedRun
	Size     store.Size
	Warnings []string
}

// Failure is a task that ended FAILED or DEAD, with how.
type Failure struct {
	Task task.Task
	How  string
}

// PlannedRun is a schedule's next run.
type PlannedRun struct {
	Schedule, Type string
	At             time.Time
	Local          string
}

// failuresShown is how many of the last day's failures are named.
const failuresShown = 10

// Status shows one screen. Its exit status is 0 when a worker is alive and 3 when
// none is, for scripts.
func (d *Desk) Status() error {
	if err := d.open(reads); err != nil {
		return err
	}
	v, err := d.look()
	if err != nil {
		return err
	}
	if d.JSON {
		err = WriteJSON(d.Out, statusObject(v))
	} else {
		err = d.print(statusLines(v, d.Style)...)
	}
	if err == nil && nobodyWorks(v.Workers, v.Now) != "" {
		return Exit(ExitNoWorker)
	}
	return err
}

// watchPeriod is how often status --watch looks.
const watchPeriod = time.Second

// StatusWatch redraws status each second until q or Ctrl-C.
func (d *Desk) StatusWatch(ctx context.Context) error {
	out, isFile := d.Out.(*os.File)
	in, isTerminal := d.In.(*os.File)
	switch {
	case d.JSON:
		return cmdline.Usagef("--watch and --json exclude each other")
	case !isFile || !isTerminal || !d.Style.Terminal:
		return &cmdline.UsageError{Message: "--watch needs a terminal", Hint: "leave --watch out to print one look"}
	}
	if err := d.open(reads); err != nil {
		return err
	}
	return screen.Watch(ctx, in, out, d.Style, watchPeriod, func(s screen.Style) ([]screen.Line, error) {
		v, err := d.look()
		if err != nil {
			return nil, err
		}
		return statusLines(v, s), nil
	})
}

// look gathers a StatusView. Each part is one short read.
func (d *Desk) look() (*StatusView, error) {
	v := &StatusView{Now: d.Now(), Database: d.Config.Database(), Version: d.Version, Started: map[string]time.Time{}}
	var err error
	if v.Workers, err = d.workers(); err != nil {
		return nil, err
	}
	for _, part := range []func(*StatusView) error{d.lookTasks, d.lookFailures, d.lookPlans} {
		if err := part(v); err != nil {
			return nil, err
		}
	}
	if v.Draining, err = d.Store.Draining(); err != nil {
		return nil, err
	}
	if v.Size, err = d.Store.Sizes(); err != nil {
		return nil, err
	}
	return v, d.lookWarnings(v)
}

func (d *Desk) lookTasks(v *StatusView) (err error) {
	tally, err := d.Store.Tally(v.Now)
	if err != nil {
		return err
	}
	v.Counts, v.Due = tally.Counts, tally.Due
	oldest, err := d.Store.Waiting(v.Now, 1)
	if err != nil {
		return err
	}
	if len(oldest) > 0 {
		v.Oldest = &oldest[0]
	}
	if v.Active, err = d.Store.Running(); err != nil {
		return err
	}
	for i := range v.Active {
		v.Started[v.Active[i].ID] = d.started(&v.Active[i])
	}
	return nil
}

func (d *Desk) lookFailures(v *StatusView) error {
	total, newest, err := d.Store.FailedLately(v.Now.Add(-24*time.Hour), failuresShown)
	v.Failed = total
	for i := range newest {
		x := d.lastExecution(&newest[i])
		v.Failures = append(v.Failures, Failure{newest[i], oneLine(endWords(&x))})
	}
	return err
}

func (d *Desk) lookPlans(v *StatusView) error {
	plans, err := d.plans()
	if err != nil {
		return err
	}
	for i := range plans {
		at := plans[i].next(v.Now)
		if at.IsZero() {
			continue
		}
		s := plans[i].schedule
		v.Plans = append(v.Plans, PlannedRun{plans[i].name, s.Task, at, at.In(s.Rule.Zone()).Format("Mon 15:04 -07:00")})
	}
	sort.SliceStable(v.Plans, func(i, j int) bool { return v.Plans[i].At.Before(v.Plans[j].At) })
	return nil
}

// lookWarnings gathers what a person should do something about.
func (d *Desk) lookWarnings(v *StatusView) error {
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }
	if why := nobodyWorks(v.Workers, v.Now); why != "" {
		warn("%s", why)
	}
	if v.Draining {
		warn("draining: no task is started until `%s drain off`", d.Program)
	}
	for i := range v.Active {
		t := &v.Active[i]
		w := ownerAmong(v.Workers, t.ExecutorID)
		if !w.Life.Lives() {
			warn("task %s on %s: %s", esc(t.ID), esc(t.ExecutorID), ownerWords(w, v.Now))
		}
	}
	types, err := d.Store.LiveTypes()
	if err != nil {
		return err
	}
	for _, name := range types {
		if _, known := d.Config.Tasks[name]; !known {
			warn("tasks of the type %s wait, which %s does not know", quote(name), d.configName())
		}
	}
	if holders, err := d.Store.Holders(); err == nil {
		for _, h := range holders {
			if h.What == "write" && h.State == "T" {
				warn("process %d (%s) is stopped and holds the database's write lock; nothing can be written", h.PID, esc(h.Comm))
			}
		}
	}
	if free := v.Size.FreeDisk; free > 0 && free < lowDisk {
		warn("only %s are free on the disk of the database", screen.Bytes(free))
	}
	if v.Size.WAL > bigWAL {
		warn("the write-ahead log has %s: some process has a read open for long; doctor looks for it", screen.Bytes(v.Size.WAL))
	}
	for _, w := range v.Workers {
		if w.Life.Lives() && w.Version != "" && d.Version != "" && w.Version != d.Version {
			warn("worker %s runs version %s, this is %s", esc(w.ID), esc(w.Version), d.Version)
		}
	}
	return nil
}

// Limits of what is normal.
const (
	lowDisk = 500 << 20
	bigWAL  = 64 << 20 // with our own processes it stays below 50 MB (case DB-04)
)

func statusObject(v *StatusView) object {
	counts := object{}
	for _, s := range task.Statuses() {
		counts = append(counts, field{string(s), v.Counts[s]})
	}
	workers, running, failed, slow, plans := []object{}, []object{}, []object{}, []object{}, []object{}
	for i := range v.Workers {
		workers = append(workers, workerObject(&v.Workers[i], v.Now))
		for _, e := range v.Workers[i].Executors {
			if !e.SlowSince.IsZero() && e.CurrentTaskID != "" {
				slow = append(slow, object{{"task_id", e.CurrentTaskID}, {"executor_id", e.WorkerID}, {"slow_since", e.SlowSince}, {"progress", orNull(e.Progress)}})
			}
		}
	}
	for i := range v.Active {
		t := &v.Active[i]
		w := ownerAmong(v.Workers, t.ExecutorID)
		running = append(running, object{
			{"task_id", t.ID}, {"task_type", t.Type}, {"status", string(t.Status)}, {"executor_id", orNull(t.ExecutorID)},
			{"exec_id", t.ExecID}, {"progress", orNull(t.Progress)}, {"control", orNull(string(t.Control))},
			{"started_at", v.Started[t.ID]}, {"lease_expire_time", t.LeaseUntil}, {"owner_state", string(w.Life)},
		})
	}
	for _, f := range v.Failures {
		failed = append(failed, object{
			{"task_id", f.Task.ID}, {"task_type", f.Task.Type}, {"status", string(f.Task.Status)}, {"reason", orNull(string(f.Task.Reason))},
			{"updated_at", f.Task.UpdatedAt}, {"how", orNull(f.How)},
		})
	}
	for _, p := range v.Plans {
		plans = append(plans, object{{"name", p.Schedule}, {"task_type", p.Type}, {"next", p.At}})
	}
	var oldest any
	if v.Oldest != nil {
		oldest = object{{"task_id", v.Oldest.ID}, {"task_type", v.Oldest.Type}, {"next_run_time", v.Oldest.NextRun}}
	}
	return object{
		{"at", v.Now}, {"version", v.Version}, {"database", v.Database}, {"draining", v.Draining},
		{"workers", workers}, {"counts", counts}, {"due", v.Due}, {"oldest_due", oldest}, {"running", running},
		{"failed_last_day", v.Failed}, {"failures", failed}, {"slow", slow}, {"schedules", plans},
		{"disk", object{{"database_bytes", v.Size.Database}, {"used_bytes", v.Size.Used}, {"wal_bytes", v.Size.WAL}, {"free_bytes", v.Size.FreeDisk}}},
		{"warnings", append([]string{}, v.Warnings...)},
	}
}

// Workers lists the workers and their executors.
func (d *Desk) Workers() error {
	if err := d.open(reads); err != nil {
		return err
	}
	workers, err := d.workers()
	if err != nil {
		return err
	}
	now := d.Now()
	if d.JSON {
		list := []object{}
		for i := range workers {
			list = append(list, workerObject(&workers[i], now))
		}
		return WriteJSON(d.Out, list)
	}
	if len(workers) == 0 {
		d.note("%s", nobodyWorks(workers, now))
		return nil
	}
	table := screen.Table{Style: d.Style, Columns: []screen.Column{
		{Title: "WORKER", Min: 6, Keep: 9}, {Title: "STATE", Keep: 9}, {Title: "PID", Right: true, Keep: 5}, {Title: "SLOTS", Right: true, Keep: 4},
		{Title: "STARTED", Keep: 3}, {Title: "HEARD", Keep: 6}, {Title: "VERSION", Min: 6, Keep: 2}, {Title: "WHAT", Min: 12, Good: 24, Keep: 8},
		{Title: "PROGRESS", Min: 8, Good: 20, Keep: 7},
	}}
	for i := range workers {
		w := &workers[i]
		table.Row(
			screen.Cell{Text: esc(w.ID)}, screen.Cell{Text: string(w.Life), Color: lifeColor(w.Life)}, screen.Cell{Text: fmt.Sprint(w.PID)},
			screen.Cell{Text: fmt.Sprintf("%d/%d", w.Busy(), w.Slots())}, screen.Cell{Text: screen.Ago(w.Started, now)},
			screen.Cell{Text: screen.Ago(w.LastBeat, now)}, screen.Cell{Text: esc(w.Version)}, screen.Cell{Text: esc(w.Why)},
		)
		for _, e := range w.Executors {
			if w.Slots() == 1 && e.CurrentTaskID == "" {
				continue
			}
			what, progress := "idle", screen.Cell{}
			if e.CurrentTaskID != "" {
				what, progress = esc(e.CurrentTaskID), screen.Cell{Text: esc(e.Progress)}
				if !e.SlowSince.IsZero() {
					progress = screen.Cell{Text: strings.TrimSpace(progress.Text + " slow " + words(now.Sub(e.SlowSince))), Color: screen.Yellow}
				}
			}
			table.Row(screen.Cell{Text: "  " + esc(e.WorkerID)}, screen.Cell{}, screen.Cell{}, screen.Cell{}, screen.Cell{}, screen.Cell{}, screen.Cell{}, screen.Cell{Text: what}, progress)
		}
	}
	return table.Flush(d.Out)
}
