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
	for _, slots := range []int{1, 8, 16, 32} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			s := newStore(b, Options{})
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
	s := newStore(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Add(time.Time{}, NewTask{Type: "noop", Payload: `{"n":1}`}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkAddBatch(b *testing.B) {
	s := newStore(b, Options{})
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
	s := newStore(b, Options{})
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
