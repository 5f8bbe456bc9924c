package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"nightshift/pkg/store"
)

// wakes measures the way from an INSERT of another process to the start of the
// work, on an idle system, and how late a task starts that was due at a set time.
func (b *bench) wakes() error {
	tries := scale(b, 100, 10)
	for _, way := range []struct {
		name, taskType, worker string
		limit                  float64
	}{
		{"INSERT elsewhere → Go handler starts", "stamp", b.self, 10},
		{"INSERT elsewhere → program starts", "date", filepath.Join(b.bin, "worker"), 0},
	} {
		waits, err := b.wake(way.taskType, way.worker, tries)
		if err != nil {
			return err
		}
		b.put(way.name+", p50", "ms", quantile(waits, 0.5))
		f := b.put(way.name+", p99", "ms", quantile(waits, 0.99)).note("%d tries; the clock starts before the INSERT: its commit is in", tries)
		if way.limit > 0 {
			f.below(way.limit)
		}
	}
	return b.lateness(scale(b, 200, 20))
}

const dateConfig = `tasks: {date: {command: ["/bin/date", "+%s%N"]}}` + "\n"

// wake inserts one task at a time, with a pause of 30 to 230 ms before each.
func (b *bench) wake(taskType, worker string, tries int) (waits []float64, err error) {
	s, err := b.started(taskType, worker)
	if err != nil {
		return nil, err
	}
	defer s.end()
	before := make([]int64, tries)
	for i := range before {
		time.Sleep(time.Duration(30+rand.IntN(scale(b, 200, 30))) * time.Millisecond)
		before[i] = time.Now().UnixNano()
		if _, err := s.add(1, store.NewTask{Type: taskType}); err != nil {
			return nil, err
		}
	}
	if err := s.untilDone(time.Minute); err != nil {
		return nil, err
	}
	err = s.results(tries, func(result string) error {
		at, err := strconv.ParseInt(result, 10, 64)
		waits = append(waits, float64(at-before[len(waits)])/1e6)
		return err
	})
	return waits, err
}

// started is an idle system with one worker of one slot.
func (b *bench) started(taskType, worker string) (*system, error) {
	config := ""
	if taskType == "date" {
		config = dateConfig
	}
	s, err := b.newSystem(config)
	if err != nil {
		return nil, err
	}
	if err := s.start(1, worker); err != nil {
		s.end()
		return nil, err
	}
	time.Sleep(300 * time.Millisecond) // idle is what is measured
	return s, nil
}

// lateness inserts tasks that are due in the near future, one each 30 to 100 ms.
func (b *bench) lateness(n int) error {
	s, err := b.started("stamp", b.self)
	if err != nil {
		return err
	}
	defer s.end()
	due := make([]time.Time, n)
	tasks := make([]store.NewTask, n)
	at := time.Now().Add(500 * time.Millisecond)
	for i := range due {
		at = at.Add(time.Duration(30+rand.IntN(70)) * time.Millisecond).Truncate(time.Millisecond)
		due[i] = at
		tasks[i] = store.NewTask{Type: "stamp", NextRun: at}
	}
	if _, err := s.store.Add(time.Time{}, tasks...); err != nil {
		return err
	}
	if err := s.untilDone(2 * time.Minute); err != nil {
		return err
	}
	var late []float64
	err = s.results(n, func(result string) error {
		at, err := strconv.ParseInt(result, 10, 64)
		late = append(late, float64(at-due[len(late)].UnixNano())/1e6)
		return err
	})
	if err != nil {
		return err
	}
	if early := quantile(late, 0); early < 0 {
		return fmt.Errorf("a task started %.3f ms before it was due", -early)
	}
	b.put("scheduled time → handler starts, p50", "ms", quantile(late, 0.5))
	b.put("scheduled time → handler starts, p99", "ms", quantile(late, 0.99)).below(20).note("%d tasks, none early", n)
	return nil
}
