package store

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func fill(b *testing.B, s *Store, n int, change func(i int, t *NewTask)) {
	b.Helper()
	now := time.Now().Add(-time.Hour)
	for done := 0; done < n; {
		chunk := min(10000, n-done)
		tasks := make([]NewTask, chunk)
		for i := range tasks {
			tasks[i] = NewTask{Type: "noop", Payload: `{"n":1}`, NextRun: now}
			if change != nil {
				change(done+i, &tasks[i])
			}
		}
		if _, err := s.Add(now, tasks...); err != nil {
			b.Fatal(err)
		}
		done += chunk
	}
}

// cpuTime is what the process has used: on a shared machine it tells more than the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDrain carries no-op tasks from PENDING to SUCCESS by Turn alone.
func BenchmarkDrain(b *testing.B) {
	for _, slots := range []int{1, 8, 32, 256} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			s := newStore(b, Options{Clock: time.Now})
			fill(b, s, b.N, nil)
			req := &ClaimRequest{Executors: executors("w1", slots), Worker: "w1", Types: map[string]TypeRule{"noop": {Timeout: time.Hour}}}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime(b)
			var done []Finish
			for n := 0; n < b.N; {
				r, err := s.Turn(done, req)
				if err != nil {
					b.Fatal(err)
				}
				if len(r.Claimed) == 0 && len(done) == 0 {
					b.Fatalf("nothing to claim after %d of %d tasks", n, b.N)
				}
				n += len(done)
				done = done[:0]
				for _, t := range r.Claimed {
					done = append(done, Finish{Fence: t.Fence(), Verdict: Succeed})
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/task")
		})
	}
}

func BenchmarkAddSingle(b *testing.B) {
	s := newStore(b, Options{Clock: time.Now})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Add(time.Time{}, NewTask{Type: "noop", Payload: `{"n":1}`}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkAddBatch(b *testing.B) {
	s := newStore(b, Options{Clock: time.Now})
	tasks := make([]NewTask, 10000)
	for i := range tasks {
		tasks[i] = NewTask{Type: "noop", Payload: `{"n":1}`}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Add(time.Time{}, tasks...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(tasks))/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkCheckpoint(b *testing.B) {
	s := newStore(b, Options{Clock: time.Now})
	fill(b, s, 1, nil)
	r, err := s.Turn(nil, &ClaimRequest{Executors: []string{"w1"}, Worker: "w1", Types: map[string]TypeRule{"noop": {}}})
	if err != nil {
		b.Fatal(err)
	}
	f := r.Claimed[0].Fence()
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		if _, err := s.Checkpoint(f, fmt.Sprintf(`{"offset":%d}`, i), "", time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checkpoints/s")
}

// BenchmarkClaimDepth claims and ends one task beside a table of which half is
// finished and half lies in the future, over ten priorities: the cost must not grow
// with it. The fillers go in past the triggers, which have nothing to do with it.
func BenchmarkClaimDepth(b *testing.B) {
	for _, rows := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := newStore(b, Options{Clock: time.Now})
			deepen(b, s, rows)
			fill(b, s, b.N+1, nil)
			req := &ClaimRequest{Executors: []string{"w1"}, Worker: "w1", Types: map[string]TypeRule{"noop": {Timeout: time.Hour}}}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime(b)
			var done []Finish
			for range b.N {
				r, err := s.Turn(done, req)
				if err != nil || len(r.Claimed) != 1 {
					b.Fatal(r, err)
				}
				done = append(done[:0], Finish{Fence: r.Claimed[0].Fence(), Verdict: Succeed})
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/task")
		})
	}
}

func deepen(b *testing.B, s *Store, rows int) {
	b.Helper()
	c := rawConn(b, s.Path())
	err := c.script(fmt.Sprintf(`CREATE TEMP TABLE kept AS SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'tasks';
		DROP TRIGGER tasks_insert_guard; DROP TRIGGER tasks_insert_rules;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO tasks(task_id, task_type, status, priority, next_run_time, payload)
		SELECT printf('deep-%%08d', i), 'noop', CASE i %% 2 WHEN 0 THEN 'PENDING' ELSE 'SUCCESS' END, 95 + i %% 10,
		  CASE i %% 2 WHEN 0 THEN '2090-01-01T00:00:00.000Z' ELSE '2026-01-01T00:00:00.000Z' END, '{"n":1}' FROM n`, rows))
	if err != nil {
		b.Fatal(err)
	}
	rules, err := c.texts("SELECT sql FROM kept WHERE sql LIKE '%tasks_insert_%'")
	if err != nil {
		b.Fatal(err)
	}
	for _, sql := range rules {
		if err := c.script(sql); err != nil {
			b.Fatal(err)
		}
	}
}
