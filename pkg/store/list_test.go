package store

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// TestListLooksThroughWindows: a table of several windows, with gaps, is listed,
// sorted and counted as if every row had been looked at in Go.
func TestListLooksThroughWindows(t *testing.T) {
	if testing.Short() {
		t.Skip("40,000 rows")
	}
	s := newStore(t, Options{})
	c := rawConn(t, s.Path())
	if err := c.script(fmt.Sprintf(`DROP TRIGGER tasks_insert_rules; DROP TRIGGER tasks_insert_guard; DROP TRIGGER tasks_delete;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO tasks(task_id, task_type, status, priority, next_run_time, executor_id, control, unique_key, schedule, updated_at)
		SELECT 't' || i, 'type' || i %% 3,
		  CASE WHEN i %% 1000 = 0 THEN 'FAILED' WHEN i %% 7 = 0 THEN 'RETRYING' WHEN i %% 2 THEN 'SUCCESS' ELSE 'PENDING' END,
		  i %% 11 - 5, strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 1.8e9 + i * 7919 %% 100003, 'unixepoch'),
		  CASE WHEN i %% 2 THEN 'w' || i %% 12 || '.' || i %% 5 END, CASE WHEN i %% 14 = 0 THEN 'pause' END,
		  CASE WHEN i %% 5000 = 1 THEN 'key' || i END, CASE WHEN i %% 900 = 0 THEN 'nightly' END,
		  strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 1.8e9 + i * 31 %% 50021, 'unixepoch') FROM n;
		DELETE FROM tasks WHERE rowid BETWEEN 5 AND %d`, 2*listWindow, listWindow/2+7)); err != nil {
		t.Fatal(err)
	}
	var all []listed
	if err := s.List(Filter{}, func(seq int64, t *task.Task) error {
		all = append(all, listed{seq, *t})
		return nil
	}); err != nil || len(all) != 2*listWindow-listWindow/2-3 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	middle := time.Unix(1.8e9+25000, 0)
	filters := map[string]Filter{
		"everything":            {},
		"a type":                {Type: "type1"},
		"two types":             {Types: []string{"type0", "type2"}},
		"a state of many":       {Statuses: []task.Status{task.Pending}},
		"a state of few":        {Statuses: []task.Status{task.Failed}},
		"few, of a type":        {Statuses: []task.Status{task.Failed}, Type: "type1"},
		"a schedule":            {Schedule: "nightly"},
		"a schedule and states": {Schedule: "nightly", Statuses: []task.Status{task.Success, task.Retrying}},
		"a key":                 {Key: "key15001"},
		"an executor":           {Executor: "w3.2"},
		"a worker":              {Executor: "w1"},
		"ended since":           {UpdatedSince: middle, Statuses: []task.Status{task.Success, task.Failed}},
		"ended before":          {UpdatedBefore: middle},
		"due":                   {DueBefore: middle},
		"nothing":               {Type: "type3"},
	}
	orders := map[string]func(a, b listed) int{
		"":         func(a, b listed) int { return cmp.Compare(b.rowid, a.rowid) },
		"due":      func(a, b listed) int { return a.task.NextRun.Compare(b.task.NextRun) },
		"updated":  func(a, b listed) int { return a.task.UpdatedAt.Compare(b.task.UpdatedAt) },
		"priority": func(a, b listed) int { return cmp.Compare(a.task.Priority, b.task.Priority) },
		"type":     func(a, b listed) int { return cmp.Compare(a.task.Type, b.task.Type) },
		"status": func(a, b listed) int {
			return cmp.Compare(slices.Index(task.Statuses(), a.task.Status), slices.Index(task.Statuses(), b.task.Status))
		},
	}
	for name, f := range filters {
		t.Run(name, func(t *testing.T) {
			var chosen []listed
			counts := map[task.Status]int64{}
			for i := range all {
				if f.matches(&all[i].task) {
					chosen = append(chosen, all[i])
					counts[all[i].task.Status]++
				}
			}
			got, err := s.CountWhere(f)
			for _, status := range task.Statuses() {
				if err != nil || got[status] != counts[status] {
					t.Errorf("%s: counted %d, want %d, %v", status, got[status], counts[status], err)
				}
			}
			for sort, order := range orders {
				for _, reverse := range []bool{false, true} {
					pages := [][2]int{{0, 30}, {20_500, 300}}
					switch {
					case sort == "" && !reverse:
						pages = append(pages, [2]int{})
					case len(chosen) > listWindow && name != "everything":
						continue // sorting is the same for all
					}
					for _, page := range pages {
						f := f
						f.Sort, f.Reverse, f.Offset, f.Limit = sort, reverse, page[0], page[1]
						want := slices.Clone(chosen)
						slices.SortFunc(want, func(a, b listed) int {
							n := cmp.Or(order(a, b), cmp.Compare(a.rowid, b.rowid))
							if reverse {
								return -n
							}
							return n
						})
						want = want[min(f.Offset, len(want)):]
						if f.Limit > 0 {
							want = want[:min(f.Limit, len(want))]
						}
						i := 0
						err := s.List(f, func(seq int64, _ *task.Task) error {
							if i >= len(want) || want[i].rowid != seq {
								return fmt.Errorf("row %d is number %d of the list", seq, i)
							}
							i++
							return nil
						})
						if err != nil || i != len(want) {
							t.Fatalf("sort %q, reverse %v, page %v: %d of %d rows, %v", sort, reverse, page, i, len(want), err)
						}
					}
				}
			}
		})
	}
}
