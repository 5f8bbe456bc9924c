package store

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// Filter selects tasks for List, CountWhere and SetControlWhere.
type Filter struct {
	Statuses  []task.Status // empty: all
	Type      string
	Types     []string // any of them; empty: all
	Schedule  string
	Key       string    // unique_key
	Executor  string    // an executor, or a worker with all its slots
	DueBefore time.Time // PENDING and RETRYING with next_run_time up to here, and no pause asked for

	UpdatedSince, UpdatedBefore time.Time

	Sort    string // created, updated, due, priority, status, type; "": the newest first
	Reverse bool
	Offset  int
	Limit   int  // 0: no limit
	Full    bool // with payload, checkpoint and result
}

const (
	// listChunk is how many rows a list reads in one transaction: a long one would
	// keep the WAL from being cleared.
	listChunk = 200
	// listWindow is how many rows it looks at in one, where few of them are wanted.
	listWindow = 20_000
)

// listed is a row of a list.
type listed struct {
	rowid int64
	task  task.Task
}

// filterSQL is what a Filter asks for, as far as it asks; args gives its
// parameters, from ?4 on. (A bare parameter behind GLOB would have SQLite prepare the
// statement anew for every value.) A list without an index for it looks at every row, and a
// row that is passed over here costs a tenth of one that is brought to Go.
const filterSQL = `
	  AND (?4 IS NULL OR status IN (SELECT value FROM json_each(?4)))
	  AND (?5 IS NULL OR task_type IN (SELECT value FROM json_each(?5)))
	  AND (?6 IS NULL OR schedule = ?6)
	  AND (?7 IS NULL OR unique_key = ?7)
	  AND (?8 IS NULL OR executor_id = ?8 OR executor_id GLOB (?9 || ''))
	  AND (?10 IS NULL OR updated_at >= ?10)
	  AND (?11 IS NULL OR updated_at < ?11)
	  AND (?12 IS NULL OR ((status = 'PENDING' OR status = 'RETRYING') AND control IS NOT 'pause' AND next_run_time <= ?12))`

func (f *Filter) args() []any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	moment := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return task.FormatTime(t)
	}
	types := f.Types
	if f.Type != "" {
		types = []string{f.Type}
	}
	return []any{
		jsonList(f.Statuses), jsonList(types), text(f.Schedule), text(f.Key), text(f.Executor), slotsOf(f.Executor),
		moment(f.UpdatedSince), moment(f.UpdatedBefore), moment(f.DueBefore),
	}
}

// jsonList is how a list is handed to SQL; nil when there is none.
func jsonList[T ~string](values []T) any {
	if len(values) == 0 {
		return nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // texts always can be
	}
	return string(text)
}

// List hands over the tasks that the filter selects, the newest first unless it
// says otherwise, reading them in short transactions and holding few in memory. seq
// is a task's place in the order of insertion. An error of each ends the list and is
// returned.
func (s *Store) List(f Filter, each func(seq int64, t *task.Task) error) error {
	if f.Sort != "" || f.Reverse {
		return s.listSorted(f, each)
	}
	next := s.scan
	if rowids, few, err := s.fewRows(&f); err != nil {
		return err
	} else if few {
		next = s.pick(rowids)
	}
	left := f.Limit
	for before := int64(1<<63 - 1); ; {
		chunk, more, err := next(&f, before)
		if err != nil {
			return err
		}
		for i := range chunk {
			if f.Offset > 0 {
				f.Offset--
				continue
			}
			if err := each(chunk[i].rowid, &chunk[i].task); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if more == 0 {
			return nil
		}
		before = more
	}
}

var (
	// The rows from before ?1 down to ?2.
	sqlScanLean = define(`SELECT ` + leanRow + `, rowid
	FROM tasks
	WHERE rowid < ?1 AND rowid >= ?2` + filterSQL + `
	ORDER BY rowid DESC
	LIMIT ?3`)
	sqlScanFull = define(`SELECT ` + fullRow + `, rowid
	FROM tasks
	WHERE rowid < ?1 AND rowid >= ?2` + filterSQL + `
	ORDER BY rowid DESC
	LIMIT ?3`)
	sqlScanCount = define(`SELECT status, count(*)
	FROM tasks
	WHERE rowid < ?1 AND rowid >= ?2` + filterSQL + `
	GROUP BY status
	LIMIT ?3`)
	sqlRowBefore = define(`SELECT rowid
	FROM tasks
	WHERE rowid < ?1
	ORDER BY rowid DESC
	LIMIT 1`)
	sqlRowLean = define(`SELECT ` + leanRow + `, rowid
	FROM tasks
	WHERE rowid = ?1`)
	sqlRowFull = define(`SELECT ` + fullRow + `, rowid
	FROM tasks
	WHERE rowid = ?1`)
)

func scanListed(r row) listed { return listed{r.int(len(taskColumns)), scanTask(r)} }

// window runs do over the next window of rows before a place, where there are any
// left. end is where the window after it begins; 0: this was the last.
func window(c *conn, before int64, do func(low int64) error) (end int64, err error) {
	top, found := int64(0), false
	if found, err = c.one(sqlRowBefore, func(r row) { top = r.int(0) }, before); err != nil || !found {
		return 0, err
	}
	low := top - listWindow + 1
	return max(low, 0), do(low)
}

// scan reads the next chunk of the table, from the newest row down. more is where
// the following chunk begins; 0: this was the last.
func (s *Store) scan(f *Filter, before int64) (chunk []listed, more int64, err error) {
	q := sqlScanLean
	if f.Full {
		q = sqlScanFull
	}
	err = s.read("list", func(c *conn) (err error) {
		chunk = nil
		more, err = window(c, before, func(low int64) error {
			return c.query(q, func(r row) error {
				chunk = append(chunk, scanListed(r))
				return nil
			}, append([]any{before, low, listChunk}, f.args()...)...)
		})
		if len(chunk) == listChunk {
			more = chunk[listChunk-1].rowid
		}
		return err
	})
	return chunk, more, err
}

// pick reads rows by their numbers, the largest first. A row that the filter does not
// select, or no more, is passed over.
func (s *Store) pick(rowids []int64) func(f *Filter, before int64) ([]listed, int64, error) {
	return func(f *Filter, before int64) (chunk []listed, more int64, err error) {
		end, _ := slices.BinarySearch(rowids, before)
		begin := max(0, end-listChunk)
		numbers := slices.Clone(rowids[begin:end])
		slices.Reverse(numbers)
		chunk, err = s.rows(numbers, f)
		if begin > 0 {
			more = rowids[begin]
		}
		return chunk, more, err
	}
}

// rows reads the rows of these numbers that the filter selects, in one transaction.
func (s *Store) rows(numbers []int64, f *Filter) (chunk []listed, err error) {
	q := sqlRowLean
	if f.Full {
		q = sqlRowFull
	}
	err = s.read("list", func(c *conn) error {
		chunk = nil
		for _, n := range numbers {
			if _, err := c.one(q, func(r row) {
				if l := scanListed(r); f.matches(&l.task) {
					chunk = append(chunk, l)
				}
			}, n); err != nil {
				return err
			}
		}
		return nil
	})
	return chunk, err
}

// matches is filterSQL for a row that is here already.
func (f *Filter) matches(t *task.Task) bool {
	switch {
	case f.Type != "" && t.Type != f.Type,
		f.Type == "" && len(f.Types) > 0 && !slices.Contains(f.Types, t.Type),
		f.Schedule != "" && t.Schedule != f.Schedule,
		f.Key != "" && t.UniqueKey != f.Key,
		!f.UpdatedSince.IsZero() && t.UpdatedAt.Before(f.UpdatedSince),
		!f.UpdatedBefore.IsZero() && !t.UpdatedAt.Before(f.UpdatedBefore),
		!f.DueBefore.IsZero() && !dueBefore(t, f.DueBefore),
		f.Executor != "" && t.ExecutorID != f.Executor && !strings.HasPrefix(t.ExecutorID, f.Executor+"."),
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, t.Status):
		return false
	}
	return true
}

func dueBefore(t *task.Task, at time.Time) bool {
	return (t.Status == task.Pending || t.Status == task.Retrying) && t.Control != task.Pause && !t.NextRun.After(at)
}

var (
	sqlRowids = define(`SELECT rowid
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = ?1
	LIMIT ?2`)
	sqlScheduleRowids = define(`SELECT rowid
	FROM tasks INDEXED BY idx_tasks_schedule
	WHERE schedule = ?1
	LIMIT ?2`)
)

// fewRows finds the rows that a filter by state or schedule can select at all, in
// ascending order, when an index tells that they are few. Of many the newest are soon
// found in the table itself.
func (s *Store) fewRows(f *Filter) (rowids []int64, few bool, err error) {
	var keys []string
	q := sqlRowids
	switch {
	case f.Schedule != "":
		q, keys = sqlScheduleRowids, []string{f.Schedule}
	case len(f.Statuses) > 0:
		for _, status := range f.Statuses {
			keys = append(keys, string(status))
		}
	default:
		return nil, false, nil
	}
	err = s.snapshot("list", func(c *conn) error {
		rowids = nil
		for _, key := range keys {
			if err := c.query(q, func(r row) error {
				rowids = append(rowids, r.int(0))
				return nil
			}, key, listWindow+1-len(rowids)); err != nil || len(rowids) > listWindow {
				return err
			}
		}
		return nil
	})
	if err != nil || len(rowids) > listWindow {
		return nil, false, err
	}
	slices.Sort(rowids)
	return slices.Compact(rowids), true, nil
}

// sortKey is what a list in another order keeps of a row: little, for a million
// of them.
type sortKey struct {
	text  string
	num   int64
	rowid int64
}

func (a sortKey) compare(b sortKey) int {
	return cmp.Or(cmp.Compare(a.num, b.num), cmp.Compare(a.text, b.text), cmp.Compare(a.rowid, b.rowid))
}

// sortSQL is the key of an order, ?13; without one it is the order of insertion.
var sortSQL = func() string {
	states := ""
	for i, status := range task.Statuses() {
		states += " WHEN '" + string(status) + "' THEN " + string(rune('0'+i))
	}
	return `CASE ?13 WHEN 'created' THEN created_at WHEN 'updated' THEN updated_at WHEN 'due' THEN next_run_time
	  WHEN 'priority' THEN priority WHEN 'type' THEN task_type WHEN 'status' THEN CASE status` + states + ` END END`
}()

var (
	sqlFirstKeys = define(`SELECT rowid, ` + sortSQL + ` AS sort_key
	FROM tasks
	WHERE rowid < ?1 AND rowid >= ?2` + filterSQL + `
	ORDER BY sort_key, rowid
	LIMIT ?3`)
	sqlLastKeys = define(`SELECT rowid, ` + sortSQL + ` AS sort_key
	FROM tasks
	WHERE rowid < ?1 AND rowid >= ?2` + filterSQL + `
	ORDER BY sort_key DESC, rowid DESC
	LIMIT ?3`)
	sqlKeyOf = define(`SELECT rowid, ` + sortSQL + `
	FROM tasks
	WHERE rowid = ?1 AND ?2 IS NULL AND ?3 IS NULL` + filterSQL)
)

// listSorted is List in another order: of each window of the table the keys are
// read that may stand on the page, then the rows of the page.
func (s *Store) listSorted(f Filter, each func(seq int64, t *task.Task) error) error {
	keys, err := s.sortKeys(&f)
	if err != nil {
		return err
	}
	keys = keys[min(f.Offset, len(keys)):]
	if f.Limit > 0 {
		keys = keys[:min(f.Limit, len(keys))]
	}
	var numbers []int64
	for _, k := range keys {
		numbers = append(numbers, k.rowid)
	}
	for len(numbers) > 0 {
		n := min(listChunk, len(numbers))
		chunk, err := s.rows(numbers[:n], &f)
		if err != nil {
			return err
		}
		for i := range chunk {
			if err := each(chunk[i].rowid, &chunk[i].task); err != nil {
				return err
			}
		}
		numbers = numbers[n:]
	}
	return nil
}

// sortKeys reads the keys of a list up to the end of its page, in its order.
func (s *Store) sortKeys(f *Filter) (keys []sortKey, err error) {
	q, less := sqlFirstKeys, sortKey.compare
	if f.Reverse && f.Sort != "" { // the newest first is the order that a list has; its reverse is that of insertion
		q, less = sqlLastKeys, func(a, b sortKey) int { return b.compare(a) }
	}
	page := -1
	if f.Limit > 0 {
		page = f.Offset + f.Limit
	}
	add := func(r row) error {
		k := sortKey{rowid: r.int(0), num: r.int(1)}
		if k.num == 0 {
			k.text = r.text(1)
		}
		keys = append(keys, k)
		return nil
	}
	args := append(make([]any, 3), append(f.args(), f.Sort)...)
	rowids, few, err := s.fewRows(f)
	if err != nil {
		return nil, err
	}
	if few {
		err := s.read("list", func(c *conn) error {
			keys = nil
			for _, n := range rowids {
				args[0] = n
				if err := c.query(sqlKeyOf, add, args...); err != nil {
					return err
				}
			}
			return nil
		})
		slices.SortFunc(keys, less)
		return keys, err
	}
	for before, more := int64(1<<63-1), int64(1); more != 0; before = more {
		had := len(keys)
		if err := s.read("list", func(c *conn) (err error) {
			keys = keys[:had]
			more, err = window(c, before, func(low int64) error {
				args[0], args[1], args[2] = before, low, page
				return c.query(q, add, args...)
			})
			return err
		}); err != nil {
			return nil, err
		}
		if page >= 0 && len(keys) > page+listWindow {
			slices.SortFunc(keys, less)
			keys = keys[:page]
		}
	}
	slices.SortFunc(keys, less)
	return keys, nil
}

// CountWhere counts by state what the filter selects; Limit, Offset and the order
// are left aside.
func (s *Store) CountWhere(f Filter) (counts map[task.Status]int64, err error) {
	counts = map[task.Status]int64{}
	if f.ByStatus() {
		all, err := s.Count()
		for status, n := range all {
			if len(f.Statuses) == 0 || slices.Contains(f.Statuses, status) {
				counts[status] = n
			}
		}
		return counts, err
	}
	f.Sort, f.Reverse, f.Offset, f.Limit, f.Full = "", false, 0, 0, false
	if _, few, err := s.fewRows(&f); err != nil {
		return nil, err
	} else if few {
		err := s.List(f, func(_ int64, t *task.Task) error {
			counts[t.Status]++
			return nil
		})
		return counts, err
	}
	for before, more := int64(1<<63-1), int64(1); more != 0; before = more {
		part := map[task.Status]int64{}
		if err := s.read("count", func(c *conn) (err error) {
			clear(part)
			more, err = window(c, before, func(low int64) error {
				return c.query(sqlScanCount, func(r row) error {
					part[task.Status(r.text(0))] = r.int(1)
					return nil
				}, append([]any{before, low, -1}, f.args()...)...)
			})
			return err
		}); err != nil {
			return nil, err
		}
		for status, n := range part {
			counts[status] += n
		}
	}
	return counts, nil
}

// ByStatus says that nothing but the state, if that, narrows the filter: what it
// selects is counted in a moment. What else it asks for, every row is looked at.
func (f *Filter) ByStatus() bool {
	return f.Type == "" && len(f.Types) == 0 && f.Schedule == "" && f.Key == "" && f.Executor == "" &&
		f.UpdatedSince.IsZero() && f.UpdatedBefore.IsZero() && f.DueBefore.IsZero()
}
