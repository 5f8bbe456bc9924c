// Package supervisor starts worker processes, watches them, and starts them anew. It keeps
// no state but its flags, knows nothing of what a worker does, and must not fail.
//
// Here are the decisions; the means are in pkg/liveness. One loop on one thread owns fork,
// reap and kill. What can block (files, the process table) is done beside it. Time is a
// duration on the monotonic clock: setting the clock reaches no decision.
package supervisor

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/liveness"
)

// Options are all that a supervisor is told.
type Options struct {
	Workers int      // w1 … wN
	RunDir  string   // absolute; locks and status.json
	Command []string // the worker's
	Limits  liveness.Limits
	Version string
}

type supervisor struct {
	Options
	log      hclog.Logger
	lines    *liveness.Outlet // the log's
	bulletin *liveness.Bulletin
	clock    func() time.Duration
	news     chan struct{} // a worker has said something new, or a slot is cleared
	family   *liveness.Family
	slots    []*slot
	lastLook time.Duration
	busy     bool // with the orphans of a dead worker
	stopping bool
	rolling  *slot
}

// Run supervises until it is told to stop, and returns the exit code (sysexits.h). Call it
// on the main goroutine, locked to its thread: no other thread is sure to live on.
func Run(o Options) int {
	begin := time.Now()
	s := &supervisor{Options: o, news: make(chan struct{}, 1), clock: func() time.Duration { return time.Since(begin) }}
	s.lines = liveness.NewOutlet(512, func(line []byte) error { _, err := os.Stderr.Write(line); return err })
	defer s.lines.Close(time.Second)
	s.log = hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: s.lines})
	var err error
	if s.family, err = liveness.NewFamily(o.RunDir, s.clock, s.news); err != nil {
		s.log.Error("cannot supervise here", "run_dir", o.RunDir, "err", err)
		return liveness.ExitCode(err)
	}
	for i := range o.Workers {
		id := fmt.Sprintf("w%d", i+1)
		s.slots = append(s.slots, &slot{ID: id, State: waiting, place: liveness.NewSlot(o.RunDir, id)})
	}
	s.bulletin = liveness.NewBulletin(filepath.Join(o.RunDir, "status.json"))
	s.log.Info("supervising", "pid", os.Getpid(), "workers", o.Workers, "run_dir", o.RunDir, "version", o.Version)
	s.loop()
	return 0
}

// loop is the life of the supervisor: wait for something to happen, then look at everything.
func (s *supervisor) loop() {
	on := func(signals ...os.Signal) chan os.Signal {
		c := make(chan os.Signal, 1) // a storm of one signal is one signal
		signal.Notify(c, signals...)
		return c
	}
	// PIPE: a stderr that nobody reads any more must not end us. USR2 to us means nothing.
	child, stop := on(syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGUSR2), on(syscall.SIGTERM, syscall.SIGINT)
	reload, roll := on(syscall.SIGHUP), on(syscall.SIGUSR1)
	for timer := time.NewTimer(0); ; {
		select {
		case <-timer.C:
		case <-child:
		case <-s.news:
		case <-stop:
			s.stop(s.clock())
		case <-reload: // passed on; who waits for a cure tries again now
			s.log.Info("told to re-read the configuration")
			s.family.Tell(syscall.SIGHUP)
			for _, w := range s.slots {
				w.nextStart = 0
			}
		case <-roll:
			if !s.stopping && s.rolling == nil {
				s.roll(0, s.clock())
			}
		}
		next, done := s.look(s.clock())
		if done {
			s.log.Info("ends", "after", s.clock().Round(time.Millisecond))
			return
		}
		timer.Reset(next - s.clock())
	}
}

// look brings everything up to date, and says when there is something to do next.
func (s *supervisor) look(now time.Duration) (next time.Duration, done bool) {
	if late := now - s.lastLook - lookEach; late > ownPause {
		s.log.Warn("this process was stopped, or the machine slept: no worker is blamed", "for", late.Round(time.Millisecond))
		s.family.Forgive(now, late)
	}
	s.lastLook, next, done = now, now+lookEach, s.stopping
	var err error
	if s.busy, err = s.family.Reap(now); err != nil {
		s.log.Error("orphans of a worker", "err", err)
	}
	for _, w := range s.slots {
		next = min(next, s.tend(w, now))
		done = done && w.State == stopped
	}
	s.tell(now)
	return next, done
}

// stop has the workers drain; told again, it does not wait for that.
func (s *supervisor) stop(now time.Duration) {
	s.log.Info("told to stop", "grace", s.Limits.Stop)
	for _, w := range s.slots {
		w.child.AskToGo(syscall.SIGTERM, now, s.Limits.Stop)
	}
	s.stopping, s.rolling, s.Limits.Stop = true, nil, 0
}

// roll replaces the workers from the i-th on by what is on disk now. It goes on when that
// one is READY again; if its first start fails, it ends there.
func (s *supervisor) roll(i int, now time.Duration) {
	if s.rolling = nil; i == len(s.slots) {
		s.log.Info("rolled: every worker runs what is on disk")
		return
	}
	w := s.slots[i]
	s.log.Info("rolling", "worker", w.ID)
	s.rolling, w.nextStart, w.rolled = w, 0, w.PID > 0
	w.child.AskToGo(syscall.SIGTERM, now, s.Limits.Stop)
}

// tell keeps status.json and the service manager up to date. READY to the latter means that
// every worker is up, or has said why it is not.
func (s *supervisor) tell(now time.Duration) {
	state, settled := "STATUS=", true
	for _, w := range s.slots {
		state += strings.TrimSpace(w.ID+" "+w.State+" "+w.Reason) + "; "
		settled = settled && (w.State == ready || w.Failures > 0)
	}
	if s.stopping {
		state += "\nSTOPPING=1"
	} else if settled {
		state += "\nREADY=1"
	}
	s.bulletin.Publish(state, map[string]any{"pid": os.Getpid(), "version": s.Version, "stopping": s.stopping,
		"rolling": s.rolling != nil, "workers": s.slots, "log_lines_dropped": s.lines.Dropped()}, now)
}
