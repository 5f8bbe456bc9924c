package operator

import (
	"fmt"
	"strings"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Selection is what the filter flags of list and of the bulk verbs say; "" and
// nil are flags that were not given.
type Selection struct {
	Statuses      []string
	Types         []string
	Schedule      string
	Key           string
	Executor      string
	Since, Before string // of the last change
	Due           bool   // waiting tasks whose time has come
}

// Empty says that nothing narrows the selection.
func (s Selection) Empty() bool {
	return len(s.Statuses) == 0 && len(s.Types) == 0 && s.Schedule == "" && s.Key == "" &&
		s.Executor == "" && s.Since == "" && s.Before == "" && !s.Due
}

// filter reads the flags.
func (d *Desk) filter(s Selection) (f store.Filter, err error) {
	f = store.Filter{Types: splitAll(s.Types), Schedule: s.Schedule, Key: s.Key, Executor: s.Executor}
	for _, word := range splitAll(s.Statuses) {
		status, err := parseStatus(word)
		if err != nil {
			return f, err
		}
		f.Statuses = append(f.Statuses, status...)
	}
	now := d.Now()
	if s.Since != "" {
		if f.UpdatedSince, err = ParseSince("--since", s.Since, now, d.zone()); err != nil {
			return f, err
		}
	}
	if s.Before != "" {
		if f.UpdatedBefore, err = ParseSince("--before", s.Before, now, d.zone()); err != nil {
			return f, err
		}
	}
	if s.Due {
		f.DueBefore = now
	}
	return f, nil
}

// splitAll breaks values at commas: --status FAILED,DEAD.
func splitAll(values []string) []string {
	var all []string
	for _, v := range values {
		for _, part := range strings.Split(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}

// parseStatus reads a status in any case, or one of two words for several.
func parseStatus(word string) ([]task.Status, error) {
	s := task.Status(strings.ToUpper(word))
	switch {
	case s.Known():
		return []task.Status{s}, nil
	case s == "UNFINISHED":
		return []task.Status{task.Pending, task.Running, task.Retrying, task.Paused, task.Lost}, nil
	case s == "FINISHED":
		return []task.Status{task.Success, task.Failed, task.Dead, task.Cancelled}, nil
	}
	names := append(StatusNames(), "unfinished", "finished")
	e := &cmdline.UsageError{Message: fmt.Sprintf("%s is no status", quote(word)), Hint: "there are: " + strings.Join(names, ", ")}
	if near := config.Nearest(word, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %s?", near)
	}
	return nil, e
}

// StatusNames lists the nine states.
func StatusNames() []string {
	var names []string
	for _, s := range task.Statuses() {
		names = append(names, string(s))
	}
	return names
}

// ListOptions is what the flags of `list` say.
type ListOptions struct {
	Selection
	Sort    string // SortNames; "": newest first
	Reverse bool
	Limit   string // "": 50 on a screen, all in a document; "0": all
	Page    string // from 1
}

// SortNames are the orders that list knows.
func SortNames() []string { return []string{"created", "due", "priority", "status", "type", "updated"} }

// defaultLimit is what list shows when nothing else is said: a screen or two.
const defaultLimit = 50

// tablePart is how many rows share one layout, and are kept in memory, of a
// table that may have a million.
const tablePart = 500

// List shows tasks: a table for people, an array for programs.
func (d *Desk) List(o ListOptions) error {
	f, limit, page, err := d.listFilter(o)
	if err != nil {
		return err
	}
	if err := d.open(reads); err != nil {
		return err
	}
	if d.JSON {
		list := listWriter{w: d.Out}
		f.Full = true
		if err := d.Store.List(f, func(_ int64, t *task.Task) error { return list.add(taskObject(t)) }); err != nil {
			return err
		}
		return list.close()
	}
	// One row more than the page tells whether there is another page; to count what
	// no index counts, every row would have to be looked at.
	counted := f.ByStatus()
	if f.Limit > 0 && !counted {
		f.Limit++
	}
	shown, more, err := d.listTable(f, limit)
	if err != nil {
		return err
	}
	if counted {
		return d.listFooter(f, shown, limit, page)
	}
	d.listEnd(shown, limit, page, more)
	return nil
}

func (d *Desk) listFilter(o ListOptions) (f store.Filter, limit, page int64, err error) {
	if f, err = d.filter(o.Selection); err != nil {
		return
	}
	if f.Sort, err = sortName(o.Sort); err != nil {
		return
	}
	f.Reverse = o.Reverse
	limit, page = defaultLimit, 1
	if d.JSON {
		limit = 0
	}
	if o.Limit != "" {
		if limit, err = ParseNumber("--limit", o.Limit, 0); err != nil {
			return
		}
	}
	if o.Page != "" {
		if page, err = ParseNumber("--page", o.Page, 1); err != nil {
			return
		}
		if page > 1 && limit == 0 {
			limit = defaultLimit
		}
	}
	f.Limit, f.Offset = int(limit), int((page-1)*limit)
	return f, limit, page, nil
}

func sortName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	for _, n := range SortNames() {
		if n == strings.ToLower(name) {
			return n, nil
		}
	}
	e := &cmdline.UsageError{Message: fmt.Sprintf("there is no order %s", quote(name)), Hint: "there are: " + strings.Join(SortNames(), ", ")}
	if near := config.Nearest(name, SortNames()); near != "" {
		e.Hint = fmt.Sprintf("did you mean %s?", near)
	}
	return "", e
}

// idWidth is the width of the ids that are made here: they are shown whole where
// they are looked up, to be copied.
const idWidth = len("20261201T160405.123-0123456789abcdef")

// listColumns are the columns of list. Smaller priorities run first, and the
// title says so: half of the world expects the opposite (case IN-09).
func listColumns() []screen.Column {
	return []screen.Column{
		{Title: "TASK", Min: 12, Good: idWidth, Keep: 9},
		{Title: "TYPE", Min: 8, Good: 16, Keep: 8},
		{Title: "STATUS", Keep: 9},
		{Title: "WHEN", Keep: 7},
		{Title: "PROGRESS", Min: 8, Keep: 6},
		{Title: "PRIO(low 1st)", Right: true, Keep: 3},
		{Title: "RETRIES", Right: true, Keep: 4},
		{Title: "EXECUTOR", Min: 6, Keep: 5},
		{Title: "REASON", Min: 8, Keep: 2},
	}
}

// listTable prints at most limit rows (0: all), and reports whether there are more.
func (d *Desk) listTable(f store.Filter, limit int64) (shown int64, more bool, err error) {
	table := screen.Table{Style: d.Style, Columns: listColumns()}
	now := d.Now()
	err = d.Store.List(f, func(_ int64, t *task.Task) error {
		if more = limit > 0 && shown == limit; more {
			return nil
		}
		shown++
		table.Row(
			screen.Cell{Text: esc(t.ID)},
			screen.Cell{Text: esc(t.Type)},
			screen.Cell{Text: string(t.Status), Color: statusColor(t.Status)},
			screen.Cell{Text: when(t, d.started(t), now)},
			screen.Cell{Text: esc(t.Progress)},
			screen.Cell{Text: fmt.Sprint(t.Priority)},
			screen.Cell{Text: fmt.Sprintf("%d/%d", min(t.RetryCount, t.MaxRetry), t.MaxRetry)},
			screen.Cell{Text: esc(t.ExecutorID)},
			screen.Cell{Text: reasonWords(t)},
		)
		if table.Len() == tablePart {
			return table.Flush(d.Out)
		}
		return nil
	})
	if err != nil || shown == 0 {
		return shown, more, err
	}
	return shown, more, table.Flush(d.Out)
}

// listEnd is listFooter where the whole is not counted.
func (d *Desk) listEnd(shown, limit, page int64, more bool) {
	first := (page-1)*limit + 1
	switch {
	case shown == 0 && page == 1:
		d.note("no task is selected")
	case shown == 0:
		d.note("page %d is beyond the end", page)
	case more:
		d.note("%s to %s, and there are more; next: --page %d, all: --limit 0", screen.Count(first), screen.Count(first+shown-1), page+1)
	case page > 1:
		d.note("%s to %s, the last", screen.Count(first), screen.Count(first+shown-1))
	}
}

// listFooter says how much was not shown, where it can't be taken for a row.
func (d *Desk) listFooter(f store.Filter, shown, limit, page int64) error {
	counts, err := d.Store.CountWhere(f)
	if err != nil {
		return err
	}
	total := sum(counts)
	switch {
	case shown == 0 && total == 0:
		d.note("no task is selected")
	case shown == 0:
		d.note("page %d is beyond the end: %s", page, screen.Plural(total, "task"))
	case shown < total:
		first := (page-1)*limit + 1
		more := ""
		if last := first + shown - 1; last < total {
			more = fmt.Sprintf("; next: --page %d, all: --limit 0", page+1)
		}
		d.note("%s to %s of %s%s", screen.Count(first), screen.Count(first+shown-1), screen.Plural(total, "task"), more)
	}
	return nil
}

func sum(counts map[task.Status]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// when says what a person wants to know of a task's time: when it is due, since
// when it runs, when it ended.
func when(t *task.Task, started, now time.Time) string {
	switch {
	case t.Status == task.Pending || t.Status == task.Retrying:
		if t.Control == task.Pause {
			return "held"
		}
		return waits(t.NextRun, now)
	case t.Status.Final():
		return screen.Ago(t.UpdatedAt, now)
	case t.Status == task.Running && !started.IsZero():
		return "for " + screen.Words(now.Sub(started))
	}
	return "for " + screen.Words(now.Sub(t.UpdatedAt))
}

// waits says how long a task waits already, or when it is due.
func waits(due, now time.Time) string {
	if over := now.Sub(due); over >= time.Second {
		return "waits " + screen.Words(over)
	}
	return screen.Until(due, now)
}

// started is when the current execution of a running task began; zero when that
// is not known. updated_at moves with each checkpoint.
func (d *Desk) started(t *task.Task) time.Time {
	if t.Status != task.Running {
		return time.Time{}
	}
	x, err := d.Store.Execution(t.ExecID)
	if err != nil {
		return time.Time{} // history is for people, and may have been pruned
	}
	return x.Start
}

// reasonWords is the reason of the last change, and what is asked for beside it.
func reasonWords(t *task.Task) string {
	if t.Control == task.NoControl {
		return string(t.Reason)
	}
	return strings.TrimSpace(string(t.Reason) + " (" + string(t.Control) + " asked for)")
}

// taskObject is a task as --json shows it: the columns of the table under their
// own names, JSON columns as they were stored.
func taskObject(t *task.Task) object {
	return object{
		{"task_id", t.ID},
		{"task_type", t.Type},
		{"status", string(t.Status)},
		{"reason", orNull(string(t.Reason))},
		{"control", orNull(string(t.Control))},
		{"priority", t.Priority},
		{"next_run_time", t.NextRun},
		{"created_at", t.CreatedAt},
		{"updated_at", t.UpdatedAt},
		{"retry_count", t.RetryCount},
		{"max_retry", t.MaxRetry},
		{"crash_count", t.CrashCount},
		{"executions", t.Executions},
		{"timeout_seconds", t.Timeout},
		{"executor_id", orNull(t.ExecutorID)},
		{"exec_id", t.ExecID},
		{"lease_expire_time", t.LeaseUntil},
		{"progress", orNull(t.Progress)},
		{"unique_key", orNull(t.UniqueKey)},
		{"schedule", orNull(t.Schedule)},
		{"rerun_of", orNull(t.RerunOf)},
		{"payload", raw(t.Payload)},
		{"checkpoint", raw(t.Checkpoint)},
		{"result", raw(t.Result)},
	}
}
