package liveness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Slot is the place of one worker under its supervisor: an id, a lock, and a cgroup where
// there is one.
type Slot struct {
	id, mark string
	group    *Group
	cleared  chan clearing
}

// clearing is the outcome of Clear.
type clearing struct {
	lock *Lock
	err  error
}

// NewSlot makes the slot of a worker. Its lock lies in runDir, an absolute path. It has a
// cgroup where one was delegated and can be made.
func NewSlot(runDir, id string) *Slot {
	s := &Slot{id: id, mark: filepath.Join(runDir, id+".lock"), cleared: make(chan clearing, 1)}
	s.group, _ = NewGroup(id) // Grouped tells; marks and descriptors do without
	return s
}

// Grouped says whether the slot has a cgroup.
func (s *Slot) Grouped() bool { return s.group != nil }

// LeftError names what outlived SIGKILL: processes in an uninterruptible wait, or, with
// none named, members of the slot's cgroup that cannot be seen from here.
type LeftError struct{ Left []Process }

func (e *LeftError) Error() string {
	return fmt.Sprintf("processes of the last worker do not end: %v", e.Left)
}

// Clear begins to make the slot ready for its next worker, in a goroutine of its own, as
// looking through the process table takes time and can block; news (buffered) gets a value
// at the end. Once at a time: call Cleared until it says done before Clear again.
func (s *Slot) Clear(limit time.Duration, news chan<- struct{}) {
	go func() {
		lock, err := s.clear(limit)
		s.cleared <- clearing{lock, err}
		poke(news)
	}()
}

// Cleared gives the outcome of Clear when it is done. Nothing of the last worker lives then,
// and the lock is in hand, to be passed on or released; or err says why not. A *HeldError
// with a Taker means that a worker which no supervisor started has the lock: it and what is
// its own are left alone.
func (s *Slot) Cleared() (lock *Lock, done bool, err error) {
	select {
	case c := <-s.cleared:
		return c.lock, true, c.err
	default:
		return nil, false, nil
	}
}

func (s *Slot) clear(limit time.Duration) (*Lock, error) {
	hunt := Sweep{Mark: s.mark}
	lock, err := Reserve(s.mark)
	var held *HeldError
	if errors.As(err, &held) && held.Taker.PID == 0 { // descendants, or a passing prober
		hunt.LockDev, hunt.LockIno = held.Dev, held.Ino
	} else if err != nil {
		return nil, err
	}
	if err := s.kill(hunt, limit); err != nil {
		if lock != nil {
			lock.Release()
		}
		return nil, err
	}
	for deadline := time.Now().Add(proberPatience); lock == nil; {
		if lock, err = Reserve(s.mark); err != nil {
			if !errors.As(err, &held) || held.Taker.PID != 0 || time.Now().After(deadline) {
				return nil, err
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return lock, nil
}

func (s *Slot) kill(hunt Sweep, limit time.Duration) error {
	// A kernel without cgroup.kill, or a group somebody removed, leaves it to the hunt.
	empty, err := s.group.KillAll(limit)
	stuck := err == nil && !empty
	left, err := hunt.KillAll(limit)
	switch {
	case err != nil:
		return fmt.Errorf("look for what the last worker left: %w", err)
	case len(left) > 0 || stuck:
		return &LeftError{left}
	}
	return nil
}

// spawn forks. The worker finds its lifeline at descriptor 3 and the slot's lock at 4,
// which is its own from now on (Inherit); here it is released in any case.
func (s *Slot) spawn(lock *Lock, args []string, line, null *os.File) (pid int, err error) {
	defer lock.Release()
	path := Program(args[0])
	attr := &syscall.ProcAttr{
		Env:   s.environ(os.Environ()),
		Files: []uintptr{null.Fd(), 1, 2, line.Fd(), lock.file.Fd()},
		Sys:   childAttr(s.group, syscall.SIGTERM),
	}
	pid, err = syscall.ForkExec(path, args, attr)
	if err != nil && s.group != nil {
		// Perhaps only the cgroup refuses: what it adds is not worth a worker.
		attr.Sys = childAttr(nil, syscall.SIGTERM)
		pid, err = syscall.ForkExec(path, args, attr)
	}
	if err != nil {
		return 0, &StartError{path, err}
	}
	return pid, nil
}

// environ is what the worker gets: ours without what was said to us alone (the service
// manager's socket, an outer Nightshift's names), and the names of this slot.
func (s *Slot) environ(ours []string) []string {
	env := slices.DeleteFunc(slices.Clone(ours), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES":
			return true
		case "NIGHTSHIFT_CONFIG", "NIGHTSHIFT_DATA":
			return false
		}
		return strings.HasPrefix(name, "NIGHTSHIFT_")
	})
	return append(env,
		"NIGHTSHIFT_WORKER_ID="+s.id,
		"NIGHTSHIFT_RUN_DIR="+filepath.Dir(s.mark),
		"NIGHTSHIFT_CONTROL_FD="+strconv.Itoa(3),
		"NIGHTSHIFT_LOCK_FD="+strconv.Itoa(4),
		markName+s.mark,
	)
}
