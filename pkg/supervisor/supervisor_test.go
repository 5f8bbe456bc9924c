package supervisor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/liveness"
)

// bench is a supervisor without processes, on a clock that the test moves.
func bench(t *testing.T) (s *supervisor, w *slot, log *strings.Builder) {
	t.Helper()
	log = &strings.Builder{}
	w = &slot{ID: "w1", State: waiting}
	return &supervisor{
		Options: Options{Command: []string{"/nonexistent/worker"}}, slots: []*slot{w}, family: &liveness.Family{},
		log: hclog.New(&hclog.LoggerOptions{Output: log}),
	}, w, log
}

func TestBackoff(t *testing.T) {
	wants := []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
		3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, maxDelay, maxDelay}
	for failures, want := range wants {
		if got := backoff(failures); got < want || got > want+want/5 {
			t.Errorf("after %d failures %v, want %v and up to a fifth more", failures, got, want)
		}
	}
	if got := backoff(1 << 40); got < maxDelay || got > maxDelay*6/5 {
		t.Errorf("after very many failures %v", got)
	}
}

func TestStartsInACrashLoop(t *testing.T) {
	s, w, _ := bench(t)
	now, starts := time.Duration(0), 0
	for now <= 30*time.Second {
		starts++
		s.failed(w, "exit 1", 1, now)
		now = w.nextStart
	}
	if starts > 10 {
		t.Errorf("%d starts in 30 s, want at most 10", starts)
	}
	for range 1000 {
		s.failed(w, "exit 1", 1, now)
		if d := w.nextStart - now; d < maxDelay || d > maxDelay*6/5 {
			t.Fatalf("delay %v", d)
		}
		now = w.nextStart
	}
}

func TestWhatAnExitCodeMeans(t *testing.T) {
	tests := []struct {
		code       int
		config     bool
		atLeast    time.Duration
		atMost     time.Duration
		afterThree bool
	}{
		{0, false, 0, 0, false}, {1, false, 0, 0, false}, {137, false, 0, 0, false}, {255, false, 0, 0, false},
		{69, false, time.Second, time.Second, false}, {75, false, time.Second, time.Second, false},
		{64, true, patience, patience, false}, {78, true, patience, patience, false},
		{126, true, patience, patience, false}, {127, true, patience, patience, false},
		{1, false, 800 * time.Millisecond, time.Second, true},
		{75, false, time.Second, time.Second, true},
	}
	for _, tt := range tests {
		s, w, _ := bench(t)
		if tt.afterThree {
			w.Failures = 3
		}
		s.failed(w, "how", tt.code, time.Hour)
		if d := w.nextStart - time.Hour; d < tt.atLeast || d > tt.atMost || w.config != tt.config {
			t.Errorf("exit %d: next start in %v, configuration %v; want %v to %v, %v", tt.code, d, w.config, tt.atLeast, tt.atMost, tt.config)
		}
	}
}

func TestOneLogLineAMinuteOnceDegraded(t *testing.T) {
	s, w, log := bench(t)
	w.Failures = degraded
	now := time.Duration(0)
	for now < 10*time.Minute {
		s.failed(w, "exit 1", 1, now)
		now = w.nextStart
	}
	if n := strings.Count(log.String(), "\n"); n < 5 || n > 11 {
		t.Errorf("%d lines in ten minutes", n)
	}
}

func TestAWorkerToldToEndHasNotFailed(t *testing.T) {
	s, w, _ := bench(t)
	w.rolled = true
	s.failed(w, "exit 64", 64, time.Hour)
	if w.Failures != 0 || w.config || w.nextStart != time.Hour || w.rolled {
		t.Errorf("slot %+v", w)
	}
}

func TestRollEndsWithItsFirstFailure(t *testing.T) {
	s, w, log := bench(t)
	s.rolling = w
	s.failed(w, "exit 1", 1, time.Hour)
	if s.rolling != nil || !strings.Contains(log.String(), "roll ended") {
		t.Errorf("rolling %v, log %s", s.rolling, log)
	}
}

// TestFault22ClockJumps: every decision takes a duration since the start, which no setting
// of the clock can move; what does move it is a pause of this process, and that is forgiven.
func TestFault22ClockJumps(t *testing.T) {
	s, w, log := bench(t)
	w.nextStart = 24 * time.Hour // nothing to start meanwhile
	s.lastLook = time.Hour
	if _, done := s.lookAt(t, time.Hour+lookEach+ownPause); done {
		t.Error("done without being told to stop")
	}
	if strings.Contains(log.String(), "no worker is blamed") {
		t.Error("a look in time was taken for a pause")
	}
	s.lookAt(t, s.lastLook+lookEach+ownPause+time.Millisecond)
	if !strings.Contains(log.String(), "no worker is blamed") {
		t.Error("a pause was not noticed")
	}
}

// lookAt is look with a place to publish.
func (s *supervisor) lookAt(t *testing.T, now time.Duration) (time.Duration, bool) {
	t.Helper()
	s.lines = liveness.NewOutlet(1, func([]byte) error { return nil })
	defer s.lines.Close(time.Second)
	s.bulletin = liveness.NewBulletin(filepath.Join(t.TempDir(), "missing", "status.json"))
	return s.look(now)
}
