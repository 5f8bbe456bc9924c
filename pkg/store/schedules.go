package store

import (
	"fmt"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// ScheduleState is a row of schedules.
type ScheduleState struct {
	Name            string
	Definition      string
	ConsideredUntil time.Time // occurrences up to here are decided; zero: never looked at
	High            time.Time // how far that was before the clock was set back; zero: no further
	Enabled         bool      // the operator's switch
	Unfinished      bool      // a run of it is not final
}

// ScheduleDef declares a schedule.
type ScheduleDef struct {
	Name       string
	Definition string // canonical text of what it is
	Enabled    bool
}

// Skip is an occurrence that did not run, or several in a row of time.
type Skip struct {
	Schedule   string
	Occurrence time.Time // the first of them
	Until      time.Time // the last of them; zero: it is one
	Count      int       // 0 means 1
	Reason     string
	Run        string // the task that does duty for them; "": none
	At         time.Time
}

// SkipOverlap is the reason of a skip for which a previous run was not finished.
const SkipOverlap = "overlap"

// Firing moves a schedule on: its tasks, its skips and its considered_until, in
// one transaction, if the row still says Seen.
type Firing struct {
	Schedule string
	Seen     time.Time // considered_until as it was read
	Until    time.Time // considered_until as it becomes
	High     time.Time // considered_high as it becomes; zero: NULL
	// Definition replaces the one on record; "": unchanged.
	Definition string
	Tasks      []NewTask // with ids of their own; one that exists is left alone: an occurrence exists at most once
	Skips      []Skip
	// NoOverlap: a task is skipped when an unfinished one of the schedule exists at
	// that moment; of several tasks at most the first is inserted.
	NoOverlap bool
}

// Fired is what a Firing did.
type Fired struct {
	Moved    bool // false: another worker was faster, nothing was done
	Inserted []string
	Skipped  []Skip // of NoOverlap
}

var sqlScheduleAdd = define(`INSERT OR IGNORE INTO schedules (name, definition, enabled)
	VALUES (?1, ?2, ?3)`)

var sqlScheduleDrop = define(`DELETE FROM schedules
	WHERE name = ?1`)

var sqlSchedules = define(`SELECT name, definition, considered_until, considered_high, enabled,
	    EXISTS (SELECT 1 FROM tasks INDEXED BY idx_tasks_schedule
	            WHERE schedule = name AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST'))
	FROM schedules
	ORDER BY name`)

// SyncSchedules makes the declared schedules those of the database: a new one is
// added, one that is no longer declared is removed (its tasks and skips stay). The
// definition of one that is there already changes by a Firing, which settles first
// what the old one left undecided.
func (s *Store) SyncSchedules(defs []ScheduleDef, now time.Time) error {
	return s.write("schedules", &op{run: func(c *conn) error {
		declared := map[string]bool{}
		for _, d := range defs {
			declared[d.Name] = true
			if _, err := c.exec(sqlScheduleAdd, d.Name, d.Definition, d.Enabled); err != nil {
				return err
			}
		}
		have, err := schedules(c)
		if err != nil {
			return err
		}
		for _, h := range have {
			if declared[h.Name] {
				continue
			}
			if _, err := c.exec(sqlScheduleDrop, h.Name); err != nil {
				return err
			}
		}
		return nil
	}})
}

func schedules(c *conn) (all []ScheduleState, err error) {
	err = c.query(sqlSchedules, func(r row) error {
		all = append(all, ScheduleState{Name: r.text(0), Definition: r.text(1), ConsideredUntil: readTime(r.text(2)), High: readTime(r.text(3)),
			Enabled: r.int(4) != 0, Unfinished: r.int(5) != 0})
		return nil
	})
	return all, err
}

// Schedules reads all schedules, by name.
func (s *Store) Schedules() (all []ScheduleState, err error) {
	err = s.read("schedules", func(c *conn) (err error) {
		all, err = schedules(c)
		return err
	})
	return all, err
}

// ScheduleState reads one schedule.
func (s *Store) ScheduleState(name string) (ScheduleState, error) {
	all, err := s.Schedules()
	if err != nil {
		return ScheduleState{}, err
	}
	for _, st := range all {
		if st.Name == name {
			return st, nil
		}
	}
	return ScheduleState{}, fmt.Errorf("schedule %q: %w", name, ErrNotFound)
}

var sqlConsider = define(`UPDATE schedules
	SET considered_until = ?3, considered_high = ?4, definition = ifnull(?5, definition)
	WHERE name = ?1 AND considered_until IS ?2`)

var sqlUnfinished = define(`SELECT task_id
	FROM tasks INDEXED BY idx_tasks_schedule
	WHERE schedule = ?1 AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST')
	LIMIT 1`)

var sqlTaskExists = define(`SELECT 1
	FROM tasks
	WHERE task_id = ?1`)

// A clock that was set back may decide on an occurrence again: one that ran is not
// skipped afterwards, and a skip is on record once.
var sqlSkip = define(`INSERT OR IGNORE INTO schedule_skips (schedule, occurrence, reason, at, until, count, run)
	SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
	WHERE ?6 > 1 OR NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = ?8)`)

// FireOccurrences inserts the occurrences that are due and records those that do
// not run. However many workers call it, one moves the schedule on.
func (s *Store) FireOccurrences(f Firing, now time.Time) (out Fired, err error) {
	for i := range f.Tasks {
		if err := f.Tasks[i].Check(); err != nil {
			return Fired{}, &InputError{Index: i, Why: err.Error()}
		}
	}
	st := s.stamp(now)
	err = s.write("fire "+f.Schedule, &op{
		points: []string{"fire"},
		run: func(c *conn) error {
			out = Fired{}
			n, err := c.exec(sqlConsider, f.Schedule, timeText(f.Seen), timeText(f.Until), timeText(f.High), textOrNull(f.Definition))
			if err != nil || n == 0 {
				return err
			}
			out.Moved = true
			for i := range f.Tasks {
				if err := s.fireOne(c, &f, &f.Tasks[i], &out, st); err != nil {
					return err
				}
			}
			for _, k := range f.Skips {
				if err := insertSkip(c, f.Schedule, k, st); err != nil {
					return err
				}
			}
			return nil
		},
		applied: func(c *conn) (bool, error) {
			all, err := schedules(c)
			for _, h := range all {
				if h.Name == f.Schedule {
					return out.Moved && h.ConsideredUntil.Equal(f.Until.Truncate(time.Millisecond)), err
				}
			}
			return false, err
		},
	})
	if err != nil {
		return Fired{}, err
	}
	return out, nil
}

func (s *Store) fireOne(c *conn, f *Firing, n *NewTask, out *Fired, st stamp) error {
	exists, err := c.one(sqlTaskExists, nil, n.ID)
	if err != nil || exists {
		return err
	}
	if f.NoOverlap {
		overlap, err := c.one(sqlUnfinished, nil, f.Schedule)
		if err != nil {
			return err
		}
		if overlap {
			k := Skip{Schedule: f.Schedule, Occurrence: occurrenceOf(n), Reason: SkipOverlap, Count: 1, At: st.at}
			out.Skipped = append(out.Skipped, k)
			return insertSkip(c, f.Schedule, k, st)
		}
	}
	if err := insertTask(c, n, st); err != nil {
		return refusedInsert(c, 0, n, err)
	}
	out.Inserted = append(out.Inserted, n.ID)
	return nil
}

// occurrenceOf is the time in an occurrence's id, <schedule>@<UTC time>;
// next_run_time may lie later by the schedule's jitter.
func occurrenceOf(n *NewTask) time.Time {
	_, text, _ := strings.Cut(n.ID, "@")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	return n.NextRun
}

func insertSkip(c *conn, schedule string, k Skip, st stamp) error {
	id := schedule + "@" + k.Occurrence.UTC().Format(time.RFC3339)
	_, err := c.exec(sqlSkip, schedule, task.FormatTime(k.Occurrence), k.Reason, st.now, timeText(k.Until), max(k.Count, 1), textOrNull(k.Run), id)
	return err
}

var sqlSkips = define(`SELECT schedule, occurrence, reason, at, until, count, run
	FROM schedule_skips
	WHERE schedule = ?1
	ORDER BY occurrence DESC
	LIMIT ?2`)

// Skips reads the latest occurrences of a schedule that did not run; limit 0 is all.
func (s *Store) Skips(name string, limit int) (all []Skip, err error) {
	if limit <= 0 {
		limit = -1
	}
	err = s.read("skips of "+name, func(c *conn) error {
		all = nil
		return c.query(sqlSkips, func(r row) error {
			all = append(all, Skip{Schedule: r.text(0), Occurrence: readTime(r.text(1)), Reason: r.text(2), At: readTime(r.text(3)),
				Until: readTime(r.text(4)), Count: int(r.int(5)), Run: r.text(6)})
			return nil
		}, name, limit)
	})
	return all, err
}

// Occurrence ids begin with the schedule's name and an @: a range of the primary key.
var sqlOccurrences = define(`SELECT ` + leanRow + `
	FROM tasks
	WHERE task_id >= ?1 || '@' AND task_id < ?1 || 'A'
	ORDER BY task_id DESC
	LIMIT ?2`)

// Occurrences reads the latest tasks that a schedule made; limit 0 is all.
func (s *Store) Occurrences(name string, limit int) (all []task.Task, err error) {
	if limit <= 0 {
		limit = -1
	}
	err = s.read("occurrences of "+name, func(c *conn) (err error) {
		all, err = tasksOf(c, sqlOccurrences, name, limit)
		return err
	})
	return all, err
}

var sqlSetting = define(`SELECT value
	FROM settings
	WHERE name = ?1`)

var sqlSetSetting = define(`INSERT INTO settings (name, value)
	VALUES (?1, ?2)
	ON CONFLICT (name) DO UPDATE
	SET value = ?2`)

var sqlUnset = define(`DELETE FROM settings
	WHERE name = ?1`)

// settingDrain holds since when nothing new is to be started, on any worker.
const settingDrain = "drain"

// SetDrain asks all workers to finish what runs and start nothing more, or to
// start again.
func (s *Store) SetDrain(on bool, now time.Time) error {
	st := s.stamp(now)
	return s.write("drain", &op{run: func(c *conn) (err error) {
		if on {
			_, err = c.exec(sqlSetSetting, settingDrain, st.now)
		} else {
			_, err = c.exec(sqlUnset, settingDrain)
		}
		return err
	}})
}

// Draining reports whether SetDrain is in force. A Turn does not claim then.
func (s *Store) Draining() (on bool, err error) {
	err = s.read("drain", func(c *conn) (err error) {
		on, err = c.one(sqlSetting, nil, settingDrain)
		return err
	})
	return on, err
}
