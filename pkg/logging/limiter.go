package logging

import (
	"sync"
	"time"
)

// CheckpointEvery is how often a task's checkpoints are told at info (DESIGN
// §10); all of them are told at debug.
const CheckpointEvery = 10 * time.Second

// Limiter lets one line in an interval pass for each key.
type Limiter struct {
	every time.Duration
	mu    sync.Mutex
	last  map[string]time.Time
}

// NewLimiter makes a limiter; give it CheckpointEvery for checkpoints.
func NewLimiter(every time.Duration) *Limiter {
	return &Limiter{every: every, last: map[string]time.Time{}}
}

// Allow reports whether a line about key may pass now. Give it time.Now(): the
// interval is measured by the monotonic clock then, whatever the wall clock does.
func (l *Limiter) Allow(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, seen := l.last[key]; seen {
		if gone := now.Sub(last); gone >= 0 && gone < l.every {
			return false
		}
	}
	l.last[key] = now
	return true
}

// Forget drops what is known of key; call it when its task has left the executor.
func (l *Limiter) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, key)
}
