package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"nightshift/pkg/store"
)

// programs measures how fast /bin/true runs as a task, two at a time, with every
// start and end durable, against a loop that starts it and keeps nothing.
func (b *bench) programs() error {
	n := scale(b, 1000, 100)
	var bare, ours []float64
	for range b.rounds + scale(b, 2, 0) {
		rate, err := bareLoop(n, 2)
		if err != nil {
			return err
		}
		bare = append(bare, rate)
		if rate, err = b.trueTasks(n, 2); err != nil {
			return err
		}
		ours = append(ours, rate)
	}
	limit := b.put("bare loop of os/exec, 2 at a time", "/s", bare...)
	b.put("/bin/true as tasks, 2 slots", "/s", ours...).of(limit).ratioAtLeast(0.9)
	return nil
}

func bareLoop(n, parallel int) (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, parallel)
	began := time.Now()
	for range parallel {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := exec.Command("/bin/true").Run(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return float64(n) / time.Since(began).Seconds(), <-failed
}

func (b *bench) trueTasks(n, slots int) (float64, error) {
	s, err := b.newSystem(fmt.Sprintf("worker: {slots: %d}\ntasks: {\"true\": {command: [\"/bin/true\"]}}\n", slots))
	if err != nil {
		return 0, err
	}
	defer s.end()
	if err := s.start(1, filepath.Join(b.bin, "worker")); err != nil {
		return 0, err
	}
	if _, err := s.add(n, store.NewTask{Type: "true"}); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.untilDone(2 * time.Minute); err != nil {
		return 0, err
	}
	rate := float64(n) / time.Since(began).Seconds()
	ended, err := s.number(`SELECT count(*) FROM tasks WHERE status = 'SUCCESS'`)
	if err == nil && ended != int64(n) {
		err = fmt.Errorf("%d of %d tasks ended SUCCESS", ended, n)
	}
	return rate, err
}
