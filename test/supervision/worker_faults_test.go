//go:build linux

package supervision

import (
	"testing"
	"time"
)

func TestFault01WorkerKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2).start()
	pid, other := r.ready("w1", 0), r.ready("w2", 0)
	began := time.Now()
	sigkill(t, pid)
	r.ready("w1", pid)
	t.Logf("READY again after %v", time.Since(began).Round(time.Millisecond))
	if now := r.ready("w2", 0); now != other {
		t.Errorf("w2 was replaced too: %d, was %d", now, other)
	}
	r.until("w2 is told of the death", func() bool { return len(r.notes("signals-w2")) > 0 })
	r.single()
}
