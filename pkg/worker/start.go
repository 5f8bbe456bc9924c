package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/liveness"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// workerIDs become file names and parts of executor ids (w1.2), so they are
// plain words without a dot.
var workerIDs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

func checkWorkerID(id string) error {
	if !workerIDs().MatchString(id) {
		return fmt.Errorf("worker id %q is not of the form [A-Za-z0-9_-]{1,64}; choose one such as w1", id)
	}
	return nil
}

// lockPath is where this worker's lock lies.
func (p *process) lockPath() string {
	return filepath.Join(runDir(p.config().DataDir), p.id+".lock")
}

// takeLock gets the lock that proves this worker's life to others: from the
// supervisor, or by itself. Who cannot have it is the second of its name.
func (p *process) takeLock() error {
	path := p.lockPath()
	if text, ok := os.LookupEnv("NIGHTSHIFT_LOCK_FD"); ok {
		fd, err := strconv.Atoi(text)
		if err != nil || fd < 3 {
			return exit(ExitUsage, "NIGHTSHIFT_LOCK_FD is %q, not a descriptor's number", text)
		}
		if p.lock, err = liveness.Inherit(uintptr(fd), path); err != nil {
			return exit(ExitConfig, "slot lock passed by the supervisor: %w", err)
		}
		return nil
	}
	for tried := false; ; tried = true {
		var err error
		if p.lock, err = liveness.Acquire(path); err == nil {
			return nil
		}
		var held *liveness.HeldError
		if !errors.As(err, &held) {
			return exit(ExitTempFail, "lock of worker %s: %w", p.id, err)
		}
		if tried || !held.Abandoned(p.id) {
			return exit(ExitConfig, "worker id %s is taken: %w; stop that one, or start this one with another --id", p.id, held)
		}
		// The worker that held it is dead; what it left behind keeps the descriptor.
		p.log.Warn("an earlier life of this worker left processes behind", "worker", p.id, "holders", held.Error())
		if err := p.mustDie(p.sweepOf(path)); err != nil {
			return err
		}
	}
}

// leftoverWait bounds the hunt for what an earlier life left behind: SIGKILL
// works at once on everything that is not stuck in the kernel.
const leftoverWait = 5 * time.Second

// sweepOf is sweep for a lock that somebody else holds.
func (p *process) sweepOf(path string) liveness.Sweep {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return p.sweep(0, 0) // the file is gone: the mark alone
	}
	return p.sweep(uint64(st.Dev), uint64(st.Ino))
}

// sweep finds what belongs to this worker's earlier lives.
func (p *process) sweep(dev, ino uint64) liveness.Sweep {
	return liveness.Sweep{Mark: p.lockPath(), LockDev: dev, LockIno: ino}
}

// openStore opens the database, which `db init` has made: a worker that made
// one by itself would start an empty queue on a volume that is not mounted yet.
func (p *process) openStore() error {
	cfg := p.config()
	s, err := store.Open(store.Options{
		Path: cfg.Database(), RunDir: cfg.RunDir(), Ballast: filepath.Join(cfg.DataDir, "ballast"),
		Logger: p.log.Named("store"), Clock: p.clock.Now,
	})
	if err != nil {
		return exit(store.ExitCode(err), "%w", err)
	}
	p.store = s
	p.hooksFor(cfg)
	return nil
}

func (p *process) closeStore() {
	if err := p.store.Close(); err != nil {
		p.log.Warn("database not closed cleanly", "err", err)
	}
}

// secondOfItsName names the live worker of this id, which has another lock (the
// run directories differ) and writes this log file.
func (p *process) secondOfItsName(held error) error {
	if err := p.openStore(); err != nil {
		return exit(ExitConfig, "%w", held)
	}
	defer p.closeStore()
	if err := p.clearOldLife(); err != nil {
		return err
	}
	return exit(ExitConfig, "%w", held)
}

// clearOldLife proves that nothing of an earlier life of this worker runs, be it
// under this lock or, where the data or run directory was moved, under the one
// that the heartbeat row names.
func (p *process) clearOldLife() error {
	rows, err := p.store.Heartbeats()
	if err != nil {
		return exit(store.ExitCode(err), "heartbeats: %w", err)
	}
	for i := range rows {
		if id, _, _ := strings.Cut(rows[i].WorkerID, "."); id == p.id {
			if err := p.clearRecorded(&rows[i]); err != nil {
				return err
			}
		}
	}
	dev, ino := p.lock.Inode()
	return p.mustDie(p.sweep(dev, ino))
}

// clearRecorded deals with the process that the row names: another live worker
// of this id elsewhere keeps it; a dead one's leftovers are killed.
func (p *process) clearRecorded(r *store.Heartbeat) error {
	boot, err := liveness.BootID()
	if err != nil {
		return exit(ExitSoftware, "boot id: %w", err)
	}
	if r.PID == os.Getpid() && r.StartTicks == liveness.Self().StartTicks && r.BootID == boot {
		return nil
	}
	if r.BootID != boot {
		return p.otherBoot(r)
	}
	old, err := liveness.ReadProcess(r.PID)
	alive := err == nil && old.StartTicks == r.StartTicks && old.State != 'Z'
	if alive && r.StoppedAt.IsZero() {
		return exit(ExitConfig, "worker id %s is taken: pid %d has it since %s, with the lock %s; stop that one, or start this one with another --id",
			p.id, r.PID, task.FormatTime(r.StartedAt), r.LockPath)
	}
	if r.LockPath == "" || r.LockPath == p.lock.Path() {
		return nil
	}
	s := liveness.Sweep{Mark: r.LockPath, LockDev: r.LockDev, LockIno: r.LockIno}
	return p.mustDie(s)
}

// otherBoot: nothing of another boot runs, unless we or it are in a container
// that is shown another boot id: a lock that is held says so.
func (p *process) otherBoot(r *store.Heartbeat) error {
	if r.LockPath == "" || r.LockPath == p.lock.Path() {
		return nil // it is the lock that we hold
	}
	proof, err := liveness.ProbeLock(r.LockPath, r.LockDev, r.LockIno)
	if err != nil {
		return exit(ExitTempFail, "lock of an earlier life of worker %s: %w", p.id, err)
	}
	proof.Guard.Close()
	if proof.Outcome == liveness.Held {
		return exit(ExitConfig, "worker id %s is taken: its lock %s is held; stop that one, or start this one with another --id", p.id, r.LockPath)
	}
	return nil
}

// mustDie kills what a sweep finds. Where something stays (stuck in the kernel),
// this start ends and the supervisor tries again: its tasks wait meanwhile.
func (p *process) mustDie(s liveness.Sweep) error {
	left, err := s.KillAll(leftoverWait)
	if err != nil {
		return exit(ExitTempFail, "looking for processes of an earlier life of worker %s: %w", p.id, err)
	}
	if len(left) > 0 {
		return exit(ExitTempFail, "processes of an earlier life of worker %s do not end: %v; its tasks wait until they have", p.id, left)
	}
	return nil
}

// recover takes back what is this worker's own, in one transaction, before
// anything is claimed (seed §4.4), and registers this life.
func (p *process) recover() (*scheduler.Settings, []store.Heartbeat, []task.Task, error) {
	cfg := p.config()
	if err := p.makeMeans(); err != nil {
		return nil, nil, nil, &exitError{ExitSoftware, err}
	}
	set, err := p.settings(cfg)
	if err != nil {
		return nil, nil, nil, &exitError{ExitConfig, err}
	}
	now := p.clock.Now()
	rows := p.heartbeatRows(now)
	got, err := p.store.Recover(store.RecoverRequest{
		Worker: p.id, Executors: p.slots, BootID: p.kernel.BootID(), Now: now,
		Types: set.Rules, Backoff: set.Backoff, Rand: random, NoTimeoutLease: set.NoTimeoutLease(),
		MaxCrashes: cfg.Retry.MaxCrashes, MaxExecutions: cfg.Retry.MaxExecutions,
		// In the same transaction: a neighbour that sees the resumed rows sees this life too.
		Register: rows,
	})
	if err != nil {
		return nil, nil, nil, exit(store.ExitCode(err), "recovery: %w", err)
	}
	p.log.Info("recovered", "worker", p.id, "resumed", len(got.Resume), "pending", got.Requeued,
		"retrying", got.Expired, "dead", got.Dead, "cancelled", got.Cancelled, "paused", got.Paused)
	return set, rows, got.Resume, nil
}
