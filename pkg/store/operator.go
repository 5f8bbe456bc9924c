package store

import (
	"cmp"
	"slices"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"nightshift/pkg/task"
)

// SQLiteVersion is the version of the SQLite that this program was built with.
func SQLiteVersion() string {
	text, _, _ := sqlite3.Version()
	return text
}

// SchemaVersion is the version that this program makes and migrates to.
func SchemaVersion() int { return schemaVersion }

var sqlCountByType = define(`SELECT task_type, status, count(*)
	FROM tasks
	GROUP BY task_type, status`)

// CountByType counts the tasks of each type in each state.
func (s *Store) CountByType() (counts map[string]map[task.Status]int64, err error) {
	err = s.read("count by type", func(c *conn) error {
		counts = map[string]map[task.Status]int64{}
		return c.query(sqlCountByType, func(r row) error {
			name := r.text(0)
			if counts[name] == nil {
				counts[name] = map[task.Status]int64{}
			}
			counts[name][task.Status(r.text(1))] = r.int(2)
			return nil
		})
	})
	return counts, err
}

var sqlDueOldest = define(`SELECT ` + leanRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = ?2 AND next_run_time <= ?1
	ORDER BY next_run_time
	LIMIT ?3`)

// Waiting reads, of the tasks whose time has come and that nobody runs, those that
// have waited longest. Tally counts them.
func (s *Store) Waiting(now time.Time, limit int) (oldest []task.Task, err error) {
	err = s.snapshot("waiting", func(c *conn) error {
		oldest = nil
		for _, status := range []task.Status{task.Pending, task.Retrying} {
			some, err := tasksOf(c, sqlDueOldest, task.FormatTime(now), string(status), limit)
			if err != nil {
				return err
			}
			oldest = append(oldest, some...)
		}
		return nil
	})
	slices.SortStableFunc(oldest, func(a, b task.Task) int { return a.NextRun.Compare(b.NextRun) })
	return oldest[:min(limit, len(oldest))], err
}

var sqlLiveTypes = define(`WITH RECURSIVE walk(t) AS (
	  SELECT min(task_type) FROM tasks INDEXED BY idx_tasks_claim
	  WHERE executor_id IS NULL AND (control IS NULL OR control <> 'pause')
	    AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'))
	  UNION ALL
	  SELECT (SELECT min(task_type) FROM tasks INDEXED BY idx_tasks_claim
	          WHERE executor_id IS NULL AND (control IS NULL OR control <> 'pause')
	            AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'))
	            AND task_type > walk.t)
	  FROM walk WHERE walk.t IS NOT NULL)
	SELECT t FROM walk WHERE t IS NOT NULL`)

// LiveTypes lists the types of tasks that wait or run, by a loose walk over the
// claim index.
func (s *Store) LiveTypes() (types []string, err error) {
	err = s.snapshot("types", func(c *conn) error {
		types = nil
		add := func(r row) error {
			types = append(types, r.text(0))
			return nil
		}
		if err := c.query(sqlLiveTypes, add); err != nil {
			return err
		}
		return c.query(sqlActiveTypes, add)
	})
	slices.Sort(types)
	return slices.Compact(types), err
}

var sqlAhead = define(`SELECT count(*) FROM (
	SELECT 1 FROM tasks
	WHERE executor_id IS NULL AND (control IS NULL OR control <> 'pause')
	  AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'))
	  AND next_run_time <= ?1
	  AND (priority, next_run_time) < (?2, ?3)
	LIMIT 10000)`)

// Ahead counts the due tasks that a claim takes before t, up to 10,000.
func (s *Store) Ahead(t *task.Task, now time.Time) (n int64, err error) {
	err = s.read("ahead of "+t.ID, func(c *conn) error {
		_, err := c.one(sqlAhead, func(r row) { n = r.int(0) }, task.FormatTime(now), t.Priority, task.FormatTime(t.NextRun))
		return err
	})
	return n, err
}

// The time for which a schedule was off is not caught up.
var sqlEnableSchedule = define(`UPDATE schedules
	SET enabled = ?2,
	    considered_until = CASE WHEN ?2 AND NOT enabled THEN max(ifnull(considered_until, ''), ?3) ELSE considered_until END
	WHERE name = ?1`)

// SetScheduleEnabled is the operator's switch of a schedule; the configuration has
// one of its own.
func (s *Store) SetScheduleEnabled(name string, on bool, now time.Time) error {
	st := s.stamp(now)
	return s.write("schedule "+name, &op{run: func(c *conn) error {
		n, err := c.exec(sqlEnableSchedule, name, on, st.now)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	}})
}

// AddStream inserts the tasks that next gives in one transaction, all or nothing,
// holding one of them in memory. each is called with an id before the COMMIT: only
// when AddStream returns nil are the ids true.
func (s *Store) AddStream(now time.Time, next func() (NewTask, bool, error), each func(id string)) (n int, err error) {
	st := s.stamp(now)
	var first error
	last := ""
	err = s.write("add a batch", &op{
		alone: true,
		run: func(c *conn) error {
			if n > 0 {
				return cmp.Or(first, ErrUnknown) // a stream cannot be read twice: what stopped the first try is the answer
			}
			first = s.addStream(c, st, next, func(id string) { n++; last = id; each(id) }, &n)
			return first
		},
		applied: func(c *conn) (bool, error) {
			_, err := getTask(c, last)
			return err == nil, nil
		},
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) addStream(c *conn, st stamp, next func() (NewTask, bool, error), each func(id string), n *int) error {
	for {
		t, more, err := next()
		if err != nil || !more {
			return err
		}
		if err := t.Check(); err != nil {
			return &InputError{Index: *n, Why: err.Error()}
		}
		if t.ID == "" {
			t.ID = task.NewID(st.at)
		}
		if err := insertTask(c, &t, st); err != nil {
			return refusedInsert(c, *n, &t, err)
		}
		each(t.ID)
	}
}

// Migrate brings an older database to this program's version, after a backup,
// and says what it did. A database of this version is left as it is.
func Migrate(path string) (from, to int, backup string, err error) {
	s, err := Open(Options{Path: path})
	if err != nil {
		return 0, 0, "", err
	}
	from, backup = s.migrated.from, s.migrated.backup
	if from == 0 {
		from = schemaVersion
	}
	return from, schemaVersion, backup, s.Close()
}
