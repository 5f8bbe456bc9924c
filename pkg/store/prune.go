package store

import (
	"slices"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// PrunePolicy says what may go. Only finished tasks ever go, none that an existing
// task names in rerun_of, and no occurrence of a schedule that is younger than
// occurrenceGuard.
type PrunePolicy struct {
	Before   time.Time // finished before this; zero: nothing by age
	MaxBytes int64     // then the oldest finished, until no more pages are in use; 0: no budget
	Now      time.Time
}

// Pruned is what a prune removed. Tasks lists the ids, so that their directories
// and logs can go too.
type Pruned struct {
	Tasks    []string
	LogPaths []string
	Skips    int
	Bytes    int64 // freed inside the file, to be used again; the file shrinks by what follows at its end
}

// occurrenceGuard keeps the latest occurrences of schedules: after the clock was set
// back, their ids are what keeps them from firing twice.
const occurrenceGuard = 48 * time.Hour

const (
	pruneChunk = 500                   // rows that are looked at in one transaction
	pruneTime  = 15 * time.Millisecond // and how long one that deletes may keep other writers waiting
)

// A task ends after it was due: what is due later than the limit cannot have ended
// before it, except a cancelled one.
var sqlPrunable = define(`SELECT rowid, task_id, next_run_time, updated_at, schedule
	FROM tasks AS t INDEXED BY idx_tasks_status_next_run
	WHERE status = ?1 AND (next_run_time > ?2 OR (next_run_time = ?2 AND rowid > ?3)) AND next_run_time < ?4
	ORDER BY next_run_time, rowid
	LIMIT ?5`)

var sqlRerunExists = define(`SELECT 1
	FROM tasks INDEXED BY idx_tasks_rerun_of
	WHERE rerun_of = ?1`)

var (
	sqlPruneTask = define(`DELETE FROM tasks
	WHERE rowid = ?1 AND task_id = ?2 AND status IN ('SUCCESS', 'FAILED', 'DEAD', 'CANCELLED') AND updated_at = ?3`)
	sqlPruneLogs = define(`SELECT log_path
	FROM exec_history
	WHERE task_id = ?1 AND log_path IS NOT NULL`)
	sqlPruneHistory = define(`DELETE FROM exec_history
	WHERE task_id = ?1`)
	sqlPruneEvents = define(`DELETE FROM task_events
	WHERE task_id = ?1`)
	sqlPruneSkips = define(`DELETE FROM schedule_skips
	WHERE (schedule, occurrence) IN (SELECT schedule, occurrence FROM schedule_skips WHERE at < ?1 LIMIT ?2)`)
)

// prunable is a finished row in reach of a prune.
type prunable struct {
	rowid           int64
	id, due, update string
	schedule        string
}

// guarded reports a late occurrence of a schedule.
func (r prunable) guarded(since time.Time) bool {
	return r.schedule != "" && occurrenceOf(&NewTask{ID: r.id, NextRun: readTime(r.due)}).After(since)
}

// Prune removes finished tasks, the oldest first, in small transactions. Unfinished
// ones never go.
func (s *Store) Prune(p PrunePolicy) (out Pruned, err error) {
	before, err := s.Sizes()
	if err != nil {
		return out, err
	}
	guard := s.stamp(p.Now).at.Add(-occurrenceGuard)
	if !p.Before.IsZero() {
		limit := task.FormatTime(p.Before)
		for _, status := range []task.Status{task.Success, task.Failed, task.Dead, task.Cancelled} {
			if err := s.pruneByAge(status, limit, guard, &out); err != nil {
				return out, err
			}
		}
		if err := s.pruneSkips(limit, &out); err != nil {
			return out, err
		}
	}
	if p.MaxBytes > 0 {
		if err := s.pruneToBudget(p.MaxBytes, guard, &out); err != nil {
			return out, err
		}
	}
	after, err := s.Sizes()
	out.Bytes = max(0, before.Used-after.Used)
	return out, err
}

const endOfTime = "9999-12-31T23:59:59.999Z"

func (s *Store) pruneByAge(status task.Status, limit string, guard time.Time, out *Pruned) error {
	until := limit
	if status == task.Cancelled {
		until = endOfTime
	}
	last := prunable{}
	for {
		rows, err := s.prunables(status, last, until)
		if err != nil || len(rows) == 0 {
			return err
		}
		last = rows[len(rows)-1]
		old := slices.DeleteFunc(rows, func(r prunable) bool { return r.update >= limit || r.guarded(guard) })
		if err := s.pruneRows(old, out); err != nil {
			return err
		}
	}
}

// prunables reads finished rows from the index, after the last one looked at.
func (s *Store) prunables(status task.Status, last prunable, until string) (rows []prunable, err error) {
	err = s.read("prune", func(c *conn) error {
		rows = nil
		return c.query(sqlPrunable, func(r row) error {
			rows = append(rows, prunable{r.int(0), r.text(1), r.text(2), r.text(3), r.text(4)})
			return nil
		}, string(status), last.due, last.rowid, until, pruneChunk)
	})
	return rows, err
}

// pruneToBudget removes the oldest finished tasks until the pages in use fit.
func (s *Store) pruneToBudget(maxBytes int64, guard time.Time, out *Pruned) error {
	for {
		size, err := s.Sizes()
		if err != nil || size.Used <= maxBytes {
			return err
		}
		var oldest []prunable
		for _, status := range []task.Status{task.Success, task.Failed, task.Dead, task.Cancelled} {
			rows, err := s.prunables(status, prunable{}, endOfTime)
			if err != nil {
				return err
			}
			oldest = append(oldest, slices.DeleteFunc(rows, func(r prunable) bool { return r.guarded(guard) })...)
		}
		slices.SortFunc(oldest, func(a, b prunable) int { return strings.Compare(a.update, b.update) })
		had := len(out.Tasks)
		if err := s.pruneRows(oldest[:min(len(oldest), pruneChunk/5)], out); err != nil {
			return err
		}
		if len(out.Tasks) == had {
			return nil // nothing more may go
		}
	}
}

// pruneRows deletes rows with their history and events, as many in one transaction
// as pruneTime allows.
func (s *Store) pruneRows(rows []prunable, out *Pruned) error {
	for len(rows) > 0 {
		done := 0
		var ids, logs []string
		err := s.write("prune", &op{run: func(c *conn) error {
			done, ids, logs = 0, nil, nil
			began := time.Now()
			for _, r := range rows {
				gone, paths, err := pruneRow(c, r)
				if err != nil {
					return err
				}
				if gone {
					ids, logs = append(ids, r.id), append(logs, paths...)
				}
				done++
				if time.Since(began) > pruneTime {
					break
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
		out.Tasks, out.LogPaths = append(out.Tasks, ids...), append(out.LogPaths, logs...)
		rows = rows[done:]
	}
	return nil
}

func pruneRow(c *conn, r prunable) (gone bool, logs []string, err error) {
	named, err := c.one(sqlRerunExists, nil, r.id)
	if err != nil || named {
		return false, nil, err
	}
	n, err := c.exec(sqlPruneTask, r.rowid, r.id, r.update)
	if err != nil || n == 0 {
		return false, nil, err
	}
	if err := c.query(sqlPruneLogs, func(r row) error {
		logs = append(logs, r.text(0))
		return nil
	}, r.id); err != nil {
		return false, nil, err
	}
	if _, err := c.exec(sqlPruneHistory, r.id); err != nil {
		return false, nil, err
	}
	_, err = c.exec(sqlPruneEvents, r.id)
	return true, logs, err
}

func (s *Store) pruneSkips(limit string, out *Pruned) error {
	for {
		var n int64
		err := s.write("prune", &op{run: func(c *conn) (err error) {
			n, err = c.exec(sqlPruneSkips, limit, pruneChunk)
			return err
		}})
		if err != nil {
			return err
		}
		out.Skips += int(n)
		if n < pruneChunk {
			return nil
		}
	}
}
