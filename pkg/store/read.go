package store

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"nightshift/pkg/task"
)

// Get reads one task, payload and all.
func (s *Store) Get(id string) (t task.Task, err error) {
	err = s.read("task "+id, func(c *conn) (err error) {
		t, err = getTask(c, id)
		return err
	})
	return t, err
}

var (
	sqlTotal = define(`SELECT count(*)
	FROM tasks`)
	sqlSpan = define(`SELECT (SELECT max(rowid) FROM tasks) - (SELECT min(rowid) FROM tasks) + 1`)

	countAll   = defineCount(`status = ?1`)
	countDue   = defineCount(`status = ?1 AND next_run_time <= ?2`)
	countLater = defineCount(`status = ?1 AND next_run_time > ?2`)
)

// counting counts rows of one state, all of them or up to a limit. The limit costs
// as much again for each row: it is for finding out that there are few.
type counting struct{ upTo, all *query }

func defineCount(where string) counting {
	const from = ` FROM tasks INDEXED BY idx_tasks_status_next_run WHERE `
	return counting{
		upTo: define(`SELECT count(*) FROM (SELECT 1` + from + where + ` LIMIT ?)`),
		all:  define(`SELECT count(*)` + from + where),
	}
}

const (
	// countCheap is up to where a part is simply counted.
	countCheap = 20_000
	// countCache is the page cache of a count, in KiB. Each page is read once: in the
	// 2 MiB that SQLite takes by itself that is memory not used before, page after
	// page, and costs a fifth more.
	countCache = 128
	readCache  = 2000
)

// Tally is how many tasks there are, of one moment.
type Tally struct {
	Counts map[task.Status]int64 // a state without tasks is 0
	Due    int64                 // waiting tasks whose time has come
}

// part is a share of the tasks that one walk over the index counts.
type part struct {
	status task.Status
	due    bool
	how    counting
	args   []any
}

// tallyParts divides all tasks; those that there are the most of, as a rule, last.
func tallyParts(now string) []part {
	whole := func(s task.Status) part { return part{s, false, countAll, []any{string(s)}} }
	due := func(s task.Status) part { return part{s, true, countDue, []any{string(s), now}} }
	later := func(s task.Status) part { return part{s, false, countLater, []any{string(s), now}} }
	return []part{
		whole(task.Running), whole(task.Lost), whole(task.Paused), whole(task.Failed), whole(task.Dead), whole(task.Cancelled),
		due(task.Retrying), later(task.Retrying), due(task.Pending), later(task.Pending), whole(task.Success),
	}
}

// Tally counts the tasks in each state and those that are due, exactly. Stepping
// through the rows of an index costs half as much again as adding up all rows by
// their pages: where the last part may be most of the table, it is what the others
// leave of that sum.
func (s *Store) Tally(now time.Time) (t Tally, err error) {
	err = s.snapshot("count", func(c *conn) (err error) {
		t, err = tally(c, task.FormatTime(now))
		return err
	})
	return t, err
}

func tally(c *conn, now string) (t Tally, err error) {
	if err := c.script("PRAGMA cache_size = " + strconv.Itoa(-countCache)); err != nil {
		return t, err
	}
	defer func() {
		if cerr := c.script("PRAGMA cache_size = " + strconv.Itoa(-readCache)); err == nil {
			err = cerr
		}
	}()
	t.Counts = make(map[task.Status]int64, len(task.Statuses()))
	var counted int64
	put := func(p part, n int64) {
		t.Counts[p.status] += n
		counted += n
		if p.due {
			t.Due += n
		}
	}
	count := func(q *query, args ...any) (n int64, err error) {
		_, err = c.one(q, func(r row) { n = r.int(0) }, args...)
		return n, err
	}
	var large []part
	for _, p := range tallyParts(now) {
		n, err := count(p.how.upTo, append(slices.Clone(p.args), countCheap+1)...)
		if err != nil {
			return t, err
		}
		if n > countCheap {
			large = append(large, p)
			continue
		}
		put(p, n)
	}
	for i, p := range large {
		q, args, others := p.how.all, p.args, int64(0)
		if i == len(large)-1 {
			// The numbers of the first and the last row tell how many there are at most.
			span, err := count(sqlSpan)
			if err != nil {
				return t, err
			}
			if span-counted > span/3*2 {
				q, args, others = sqlTotal, nil, counted
			}
		}
		n, err := count(q, args...)
		if err != nil {
			return t, err
		}
		put(p, n-others)
	}
	return t, nil
}

// Count counts the tasks in each state, exactly.
func (s *Store) Count() (map[task.Status]int64, error) {
	t, err := s.Tally(s.clock())
	return t.Counts, err
}

// RunningByType counts what runs now (LOST included: it may still run), by type.
func (s *Store) RunningByType() (counts map[string]int, err error) {
	err = s.read("running by type", func(c *conn) error {
		counts = map[string]int{}
		return c.query(sqlActiveTypes, func(r row) error {
			counts[r.text(0)] = int(r.int(1))
			return nil
		})
	})
	return counts, err
}

var sqlRunning = define(`SELECT ` + leanRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST')
	ORDER BY executor_id`)

// Running reads what runs now or is LOST, without payload, checkpoint and result.
func (s *Store) Running() (all []task.Task, err error) {
	err = s.read("running", func(c *conn) (err error) {
		all, err = tasksOf(c, sqlRunning)
		return err
	})
	return all, err
}

var (
	sqlFailedCount = define(`SELECT count(*)
	FROM tasks INDEXED BY idx_tasks_failed
	WHERE (status = 'FAILED' OR status = 'DEAD') AND updated_at >= ?1`)
	sqlFailedNewest = define(`SELECT ` + leanRow + `
	FROM tasks INDEXED BY idx_tasks_failed
	WHERE (status = 'FAILED' OR status = 'DEAD') AND updated_at >= ?1
	ORDER BY updated_at DESC
	LIMIT ?2`)
)

// FailedLately counts what ended FAILED or DEAD since a moment, and reads the
// newest of it.
func (s *Store) FailedLately(from time.Time, limit int) (total int64, newest []task.Task, err error) {
	err = s.snapshot("failed lately", func(c *conn) (err error) {
		if _, err = c.one(sqlFailedCount, func(r row) { total = r.int(0) }, task.FormatTime(from)); err == nil {
			newest, err = tasksOf(c, sqlFailedNewest, task.FormatTime(from), limit)
		}
		return err
	})
	return total, newest, err
}

// Execution is a row of exec_history.
type Execution struct {
	ExecID     int64
	TaskID     string
	ExecutorID string
	Start, End time.Time // End is zero while it runs
	Outcome    string
	Result     string
	LogPath    string
	ExitCode   *int
	Signal     string
	Program    string
}

const historyColumns = `exec_id, task_id, executor_id, start_time, end_time, outcome, result, log_path, exit_code, signal, program`

func scanExecution(r row) Execution {
	e := Execution{
		ExecID: r.int(0), TaskID: r.text(1), ExecutorID: r.text(2), Start: readTime(r.text(3)), End: readTime(r.text(4)),
		Outcome: r.text(5), Result: r.text(6), LogPath: r.text(7), Signal: r.text(9), Program: r.text(10),
	}
	if p := r.intPtr(8); p != nil {
		code := int(*p)
		e.ExitCode = &code
	}
	return e
}

var sqlHistory = define(`SELECT ` + historyColumns + `
	FROM exec_history
	WHERE task_id = ?1
	ORDER BY exec_id`)

// History reads a task's executions, the first one first. It is for people.
func (s *Store) History(id string) (all []Execution, err error) {
	err = s.read("history of "+id, func(c *conn) error {
		all = nil
		return c.query(sqlHistory, func(r row) error {
			all = append(all, scanExecution(r))
			return nil
		}, id)
	})
	return all, err
}

var sqlExecution = define(`SELECT ` + historyColumns + `
	FROM exec_history
	WHERE exec_id = ?1`)

// Execution reads one execution by its number.
func (s *Store) Execution(execID int64) (e Execution, err error) {
	err = s.read(fmt.Sprintf("execution %d", execID), func(c *conn) error {
		found, err := c.one(sqlExecution, func(r row) { e = scanExecution(r) }, execID)
		if err == nil && !found {
			err = ErrNotFound
		}
		return err
	})
	return e, err
}

// Event is a row of task_events: one status change.
type Event struct {
	ID         int64
	TaskID     string
	From, To   task.Status
	Reason     task.Reason
	ExecutorID string
	ExecID     int64
	At         time.Time
}

const eventColumns = `event_id, task_id, from_status, to_status, reason, executor_id, exec_id, at`

func scanEvent(r row) Event {
	return Event{
		ID: r.int(0), TaskID: r.text(1), From: task.Status(r.text(2)), To: task.Status(r.text(3)), Reason: task.Reason(r.text(4)),
		ExecutorID: r.text(5), ExecID: r.int(6), At: readTime(r.text(7)),
	}
}

var sqlEvents = define(`SELECT ` + eventColumns + `
	FROM task_events
	WHERE task_id = ?1
	ORDER BY event_id`)

// Events reads a task's status changes, the first one first. It is for people.
func (s *Store) Events(id string) (all []Event, err error) {
	err = s.read("events of "+id, func(c *conn) error {
		all = nil
		return c.query(sqlEvents, func(r row) error {
			all = append(all, scanEvent(r))
			return nil
		}, id)
	})
	return all, err
}

var sqlEventsBack = define(`SELECT ` + eventColumns + `
	FROM task_events
	WHERE event_id < ?1
	ORDER BY event_id DESC
	LIMIT ?2`)

// EventsSince hands over the status changes since a moment, the latest first. It
// reads back from the newest until it meets an older one.
func (s *Store) EventsSince(from time.Time, each func(Event) error) error {
	for before := int64(1<<63 - 1); ; {
		var chunk []Event
		if err := s.read("events", func(c *conn) error {
			chunk = nil
			return c.query(sqlEventsBack, func(r row) error {
				chunk = append(chunk, scanEvent(r))
				return nil
			}, before, listChunk)
		}); err != nil {
			return err
		}
		for _, e := range chunk {
			if e.At.Before(from) {
				return nil
			}
			if err := each(e); err != nil {
				return err
			}
		}
		if len(chunk) < listChunk {
			return nil
		}
		before = chunk[len(chunk)-1].ID
	}
}
