package store

import (
	"slices"
	"time"

	"nightshift/pkg/task"
)

// What the shift report reads. History and events have no index on time: their
// numbers rise with it, so that the beginning of a window is found by bisection.
// (After a clock that was set back by hours a report may miss what lies there.)
// All is read in short transactions, so that a report over a million executions
// does not keep the WAL from being cleared.

// reportChunk is how many rows are read in one transaction.
const reportChunk = 5000

// scanChunk is how many row numbers are searched in one transaction where few
// rows are expected.
const scanChunk = 50_000

// Run is an execution as a report needs it.
type Run struct {
	ExecID     int64
	TaskID     string
	TaskType   string // "" when the task is gone
	ExecutorID string
	Start, End time.Time // End is zero while it runs
	Outcome    string
}

const runColumns = `h.exec_id, h.task_id, t.task_type, h.executor_id, h.start_time, h.end_time, h.outcome`

var (
	// Executions that began before the window and reach into it. Few; the rest is
	// passed over by number.
	sqlRunsReaching = define(`SELECT ` + runColumns + `
	FROM exec_history AS h LEFT JOIN tasks AS t ON t.task_id = h.task_id
	WHERE h.exec_id > ?1 AND h.exec_id <= ?2 AND (h.end_time >= ?3 OR h.end_time IS NULL)
	ORDER BY h.exec_id`)
	sqlRunsFrom = define(`SELECT ` + runColumns + `
	FROM exec_history AS h LEFT JOIN tasks AS t ON t.task_id = h.task_id
	WHERE h.exec_id > ?1
	ORDER BY h.exec_id
	LIMIT ?2`)
	sqlRunBounds = define(`SELECT (SELECT min(exec_id) FROM exec_history), (SELECT max(exec_id) FROM exec_history)`)
	sqlRunAt     = define(`SELECT exec_id, start_time
	FROM exec_history
	WHERE exec_id >= ?1
	ORDER BY exec_id
	LIMIT 1`)
)

func scanRun(r row) Run {
	return Run{
		ExecID: r.int(0), TaskID: r.text(1), TaskType: r.text(2), ExecutorID: r.text(3),
		Start: readTime(r.text(4)), End: readTime(r.text(5)), Outcome: r.text(6),
	}
}

// RunsBetween hands over the executions that were under way at some moment from
// from (included) to to (not included), the oldest first. It is for people.
func (s *Store) RunsBetween(from, to time.Time, each func(*Run) error) error {
	first, last, err := s.bounds("runs", sqlRunBounds)
	if err != nil || last == 0 {
		return err
	}
	begin, err := s.firstSince("runs", sqlRunAt, first, last, from)
	if err != nil {
		return err
	}
	for after := first - 1; after < begin-1; after += scanChunk {
		chunk, err := s.runs(sqlRunsReaching, after, min(after+scanChunk, begin-1), task.FormatTime(from))
		if err != nil {
			return err
		}
		for i := range chunk {
			if err := each(&chunk[i]); err != nil {
				return err
			}
		}
	}
	for after := begin - 1; ; {
		chunk, err := s.runs(sqlRunsFrom, after, reportChunk)
		if err != nil {
			return err
		}
		for i := range chunk {
			if !chunk[i].Start.Before(to) {
				continue // a clock that was set back may bring an earlier one after it
			}
			if err := each(&chunk[i]); err != nil {
				return err
			}
		}
		if len(chunk) < reportChunk {
			return nil
		}
		after = chunk[len(chunk)-1].ExecID
		if chunk[len(chunk)-1].Start.After(to.Add(24 * time.Hour)) {
			return nil // so far behind the window nothing more of it comes
		}
	}
}

func (s *Store) runs(q *query, args ...any) (chunk []Run, err error) {
	err = s.read("runs", func(c *conn) error {
		chunk = chunk[:0]
		return c.query(q, func(r row) error {
			chunk = append(chunk, scanRun(r))
			return nil
		}, args...)
	})
	return chunk, err
}

// bounds reads the smallest and the largest number of a table.
func (s *Store) bounds(what string, q *query) (first, last int64, err error) {
	err = s.read(what, func(c *conn) error {
		_, err := c.one(q, func(r row) { first, last = r.int(0), r.int(1) })
		return err
	})
	return first, last, err
}

// firstSince finds by bisection the first number whose time is not before from;
// last+1 when there is none.
func (s *Store) firstSince(what string, q *query, first, last int64, from time.Time) (int64, error) {
	lo, hi := first, last+1
	err := s.read(what, func(c *conn) error {
		lo, hi = first, last+1
		for lo < hi {
			mid := lo + (hi-lo)/2
			at, number := time.Time{}, int64(0)
			found, err := c.one(q, func(r row) { number, at = r.int(0), readTime(r.text(1)) }, mid)
			switch {
			case err != nil:
				return err
			case found && at.Before(from):
				lo = number + 1
			default:
				hi = mid
			}
		}
		return nil
	})
	return lo, err
}

// FailedTask is a task that ended FAILED or DEAD, with the words of its last execution.
type FailedTask struct {
	ID, Type   string
	Status     task.Status
	Reason     task.Reason
	At         time.Time
	Executions int64
	Cause      string
	ExitCode   *int
	Signal     string
	LogPath    string
}

var sqlFailedBetween = define(`SELECT t.task_id, t.task_type, t.reason, t.updated_at, t.executions, h.result, h.exit_code, h.signal, h.log_path,
	  t.next_run_time, t.rowid
	FROM tasks AS t INDEXED BY idx_tasks_status_next_run
	LEFT JOIN exec_history AS h ON h.exec_id = t.exec_id AND t.updated_at >= ?4 AND t.updated_at < ?5
	WHERE t.status = ?1 AND (t.next_run_time, t.rowid) > (?2, ?3)
	ORDER BY t.next_run_time, t.rowid
	LIMIT ?6`)

// FailedBetween hands over the tasks that ended FAILED or DEAD in a window, in no
// order that means anything.
func (s *Store) FailedBetween(from, to time.Time, each func(*FailedTask) error) error {
	for _, status := range []task.Status{task.Failed, task.Dead} {
		if err := s.failedBetween(status, from, to, each); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) failedBetween(status task.Status, from, to time.Time, each func(*FailedTask) error) error {
	due, rowid := "", int64(0)
	for {
		var chunk []FailedTask
		rows := 0
		nextDue, nextRow := due, rowid
		if err := s.read("failed tasks", func(c *conn) error {
			chunk, rows = nil, 0
			return c.query(sqlFailedBetween, func(r row) error {
				rows++
				nextDue, nextRow = r.text(9), r.int(10)
				at := readTime(r.text(3))
				if at.Before(from) || !at.Before(to) {
					return nil
				}
				f := FailedTask{ID: r.text(0), Type: r.text(1), Status: status, Reason: task.Reason(r.text(2)), At: at, Executions: r.int(4),
					Cause: r.text(5), Signal: r.text(7), LogPath: r.text(8)}
				if p := r.intPtr(6); p != nil {
					code := int(*p)
					f.ExitCode = &code
				}
				chunk = append(chunk, f)
				return nil
			}, string(status), due, rowid, task.FormatTime(from), task.FormatTime(to), reportChunk)
		}); err != nil {
			return err
		}
		for i := range chunk {
			if err := each(&chunk[i]); err != nil {
				return err
			}
		}
		if rows < reportChunk {
			return nil
		}
		due, rowid = nextDue, nextRow
	}
}

// Mishap is a change of status that no task asked for.
type Mishap struct {
	Reason     task.Reason
	ExecutorID string
	At         time.Time
}

var (
	sqlMishaps = define(`SELECT reason, executor_id, at
	FROM task_events
	WHERE event_id > ?1 AND event_id <= ?2 AND at >= ?3 AND at < ?4
	  AND (to_status = 'LOST' OR from_status = 'LOST' OR reason = 'lease_expired')
	ORDER BY event_id`)
	sqlEventBounds = define(`SELECT (SELECT min(event_id) FROM task_events), (SELECT max(event_id) FROM task_events)`)
	sqlEventAt     = define(`SELECT event_id, at
	FROM task_events
	WHERE event_id >= ?1
	ORDER BY event_id
	LIMIT 1`)
)

// MishapsBetween hands over the crashes, losses, takeovers and expired leases of
// a window, the oldest first.
func (s *Store) MishapsBetween(from, to time.Time, each func(Mishap) error) error {
	first, last, err := s.bounds("mishaps", sqlEventBounds)
	if err != nil || last == 0 {
		return err
	}
	begin, err := s.firstSince("mishaps", sqlEventAt, first, last, from)
	if err != nil {
		return err
	}
	for after := begin - 1; after < last; after += scanChunk {
		var chunk []Mishap
		if err := s.read("mishaps", func(c *conn) error {
			chunk = nil
			return c.query(sqlMishaps, func(r row) error {
				chunk = append(chunk, Mishap{Reason: task.Reason(r.text(0)), ExecutorID: r.text(1), At: readTime(r.text(2))})
				return nil
			}, after, min(after+scanChunk, last), task.FormatTime(from), task.FormatTime(to))
		}); err != nil {
			return err
		}
		for _, m := range chunk {
			if err := each(m); err != nil {
				return err
			}
		}
	}
	return nil
}

var sqlUpcoming = define(`SELECT ` + leanRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = ?1 AND next_run_time > ?2
	ORDER BY next_run_time
	LIMIT ?3`)

// Upcoming reads the tasks that are due next, after now.
func (s *Store) Upcoming(now time.Time, limit int) (next []task.Task, err error) {
	err = s.snapshot("upcoming", func(c *conn) error {
		next = nil
		for _, status := range []task.Status{task.Pending, task.Retrying} {
			some, err := tasksOf(c, sqlUpcoming, string(status), task.FormatTime(now), limit)
			if err != nil {
				return err
			}
			next = append(next, some...)
		}
		return nil
	})
	slices.SortStableFunc(next, func(a, b task.Task) int { return a.NextRun.Compare(b.NextRun) })
	return next[:min(limit, len(next))], err
}

// Skipped sums up the occurrences of one schedule that did not run for one reason.
type Skipped struct {
	Schedule string
	Reason   string
	Count    int64
	Last     time.Time // the latest occurrence
}

var sqlSkipped = define(`SELECT schedule, reason, sum(ifnull(count, 1)), max(ifnull(until, occurrence))
	FROM schedule_skips
	WHERE occurrence < ?2 AND ifnull(until, occurrence) >= ?1
	GROUP BY schedule, reason
	ORDER BY schedule, sum(ifnull(count, 1)) DESC`)

// SkippedBetween sums up the occurrences of a window that did not run. A row
// that stands for many and reaches out of the window counts as a whole.
func (s *Store) SkippedBetween(from, to time.Time) (all []Skipped, err error) {
	err = s.read("skipped occurrences", func(c *conn) error {
		all = nil
		return c.query(sqlSkipped, func(r row) error {
			all = append(all, Skipped{Schedule: r.text(0), Reason: r.text(1), Count: r.int(2), Last: readTime(r.text(3))})
			return nil
		}, task.FormatTime(from), task.FormatTime(to))
	})
	return all, err
}
