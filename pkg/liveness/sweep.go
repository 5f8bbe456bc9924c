package liveness

import (
	"errors"
	"syscall"
	"time"
)

// markName is the variable of the environment by which a slot's processes are known.
const markName = "NIGHTSHIFT_MARK="

const sigkill = syscall.SIGKILL

// Sweep describes the processes that a dead worker, or one execution, left behind:
// those that carry the mark, those that have the owner's lock descriptor, and what hangs
// below either (descendants, members of a process group or session that one of them leads).
//
// The calling process, its ancestors and process 1 are never among them.
//
// Who may sweep what: a worker or its supervisor its own slot, before it starts to work; a
// neighbour only while it holds the Guard of a lock proven Free. Against a lock that is
// held the new, healthy owner would be the first one found.
type Sweep struct {
	Mark string // value of NIGHTSHIFT_MARK: the absolute path of the slot's lock
	// Env narrows the mark: each NAME=value here must be in the environment too, as
	// NIGHTSHIFT_ATTEMPT=42 for one execution.
	Env []string
	// LockDev and LockIno of the lock at Mark; LockIno 0: only descriptors of an earlier
	// lock file there, since removed.
	LockDev, LockIno uint64
	Not              map[int]bool // never these, nor what only hangs below them
	StartedBefore    uint64       // only processes with smaller StartTicks; 0: any
}

// Round looks once and sends SIGKILL to each process found (no thaw is needed: SIGKILL
// reaches a stopped one). The found may need a moment to die, and one that was just
// forked may have been missed, so a tree is gone after two rounds that found nothing.
func (s Sweep) Round() ([]Process, error) {
	found, err := s.Find()
	for _, p := range found {
		if kerr := Kill(p, sigkill); kerr != nil && !errors.Is(kerr, ErrGone) {
			err = errors.Join(err, kerr)
		}
	}
	return found, err
}

// KillAll makes rounds until two in a row found nothing (nil, nil: the tree is gone), or
// until the time is up: then it returns who is left (a process in an uninterruptible wait,
// or of another user), or the error that kept it from looking.
func (s Sweep) KillAll(limit time.Duration) (left []Process, err error) {
	empty := 0
	for deadline, pause := time.Now().Add(limit), time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left, err = s.Round()
		if err == nil && len(left) == 0 {
			if empty++; empty == 2 {
				return nil, nil
			}
			continue
		}
		empty = 0
		if time.Now().After(deadline) {
			return left, err
		}
		time.Sleep(pause)
	}
}
