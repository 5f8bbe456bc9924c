package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// ControlOptions is what the flags of cancel, pause and resume say.
type ControlOptions struct {
	IDs []string
	Selection
	Kill    bool   // cancel: do not wait for the batch in hand
	Wait    bool   // cancel: until the tasks have ended
	Timeout string // of Wait
	Yes     bool   // act on a selection without asking
	DryRun  bool   // show what a selection is, and do nothing
}

// Cancel asks for the end of tasks, and says for each what will happen.
func (d *Desk) Cancel(ctx context.Context, o ControlOptions) error {
	wish := task.Cancel
	if o.Kill {
		wish = task.Kill
	}
	limit, err := waitLimit(o.Timeout)
	if err != nil {
		return err
	}
	if o.Timeout != "" && !o.Wait {
		return &cmdline.UsageError{Message: "--timeout goes with --wait", Hint: "add --wait, or leave --timeout out"}
	}
	asked, err := d.control("cancel", wish, o)
	if err != nil || !o.Wait {
		return err
	}
	return d.awaitCancelled(ctx, asked, limit)
}

// Pause holds tasks; Resume lets them go on.
func (d *Desk) Pause(o ControlOptions) error {
	_, err := d.control("pause", task.Pause, o)
	return err
}

// Resume lets paused and held tasks go on.
func (d *Desk) Resume(o ControlOptions) error {
	_, err := d.control("resume", task.Resume, o)
	return err
}

// control sets a wish on named tasks or on a selection. It returns the ids that
// the wish was set on.
func (d *Desk) control(verb string, wish task.Control, o ControlOptions) ([]string, error) {
	switch {
	case len(o.IDs) > 0 && !o.Selection.Empty():
		return nil, cmdline.Usagef("%s takes ids or a selection (--type, --status …), not both", verb)
	case len(o.IDs) == 0 && o.Selection.Empty():
		return nil, &cmdline.UsageError{Message: verb + " needs an ID or a selection", Hint: fmt.Sprintf("for example: %s %s --type clean_csv", d.Program, verb)}
	}
	f, err := d.filter(o.Selection)
	if err != nil {
		return nil, err
	}
	if err := d.open(writes); err != nil {
		return nil, err
	}
	if len(o.IDs) > 0 {
		return d.controlEach(wish, o.IDs)
	}
	if len(f.Statuses) == 0 {
		f.Statuses = unfinished()
	}
	if ok, err := d.preview(verb, f, o); err != nil || !ok {
		return nil, err
	}
	return d.controlWhere(wish, f)
}

func unfinished() []task.Status {
	return []task.Status{task.Pending, task.Running, task.Retrying, task.Paused, task.Lost}
}

// controlEach handles each id on its own: one that is wrong does not keep the
// others from being done. The exit status tells of the worst.
func (d *Desk) controlEach(wish task.Control, ids []string) (asked []string, err error) {
	code := ExitOK
	for _, id := range ids {
		words, finished, err := d.controlOne(wish, id)
		if err != nil {
			code = max(code, Report(d.Err, d.Program, err))
			continue
		}
		if err := d.say("%s: %s", esc(id), words); err != nil {
			return asked, err
		}
		if finished {
			code = max(code, ExitFinished)
			continue
		}
		asked = append(asked, id)
	}
	if code != ExitOK {
		return asked, Exit(code)
	}
	return asked, nil
}

// controlOne sets a wish on one task and says what follows from it.
func (d *Desk) controlOne(wish task.Control, id string) (words string, finished bool, err error) {
	now := d.Now()
	before, err := d.get(id)
	if err != nil {
		return "", false, err
	}
	if before.Status.Final() {
		return finishedWords(&before, now), true, nil
	}
	r, err := d.Store.SetControl(id, wish, now)
	if err == nil {
		return d.outcome(wish, &before, r, now), false, nil
	}
	// It may have come to its end between the two (case CA-05).
	if after, getErr := d.get(id); getErr == nil && after.Status.Final() {
		return finishedWords(&after, now), true, nil
	}
	return "", false, addError(notFound(err, id))
}

func finishedWords(t *task.Task, now time.Time) string {
	return fmt.Sprintf("had already finished: %s, %s", t.Status, screen.Ago(t.UpdatedAt, now))
}

// notFound names the task that does not exist.
func notFound(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fail(ExitNoInput, "list shows those that exist; finished ones go after the time of retention", "there is no task %s", quote(id))
	}
	return err
}

// outcome says what a wish has done, or will do.
func (d *Desk) outcome(wish task.Control, before *task.Task, r store.ControlResult, now time.Time) string {
	switch {
	case wish.Cancels() && r.After == task.Cancelled:
		return "cancelled; it was " + string(r.Before)
	case wish.Cancels() && r.After == task.Lost:
		return "its worker is lost; it will be CANCELLED without another step once that worker is proven dead"
	case wish == task.Pause && r.After == task.Paused:
		return "paused"
	case wish == task.Pause && r.After != task.Running:
		return fmt.Sprintf("held; it stays %s and is not started until `%s resume`", r.After, d.Program)
	case wish == task.Resume && r.After == task.Running && r.Control == task.NoControl:
		return "runs; nothing holds it"
	case wish == task.Resume && r.After == task.Paused:
		return "goes on, from its last checkpoint, as soon as an executor is idle"
	case wish == task.Resume:
		return fmt.Sprintf("released; it is %s, due %s", r.After, screen.Until(before.NextRun, now))
	}
	return d.stopWords(wish, before, now)
}

// stopWords says how a running task will be stopped, and when its last
// checkpoint was (DESIGN §7).
func (d *Desk) stopWords(wish task.Control, t *task.Task, now time.Time) string {
	if w, err := d.owner(t); err == nil && w != nil && !w.Life.Lives() && w.Life != Offline {
		return fmt.Sprintf("its worker %s is %s; it will be %s without another step, as the first act of whoever comes next",
			esc(w.ID), w.Life, map[bool]string{true: "CANCELLED", false: "held"}[wish.Cancels()])
	}
	ty := d.Config.Type(t.Type)
	spoke := t.Checkpoint != "" || t.Progress != ""
	last := "it has made no checkpoint yet"
	if spoke {
		last = "the last checkpoint was " + screen.Ago(t.UpdatedAt, now)
		if t.Progress != "" {
			last += " (" + esc(t.Progress) + ")"
		}
	}
	grace := config.FormatDuration(ty.Grace)
	switch {
	case wish == task.Kill:
		return fmt.Sprintf("running; TERM now, KILL after 5 s; %s", last)
	case isProgram(ty) && !spoke && wish == task.Pause:
		return fmt.Sprintf("running; %s, so it gets TERM now (KILL after %s) and starts from the beginning when it is resumed", last, grace)
	case isProgram(ty) && !spoke:
		return fmt.Sprintf("running; %s, so it gets TERM now, KILL after %s", last, grace)
	}
	verb := "stops"
	if wish == task.Pause {
		verb = "pauses"
	}
	return fmt.Sprintf("running; it %s at its next checkpoint, with %s from then on to undo what it must; %s", verb, grace, last)
}

func isProgram(t config.TaskType) bool { return len(t.Command) > 0 }

// preview shows what a selection is, and asks a person who can be asked. A
// script says --yes.
func (d *Desk) preview(verb string, f store.Filter, o ControlOptions) (bool, error) {
	counts, err := d.Store.CountWhere(f)
	if err != nil {
		return false, err
	}
	total := sum(counts)
	if total == 0 {
		d.note("no unfinished task is selected; nothing to %s", verb)
		return false, nil
	}
	return d.confirm(verb, counts, total, o.Yes, o.DryRun)
}

// confirm says what is about to be done and lets a person decide.
func (d *Desk) confirm(verb string, counts map[task.Status]int64, total int64, yes, dryRun bool) (bool, error) {
	var parts []string
	for _, s := range task.Statuses() {
		if counts[s] > 0 {
			parts = append(parts, screen.Count(counts[s])+" "+string(s))
		}
	}
	what := fmt.Sprintf("%s %s: %s", verb, screen.Plural(total, "task"), strings.Join(parts, ", "))
	switch {
	case dryRun:
		return false, d.say("would %s", what)
	case yes:
		return true, nil
	case !d.Asks:
		return false, &cmdline.UsageError{Message: "this would " + what, Hint: "nothing was done; add --yes to do it"}
	}
	d.note("%s", what)
	if _, err := fmt.Fprint(d.Err, "Go on? [y/N] "); err != nil {
		return false, err
	}
	answer, _ := bufio.NewReader(d.In).ReadString('\n') // the end of the input is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	d.note("nothing was done")
	return false, nil
}

// controlWhere sets a wish on a selection and says how many of what became of it.
func (d *Desk) controlWhere(wish task.Control, f store.Filter) (asked []string, err error) {
	done := map[string]int64{}
	var order []string
	count := func(what string) {
		if done[what] == 0 {
			order = append(order, what)
		}
		done[what]++
	}
	var failed error
	err = d.Store.SetControlWhere(f, wish, d.Now(), func(r store.ControlResult, err error) {
		var refused *store.InputError
		switch {
		case errors.As(err, &refused):
			count("had finished meanwhile")
		case err != nil:
			failed = err
			count("refused")
		default:
			asked = append(asked, r.ID)
			count(bulkWords(wish, r))
		}
	})
	for _, what := range order {
		if err := d.say("%s %s", screen.Plural(done[what], "task"), what); err != nil {
			return asked, err
		}
	}
	if err == nil {
		err = failed
	}
	return asked, err
}

// bulkWords is outcome in a few words, the same for all tasks of its kind.
func bulkWords(wish task.Control, r store.ControlResult) string {
	switch {
	case wish.Cancels() && r.After == task.Cancelled:
		return "cancelled"
	case wish == task.Kill && r.After == task.Running:
		return "running: TERM now, KILL after 5 s"
	case r.After == task.Running && wish != task.Resume:
		return fmt.Sprintf("running: asked to %s at the next checkpoint", map[bool]string{true: "stop", false: "pause"}[wish.Cancels()])
	case wish.Cancels():
		return "lost: cancelled once the worker is proven dead"
	case wish == task.Pause:
		return "held"
	}
	return "released"
}

// awaitCancelled waits for the end of tasks that were asked to end. Its status
// is 0 when all of them are CANCELLED, 1 when one had finished before it heard.
func (d *Desk) awaitCancelled(ctx context.Context, ids []string, limit time.Duration) error {
	ends, err := d.await(ctx, ids, limit, func(e ended) error {
		return d.say("%s: %s", esc(e.id), e.status)
	})
	if err != nil {
		return err
	}
	for _, e := range ends {
		if e.status != task.Cancelled {
			return Exit(ExitFinished)
		}
	}
	return nil
}

// Rerun makes new tasks of finished ones and prints their ids, one a line.
func (d *Desk) Rerun(o ControlOptions, fresh bool) error {
	switch {
	case len(o.IDs) > 0 && !o.Selection.Empty():
		return cmdline.Usagef("rerun takes ids or a selection (--type, --status …), not both")
	case len(o.IDs) == 0 && o.Selection.Empty():
		return &cmdline.UsageError{Message: "rerun needs an ID or a selection", Hint: fmt.Sprintf("for example: %s rerun --status DEAD --since 24h", d.Program)}
	}
	f, err := d.filter(o.Selection)
	if err != nil {
		return err
	}
	for _, s := range f.Statuses {
		if !s.Final() {
			return cmdline.Usagef("rerun is for finished tasks; --status %s is not a finished state", s)
		}
	}
	if err := d.open(writes); err != nil {
		return err
	}
	ids := o.IDs
	if len(ids) == 0 {
		if ids, err = d.rerunSelection(f, o); err != nil || len(ids) == 0 {
			return err
		}
	}
	return d.rerunEach(ids, fresh)
}

// rerunSelection lists the ids of a selection, after a person's yes. Tasks that
// ended well are only run again when --status says so.
func (d *Desk) rerunSelection(f store.Filter, o ControlOptions) (ids []string, err error) {
	if len(f.Statuses) == 0 {
		f.Statuses = []task.Status{task.Failed, task.Dead}
	}
	counts, err := d.Store.CountWhere(f)
	if err != nil {
		return nil, err
	}
	total := sum(counts)
	if total == 0 {
		d.note("no finished task is selected; nothing to run again")
		return nil, nil
	}
	if ok, err := d.confirm("rerun", counts, total, o.Yes, o.DryRun); err != nil || !ok {
		return nil, err
	}
	err = d.Store.List(f, func(_ int64, t *task.Task) error {
		ids = append(ids, t.ID)
		return nil
	})
	return ids, err
}

func (d *Desk) rerunEach(ids []string, fresh bool) error {
	code := ExitOK
	for _, id := range ids {
		newID, err := d.Store.Rerun(id, fresh, d.Now())
		if err == nil {
			if err := d.say("%s", newID); err != nil {
				return err
			}
			continue
		}
		code = max(code, Report(d.Err, d.Program, addError(notFound(err, id))))
	}
	if code != ExitOK {
		return Exit(code)
	}
	return d.warnOfRest()
}
