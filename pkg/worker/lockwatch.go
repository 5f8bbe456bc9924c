package worker

import (
	"syscall"
	"time"

	"nightshift/pkg/liveness"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// A process that is stopped inside a write transaction blocks every writer for
// ever (DESIGN §9). One of ours is killed: its tasks go on elsewhere. A stranger is
// only named; the store does that in its log.
const (
	lockLook    = 2 * time.Second
	lockPatient = 5 // looks in a row, so that our own pause counts for nothing
	lockWait    = 10 * time.Second
)

// watchWriteLock looks, while a write of ours waits, who keeps it waiting.
func (p *process) watchWriteLock(done <-chan struct{}) {
	seen := map[int]int{} // by pid: looks in a row that found it stopped with the lock
	last := p.clock.Now()
	for {
		t := p.clock.NewTimer(task.OnSecond(p.clock.Now(), lockLook))
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C():
		}
		now := p.clock.Now()
		late := now.Sub(last) > 2*lockLook // we were stopped ourselves
		last = now
		if late || p.store.WriteWait() < lockWait {
			clear(seen)
			continue
		}
		p.stoppedHolders(seen)
	}
}

func (p *process) stoppedHolders(seen map[int]int) {
	holders, err := p.store.Holders()
	if err != nil {
		p.log.Debug("holders of the write lock", "err", err)
		return
	}
	stopped := map[int]bool{}
	for _, h := range holders {
		if (h.What == "write" || h.What == "turn") && h.State == "T" {
			stopped[h.PID] = true
		}
	}
	for pid := range seen {
		if !stopped[pid] {
			delete(seen, pid)
		}
	}
	for pid := range stopped {
		if seen[pid]++; seen[pid] >= lockPatient {
			delete(seen, pid)
			p.killIfOurs(pid)
		}
	}
}

// killIfOurs kills a worker of this boot that the heartbeat rows name.
func (p *process) killIfOurs(pid int) {
	rows, err := p.store.Heartbeats()
	if err != nil {
		p.log.Debug("heartbeats", "err", err)
		return
	}
	for i := range rows {
		if !p.names(&rows[i], pid) {
			continue
		}
		p.log.Error("a worker is stopped inside a write transaction and blocks all writers: it is killed", "worker", rows[i].WorkerID, "pid", pid)
		err := liveness.Kill(liveness.Process{PID: pid, StartTicks: rows[i].StartTicks}, syscall.SIGKILL)
		if err != nil {
			p.log.Warn("it was not killed", "pid", pid, "err", err)
		}
		return
	}
}

func (p *process) names(r *store.Heartbeat, pid int) bool {
	return r.PID == pid && r.BootID == p.kernel.BootID() && r.StoppedAt.IsZero()
}
