//go:build !linux

package liveness

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Elsewhere there is no pidfd, no subreaper and no process table that one may rely on:
// locks prove death as on Linux, a tree is killed by its process group, and what left
// the group is not found.

// ErrNoDelegation says that this process has no cgroup v2 of its own to divide.
var ErrNoDelegation = errors.New("no cgroups on this system")

// BootID has no counterpart here; an empty one never equals a recorded one by accident,
// so callers compare only ids that are not empty.
func BootID() (string, error) { return "", nil }

// ReadProcess knows only whether the number is in use.
func ReadProcess(pid int) (Process, error) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return Process{}, ErrGone
	}
	pgid, err := unix.Getpgid(pid)
	if err != nil {
		return Process{}, ErrGone
	}
	return Process{PID: pid, PGID: pgid, State: '?', Threads: 1}, nil
}

// Started is not known here.
func (p Process) Started() time.Time { return time.Time{} }

// Kill signals the number; nothing here tells whether it was reused.
func Kill(p Process, sig syscall.Signal) error {
	if p.PID <= 1 {
		return fmt.Errorf("signal %s to process %d: not a process to kill", sig, p.PID)
	}
	if err := unix.Kill(p.PID, sig); errors.Is(err, unix.ESRCH) {
		return ErrGone
	} else if err != nil {
		return fmt.Errorf("signal %s to %s: %w", sig, p, err)
	}
	return nil
}

// ThreadStates are not known here.
func ThreadStates(int) string { return "unknown" }

// Children are not known here.
func Children(int) ([]Process, error) { return nil, nil }

// Find finds nothing here.
func (s Sweep) Find() ([]Process, error) { return nil, nil }

// Holders are not known here.
func Holders(string, uint64, uint64) ([]Process, error) { return nil, nil }

func heldError(path string, dev, ino uint64) error {
	return &HeldError{Path: path, Dev: dev, Ino: ino}
}

// SetSubreaper does nothing here.
func SetSubreaper() error { return nil }

// childAttr starts a worker in a session of its own; nothing tells it of its parent's
// death but the control pipe.
func childAttr(*Group, syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// Reap waits for one dead child, if there is any, and calls dying after it: a child cannot
// be seen dead here without giving its number back.
func Reap(dying func(pid int)) (pid int, status syscall.WaitStatus, ok bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return 0, 0, false
		}
		dying(pid)
		return pid, status, true
	}
}

// oomScoreAdj is 0 here.
func oomScoreAdj() int { return 0 }

// setOOMScoreAdj does nothing here.
func setOOMScoreAdj(int, int) error { return nil }

// Group never exists here; a nil *Group stands for that.
type Group struct{ _ *os.File }

// NewGroup reports ErrNoDelegation.
func NewGroup(string) (*Group, error) { return nil, ErrNoDelegation }

// Kill does nothing.
func (g *Group) Kill() error { return nil }

// Populated reports an empty group.
func (g *Group) Populated() (bool, error) { return false, nil }

// KillAll reports an empty group.
func (g *Group) KillAll(time.Duration) (bool, error) { return true, nil }

// Remove does nothing.
func (g *Group) Remove() error { return nil }

// UnignoreSignals does nothing here: what is ignored stays so.
func UnignoreSignals() {}
