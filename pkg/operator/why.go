package operator

import (
	"errors"
	"fmt"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/cron"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Cause is one thing that explains why a task is, or is not, running.
type Cause struct {
	Code string // one word for programs: see docs/json.md
	Text string // one sentence for people
}

// Why says from the record why a task is running, waiting or at its end.
func (d *Desk) Why(id string) error {
	if err := d.open(reads); err != nil {
		return err
	}
	t, err := d.Store.Get(id)
	if errors.Is(err, store.ErrNotFound) {
		return d.whyNot(id)
	}
	if err != nil {
		return err
	}
	q := question{d: d, t: &t, now: d.Now()}
	if err := q.ask(); err != nil {
		return err
	}
	events, err := d.Store.Events(id)
	if err != nil {
		return err
	}
	if d.JSON {
		return WriteJSON(d.Out, whyObject(&t, q.causes))
	}
	lines := []screen.Line{{{Text: "Task " + esc(id), Color: screen.Bold}, {Text: " is "}, {Text: string(t.Status), Color: statusColor(t.Status)}, {Text: ":"}}}
	for _, c := range q.causes {
		lines = append(lines, screen.Text("  - "+c.Text))
	}
	v := showView{task: &t, now: q.now, events: events}
	if len(v.events) > whyEvents {
		v.events = v.events[len(v.events)-whyEvents:]
	}
	return d.printWrapped(append(lines, d.eventLines(&v)...))
}

// whyEvents is how many of the last changes stand below the causes.
const whyEvents = 8

func whyObject(t *task.Task, causes []Cause) object {
	list := []object{}
	for _, c := range causes {
		list = append(list, object{{"code", c.Code}, {"text", c.Text}})
	}
	o := object{{"task_id", nil}, {"status", nil}, {"causes", list}}
	if t != nil {
		o[0].Value, o[1].Value = t.ID, string(t.Status)
	}
	return o
}

// printWrapped prints sentences that may be wider than the screen: nothing of an
// explanation is cut.
func (d *Desk) printWrapped(lines []screen.Line) error {
	var out []screen.Line
	for _, l := range lines {
		out = append(out, d.Style.Wrap(l, 4)...)
	}
	return d.print(out...)
}

// whyNot explains an id that no task bears: an occurrence that did not run has a
// record of its own.
func (d *Desk) whyNot(id string) error {
	name, at, ok := cron.SplitOccurrenceID(id)
	if !ok {
		return notFound(store.ErrNotFound, id)
	}
	skips, err := d.Store.Skips(name, 0)
	if err != nil {
		return err
	}
	for _, s := range skips {
		if at.Before(s.Occurrence) || at.After(lastOf(&s)) {
			continue
		}
		cause := Cause{"skipped", fmt.Sprintf("this occurrence of %s did not run: %s (recorded %s)", esc(name), skipReason(s.Reason), d.Style.Time(s.At))}
		if s.Run != "" {
			cause.Text += "; task " + esc(s.Run) + " ran in its place"
		}
		if d.JSON {
			return WriteJSON(d.Out, whyObject(nil, []Cause{cause}))
		}
		return d.printWrapped([]screen.Line{screen.Text(cause.Text)})
	}
	return notFound(store.ErrNotFound, id)
}

// skipReason says a reason of schedule_skips in words.
func skipReason(reason string) string {
	words := map[string]string{
		string(cron.SkipMissed):   "nobody was there at its time",
		string(cron.SkipLimit):    "more occurrences were missed than missed_limit lets run",
		string(cron.SkipOverlap):  "an earlier run was not finished",
		string(cron.SkipDisabled): "the schedule was disabled",
	}[reason]
	if words == "" {
		return esc(reason)
	}
	return words
}

// question gathers the causes of one task's state.
type question struct {
	d       *Desk
	t       *task.Task
	now     time.Time
	workers []Worker
	causes  []Cause
}

func (q *question) add(code, format string, args ...any) {
	q.causes = append(q.causes, Cause{code, fmt.Sprintf(format, args...)})
}

func (q *question) ask() error {
	workers, err := q.d.workers()
	if err != nil {
		return err
	}
	q.workers = workers
	switch q.t.Status {
	case task.Pending, task.Retrying:
		return q.waiting()
	case task.Paused:
		return q.paused()
	case task.Running:
		return q.running()
	case task.Lost:
		return q.lost()
	}
	q.final()
	return nil
}

// waiting looks at everything that a claim looks at, in its order.
func (q *question) waiting() error {
	t := q.t
	if t.Control.Cancels() {
		q.add("cancel", "its cancel is asked for; it will not be started")
	}
	if t.Control == task.Pause {
		q.add("held", "it is held; `%s resume %s` lets it go on", q.d.Program, esc(t.ID))
	}
	if t.Status == task.Retrying {
		q.add("retry", "it failed and is tried again: retry %d of %d, after %s", t.RetryCount, t.MaxRetry, q.lastWords())
	}
	due := !t.NextRun.After(q.now)
	if !due {
		q.add("not_due", "it is due %s (%s)", screen.Until(t.NextRun, q.now), q.d.Style.Time(t.NextRun))
	}
	if t.ExecutorID != "" {
		q.add("let_go", "executor %s has not yet let go of its last execution", esc(t.ExecutorID))
	}
	before := len(q.causes)
	if err := q.obstacles(); err != nil {
		return err
	}
	if due && len(q.causes) == before && t.Control == task.NoControl && t.ExecutorID == "" {
		return q.queue()
	}
	return nil
}

// obstacles are what keeps any task of its kind from starting.
func (q *question) obstacles() error {
	if on, err := q.d.Store.Draining(); err != nil {
		return err
	} else if on {
		q.add("drain", "drain is on: no task is started until `%s drain off`", q.d.Program)
	}
	if why := nobodyWorks(q.workers, q.now); why != "" {
		q.add("no_worker", "%s", why)
	}
	if _, known := q.d.Config.Tasks[q.t.Type]; !known {
		hint := ""
		if near := config.Nearest(q.t.Type, q.d.types()); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		q.add("unknown_type", "no type %s is in %s%s; it waits until a worker knows its type", quote(q.t.Type), q.d.configName(), hint)
	}
	if limit := q.d.Config.Type(q.t.Type).Concurrency; limit > 0 {
		running, err := q.d.Store.RunningByType()
		if err != nil {
			return err
		}
		if n := running[q.t.Type]; n >= limit {
			q.add("type_limit", "%d of at most %d tasks of type %s are running", n, limit, esc(q.t.Type))
		}
	}
	return q.locks()
}

// locks tells who keeps everybody from writing.
func (q *question) locks() error {
	holders, err := q.d.Store.Holders()
	if err != nil {
		return nil // only a guess is lost
	}
	for _, h := range holders {
		if h.What == "write" {
			q.add("write_lock", "process %d (%s%s) holds the database's write lock", h.PID, esc(h.Comm), map[bool]string{true: ", stopped"}[h.State == "T"])
		}
	}
	return nil
}

// queue says what stands before a task that could start.
func (q *question) queue() error {
	slots, busy := 0, 0
	for i := range q.workers {
		if w := &q.workers[i]; w.Life == Alive || w.Life == Suspect {
			slots, busy = slots+w.Slots(), busy+w.Busy()
		}
	}
	ahead, err := q.d.Store.Ahead(q.t, q.now)
	if err != nil {
		return err
	}
	switch {
	case busy >= slots:
		q.add("busy", "all %s are busy; %s due before it", screen.Plural(int64(slots), "slot"), aheadWords(ahead))
	case ahead > 0:
		q.add("queue", "%s due before it (smaller priority, or earlier)", aheadWords(ahead))
	default:
		q.add("soon", "nothing keeps it: a worker should start it within a poll (%s)", config.FormatDuration(q.d.Config.Worker.PollInterval))
	}
	if n := q.t.CrashCount; n > 0 && n >= max(q.d.Config.Retry.MaxCrashes-1, 1) {
		q.add("suspect", "its worker died under it %s: a worker runs it beside no other such task", times(n))
	}
	return nil
}

func aheadWords(n int64) string {
	if n == 1 {
		return "1 task is"
	}
	return screen.Count(n) + " tasks are"
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%s times", screen.Count(n))
}

func (q *question) paused() error {
	switch q.t.Control {
	case task.Resume:
		q.add("resume", "it is to go on, and waits for an idle executor")
		return q.obstacles()
	case task.Cancel, task.Kill:
		q.add("cancel", "its cancel is asked for")
	default:
		q.add("paused", "a person holds it since %s; `%s resume %s` lets it go on", screen.Ago(q.t.UpdatedAt, q.now), q.d.Program, esc(q.t.ID))
	}
	return nil
}

func (q *question) running() error {
	t := q.t
	w := ownerAmong(q.workers, t.ExecutorID)
	since := ""
	if x := q.d.lastExecution(t); !x.Start.IsZero() {
		since = ", for " + words(q.now.Sub(x.Start))
	}
	q.add("running", "executor %s runs it%s; %s", esc(t.ExecutorID), since, ownerWords(w, q.now))
	if t.Progress != "" {
		q.add("progress", "progress: %s, changed %s", esc(t.Progress), screen.Ago(t.UpdatedAt, q.now))
	}
	for _, e := range w.Executors {
		if e.WorkerID == t.ExecutorID && !e.SlowSince.IsZero() {
			q.add("slow", "it is slow: no progress since %s", screen.Ago(e.SlowSince, q.now))
		}
	}
	if t.Control != task.NoControl {
		q.add("asked", "%s is asked for: %s", t.Control, q.d.stopWords(t.Control, t, q.now))
	}
	if !t.LeaseUntil.IsZero() && t.LeaseUntil.Before(q.now) {
		q.add("lease", "its lease ended %s; its execution is ended, and it is tried again", screen.Ago(t.LeaseUntil, q.now))
	}
	return q.locks()
}

func (q *question) lost() error {
	w := ownerAmong(q.workers, q.t.ExecutorID)
	q.add("lost", "its executor %s is lost (%s); %s", esc(q.t.ExecutorID), q.t.Reason, ownerWords(w, q.now))
	if q.t.Control.Cancels() {
		q.add("cancel", "its cancel is asked for; it is CANCELLED once that executor is proven dead")
	}
	for _, h := range w.Holders {
		q.add("lock_holder", "process %d (%s) holds the lock %s", h.PID, esc(h.Comm), esc(lockOf(w)))
	}
	return q.locks()
}

func lockOf(w *Worker) string {
	if len(w.Executors) == 0 {
		return ""
	}
	return w.Executors[0].LockPath
}

func (q *question) final() {
	t := q.t
	text := fmt.Sprintf("it ended %s: %s", screen.Ago(t.UpdatedAt, q.now), reasonText(t.Reason))
	if last := q.lastWords(); last != "" {
		text += "; " + last
	}
	q.add("final", "%s", text)
	if t.Status != task.Success {
		q.add("rerun", "`%s rerun %s` makes a new task of it that goes on from its checkpoint", q.d.Program, esc(t.ID))
	}
}

// lastWords says how the last execution ended.
func (q *question) lastWords() string {
	x := q.d.lastExecution(q.t)
	switch words := endWords(&x); {
	case words != "":
		return oneLine(words)
	case x.Outcome != "":
		return esc(x.Outcome)
	}
	return reasonText(q.t.Reason)
}

// reasonText says a reason of the table of transitions in words.
func reasonText(r task.Reason) string {
	text := map[task.Reason]string{
		task.Claimed:          "claimed by an executor",
		task.UserCancel:       "a person cancelled it",
		task.UserPause:        "a person paused it",
		task.UserResume:       "a person let it go on",
		task.Done:             "it is done",
		task.FatalError:       "an error that no retry can cure",
		task.RetryableError:   "an error that a retry may cure",
		task.TimedOut:         "its time was up",
		task.LeaseExpired:     "its lease ran out",
		task.RetriesExhausted: "its retries are exhausted",
		task.WorkerCrash:      "its worker died",
		task.WorkerOffline:    "its worker was silent",
		task.Takeover:         "taken over from a dead worker",
		task.WorkerBack:       "its worker came back",
		task.CrashesExhausted: "its worker died under it too often",
	}[r]
	if text == "" {
		return esc(string(r))
	}
	return text
}
