package executor

import "time"

// Clock gives the wall time and timers that run on the monotonic clock. The
// product passes System; tests and the simulation pass their own.
type Clock interface {
	// Now returns the time with its monotonic reading: Sub of two of them is a
	// true duration, whatever the wall clock did between.
	Now() time.Time
	// NewTimer fires once on C after d.
	NewTimer(d time.Duration) Timer
}

// Timer is one of a Clock's timers.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
}

// System is the machine's clock.
type System struct{}

// Now is time.Now.
func (System) Now() time.Time { return time.Now() }

// NewTimer is time.NewTimer.
func (System) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (s systemTimer) C() <-chan time.Time { return s.t.C }
func (s systemTimer) Stop() bool          { return s.t.Stop() }
