package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"nightshift/pkg/store"
)

// programs measures how fast /bin/true runs as a task, two at a time, with every
// start and end durable, against a loop that starts it and keeps nothing, and
// against one that keeps as much, in raw SQLite, and does nothing else for it.
func (b *bench) programs() error {
	n := scale(b, 1000, 100)
	var bare, durable, ours []float64
	for range b.rounds + scale(b, 2, 0) {
		rate, err := bareLoop(n, 2)
		if err != nil {
			return err
		}
		bare = append(bare, rate)
		if rate, err = b.durableLoop(n, 2); err != nil {
			return err
		}
		durable = append(durable, rate)
		if rate, err = b.trueTasks(n, 2); err != nil {
			return err
		}
		ours = append(ours, rate)
	}
	limit := b.put("bare loop of os/exec, 2 at a time", "/s", bare...)
	kept := b.put("the same, each end and next start committed", "/s", durable...).of(limit)
	f := b.put("/bin/true as tasks, 2 slots", "/s", ours...).of(limit).ratioAtLeast(0.9)
	f.note("%.0f %% of the loop that commits", 100*f.Value/kept.Value)
	return nil
}

// parallelStarts runs /bin/true n times; before each start, and once after the last
// one of each lane, it calls step.
func parallelStarts(n, parallel int, step func(lane int, more bool) error) (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, parallel)
	began := time.Now()
	for lane := range parallel {
		wg.Go(func() {
			for more := true; more; {
				more = next.Add(1) <= int64(n)
				err := step(lane, more)
				if err == nil && more {
					err = exec.Command("/bin/true").Run()
				}
				if err != nil {
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

func bareLoop(n, parallel int) (float64, error) {
	return parallelStarts(n, parallel, func(int, bool) error { return nil })
}

// durableLoop makes the row changes of a task's end and of the next one's claim in
// one transaction between two starts of a lane.
func (b *bench) durableLoop(n, parallel int) (rate float64, err error) {
	db, err := b.openRaw()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	if err := db.bareTables(); err != nil {
		return 0, err
	}
	if err := db.fill(n); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var execID int64
	running := make([]string, parallel) // by lane, the row as a JSON array
	execs := make([]int64, parallel)
	return parallelStarts(n, parallel, func(lane int, more bool) error {
		mu.Lock()
		defer mu.Unlock()
		now := stampNow()
		return db.tx(func() error {
			if running[lane] != "" {
				if err := db.finish(running[lane], execs[lane], execs[lane], now); err != nil {
					return err
				}
			}
			if !more {
				return nil
			}
			due, err := db.ints(rawDue, now, int64(1))
			if err != nil {
				return err
			}
			execID++
			execs[lane] = execID
			running[lane], err = db.claim(due, execID, now)
			return err
		})
	})
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
