package sim

import (
	"sync/atomic"
	"time"
)

// The supervisor's figures, as cmd/supervisor and pkg/supervisor have them.
const (
	lookEach     = time.Second
	ownPause     = 2 * time.Second
	firstDelay   = 200 * time.Millisecond
	maxDelay     = 30 * time.Second
	healthyAfter = time.Minute
	bootLimit    = time.Minute
	silenceLimit = 15 * time.Second
	stopTimeout  = 75 * time.Second
)

// supervisor keeps the contract of pkg/supervisor, whose means (fork, wait, pipes)
// are the real kernel's: it clears a slot, takes its lock, starts the worker, and
// ends one that is silent. Its state ends with its process.
type supervisor struct {
	n        *night
	p        *proc
	slots    []*slot
	wake     chan struct{}
	lastLook time.Duration
	stopping bool
	rolling  int         // the slot to be rolled next; -1: none
	usr1     atomic.Bool // a roll is asked for
}

type slot struct {
	id        string
	w         *worker // nil: no process
	failures  int
	nextStart time.Duration
	heard     time.Duration
	readyAt   time.Duration // 0: not ready
	leaveBy   time.Duration // 0: not asked to leave
	told      bool          // it was asked to leave: its end is no failure
}

func (n *night) startSupervisor() {
	s := &supervisor{n: n, p: n.m.spawn("supervisor", "supervisor", nil), wake: make(chan struct{}, 1), rolling: -1}
	for _, id := range n.supervised {
		s.slots = append(s.slots, &slot{id: id})
	}
	s.p.bury = s.bury
	n.mu.Lock()
	n.sup = s
	n.mu.Unlock()
	go s.loop()
}

// bury: the kernel tells its children (PDEATHSIG), the service manager starts anew.
func (s *supervisor) bury() {
	for _, w := range s.n.m.living("worker") {
		if w.parent == s.p {
			s.n.m.terminate(w)
		}
	}
	s.n.supervisorDied()
}

func (s *supervisor) loop() {
	s.p.gate()
	s.lastLook = s.n.m.at()
	for {
		if s.look(s.n.m.at()) {
			s.n.m.end(s.p, 0)
			return
		}
		t := s.p.newTimer(lookEach, laneSleep)
		select {
		case <-t.C:
		case <-s.wake:
			t.Stop()
		}
		s.p.forget(t)
		s.p.gate()
	}
}

// childDied is SIGCHLD, a moment later.
func (s *supervisor) childDied() {
	time.AfterFunc(place(time.Millisecond, laneSleep+4, s.p.uid), func() {
		select {
		case s.wake <- struct{}{}:
		default: // one pending signal is enough
		}
	})
}

func (s *supervisor) look(now time.Duration) (done bool) {
	if now-s.lastLook-lookEach > ownPause {
		for _, x := range s.slots {
			x.heard = now // its own pause: nobody is blamed
		}
	}
	s.lastLook = now
	if s.n.stopAsked() && !s.stopping {
		s.stopping = true
		for _, x := range s.slots {
			s.ask(x, now)
		}
	}
	if s.usr1.Swap(false) && !s.stopping && s.rolling < 0 {
		s.rolling = 0
	}
	done = s.stopping
	for i, x := range s.slots {
		s.tend(i, x, now)
		done = done && x.w == nil
	}
	return done
}

// ask tells a worker to drain and leave.
func (s *supervisor) ask(x *slot, now time.Duration) {
	if x.w == nil || x.leaveBy != 0 {
		return
	}
	x.leaveBy, x.told = now+stopTimeout, true
	s.n.m.terminate(x.w.p)
	s.n.m.cont(x.w.p)
}

func (s *supervisor) tend(i int, x *slot, now time.Duration) {
	switch {
	case x.w != nil && x.w.p.alive():
		s.watch(i, x, now)
	case x.w != nil:
		s.failed(x, now)
	case s.stopping || now < x.nextStart:
	default:
		s.start(x, now)
	}
}

// start clears the slot, takes its lock and starts the worker with it.
func (s *supervisor) start(x *slot, now time.Duration) {
	m := s.n.m
	path := lockPath(x.id)
	l, got := m.lock(path, s.p)
	left := m.hunt(m.prey(s.p, path, l.ino, nil))
	if !got {
		l, got = m.lock(path, s.p)
	}
	if len(left) > 0 || !got {
		m.closeLock(l, s.p)
		x.nextStart = now + lookEach
		return
	}
	for _, w := range m.living("worker") {
		w.usr2() // the neighbours: the lock proves the death
	}
	x.w = s.n.newWorker(x.id, s)
	x.w.lock = l
	m.closeLock(l, s.p)
	x.heard, x.readyAt, x.leaveBy, x.told = now, 0, 0, false
	go x.w.run()
}

// watch follows a worker from its start to its end.
func (s *supervisor) watch(i int, x *slot, now time.Duration) {
	if x.leaveBy != 0 {
		if now >= x.leaveBy {
			s.n.m.kill(x.w.p)
		}
		return
	}
	if x.w.pulse() {
		x.heard = now
		if x.readyAt == 0 {
			s.ready(i, x, now)
		}
	}
	limit := bootLimit
	if x.readyAt != 0 {
		limit = silenceLimit
		if now-x.readyAt > healthyAfter {
			x.failures = 0
		}
	}
	switch {
	case now-x.heard > limit:
		s.n.tally("silent workers killed", 1)
		s.n.m.kill(x.w.p)
	case s.rolling == i && x.readyAt != 0:
		s.ask(x, now)
	}
}

// ready: a roll goes on with the next slot.
func (s *supervisor) ready(i int, x *slot, now time.Duration) {
	x.readyAt = now
	if s.rolling == i {
		s.rolling++
	}
	if s.rolling == len(s.slots) {
		s.rolling = -1
	}
}

// failed decides when to try again.
func (s *supervisor) failed(x *slot, now time.Duration) {
	code := x.w.p.code
	x.w, x.leaveBy, x.nextStart = nil, 0, now
	if x.told {
		return
	}
	if x.failures > 0 {
		x.nextStart += min(maxDelay, firstDelay<<min(x.failures-1, 20))
	}
	x.failures++
	switch code {
	case exitConfig:
		x.nextStart = now + time.Minute
	case exitTempFail:
		x.nextStart = max(x.nextStart, now+time.Second)
	}
}
