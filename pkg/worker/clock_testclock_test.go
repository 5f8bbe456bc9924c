//go:build testclock

package worker

import (
	"testing"
	"time"
)

func TestTheWallClockMovesAndDurationsStayTrue(t *testing.T) {
	before := time.Now()
	for _, by := range []int64{3600, -3600, -56 * 365 * 86400, 10 * 365 * 86400} {
		now := time.Now()
		moved := setWall(now, by)
		if got := moved.Round(0).Sub(now.Round(0)); got != time.Duration(by)*time.Second {
			t.Errorf("wall moved by %v, want %d s", got, by)
		}
		if got := moved.Sub(before); got < 0 || got > time.Minute {
			t.Errorf("the duration since the start is %v after a jump of %d s", got, by)
		}
	}
}
