package operator

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// AddOptions is what the flags of `add` say, as they were written; "" is a flag
// that was not given.
type AddOptions struct {
	Type     string
	ID       string
	Payload  string // JSON, @FILE or - for standard input
	Priority string
	At, In   string
	MaxRetry string
	Timeout  string
	Key      string
	Hold     bool
	Quiet    bool // no sentences on the error stream beside errors
}

// Add inserts one task and prints its id, alone on its line.
func (d *Desk) Add(o AddOptions) error {
	now := d.Now()
	t, err := d.newTask(o, now)
	if err != nil {
		return err
	}
	if err := d.open(writes); err != nil {
		return err
	}
	d.fillIn(&t)
	ids, err := d.Store.Add(now, t)
	if err != nil {
		return addError(err)
	}
	if err := d.say("%s", ids[0]); err != nil {
		return err
	}
	if o.Quiet {
		return nil
	}
	if o.At != "" || o.In != "" {
		d.noteDue(t.NextRun, now)
	}
	d.warnOfType(o.Type)
	return d.warnOfRest()
}

// newTask reads the flags. Each may be wrong, and says so with its value.
func (d *Desk) newTask(o AddOptions, now time.Time) (t store.NewTask, err error) {
	t = store.NewTask{ID: o.ID, Type: o.Type, UniqueKey: o.Key, Held: o.Hold, Payload: "{}"}
	if o.Priority != "" {
		n, err := ParseNumber("--priority", o.Priority, math.MinInt64)
		if err != nil {
			return t, err
		}
		t.Priority = &n
	}
	if o.MaxRetry != "" {
		n, err := ParseNumber("--max-retry", o.MaxRetry, 0)
		if err != nil {
			return t, err
		}
		t.MaxRetry = &n
	}
	if o.Timeout != "" {
		if t.Timeout, err = parseTimeout(o.Timeout); err != nil {
			return t, err
		}
	}
	if t.NextRun, err = d.due(o, now); err != nil {
		return t, err
	}
	if o.Payload != "" {
		text, err := d.readJSON("the payload", o.Payload)
		if err != nil {
			return t, err
		}
		t.Payload = string(text)
	}
	if err := t.Check(); err != nil {
		return t, fail(ExitInput, "", "%v", err)
	}
	return t, nil
}

// fillIn puts in what the configuration says of the task's type. (A shell's INSERT
// gets the schema's default.)
func (d *Desk) fillIn(t *store.NewTask) {
	if t.MaxRetry == nil {
		ty := d.Config.Type(t.Type)
		t.MaxRetry = &ty.MaxRetry
	}
}

// due is when the task is to run; the zero time is now.
func (d *Desk) due(o AddOptions, now time.Time) (time.Time, error) {
	switch {
	case o.At != "" && o.In != "":
		return time.Time{}, cmdline.Usagef("--at and --in exclude each other; give one of them")
	case o.At != "":
		return ParseTime(o.At, now, d.zone())
	case o.In != "":
		offset, err := ParseOffset("--in", o.In)
		if err != nil {
			return time.Time{}, err
		}
		if due := now.Add(offset); due.Year() >= 1 && due.Year() <= 9999 {
			return due, nil
		}
		return time.Time{}, cmdline.Usagef("--in %q leads beyond the year 9999", o.In)
	}
	return time.Time{}, nil
}

// parseTimeout reads whole seconds; parts of one count as one.
func parseTimeout(text string) (*int64, error) {
	limit, err := ParseDuration("--timeout", text)
	if err != nil {
		return nil, err
	}
	seconds := int64((limit + time.Second - 1) / time.Second)
	return &seconds, nil
}

// readJSON reads JSON from a flag's value, a file (@FILE) or standard input (-).
// It never reads more than the limit and a byte.
func (d *Desk) readJSON(what, spec string) ([]byte, error) {
	text := []byte(spec)
	switch {
	case spec == "-":
		var err error
		if text, err = io.ReadAll(io.LimitReader(d.In, task.MaxJSONBytes+1)); err != nil {
			return nil, fail(ExitIO, "", "read %s from standard input: %v", what, err)
		}
		what += " on standard input"
	case strings.HasPrefix(spec, "@"):
		f, err := os.Open(spec[1:])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		defer f.Close() // it was only read
		if text, err = io.ReadAll(io.LimitReader(f, task.MaxJSONBytes+1)); err != nil {
			return nil, fail(ExitIO, "", "read %s from %s: %v", what, spec[1:], err)
		}
		what += " in " + spec[1:]
	}
	return text, CheckJSON(what, text)
}

// noteDue says when the task is due, in both zones: an hour wrong by a zone is
// the commonest mistake with times (case TI-02).
func (d *Desk) noteDue(due, now time.Time) {
	d.note("due %s (%s), %s", due.In(d.zone()).Format("2006-01-02 15:04:05 MST"), task.FormatTime(due), screen.Until(due, now))
	switch {
	case due.Sub(now) > 366*24*time.Hour:
		d.note("warning: that is more than a year ahead")
	case now.Sub(due) > time.Hour:
		d.note("warning: that is past; the task runs at once")
	}
}

// warnOfType tells of a type that the configuration does not know. It is no
// error: a worker with handlers of its own may.
func (d *Desk) warnOfType(name string) {
	if _, known := d.Config.Tasks[name]; known {
		return
	}
	types := d.types()
	hint := "there are: " + strings.Join(types, ", ")
	if near := config.Nearest(name, types); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.note("warning: no task type %s in %s; %s; the task waits until a worker knows its type", quote(name), d.configName(), hint)
}

// types lists the types of the configuration, the built-in ones included.
func (d *Desk) types() []string {
	var names []string
	for n := range d.Config.Tasks {
		names = append(names, n)
	}
	for _, n := range config.Builtins() {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names
}

// configName names the configuration in messages.
func (d *Desk) configName() string {
	if d.Config.Path == "" {
		return "the default configuration (no file was found)"
	}
	return esc(d.Config.Path)
}

// warnOfRest says why an accepted task will not start soon: nobody is there to
// start it, or nobody may (cases CL-03, CL-05).
func (d *Desk) warnOfRest() error {
	workers, err := d.workers()
	if err != nil {
		return err
	}
	if why := nobodyWorks(workers, d.Now()); why != "" {
		d.note("warning: %s", why)
	}
	on, err := d.Store.Draining()
	if err != nil {
		return err
	}
	if on {
		d.note("warning: drain is on: no task is started until `%s drain off`", d.Program)
	}
	return nil
}

// nobodyWorks is a sentence when no worker is alive; "" when one is.
func nobodyWorks(workers []Worker, now time.Time) string {
	var last *Worker
	for i, w := range workers {
		if w.Life.Lives() {
			return ""
		}
		if last == nil || w.LastBeat.After(last.LastBeat) {
			last = &workers[i]
		}
	}
	if last == nil {
		return "no worker is alive, and none has ever used this database; tasks wait until one is started"
	}
	return fmt.Sprintf("no worker is alive (the last one, %s, is %s, last heard %s); tasks wait until one is started",
		esc(last.ID), last.Life, screen.Ago(last.LastBeat, now))
}

// addError gives a refusal of the store its exit status.
func addError(err error) error {
	var (
		exists *store.ExistsError
		input  *store.InputError
	)
	switch {
	case errors.As(err, &exists):
	case errors.As(err, &input):
		return fail(ExitInput, "", "%s", input.Why) // what was being done, a person knows
	default:
		return err
	}
	if exists.Key != "" {
		return fail(ExitCantCreate, "wait for its end, or use another key",
			"key %s is taken by the unfinished task %s", quote(exists.Key), esc(exists.TaskID))
	}
	return fail(ExitCantCreate, "choose another id; to run a finished task again use rerun", "a task %s exists already", quote(exists.TaskID))
}
