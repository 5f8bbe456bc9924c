package operator

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/config"
	"nightshift/pkg/liveness"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Show tells everything that is known of one task.
func (d *Desk) Show(id string) error {
	if err := d.open(reads); err != nil {
		return err
	}
	t, err := d.get(id)
	if err != nil {
		return err
	}
	v := showView{task: &t, now: d.Now()}
	if v.history, err = d.Store.History(id); err != nil {
		return err
	}
	if v.events, err = d.Store.Events(id); err != nil {
		return err
	}
	if v.owner, err = d.owner(&t); err != nil {
		return err
	}
	if d.JSON {
		return WriteJSON(d.Out, d.showObject(&v))
	}
	return d.print(d.showLines(&v)...)
}

// get is the task of an id, or the sentence that it does not exist.
func (d *Desk) get(id string) (task.Task, error) {
	t, err := d.Store.Get(id)
	return t, notFound(err, id)
}

// showView is what show shows.
type showView struct {
	task    *task.Task
	now     time.Time
	history []store.Execution
	events  []store.Event
	owner   *Worker // of a RUNNING or LOST task; nil when it has none
}

// owner finds out how the executor of a task does.
func (d *Desk) owner(t *task.Task) (*Worker, error) {
	if t.ExecutorID == "" || (t.Status != task.Running && t.Status != task.Lost) {
		return nil, nil
	}
	workers, err := d.workers()
	if err != nil {
		return nil, err
	}
	return ownerAmong(workers, t.ExecutorID), nil
}

// ownerAmong is the worker of an executor. One without a heartbeat row (somebody
// deleted it) is shown as unknown rather than left out.
func ownerAmong(workers []Worker, executor string) *Worker {
	for i := range workers {
		if workers[i].ID == WorkerOf(executor) {
			return &workers[i]
		}
	}
	return &Worker{ID: WorkerOf(executor), Life: Unknown, Why: "it has no heartbeat row"}
}

// ownerWords says how the owner of a task does and what follows from it.
func ownerWords(w *Worker, now time.Time) string {
	switch {
	case w == nil:
		return ""
	case w.Life == Gone && len(w.Holders) > 0:
		return "owner dead: " + w.Why + "; the task waits for that process to end (or `takeover --force`)"
	case w.Life == Gone:
		return "owner dead (" + w.Why + "), will be taken over"
	case w.Life == Suspect, w.Life == Offline:
		return fmt.Sprintf("owner %s (%s)", w.Why, w.Life)
	case w.Life == Stopped:
		return "owner stopped " + screen.Ago(w.Stopped, now) + ", goes on when it is started again or another worker takes over"
	case w.Life == Unknown:
		return "owner unknown: " + w.Why
	case w.Life == Draining:
		return "owner alive, draining"
	}
	return "owner alive"
}

// showLines is the picture of show.
func (d *Desk) showLines(v *showView) []screen.Line {
	t := v.task
	head := screen.Line{{Text: "Task " + esc(t.ID), Color: screen.Bold}, {Text: "  "}, {Text: string(t.Status), Color: statusColor(t.Status)}}
	lines := d.Style.Wrap(head, 5) // whole: ids are copied from here
	for _, f := range d.facts(v) {
		if f.text == "" {
			continue
		}
		line := screen.Line{{Text: "  " + screen.PadRight(f.name, 13), Color: screen.Dim}, {Text: f.text, Color: f.color}}
		lines = append(lines, d.Style.Wrap(line, 15)...)
	}
	lines = append(lines, d.jsonLines("payload", t.Payload)...)
	lines = append(lines, d.jsonLines("checkpoint", t.Checkpoint)...)
	lines = append(lines, d.jsonLines("result", t.Result)...)
	lines = append(lines, d.historyLines(v)...)
	return append(lines, d.eventLines(v)...)
}

type fact struct {
	name, text string
	color      screen.Color
}

func (d *Desk) facts(v *showView) []fact {
	t, s, now := v.task, d.Style, v.now
	timed := func(at time.Time, words string) string {
		if at.IsZero() {
			return ""
		}
		return s.Time(at) + " (" + words + ")"
	}
	facts := []fact{
		{name: "type", text: esc(t.Type)},
		{name: "reason", text: reasonWords(t)},
		{name: "priority", text: fmt.Sprintf("%d (smaller runs first)", t.Priority)},
		{name: "created", text: timed(t.CreatedAt, screen.Ago(t.CreatedAt, now))},
		{name: "changed", text: timed(t.UpdatedAt, screen.Ago(t.UpdatedAt, now))},
	}
	if t.Status == task.Pending || t.Status == task.Retrying {
		facts = append(facts, fact{name: "due", text: timed(t.NextRun, screen.Until(t.NextRun, now))})
	}
	facts = append(facts,
		fact{name: "retries", text: fmt.Sprintf("%s, crashes %d, executions %d", retryWords(t), t.CrashCount, t.Executions)},
		fact{name: "timeout", text: d.timeoutWords(t)},
		fact{name: "executor", text: executorWords(v)},
	)
	if t.Status == task.Running || t.Status == task.Lost {
		facts = append(facts, fact{name: "lease", text: timed(t.LeaseUntil, "ends "+screen.Until(t.LeaseUntil, now))})
	}
	if v.owner != nil && v.owner.Life != Alive {
		facts = append(facts, fact{"owner", ownerWords(v.owner, now), lifeColor(v.owner.Life)})
	}
	facts = append(facts,
		fact{name: "progress", text: d.progressWords(t.Progress)},
		fact{name: "key", text: esc(t.UniqueKey)},
		fact{name: "schedule", text: esc(t.Schedule)},
		fact{name: "rerun of", text: esc(t.RerunOf)},
	)
	if !t.Status.Final() {
		facts = append(facts, fact{name: "environment", text: d.environmentWords(t.Type)})
	}
	return facts
}

// retryWords says how many of its retries a task has had. retry_count counts its
// failures: the last one of a DEAD task had no retry after it.
func retryWords(t *task.Task) string {
	if t.RetryCount > t.MaxRetry {
		return fmt.Sprintf("%d of %d, exhausted", t.MaxRetry, t.MaxRetry)
	}
	return fmt.Sprintf("%d of %d", t.RetryCount, t.MaxRetry)
}

// progressWords is progress with a bar where it says how far it is.
func (d *Desk) progressWords(progress string) string {
	if f, ok := screen.Fraction(progress); ok {
		return screen.Bar(f, 22, d.Style.ASCII) + " " + esc(progress)
	}
	return esc(progress)
}

func executorWords(v *showView) string {
	t := v.task
	if t.ExecutorID == "" {
		return ""
	}
	text := esc(t.ExecutorID)
	if t.ExecID > 0 {
		text += fmt.Sprintf(", execution %d", t.ExecID)
	}
	if v.owner != nil && v.owner.PID > 0 {
		text += fmt.Sprintf(", worker process %d on %s", v.owner.PID, esc(v.owner.Host))
	}
	return text
}

// timeoutWords says which limit is in force and where it comes from.
func (d *Desk) timeoutWords(t *task.Task) string {
	limit, from := d.Config.Type(t.Type).Timeout, "of its type"
	if t.Timeout != nil {
		limit, from = time.Duration(*t.Timeout)*time.Second, "of its own"
	}
	if limit == 0 {
		return "none (" + from + ")"
	}
	return config.FormatDuration(limit) + " (" + from + ")"
}

// environmentWords names the variables that the configuration adds; their values
// may be secrets.
func (d *Desk) environmentWords(taskType string) string {
	var names []string
	for n := range d.Config.Type(taskType).Env {
		names = append(names, esc(n))
	}
	if len(names) == 0 {
		return ""
	}
	sort.Strings(names)
	return "adds " + strings.Join(names, ", ")
}

// jsonLines shows a JSON column on one line, shortened where the screen is
// narrow; --json has it whole.
func (d *Desk) jsonLines(name, text string) []screen.Line {
	if text == "" {
		return nil
	}
	shown := esc(strings.TrimSpace(text))
	room := 400
	if d.Style.Width > 0 {
		room = max(d.Style.Width-15, 5)
	}
	return []screen.Line{{{Text: "  " + screen.PadRight(name, 13), Color: screen.Dim}, {Text: screen.Shorten(shown, room, d.Style.ASCII)}}}
}

// historyLines is a table of the executions, the newest last.
func (d *Desk) historyLines(v *showView) []screen.Line {
	if len(v.history) == 0 {
		return nil
	}
	table := screen.Table{Style: d.Style, Indent: 2, Columns: []screen.Column{
		{Title: "EXECUTION", Right: true, Keep: 9},
		{Title: "EXECUTOR", Min: 4, Keep: 3},
		{Title: "STARTED (" + d.Style.ZoneName(v.now) + ")", Keep: 5},
		{Title: "TOOK", Keep: 6},
		{Title: "OUTCOME", Keep: 8},
		{Title: "HOW", Min: 10, Keep: 7},
	}}
	for _, x := range v.history {
		took := "runs"
		if !x.End.IsZero() {
			took = screen.Words(x.End.Sub(x.Start))
		}
		table.Row(
			screen.Cell{Text: fmt.Sprint(x.ExecID)},
			screen.Cell{Text: esc(x.ExecutorID)},
			screen.Cell{Text: d.Style.Clock(x.Start, v.now)},
			screen.Cell{Text: took},
			screen.Cell{Text: esc(x.Outcome), Color: outcomeColor(x.Outcome)},
			screen.Cell{Text: endWords(&x)},
		)
	}
	lines := append([]screen.Line{{}, screen.Title("Executions")}, table.Lines()...)
	last := v.history[len(v.history)-1]
	if said := endWords(&last); d.Style.Width > 0 && screen.Width(said) > d.Style.Width/3 {
		// The table has cut it; what the last one said is why people look.
		lines = append(lines, d.Style.Wrap(screen.Line{{Text: "  said  " + said}}, 8)...)
	}
	if last.LogPath != "" {
		lines = append(lines, screen.Line{{Text: "  log   " + d.shortPath(last.LogPath)}})
	}
	return lines
}

// shortPath shows a path relative to the data directory where it lies below it.
func (d *Desk) shortPath(path string) string {
	if rel, err := filepath.Rel(d.Config.DataDir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return esc(filepath.Join(filepath.Base(d.Config.DataDir), rel)) + fmt.Sprintf("  (%s logs shows it)", d.Program)
	}
	return esc(path)
}

func outcomeColor(outcome string) screen.Color {
	switch outcome {
	case store.OutcomeSuccess:
		return screen.Green
	case store.OutcomeFailed, store.OutcomeTimeout, store.OutcomeLost:
		return screen.Red
	case store.OutcomeRetry, store.OutcomeLeaseExpired:
		return screen.Yellow
	}
	return screen.Plain
}

// endWords says how an execution ended: its summary, and its exit status or
// signal where the summary does not (case PR-13).
func endWords(x *store.Execution) string {
	how := exitWords(x)
	summary := esc(x.Result)
	switch {
	case how == "" || strings.Contains(summary, how):
		return summary
	case summary == "":
		return how
	}
	return how + ": " + summary
}

// exitWords tells "signal 11 (SEGV)" from "exit 139". A status above 128 is what
// a shell reports for a child of its own that a signal killed.
func exitWords(x *store.Execution) string {
	switch {
	case x.Signal != "":
		if n := signalNumber(x.Signal); n > 0 {
			return fmt.Sprintf("signal %d (%s)", n, strings.TrimPrefix(x.Signal, "SIG"))
		}
		return "signal " + esc(x.Signal)
	case x.ExitCode == nil || *x.ExitCode == 0:
		return ""
	case *x.ExitCode > 128 && *x.ExitCode < 128+65:
		if name := signalName(*x.ExitCode - 128); name != "" {
			return fmt.Sprintf("exit %d (a shell says so of a child killed by %s)", *x.ExitCode, name)
		}
	}
	return fmt.Sprintf("exit %d", *x.ExitCode)
}

// eventLines is the list of status changes, the newest last; a long list is cut
// in its middle.
func (d *Desk) eventLines(v *showView) []screen.Line {
	if len(v.events) == 0 {
		return nil
	}
	lines := []screen.Line{{}, screen.Title("Changes")}
	events, skipped := v.events, 0
	if len(events) > maxEvents {
		skipped = len(events) - maxEvents
	}
	for i, e := range events {
		if skipped > 0 && i >= maxEvents/2 && i < maxEvents/2+skipped {
			if i == maxEvents/2 {
				lines = append(lines, screen.Text(fmt.Sprintf("  … %s more (--json has them all)", screen.Count(int64(skipped)))))
			}
			continue
		}
		from := string(e.From)
		if from == "" {
			from = "new"
		}
		text := fmt.Sprintf("  %s  %s → %s", d.Style.Time(e.At), from, e.To)
		if d.Style.ASCII {
			text = strings.ReplaceAll(text, "→", "->")
		}
		if e.Reason != "" {
			text += "  " + esc(string(e.Reason))
		}
		if e.ExecutorID != "" {
			text += fmt.Sprintf("  %s", esc(e.ExecutorID))
			if e.ExecID > 0 {
				text += fmt.Sprintf("/%d", e.ExecID)
			}
		}
		lines = append(lines, screen.Text(text))
	}
	return lines
}

// maxEvents is how many changes are shown on a screen.
const maxEvents = 40

func (d *Desk) showObject(v *showView) object {
	o := taskObject(v.task)
	o = append(o, field{"owner", nil})
	if v.owner != nil {
		o[len(o)-1].Value = workerObject(v.owner, v.now)
	}
	var history, events []object
	for i := range v.history {
		history = append(history, executionObject(&v.history[i]))
	}
	for _, e := range v.events {
		events = append(events, object{
			{"at", e.At}, {"from", orNull(string(e.From))}, {"to", string(e.To)}, {"reason", orNull(string(e.Reason))},
			{"executor_id", orNull(e.ExecutorID)}, {"exec_id", e.ExecID},
		})
	}
	return append(o, field{"history", history}, field{"events", events})
}

func executionObject(x *store.Execution) object {
	return object{
		{"exec_id", x.ExecID}, {"executor_id", x.ExecutorID}, {"start_time", x.Start}, {"end_time", x.End},
		{"outcome", orNull(x.Outcome)}, {"exit_code", x.ExitCode}, {"signal", orNull(x.Signal)}, {"program", orNull(x.Program)},
		{"result", orNull(x.Result)}, {"log_path", orNull(x.LogPath)},
	}
}

func workerObject(w *Worker, now time.Time) object {
	holders := []object{}
	for _, h := range w.Holders {
		holders = append(holders, processObject(h))
	}
	executors := []object{}
	for _, e := range w.Executors {
		executors = append(executors, object{
			{"executor_id", e.WorkerID}, {"current_task_id", orNull(e.CurrentTaskID)}, {"progress", orNull(e.Progress)},
			{"slow_since", e.SlowSince},
		})
	}
	return object{
		{"worker_id", w.ID}, {"state", string(w.Life)}, {"why", orNull(w.Why)}, {"pid", w.PID}, {"hostname", orNull(w.Host)},
		{"version", orNull(w.Version)}, {"started_at", w.Started}, {"last_heartbeat", w.LastBeat},
		{"silent_seconds", int64(max(now.Sub(w.LastBeat), 0) / time.Second)}, {"stopped_at", w.Stopped},
		{"lock_holders", holders}, {"executors", executors},
	}
}

func processObject(p liveness.Process) object {
	return object{{"pid", p.PID}, {"command", p.Comm}, {"state", string(rune(p.State))}}
}

// signalNumber and signalName translate "SIGSEGV" and 11.
func signalNumber(name string) int {
	for n := 1; n < 65; n++ {
		if signalName(n) == name {
			return n
		}
	}
	return 0
}

func signalName(n int) string { return unix.SignalName(syscall.Signal(n)) }
