package sim

import (
	"time"
	"unsafe"

	"nightshift/pkg/executor"
)

// instant is a time with a monotonic reading, which time.Now has not in a bubble
// of synctest: the wall clock can be set while durations stay true. The layout is
// that of time.Time: 1 bit "has monotonic", 33 bits of seconds since 1885, 30 of
// nanoseconds; then the monotonic reading; then the location (nil: UTC).
func instant(wall time.Time, mono time.Duration) time.Time {
	const secondsTo1885 = -2682288000 // of the Unix epoch
	raw := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{
		wall: 1<<63 | uint64(wall.Unix()-secondsTo1885)<<30 | uint64(wall.Nanosecond()),
		ext:  int64(mono) + 1,
	}
	return *(*time.Time)(unsafe.Pointer(&raw))
}

// Timers fire on a grid with a place for each owner: grain × lanes.
const (
	grain = 1024          // ns: one place for each process
	lanes = 72            // for the timers of one process
	grid  = grain * lanes // ns
)

// The lanes of a process: the product's timers have the first ones.
const (
	anyLane      = -1
	productLanes = 20
	laneWrite    = 20 // a write, by its kind
	lanePlace    = 40 // an execution's start, by slot
	laneWork     = 48 // a handler's steps, by slot
	laneSleep    = 56 // and up, by whose sleep it is
	laneWake     = 64 // goroutines of a process that goes on
	laneGrant    = 65 // of the write lock
)

// place moves d so that now+d is on the grid, at the owner's place in the lane.
func place(d time.Duration, lane, owner int) time.Duration {
	now := time.Now()
	at := now.Add(max(d, 0)).UnixNano()
	at = (at+grid-1)/grid*grid + int64(lane*grain+owner%grain)
	return time.Duration(at - now.UnixNano())
}

// clock is the machine's clock as one process sees it; it implements executor.Clock.
type clock struct{ p *proc }

// Now implements executor.Clock.
func (c clock) Now() time.Time {
	c.p.gate()
	return c.p.m.now()
}

// NewTimer implements executor.Clock.
func (c clock) NewTimer(d time.Duration) executor.Timer {
	c.p.gate()
	return timer{c.p.newTimer(d, anyLane), c.p}
}

type timer struct {
	t *time.Timer
	p *proc
}

func (t timer) C() <-chan time.Time { return t.t.C }

func (t timer) Stop() bool {
	t.p.forget(t.t)
	return t.t.Stop()
}
