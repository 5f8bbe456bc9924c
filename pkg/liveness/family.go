package liveness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// orphanWait bounds how long what a dead worker left is hunted as an orphan. What does not
// die within it is stuck in the kernel, or another user's.
const orphanWait = 2 * time.Second

// Family is a supervisor's children: the workers that it started, and the orphans that come
// to it as a subreaper when a worker dies. Its methods belong to one goroutine, locked to
// the main thread: a death signal follows the thread that forked, and a second reaper
// steals exit statuses. Nothing here waits for a process.
type Family struct {
	clock    func() time.Duration
	news     chan<- struct{}
	null     *os.File
	childAdj int
	workers  map[int]*Child
	until    time.Duration // orphans are hunted until then; 0: there are none
	since    uint64        // when the oldest dead worker began
}

// NewFamily makes the caller the only supervisor of a run directory, for as long as it
// lives (*HeldError when there is another), and a parent: its descendants' orphans come to
// it, files are made for user and group alone, and short of memory the kernel takes a task
// first, then a worker, and the caller last. clock and news are as for NewLifeline.
func NewFamily(runDir string, clock func() time.Duration, news chan<- struct{}) (*Family, error) {
	if err := CheckDir(runDir); err != nil {
		return nil, err
	}
	if _, err := Acquire(filepath.Join(runDir, "supervisor.lock")); err != nil {
		return nil, err
	}
	f := &Family{clock: clock, news: news, workers: map[int]*Child{}, childAdj: max(0, oomScoreAdj())}
	var err error
	if f.null, err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	syscall.Umask(0o027)
	keepThreads()
	UnignoreSignals()
	_ = setOOMScoreAdj(os.Getpid(), -900) // needs privilege: a wish
	return f, SetSubreaper()
}

// ExitCode is a supervisor's when NewFamily fails: 75 (EX_TEMPFAIL) beside another
// supervisor, 73 (EX_CANTCREAT) in a directory that cannot be used.
func ExitCode(err error) int {
	if held := (*HeldError)(nil); errors.As(err, &held) {
		return 75
	}
	return 73
}

// Start puts a worker into a slot that Clear has made ready, and releases the lock here.
// The first of args names its program, found by Program. *StartError when exec fails.
func (f *Family) Start(s *Slot, lock *Lock, args []string) (*Child, error) {
	line, end, err := NewLifeline(f.clock, f.news)
	if err != nil {
		lock.Release()
		return nil, err
	}
	defer end.Close()
	began := f.clock()
	pid, err := s.spawn(lock, args, end, f.null)
	if err != nil {
		line.Close()
		return nil, err
	}
	go line.Follow()
	_ = setOOMScoreAdj(pid, f.childAdj) // raising it is everybody's right; gone already: no matter
	p, err := ReadProcess(pid)
	if err != nil {
		p = Process{PID: pid} // only where /proc is missing: a zombie has its line there too
	}
	f.workers[pid] = &Child{Process: p, Line: line, Began: began}
	return f.workers[pid], nil
}

// Tell sends a signal to every worker: to those that are READY now, to the others when they
// are (before, they would die of it).
func (f *Family) Tell(sig syscall.Signal) {
	for _, c := range f.workers {
		c.tell(sig)
	}
}

// Forgive counts nothing of a pause that ends now: the supervisor itself was stopped.
func (f *Family) Forgive(now, pause time.Duration) {
	for _, c := range f.workers {
		c.forgiven = now
		c.due += pause
	}
}

// Reap takes the dead, whose Child says so from then on. The rest of a worker's process
// group is killed while the zombie still keeps the number from being used again, then what
// its death brought up here: busy says that another round is due soon; *LeftError names those
// that did not end in time and are given up.
func (f *Family) Reap(now time.Duration) (busy bool, err error) {
	dying := func(pid int) {
		if f.workers[pid] != nil {
			_ = syscall.Kill(-pid, sigkill) // ESRCH: nobody is left in it
		}
	}
	for {
		pid, status, ok := Reap(dying)
		if !ok {
			break
		}
		if c := f.workers[pid]; c != nil { // else an orphan
			f.bury(c, Death(status), now)
		}
	}
	for _, c := range f.workers {
		c.payOwed()
	}
	return f.killOrphans(now)
}

func (f *Family) bury(c *Child, d Death, now time.Duration) {
	delete(f.workers, c.PID)
	c.Line.Close()
	c.death = &d
	if f.until == 0 || c.StartTicks < f.since {
		f.since = c.StartTicks
	}
	f.until = now + orphanWait
}

// killOrphans goes one round against the orphans of dead workers; the death of each brings
// its own children up. What began before the worker is no child of it and is left alone, as
// are workers.
func (f *Family) killOrphans(now time.Duration) (busy bool, err error) {
	if f.until == 0 {
		return false, nil
	}
	var left []Process
	children, err := Children(os.Getpid())
	for _, p := range children {
		if !p.Alive() || p.StartTicks < f.since || f.workers[p.PID] != nil {
			continue
		}
		left = append(left, p)
		if kerr := Kill(p, sigkill); kerr != nil && !errors.Is(kerr, ErrGone) {
			err = errors.Join(err, kerr)
		}
	}
	if busy = len(left) > 0 || err != nil; busy && now < f.until {
		return true, nil
	}
	f.until = 0
	if len(left) > 0 {
		err = errors.Join(err, &LeftError{left})
	}
	return false, err
}

// StartError is an exec that failed.
type StartError struct {
	Path string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("cannot execute %s: %v", e.Path, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// StartCode is the exit code that a shell gives to a start that failed: 127 where there is
// no such program, 126 where it cannot be executed, 75 (EX_TEMPFAIL) where the cause will
// pass (out of processes, descriptors or memory; the file is being written).
func StartCode(err error) int {
	for _, e := range []error{syscall.ENOENT, syscall.ENOTDIR} {
		if errors.Is(err, e) {
			return 127
		}
	}
	for _, e := range []error{syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.E2BIG} {
		if errors.Is(err, e) {
			return 126
		}
	}
	return 75
}
