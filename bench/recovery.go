package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"nightshift/pkg/store"
)

// recoveries measures the time from kill -9 of a worker to the moment when its
// task runs again: a Go handler and a program, one worker under a supervisor.
func (b *bench) recoveries() error {
	for _, way := range []struct{ name, taskType, worker string }{
		{"kill -9 → Go handler runs again", "hold", b.self},
		{"kill -9 → program runs again", "stay", filepath.Join(b.bin, "worker")},
	} {
		var waits []float64
		tries := scale(b, 30, 3)
		for range tries {
			wait, err := b.recovery(way.taskType, way.worker)
			if err != nil {
				return err
			}
			waits = append(waits, wait)
		}
		b.put(way.name+", p50", "ms", quantile(waits, 0.5))
		b.put(way.name+", p99", "ms", quantile(waits, 0.99)).below(1000).note("%d kills, each of a fresh system", tries)
	}
	return nil
}

// A handler that holds knows no checkpoint: the end of each try need not wait for one.
const shortDrain = "worker: {drain_timeout: 100ms}\n"

const stayConfig = `tasks: {stay: {command: ["/bin/sh", "-c", "date +%s%N >>starts; exec sleep 600", "stay"], dir: .}}` + "\n"

// recovery kills one worker once. The system is a fresh one: a supervisor restarts
// at once the first time, and waits a little when it happens again.
func (b *bench) recovery(taskType, worker string) (ms float64, err error) {
	config := shortDrain
	if taskType == "stay" {
		config += stayConfig
	}
	s, err := b.newSystem(config)
	if err != nil {
		return 0, err
	}
	defer s.end()
	if err := s.start(1, worker); err != nil {
		return 0, err
	}
	if _, err := s.add(1, store.NewTask{Type: taskType, Payload: fmt.Sprintf(`{"file": %q}`, s.path("starts"))}); err != nil {
		return 0, err
	}
	if _, err := s.startedTimes(1); err != nil {
		return 0, err
	}
	pid, err := s.number(`SELECT pid FROM worker_heartbeats WHERE worker_id = 'w1'`)
	if err != nil {
		return 0, err
	}
	killed := time.Now().UnixNano()
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		return 0, err
	}
	starts, err := s.startedTimes(2)
	if err != nil {
		return 0, err
	}
	return float64(starts[1]-killed) / 1e6, nil
}

// startedTimes waits until the task has said n times when it started.
func (s *system) startedTimes(n int) (times []int64, err error) {
	err = s.until(fmt.Sprintf("start %d", n), time.Minute, func() (bool, error) {
		b, err := os.ReadFile(s.path("starts"))
		if os.IsNotExist(err) {
			return false, nil
		}
		if err != nil || bytes.Count(b, []byte("\n")) < n {
			return false, err
		}
		times = times[:0]
		for _, f := range bytes.Fields(b) {
			at, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return false, err
			}
			times = append(times, at)
		}
		return true, nil
	})
	return times, err
}
