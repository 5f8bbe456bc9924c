package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightshift/pkg/cron"
)

// maxSlowAfter bounds the default of slow_after: half the timeout, at most this.
const maxSlowAfter = 30 * time.Minute

// finish fills in the defaults that depend on other keys, and checks what one
// key alone can't tell.
func (d *decoder) finish(c *Config, handlers []string) {
	c.logDirSet = d.stands("log.dir")
	if !c.logDirSet {
		c.Log.Dir = filepath.Join(c.DataDir, "logs")
	}
	d.checkWorker(c)
	if c.Retry.Cap < c.Retry.Base {
		d.failKey("retry.cap", fmt.Sprintf("%s is less than retry.base (%s)", FormatDuration(c.Retry.Cap), FormatDuration(c.Retry.Base)))
	}
	known := append(Builtins(), handlers...)
	d.finishTypes(c, known)
	d.finishSchedules(c)
	d.finishHooks(c)
}

func (d *decoder) checkWorker(c *Config) {
	w := c.Worker
	if w.SuspectAfter < 2*w.HeartbeatInterval {
		d.failKey("worker.suspect_after", fmt.Sprintf(
			"%s is less than twice worker.heartbeat_interval (%s): one late heartbeat would make every worker suspect",
			FormatDuration(w.SuspectAfter), FormatDuration(w.HeartbeatInterval)))
	}
	if w.OfflineAfter <= w.SuspectAfter {
		d.failKey("worker.offline_after", fmt.Sprintf("%s is not more than worker.suspect_after (%s)",
			FormatDuration(w.OfflineAfter), FormatDuration(w.SuspectAfter)))
	}
}

// finishTypes completes every task type from the sections above it and adds the
// built-in ones.
func (d *decoder) finishTypes(c *Config, known []string) {
	absent := TaskType{}
	d.defaults(name{"tasks.*", "tasks.*"}, valueOf(&absent))
	d.inherit(c, "tasks.*", &absent)
	c.typeAbsent = absent
	if c.Tasks == nil {
		c.Tasks = map[string]TaskType{}
	}
	for _, typ := range slices.Sorted(maps.Keys(c.Tasks)) {
		t, full := c.Tasks[typ], "tasks."+typ
		d.inherit(c, full, &t)
		d.checkWork(c, full, typ, &t, known)
		d.checkCodes(full, &t)
		if t.Retry.Cap < t.Retry.Base {
			d.failKey(full+".retry", fmt.Sprintf("cap (%s) is less than base (%s)", FormatDuration(t.Retry.Cap), FormatDuration(t.Retry.Base)))
		}
		c.Tasks[typ] = t
	}
	for _, typ := range known {
		if _, declared := c.Tasks[typ]; !declared {
			t := absent
			t.Builtin = typ
			c.Tasks[typ] = t
		}
	}
}

// inherit fills what the entry full leaves to the sections above.
func (d *decoder) inherit(c *Config, full string, t *TaskType) {
	if !d.stands(full + ".timeout") {
		t.Timeout = c.Timeout
	}
	if !d.stands(full + ".slow_after") {
		t.SlowAfter = maxSlowAfter
		if t.Timeout > 0 {
			t.SlowAfter = min(t.Timeout/2, maxSlowAfter)
		}
	}
	if !d.stands(full + ".dir") {
		t.Dir = d.base
	}
	if !d.stands(full + ".max_retry") {
		t.MaxRetry = c.Retry.MaxRetry
	}
	if !d.stands(full + ".retry.base") {
		t.Retry.Base = c.Retry.Base
	}
	if !d.stands(full + ".retry.cap") {
		t.Retry.Cap = max(c.Retry.Cap, t.Retry.Base)
	}
	if !d.stands(full + ".grace") {
		t.Grace = c.Worker.Grace
	}
}

// checkWork: a type runs a program or a Go handler, and says which.
func (d *decoder) checkWork(c *Config, full, typ string, t *TaskType, known []string) {
	program, builtin := d.stands(full+".command"), d.stands(full+".builtin")
	switch {
	case program && builtin:
		d.failKey(full+".builtin", "a type has a command or a builtin, not both; remove one")
	case builtin && len(known) > len(Builtins()) && !slices.Contains(known, t.Builtin):
		d.failKey(full+".builtin", fmt.Sprintf("this worker has no handler %q, it has %s%s", t.Builtin, strings.Join(known, ", "), didYouMean(t.Builtin, known)))
	case builtin && badName(t.Builtin) != "":
		d.failKey(full+".builtin", fmt.Sprintf("%q is no name: %s", t.Builtin, badName(t.Builtin)))
	case builtin && !slices.Contains(known, t.Builtin):
		d.hint(c, full+".builtin", fmt.Sprintf("%q is no handler of this program%s (a worker of your own may have it)", t.Builtin, didYouMean(t.Builtin, known)))
	case !program && !builtin && slices.Contains(known, typ):
		t.Builtin = typ
	case !program && !builtin:
		d.failKey(full, "nothing says how to do the work; give it a command, such as command: [python3, work.py], or the builtin that does it")
	case program && (len(t.Command) == 0 || t.Command[0] == ""):
		d.failKey(full+".command", "the command is empty; the first item is the program, such as [python3, work.py]")
	case program && strings.Contains(t.Command[0], "/"):
		t.Command[0] = absolute(t.Dir, t.Command[0])
	}
	if builtin || !program {
		for _, key := range []string{"env", "dir", "umask", "fatal", "retryable"} {
			if d.stands(full + "." + key) {
				d.failKey(full+"."+key, "this is for programs, and the type runs a Go handler; remove it")
			}
		}
	} else if d.stands(full + ".options") {
		d.failKey(full+".options", "this is for Go handlers, and the type runs a program; give it env or more arguments")
	}
}

// checkCodes: an exit status cannot be both, and retryable takes its statuses
// out of the default list of fatal.
func (d *decoder) checkCodes(full string, t *TaskType) {
	for _, code := range t.Retryable {
		if d.stands(full+".fatal") && slices.Contains(t.Fatal, code) {
			d.failKey(full+".retryable", fmt.Sprintf("exit status %d is in fatal too; remove it from one of them", code))
		}
	}
	if !d.stands(full + ".fatal") {
		t.Fatal = slices.DeleteFunc(slices.Clone(t.Fatal), func(code int) bool { return slices.Contains(t.Retryable, code) })
	}
}

func (d *decoder) finishSchedules(c *Config) {
	if c.Schedules == nil {
		c.Schedules = map[string]Schedule{}
	}
	for _, sched := range slices.Sorted(maps.Keys(c.Schedules)) {
		s, full := c.Schedules[sched], "schedules."+sched
		stated, every := d.stands(full+".cron"), d.stands(full+".every")
		switch {
		case stated && every:
			d.failKey(full+".every", "a schedule has cron or every, not both; remove one")
		case !stated && !every:
			d.failKey(full, `nothing says when; give it cron: "0 2 * * *" or every: 15m`)
		}
		d.checkTimes(c, full, s)
		if every && d.stands(full+".zone") {
			d.failKey(full+".zone", "a fixed interval knows no zone; remove it, or use cron")
		}
		if every && s.Jitter > s.Every {
			d.failKey(full+".jitter", fmt.Sprintf("%s is longer than every (%s)", FormatDuration(s.Jitter), FormatDuration(s.Every)))
		}
		if s.Task == "" {
			d.failKey(full+".task", "no task type is named; add task: and one of "+strings.Join(c.typeNames(), ", "))
		} else {
			d.checkType(c, full+".task", s.Task)
		}
		if len(d.errs.List) == 0 {
			if _, err := s.Definition(sched).Compile(); err != nil {
				d.failKey(full, err.Error()) // what the checks above have not foreseen
			}
		}
	}
}

// checkTimes has the zone and the rule judged by those who know them, and keeps
// their hints for what is legal and seldom meant.
func (d *decoder) checkTimes(c *Config, full string, s Schedule) {
	zone := s.Zone
	if _, err := cron.LoadZone(zone); err != nil {
		d.failKey(full+".zone", err.Error())
		zone = "UTC" // so that the expression is judged too
	}
	var rule *cron.Rule
	var err error
	key := full + ".cron"
	switch {
	case d.stands(key):
		rule, err = cron.Parse(s.Cron, zone)
	case d.stands(full + ".every"):
		key = full + ".every"
		rule, err = cron.Every(s.Every)
	}
	if err != nil {
		d.failKey(key, err.Error())
		return
	}
	if rule != nil {
		for _, remark := range rule.Hints() {
			d.hint(c, key, remark)
		}
	}
}

// hint keeps a remark about a key that stands in the file.
func (d *decoder) hint(c *Config, key, remark string) {
	at := d.places[key]
	c.hints = append(c.hints, (&Error{File: d.file, Line: at.line, Column: at.column, Key: key, Problem: remark}).Error())
}

func (d *decoder) finishHooks(c *Config) {
	switch {
	case c.Hooks.Task != "":
		d.checkType(c, "hooks.task", c.Hooks.Task)
	case d.stands("hooks.task"):
		d.failKey("hooks.task", "the name is empty; leave the line out for no hooks")
	case d.stands("hooks.on") && len(c.Hooks.On) > 0:
		d.failKey("hooks.on", "hooks need a task type to add; write task: under hooks")
	}
}

// checkType refuses a task type that does not exist.
func (d *decoder) checkType(c *Config, full, typ string) {
	if _, ok := c.Tasks[typ]; ok {
		return
	}
	names := c.typeNames()
	hint := didYouMean(typ, names)
	if hint == "" {
		hint = "; known are " + strings.Join(names, ", ")
	}
	d.failKey(full, fmt.Sprintf("there is no task type %q under tasks%s", typ, hint))
}

func (c *Config) typeNames() []string { return slices.Sorted(maps.Keys(c.Tasks)) }
