package liveness

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// Outlet carries pieces of output to a place that may block (a pipe that nobody reads, a
// full or frozen disk) for a process that must not. What does not fit into its queue is
// dropped and counted.
type Outlet struct {
	queue   chan []byte
	done    chan struct{}
	dropped atomic.Int64
}

// NewOutlet starts the goroutine that calls write for each piece, in order. size is the
// number of pieces that may wait. An error of write counts as a drop.
func NewOutlet(size int, write func([]byte) error) *Outlet {
	o := &Outlet{queue: make(chan []byte, size), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for p := range o.queue {
			if write(p) != nil {
				o.dropped.Add(1)
			}
		}
	}()
	return o
}

// Offer queues a copy of p if there is room.
func (o *Outlet) Offer(p []byte) bool {
	select {
	case o.queue <- append([]byte(nil), p...):
		return true
	default:
		o.dropped.Add(1)
		return false
	}
}

// Write is Offer as an io.Writer, which always reports success.
func (o *Outlet) Write(p []byte) (int, error) {
	o.Offer(p)
	return len(p), nil
}

// Dropped counts the pieces that were lost.
func (o *Outlet) Dropped() int64 { return o.dropped.Load() }

// Close waits until everything queued is written, but not longer than limit.
func (o *Outlet) Close(limit time.Duration) {
	close(o.queue)
	select {
	case <-o.done:
	case <-time.After(limit):
	}
}

// NewFileOutlet keeps one file at the last piece written, whole at any moment. Only a
// trouble that goes on is worth a word: Dropped counts it.
func NewFileOutlet(path string) *Outlet {
	return NewOutlet(1, func(doc []byte) error {
		// A full disk writes half a file: that one must never take the place of the whole one.
		if err := os.WriteFile(path+".new", doc, 0o644); err != nil {
			return errors.Join(err, os.Remove(path+".new"))
		}
		return os.Rename(path+".new", path)
	})
}
