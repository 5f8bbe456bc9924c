//go:build testclock

package worker

import (
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"nightshift/pkg/executor"
)

// systemClock is the machine's clock, moved by what the file named in
// NIGHTSHIFT_TEST_CLOCK says: whole seconds, such as -3600. Only wall readings
// move, as when somebody sets the clock; timers and durations stay true.
func systemClock() executor.Clock {
	path := os.Getenv("NIGHTSHIFT_TEST_CLOCK")
	if path == "" {
		return executor.System{}
	}
	return movedClock{path: path}
}

type movedClock struct {
	executor.System
	path string
}

func (c movedClock) Now() time.Time {
	now := time.Now()
	b, err := os.ReadFile(c.path)
	if err != nil {
		return now // no file: not moved
	}
	by, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return now // being written
	}
	return setWall(now, by)
}

// setWall moves the wall reading of t and leaves its monotonic one. Package time
// has no call for that (Add moves both), so the seconds are changed where they lie
// (src/time/time.go: 1 bit "has monotonic", 33 bits of seconds, 30 of nanoseconds).
func setWall(t time.Time, seconds int64) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(seconds) << 30
	return t
}
