package store

import (
	"fmt"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// reportStore is a database with n executions, one each 10 s from start on, each
// 5 s long but the first, which lasts for all of them, and a mishap each 100.
func reportStore(t *testing.T, start time.Time, n int) *Store {
	t.Helper()
	s := newStore(t, Options{})
	c, err := openConn(s.Path(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	at := func(seconds string) string {
		return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', '%s', '+' || (%s) || ' seconds')", start.Format(time.RFC3339), seconds)
	}
	rows := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i < %d) ", n-1)
	for _, sql := range []string{
		rows + "INSERT INTO exec_history (exec_id, task_id, executor_id, start_time, end_time, outcome) SELECT 10 + i, 't' || i, 'w1', " +
			at("i*10") + ", " + at(fmt.Sprintf("i*10 + CASE i WHEN 0 THEN %d ELSE 5 END", n*10)) + ", 'success' FROM n",
		rows + "INSERT INTO task_events (task_id, from_status, to_status, reason, executor_id, at) SELECT 't' || i, " +
			"CASE i % 100 WHEN 0 THEN 'RUNNING' ELSE 'PENDING' END, CASE i % 100 WHEN 0 THEN 'LOST' ELSE 'RUNNING' END, " +
			"CASE i % 100 WHEN 0 THEN 'worker_crash' ELSE 'claimed' END, 'w1', " + at("i*10") + " FROM n",
	} {
		if err := c.script(sql); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestRunsBetween: what was under way in a window is found, however long ago it
// began, over the edges of the chunks in which it is read.
func TestRunsBetween(t *testing.T) {
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	const n = 2*reportChunk + 17
	s := reportStore(t, start, n)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		from, to time.Time
		want     []int64
		count    int
	}{
		"all":                             {from: start, to: after(n * 10), count: n},
		"before all":                      {from: start.Add(-time.Hour), to: start, count: 0},
		"after all but the long one":      {from: after(n*10 - 1), to: after(n * 20), want: []int64{10}, count: 1},
		"after all":                       {from: after(n*10 + 1), to: after(n * 20), count: 0},
		"three in the middle":             {from: after(1000), to: after(1030), want: []int64{10, 110, 111, 112}, count: 4},
		"in one, and in the long one":     {from: after(1003), to: after(1004), want: []int64{10, 110}, count: 2},
		"between two":                     {from: after(1006), to: after(1009), want: []int64{10}, count: 1},
		"the last one":                    {from: after(n*10 - 10), to: after(n * 10), want: []int64{10, n + 9}, count: 2},
		"over the edge of a chunk":        {from: after(10), to: after((reportChunk + 5) * 10), count: reportChunk + 5},
		"a chunk to the row and no more":  {from: after((n - reportChunk) * 10), to: after(n * 20), count: reportChunk + 1},
		"more than the rest, from before": {from: start.Add(-time.Hour), to: after(n * 100), count: n},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int64
			if err := s.RunsBetween(c.from, c.to, func(r *Run) error {
				got = append(got, r.ExecID)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if len(got) != c.count || c.want != nil && fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%d executions, wanted %d %v; the first are %v", len(got), c.count, c.want, got[:min(len(got), 5)])
			}
		})
	}
}

func TestMishapsBetween(t *testing.T) {
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s := reportStore(t, start, 1001)
	for _, c := range []struct{ from, to, want int }{{0, 1e6, 11}, {1, 1e6, 10}, {1000, 2000, 1}, {1001, 1999, 0}, {-100, 0, 0}, {20_000, 30_000, 0}} {
		got := 0
		if err := s.MishapsBetween(start.Add(time.Duration(c.from)*time.Second), start.Add(time.Duration(c.to)*time.Second), func(m Mishap) error {
			got++
			if m.Reason != task.WorkerCrash || m.ExecutorID != "w1" {
				t.Errorf("%+v", m)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%d mishaps from %d to %d, wanted %d", got, c.from, c.to, c.want)
		}
	}
}

func TestReportOfAnEmptyDatabase(t *testing.T) {
	s := newStore(t, Options{})
	now := time.Now()
	if err := s.RunsBetween(now.Add(-time.Hour), now, func(*Run) error { t.Error("an execution"); return nil }); err != nil {
		t.Error(err)
	}
	if err := s.MishapsBetween(now.Add(-time.Hour), now, func(Mishap) error { t.Error("a mishap"); return nil }); err != nil {
		t.Error(err)
	}
	if err := s.FailedBetween(now.Add(-time.Hour), now, func(*FailedTask) error { t.Error("a failure"); return nil }); err != nil {
		t.Error(err)
	}
	if next, err := s.Upcoming(now, 5); err != nil || len(next) != 0 {
		t.Error(next, err)
	}
	if all, err := s.SkippedBetween(now.Add(-time.Hour), now); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// TestFailedBetween: over the edge of a chunk of tasks that were due at one
// moment, each is told once, and only those of the window.
func TestFailedBetween(t *testing.T) {
	s := newStore(t, Options{})
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	const n = reportChunk + 40
	tasks := make([]NewTask, n)
	for i := range tasks {
		tasks[i] = NewTask{ID: fmt.Sprint("t", i), Type: "a", NextRun: now}
	}
	if _, err := s.Add(now, tasks...); err != nil {
		t.Fatal(err)
	}
	req := &ClaimRequest{Executors: executors("w1", 128), Worker: "w1", Types: map[string]TypeRule{"a": {Timeout: time.Hour}}, Now: now}
	failed := 0
	for {
		r, err := s.Turn(nil, req)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Claimed) == 0 {
			break
		}
		var ends []Finish
		for _, c := range r.Claimed {
			ends = append(ends, Finish{Fence: c.Fence(), Verdict: Fail, Summary: "because", Now: now.Add(time.Duration(failed) * time.Second)})
			failed++
		}
		if _, err := s.Turn(ends, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ from, to, want int }{{0, n, n}, {10, n, n - 10}, {0, 10, 10}, {n, 2 * n, 0}} {
		seen := map[string]bool{}
		if err := s.FailedBetween(now.Add(time.Duration(c.from)*time.Second), now.Add(time.Duration(c.to)*time.Second), func(f *FailedTask) error {
			if seen[f.ID] || f.Cause != "because" || f.Status != task.Failed || f.Reason != task.FatalError {
				t.Fatalf("%+v (seen: %v)", f, seen[f.ID])
			}
			seen[f.ID] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(seen) != c.want {
			t.Errorf("%d failures from %d s to %d s, wanted %d", len(seen), c.from, c.to, c.want)
		}
	}
}

func TestUpcoming(t *testing.T) {
	s := newStore(t, Options{})
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10 {
		if _, err := s.Add(now, NewTask{ID: fmt.Sprint(i), Type: "a", NextRun: now.Add(time.Duration(9-i) * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	next, err := s.Upcoming(now, 3)
	if err != nil || len(next) != 3 || next[0].ID != "8" || next[2].ID != "6" {
		t.Errorf("%v, %v", next, err)
	}
}
