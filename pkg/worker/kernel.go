package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/liveness"
	"nightshift/pkg/scheduler"
)

// kernel answers the warden's questions about other workers with pkg/liveness.
type kernel struct {
	bootID string
	runDir string // where the lock of a worker lies whose heartbeat row is gone
}

// huntLimit bounds one hunt of the warden, which comes again.
const huntLimit = 500 * time.Millisecond

func newKernel(runDir string) (*kernel, error) {
	id, err := liveness.BootID()
	if err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	return &kernel{id, runDir}, nil
}

// BootID implements scheduler.Kernel.
func (k *kernel) BootID() string { return k.bootID }

// Probe implements scheduler.Kernel.
func (k *kernel) Probe(o *scheduler.Owner) (scheduler.Proof, scheduler.Guard, error) {
	if o.LockPath == "" {
		// Somebody deleted its heartbeat row; the next beat of a live one brings it back.
		o.LockPath = filepath.Join(k.runDir, o.WorkerID+".lock")
		var st unix.Stat_t
		if err := unix.Lstat(o.LockPath, &st); err != nil {
			return scheduler.Unproven, nil, nil
		}
		o.LockDev, o.LockIno = uint64(st.Dev), uint64(st.Ino)
	}
	p, err := liveness.ProbeLock(o.LockPath, o.LockDev, o.LockIno)
	if err != nil {
		return scheduler.Held, nil, err
	}
	switch p.Outcome {
	case liveness.Free:
		return scheduler.Free, p.Guard, nil
	case liveness.Held:
		return scheduler.Held, nil, nil
	default:
		return scheduler.Unproven, nil, nil
	}
}

// Gone implements scheduler.Kernel.
func (k *kernel) Gone(o *scheduler.Owner) bool {
	if o.PID == 0 {
		return false // not known, so not known to be gone
	}
	p, err := liveness.ReadProcess(o.PID)
	if errors.Is(err, liveness.ErrGone) {
		return true
	}
	return err == nil && (p.StartTicks != o.StartTicks || !p.Alive())
}

// Signal implements scheduler.Kernel: pid and start time are compared through a
// pidfd before the signal goes out, because pids are reused.
func (k *kernel) Signal(o *scheduler.Owner, kill bool) error {
	p := liveness.Process{PID: o.PID, StartTicks: o.StartTicks}
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	if o.PID == 0 {
		return errors.New("its process is not known")
	}
	if err := liveness.Kill(p, sig); err != nil && !errors.Is(err, liveness.ErrGone) {
		return err
	}
	return nil
}

// Hunt implements scheduler.Kernel. With the lock in hand all that bears the dead
// worker's mark goes; without it what its recorded executions started, and what
// keeps the lock without being a worker: a new incarnation may be on its way.
func (k *kernel) Hunt(o *scheduler.Owner, proven bool) (left []string, err error) {
	sweeps := []liveness.Sweep{{Mark: o.LockPath, LockDev: o.LockDev, LockIno: o.LockIno}}
	if !proven {
		sweeps = sweeps[:0]
		for _, id := range o.ExecIDs {
			sweeps = append(sweeps, liveness.Sweep{Mark: o.LockPath, Env: []string{"NIGHTSHIFT_ATTEMPT=" + strconv.FormatInt(id, 10)}})
		}
	}
	for _, s := range sweeps {
		ps, err := s.KillAll(huntLimit)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			left = append(left, p.String())
		}
	}
	if !proven {
		holders, err := k.holders(o)
		if err != nil {
			return nil, err
		}
		left = append(left, holders...)
	}
	return left, nil
}

// holders names who keeps a dead worker's lock, and kills them when they are only
// what it left behind, such as `env -i setsid program &` in a script. They are killed
// by identity: whoever takes the lock after the look is not met.
func (k *kernel) holders(o *scheduler.Owner) (names []string, err error) {
	var held *liveness.HeldError
	if err := liveness.HeldBy(o.LockPath, o.LockDev, o.LockIno); !errors.As(err, &held) {
		return nil, err
	}
	abandoned := held.Abandoned(o.WorkerID)
	for _, p := range held.Holders {
		names = append(names, p.String())
		if !abandoned {
			continue
		}
		if err := liveness.Kill(p, syscall.SIGKILL); err != nil && !errors.Is(err, liveness.ErrGone) {
			return names, err
		}
	}
	return names, nil
}
