package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// measure takes all figures of a row once. What goes wrong is the row's trouble,
// and is shown: the others go on.
func (r *run) measure(e *row) {
	for what, f := range map[string]func(*row) error{"insert": r.inserts, "drain": r.drains, "wake": r.wakes} {
		if err := f(e); err != nil && e.trouble == "" {
			e.trouble = fmt.Sprintf("%s: %v", what, err)
		}
	}
}

// fresh is an empty queue; the file's name is new each time.
func (r *run) fresh(e *row) (settings, peer, error) {
	c := e.set
	c.Path = filepath.Join(r.dir, fmt.Sprintf("q%d", rand.Uint64()))
	p, err := newPeer(c)
	if err != nil {
		return c, nil, err
	}
	return c, p, p.Setup()
}

func (r *run) discard(c settings) {
	for _, end := range []string{"", "-wal", "-shm"} {
		// A scratch file: the directory goes at the end in any case.
		_ = os.RemoveAll(c.Path + end)
	}
}

const insertSpan = 2 * time.Second

func (r *run) inserts(e *row) error {
	c, p, err := r.fresh(e)
	if err != nil {
		return err
	}
	defer r.discard(c)
	began, n := time.Now(), 0
	for time.Since(began) < insertSpan {
		n++
		if err := p.Insert(job{Seq: int64(n)}); err != nil {
			return err
		}
	}
	e.single = append(e.single, float64(n)/time.Since(began).Seconds())
	js := numbered(10000)
	began = time.Now()
	switch err := p.InsertBatch(js); {
	case err == nil:
		e.batch = append(e.batch, float64(len(js))/time.Since(began).Seconds())
	case !errors.Is(err, errNoBatch):
		return err
	}
	return nil
}

func numbered(n int) []job {
	js := make([]job, n)
	for i := range js {
		js[i].Seq = int64(i)
	}
	return js
}

func (r *run) drains(e *row) error {
	rate, _, err := r.drain(e, 1)
	if err != nil {
		return err
	}
	e.drain1 = append(e.drain1, rate)
	if e.section == defaults {
		return nil
	}
	rate, d, err := r.drain(e, 4)
	if err != nil {
		return err
	}
	e.drain4 = append(e.drain4, rate)
	e.twice = append(e.twice, float64(d.twice))
	e.locked = append(e.locked, float64(d.locked))
	return nil
}

// drained is what went wrong in a drain.
type drained struct{ twice, locked int64 }

// drainLimit bounds a drain that does not come to its end.
const drainLimit = 60 * time.Second

// drain fills the queue, then lets the processes go; it ends when the queue itself
// says that nothing is left.
func (r *run) drain(e *row, processes int) (rate float64, d drained, err error) {
	c, p, err := r.fresh(e)
	if err != nil {
		return 0, d, err
	}
	defer r.discard(c)
	n := r.n / e.part
	if err := fill(p, numbered(n)); err != nil {
		return 0, d, err
	}
	ws := make([]*process, processes)
	for i := range ws {
		if ws[i], err = r.startWorker(duty{settings: c, List: true}); err != nil {
			return 0, d, err
		}
		defer ws[i].kill()
	}
	began := time.Now()
	for _, w := range ws {
		if err := w.tell("go"); err != nil {
			return 0, d, err
		}
	}
	end := untilDrained(p, ws, int64(n), began)
	for _, w := range ws {
		w.stop()
	}
	seen := map[int64]bool{}
	var runs int64
	for _, w := range ws {
		d.locked += w.last.Locked
		runs += int64(len(w.last.Seqs))
		for _, s := range w.last.Seqs {
			seen[s] = true
		}
		if len(w.last.Samples) > 0 && e.trouble == "" {
			e.trouble = fmt.Sprintf("%d errors, the first: %s", w.last.Errors, w.last.Samples[0])
		}
	}
	d.twice = runs - int64(len(seen))
	if end.IsZero() {
		return 0, d, fmt.Errorf("%d of %d jobs done in %s", len(seen), n, drainLimit)
	}
	return float64(n) / end.Sub(began).Seconds(), d, nil
}

func fill(p peer, js []job) error {
	err := p.InsertBatch(js)
	if !errors.Is(err, errNoBatch) {
		return err
	}
	var wg sync.WaitGroup
	failed := make(chan error, 16)
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < len(js); i += 16 {
				if err := p.Insert(js[i]); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}

func untilDrained(p peer, ws []*process, n int64, began time.Time) (end time.Time) {
	for time.Since(began) < drainLimit {
		time.Sleep(5 * time.Millisecond)
		var sum int64
		for _, w := range ws {
			sum += w.count.Load()
		}
		if sum >= n && p.Pending() == 0 {
			return time.Now()
		}
	}
	return time.Time{}
}

const (
	wakeTries = 60
	wakeLimit = 10 * time.Second
)

// wakes inserts one job at a time, 30 to 230 ms apart, and waits for its start.
func (r *run) wakes(e *row) error {
	c, p, err := r.fresh(e)
	if err != nil {
		return err
	}
	defer r.discard(c)
	w, err := r.startWorker(duty{settings: c, Tell: true, Idle: true})
	if err != nil {
		return err
	}
	defer w.stop()
	if err := w.tell("go"); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	var waits []float64
	for i := range wakeTries {
		time.Sleep(time.Duration(30+rand.IntN(200)) * time.Millisecond)
		at := time.Now().UnixNano()
		if err := p.Insert(job{Seq: int64(i), At: at}); err != nil {
			return err
		}
		select {
		case s := <-w.starts:
			waits = append(waits, float64(s.At-s.Start.At)/1e6)
		case <-time.After(wakeLimit):
			return fmt.Errorf("an insert of another process has not started a job in %s", wakeLimit)
		}
	}
	e.wake50 = append(e.wake50, quantile(waits, 0.5))
	e.wake99 = append(e.wake99, quantile(waits, 0.99))
	return nil
}
