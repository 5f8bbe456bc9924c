package scheduler

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// HeartStore is what the heart needs of the database.
type HeartStore interface {
	Beat(rows []store.Heartbeat) error
}

// HeartConfig is fixed for the heart's life.
type HeartConfig struct {
	Store  HeartStore
	Clock  executor.Clock
	Logger hclog.Logger
	Rows   []store.Heartbeat // one a slot, in the order of the slots; registered already
	Board  func() map[string]*executor.Execution
	Drains func() bool
	Every  func() time.Duration
}

// Heart writes this worker's heartbeats: one row a slot, with what it runs, a
// counter that only ever rises, and how far its task is (seed §3.4). One goroutine
// runs it; Beat and Last may be called from any.
type Heart struct {
	cfg HeartConfig

	// beating has one place: one beat at a time. It is no mutex, and mu is not held
	// over the write: who only asks for Last must not wait for the database.
	beating chan struct{}

	mu   sync.Mutex // guards what follows
	last time.Time
	told map[string]int64 // the execution that the last beat showed, by slot

	failed time.Time // when Run last logged a failure
}

// settleTime is how long a task must run before its slot's row names it ahead
// of the next regular heartbeat: short tasks cost no extra write.
const settleTime = time.Second

// NewHeart prepares a heart whose rows were registered just now; Run starts it.
func NewHeart(c HeartConfig) *Heart {
	return &Heart{cfg: c, last: c.Clock.Now(), beating: make(chan struct{}, 1), told: map[string]int64{}}
}

// Beat writes a heartbeat now.
func (h *Heart) Beat() error {
	h.beating <- struct{}{}
	defer func() { <-h.beating }()
	now := h.cfg.Clock.Now()
	told := h.fill(now)
	if err := h.cfg.Store.Beat(h.cfg.Rows); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.told = now, told
	return nil
}

// fill brings the rows up to date and returns which executions they show.
func (h *Heart) fill(now time.Time) map[string]int64 {
	board, told := h.cfg.Board(), map[string]int64{}
	for i := range h.cfg.Rows {
		r := &h.cfg.Rows[i]
		r.CurrentTaskID, r.Progress, r.SlowSince = "", "", time.Time{}
		r.Draining = h.cfg.Drains()
		r.LastHeartbeat = now
		x := board[r.WorkerID]
		if x == nil {
			continue
		}
		r.CurrentTaskID, r.Progress = x.Task.ID, x.Progress()
		if x.Slow(now) {
			r.SlowSince = x.SlowSince()
		}
		told[r.WorkerID] = x.Task.ExecID
	}
	return told
}

// Last is when the last heartbeat was written.
func (h *Heart) Last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// stale reports that a slot has run a task for a while that its row does not
// name, or names one that has ended.
func (h *Heart) stale(now time.Time) bool {
	board := h.cfg.Board()
	h.mu.Lock()
	defer h.mu.Unlock()
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

// Run beats until done is closed.
func (h *Heart) Run(done <-chan struct{}) {
	next := h.cfg.Clock.Now().Add(h.cfg.Every())
	for {
		t := h.cfg.Clock.NewTimer(task.OnSecond(h.cfg.Clock.Now(), time.Second))
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C():
		}
		now := h.cfg.Clock.Now()
		if now.Before(next) && !h.stale(now) {
			continue
		}
		next = now.Add(h.cfg.Every())
		if err := h.Beat(); err != nil {
			h.say(now, err)
		}
	}
}

// say logs a failure at most once a minute.
func (h *Heart) say(now time.Time, err error) {
	if now.Sub(h.failed) < time.Minute {
		return
	}
	h.failed = now
	h.cfg.Logger.Warn("heartbeat not written", "err", err, "last", task.FormatTime(h.Last()))
}
