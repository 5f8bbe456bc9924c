package operator

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/cron"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// plan is one schedule: what it says and what is on record of it.
type plan struct {
	name     string
	schedule *cron.Schedule // nil when its definition can't be read
	broken   string         // why not
	state    *store.ScheduleState
	enabled  bool
}

// next is the plan's next occurrence; zero when none will come.
func (p *plan) next(now time.Time) time.Time {
	if p.schedule == nil || !p.enabled {
		return time.Time{}
	}
	return p.schedule.Rule.Next(now)
}

// plans lists the schedules of the database and of the configuration. Where both
// have one, the configuration says what it is: a worker takes it over at its next
// start or SIGHUP.
func (d *Desk) plans() ([]plan, error) {
	states, err := d.Store.Schedules()
	if err != nil {
		return nil, err
	}
	byName := map[string]*plan{}
	for i, st := range states {
		p := &plan{name: st.Name, state: &states[i], enabled: st.Enabled}
		def, err := cron.Decode(st.Definition)
		if err == nil {
			p.schedule, err = def.Compile()
		}
		if err != nil {
			p.broken = err.Error()
		}
		byName[st.Name] = p
	}
	for name, c := range d.Config.Schedules {
		p := byName[name]
		if p == nil {
			p = &plan{name: name, enabled: c.Enabled}
			byName[name] = p
		}
		s, err := c.Definition(name).Compile()
		if err != nil {
			p.broken = err.Error()
			continue
		}
		p.schedule, p.broken = s, ""
		p.enabled = p.enabled && c.Enabled
	}
	list := make([]plan, 0, len(byName))
	for _, p := range byName {
		list = append(list, *p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list, nil
}

// Schedules shows every schedule with its next runs, the last one, and what was
// skipped.
func (d *Desk) Schedules() error {
	if err := d.open(reads); err != nil {
		return err
	}
	plans, err := d.plans()
	if err != nil {
		return err
	}
	now := d.Now()
	objects, lines := []object{}, []screen.Line{}
	for i := range plans {
		r, err := d.record(&plans[i])
		if err != nil {
			return err
		}
		objects = append(objects, scheduleObject(&plans[i], r, now))
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		lines = append(lines, d.scheduleLines(&plans[i], r, now)...)
	}
	if d.JSON {
		return WriteJSON(d.Out, objects)
	}
	if len(plans) == 0 {
		d.note("there are no schedules; they are declared in the section schedules of %s", d.configName())
		return nil
	}
	return d.print(lines...)
}

// record is what the database has on a schedule.
type record struct {
	last  *task.Task // its newest occurrence
	skips []store.Skip
}

// skipsShown is how many skipped occurrences are looked at.
const skipsShown = 100

func (d *Desk) record(p *plan) (r record, err error) {
	tasks, err := d.Store.Occurrences(p.name, 1)
	if err != nil {
		return r, err
	}
	if len(tasks) > 0 {
		r.last = &tasks[0]
	}
	r.skips, err = d.Store.Skips(p.name, skipsShown)
	return r, err
}

// nextShown is how many runs are shown ahead: enough for the surprise of a day
// of month beside a day of week to be seen (case TI-07).
const nextShown = 5

func (d *Desk) scheduleLines(p *plan, r record, now time.Time) []screen.Line {
	state := screen.Span{}
	if !p.enabled {
		state = screen.Span{Text: "  disabled", Color: screen.Yellow}
	}
	head := screen.Line{{Text: esc(p.name), Color: screen.Bold}, state}
	if p.schedule == nil {
		return []screen.Line{head, {{Text: "  " + esc(p.broken), Color: screen.Red}}}
	}
	s := p.schedule
	lines := []screen.Line{head, screen.Text(fmt.Sprintf("  %s, task %s, missed: %s, overlap: %s", ruleWords(s), esc(s.Task), s.Missed, s.Overlap))}
	for _, h := range s.Rule.Hints() {
		lines = append(lines, d.Style.Wrap(screen.Line{{Text: "  note     " + esc(h), Color: screen.Yellow}}, 11)...)
	}
	if p.enabled {
		for i, at := range nextOf(s.Rule, now, nextShown) {
			label := "  next     "
			if i > 0 {
				label = "           "
			}
			lines = append(lines, screen.Text(label+d.inZone(s.Rule, at)+", "+screen.Until(at, now)))
		}
	}
	if r.last != nil {
		lines = append(lines, d.Style.Wrap(screen.Line{{Text: "  last     "}, {Text: string(r.last.Status), Color: statusColor(r.last.Status)},
			{Text: "  " + when(r.last, time.Time{}, now) + "  "}, {Text: esc(r.last.ID)}}, 11)...)
	}
	if words := skipWords(r.skips, now); words != "" {
		lines = append(lines, screen.Text("  skipped  "+words))
	}
	return lines
}

// ruleWords is the rule as the configuration writes it.
func ruleWords(s *cron.Schedule) string {
	if every, err := time.ParseDuration(s.Every); err == nil {
		return "every " + config.FormatDuration(every)
	}
	return esc(s.Rule.String())
}

// inZone shows an occurrence in the schedule's own zone, with its offset, and in
// the reader's where that differs.
func (d *Desk) inZone(r *cron.Rule, at time.Time) string {
	if d.Style.UTC {
		return d.Style.Time(at)
	}
	text := at.In(r.Zone()).Format("Mon 2006-01-02 15:04:05 -07:00")
	_, theirs := at.In(r.Zone()).Zone()
	_, ours := at.In(d.zone()).Zone()
	if theirs != ours {
		text += " = " + at.In(d.zone()).Format("15:04 MST") + " here"
	}
	return text
}

// skipWords counts what did not run, by reason.
func skipWords(skips []store.Skip, now time.Time) string {
	if len(skips) == 0 {
		return ""
	}
	counts, total := map[string]int{}, int64(0)
	var newest time.Time
	for _, s := range skips {
		n := max(s.Count, 1)
		counts[s.Reason] += n
		total += int64(n)
		if last := lastOf(&s); last.After(newest) {
			newest = last
		}
	}
	var parts []string
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, esc(reason)))
	}
	sort.Strings(parts)
	more := ""
	if len(skips) == skipsShown {
		more = " or more"
	}
	return fmt.Sprintf("%s%s: %s; the newest %s", screen.Plural(total, "occurrence"), more, strings.Join(parts, ", "), screen.Ago(newest, now))
}

// lastOf is the last of the occurrences that a record of skips stands for.
func lastOf(s *store.Skip) time.Time {
	if s.Until.IsZero() {
		return s.Occurrence
	}
	return s.Until
}

// nextOf lists the next n occurrences.
func nextOf(r *cron.Rule, after time.Time, n int) []time.Time {
	var list []time.Time
	for len(list) < n {
		next := r.Next(after)
		if next.IsZero() {
			break
		}
		list = append(list, next)
		after = next
	}
	return list
}

func scheduleObject(p *plan, r record, now time.Time) object {
	next, skips := []object{}, []object{}
	var last any
	o := object{{"name", p.name}, {"enabled", p.enabled}, {"error", orNull(p.broken)}}
	if s := p.schedule; s != nil {
		o = append(o, field{"rule", s.Rule.String()}, field{"zone", s.Rule.Zone().String()}, field{"task_type", s.Task},
			field{"payload", raw(s.Payload)}, field{"missed", string(s.Missed)}, field{"overlap", string(s.Overlap)})
		if p.enabled {
			for _, at := range nextOf(s.Rule, now, nextShown) {
				next = append(next, occurrenceObject(s, at))
			}
		}
	} else {
		o = append(o, field{"rule", nil}, field{"zone", nil}, field{"task_type", nil}, field{"payload", nil}, field{"missed", nil}, field{"overlap", nil})
	}
	if r.last != nil {
		last = object{{"task_id", r.last.ID}, {"status", string(r.last.Status)}, {"updated_at", r.last.UpdatedAt}}
	}
	for _, s := range r.skips {
		skips = append(skips, object{
			{"occurrence", s.Occurrence}, {"until", s.Until}, {"count", max(s.Count, 1)}, {"reason", s.Reason}, {"run", orNull(s.Run)}, {"at", s.At},
		})
	}
	considered := time.Time{}
	if p.state != nil {
		considered = p.state.ConsideredUntil
	}
	return append(o, field{"considered_until", considered}, field{"next", next}, field{"last", last}, field{"skips", skips})
}

func occurrenceObject(s *cron.Schedule, at time.Time) object {
	return object{
		{"task_id", s.ID(at)}, {"schedule", s.Name}, {"occurrence", at}, {"run_at", s.RunAt(at)},
		{"local", at.In(s.Rule.Zone()).Format(time.RFC3339)},
	}
}

// SchedulesNext shows the next runs of one schedule, or of all of them in the
// order of their times.
func (d *Desk) SchedulesNext(name, count string) error {
	n := int64(10)
	if count != "" {
		var err error
		if n, err = ParseNumber("-n", count, 1); err != nil {
			return err
		}
	}
	plans, err := d.named(name)
	if err != nil {
		return err
	}
	var all []occurrence
	for i := range plans {
		if plans[i].schedule == nil || (!plans[i].enabled && name == "") {
			continue
		}
		if !plans[i].enabled {
			d.note("%s is disabled; it would run then", esc(name))
		}
		for _, at := range nextOf(plans[i].schedule.Rule, d.Now(), int(min(n, maxSimulated))) {
			all = append(all, occurrence{plans[i].schedule, at})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	return d.occurrences(all[:min(int(min(n, maxSimulated)), len(all))])
}

type occurrence struct {
	schedule *cron.Schedule
	at       time.Time
}

// maxSimulated bounds a simulation: a schedule of each second over a century is
// a slip of the finger.
const maxSimulated = 100_000

// SchedulesSimulate lists what would run in a span of time.
func (d *Desk) SchedulesSimulate(name, from, to string) error {
	now := d.Now()
	start, end := now, now.Add(24*time.Hour)
	var err error
	if from != "" {
		if start, err = parsePoint("--from", from, now, now, d.zone()); err != nil {
			return err
		}
		end = start.Add(24 * time.Hour)
	}
	if to != "" {
		if end, err = parsePoint("--to", to, start, now, d.zone()); err != nil {
			return err
		}
	}
	if !end.After(start) {
		return cmdline.Usagef("--to %q is not after --from", to)
	}
	plans, err := d.named(name)
	if err != nil {
		return err
	}
	var all []occurrence
	for i := range plans {
		s := plans[i].schedule
		if s == nil || (!plans[i].enabled && name == "") {
			continue
		}
		for _, at := range s.Rule.Occurrences(start.Add(-time.Nanosecond), end, maxSimulated) {
			all = append(all, occurrence{s, at})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	if len(all) >= maxSimulated {
		d.note("only the first %s are shown", screen.Count(maxSimulated))
		all = all[:maxSimulated]
	}
	return d.occurrences(all)
}

// parsePoint reads a time, or a duration counted from base.
func parsePoint(flag, text string, base, now time.Time, loc *time.Location) (time.Time, error) {
	if offset, err := ParseOffset(flag, text); err == nil {
		return base.Add(offset), nil
	}
	t, err := ParseTime(text, now, loc)
	if err != nil {
		return t, &cmdline.UsageError{Message: fmt.Sprintf("%s %q is neither a time nor a duration", flag, text), Hint: `write it like "2026-12-01 22:30", 7d or 24h`}
	}
	return t, nil
}

// occurrences shows a list of runs.
func (d *Desk) occurrences(all []occurrence) error {
	if d.JSON {
		list := []object{}
		for _, o := range all {
			list = append(list, occurrenceObject(o.schedule, o.at))
		}
		return WriteJSON(d.Out, list)
	}
	if len(all) == 0 {
		d.note("nothing would run")
		return nil
	}
	now := d.Now()
	table := screen.Table{Style: d.Style, Columns: []screen.Column{
		{Title: "AT (zone of the schedule)", Keep: 9}, {Title: "WHEN", Keep: 5}, {Title: "SCHEDULE", Min: 8, Keep: 8}, {Title: "TASK", Min: 8, Keep: 3},
	}}
	for _, o := range all {
		table.Row(screen.Cell{Text: d.inZone(o.schedule.Rule, o.at)}, screen.Cell{Text: screen.Until(o.at, now)},
			screen.Cell{Text: esc(o.schedule.Name)}, screen.Cell{Text: esc(o.schedule.Task)})
	}
	return table.Flush(d.Out)
}

// named is one schedule, or all for "".
func (d *Desk) named(name string) ([]plan, error) {
	if err := d.open(reads); err != nil {
		return nil, err
	}
	plans, err := d.plans()
	if err != nil || name == "" {
		return plans, err
	}
	var names []string
	for i := range plans {
		if plans[i].name == name {
			if plans[i].schedule == nil {
				return nil, fail(ExitConfig, "correct it in the configuration", "schedule %s can't be read: %s", quote(name), plans[i].broken)
			}
			return plans[i : i+1], nil
		}
		names = append(names, plans[i].name)
	}
	return nil, noSchedule(name, names)
}

func noSchedule(name string, names []string) error {
	hint := "there are none"
	if len(names) > 0 {
		hint = "there are: " + strings.Join(names, ", ")
	}
	if near := config.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fail(ExitNoInput, hint, "there is no schedule %s", quote(name))
}

// SchedulesEnable switches a schedule on or off.
func (d *Desk) SchedulesEnable(name string, on bool) error {
	if err := d.open(writes); err != nil {
		return err
	}
	plans, err := d.named(name)
	if err != nil {
		return err
	}
	if on && !d.Config.Schedules[name].Enabled && plans[0].schedule.Disabled {
		return fail(ExitConfig, "set `enabled: true` there and send the worker a SIGHUP", "schedule %s is switched off in %s", quote(name), d.configName())
	}
	err = d.Store.SetScheduleEnabled(name, on, d.Now())
	if errors.Is(err, store.ErrNotFound) {
		return fail(ExitTryAgain, "start one, or send it a SIGHUP, and try again", "no worker has taken schedule %s from the configuration yet", quote(name))
	}
	if err != nil {
		return err
	}
	if on {
		return d.say("%s is enabled; next %s", esc(name), screen.Until(plans[0].schedule.Rule.Next(d.Now()), d.Now()))
	}
	return d.say("%s is disabled; its occurrences are recorded as skipped until `%s schedules enable %s`", esc(name), d.Program, esc(name))
}

// SchedulesRun makes a task of a schedule now, beside its occurrences, and prints
// its id. The task bears the schedule's name, so that the overlap rule sees it.
func (d *Desk) SchedulesRun(name string) error {
	if err := d.open(writes); err != nil {
		return err
	}
	plans, err := d.named(name)
	if err != nil {
		return err
	}
	s, now := plans[0].schedule, d.Now()
	t := store.NewTask{
		ID:       name + "@" + task.FormatTime(now) + "!by-hand",
		Type:     s.Task,
		Payload:  "{}",
		Priority: s.Priority,
		Schedule: name,
	}
	if len(s.Payload) > 0 {
		t.Payload = string(s.Payload)
	}
	d.fillIn(&t)
	ids, err := d.Store.Add(now, t)
	if err != nil {
		return addError(err)
	}
	if err := d.say("%s", ids[0]); err != nil {
		return err
	}
	return d.warnOfRest()
}
