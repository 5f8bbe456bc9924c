package worker

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// heart writes this worker's heartbeats: one row a slot, with what it runs, a
// counter that only ever rises, and how far its task is (seed §3.4).
type heart struct {
	store interface {
		Beat(rows []store.Heartbeat) error
	}
	clock  executor.Clock
	log    hclog.Logger
	rows   []store.Heartbeat // one a slot, in the order of the slots
	board  func() map[string]*executor.Execution
	drains func() bool
	every  func() time.Duration

	mu     sync.Mutex // one beat at a time; also guards last and told
	last   time.Time
	told   map[string]int64 // the execution that the last beat showed, by slot
	failed time.Time        // when a failure was last logged
}

// settleTime is how long a task must run before its slot's row names it ahead
// of the next regular heartbeat: short tasks cost no extra write.
const settleTime = time.Second

// Beat writes a heartbeat now.
func (h *heart) Beat() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	board := h.board()
	for i := range h.rows {
		r := &h.rows[i]
		r.CurrentTaskID, r.Progress, r.SlowSince = "", "", time.Time{}
		r.Draining = h.drains()
		r.LastHeartbeat = now
		x := board[r.WorkerID]
		if x == nil {
			delete(h.told, r.WorkerID)
			continue
		}
		r.CurrentTaskID, r.Progress = x.Task.ID, x.Progress()
		if slow, _ := x.Slow(now); slow {
			r.SlowSince = x.SlowSince()
		}
		h.told[r.WorkerID] = x.Task.ExecID
	}
	if err := h.store.Beat(h.rows); err != nil {
		return err
	}
	h.last = now
	return nil
}

// Last is when the last heartbeat was written.
func (h *heart) Last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// stale reports that a slot has run a task for a while that its row does not
// name, or names one that has ended.
func (h *heart) stale() bool {
	board := h.board()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for slot, x := range board {
		if x != nil && h.told[slot] != x.Task.ExecID && now.Sub(x.Started()) >= settleTime {
			return true
		}
	}
	for slot := range h.told {
		if board[slot] == nil {
			return true
		}
	}
	return false
}

// run beats until done is closed.
func (h *heart) run(done <-chan struct{}) {
	next := h.clock.Now().Add(h.every())
	for {
		t := h.clock.NewTimer(executor.Beat(h.clock.Now()))
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C():
		}
		now := h.clock.Now()
		if now.Before(next) && !h.stale() {
			continue
		}
		next = now.Add(h.every())
		if err := h.Beat(); err != nil && now.Sub(h.failed) >= time.Minute {
			h.failed = now
			h.log.Warn("heartbeat not written", "err", err, "last", task.FormatTime(h.Last()))
		}
	}
}
