package sim

import (
	"nightshift/pkg/scheduler"
)

// view is the kernel as a worker's warden asks it; it implements scheduler.Kernel.
type view struct{ w *worker }

// BootID implements scheduler.Kernel.
func (v view) BootID() string {
	v.w.p.gate()
	return v.w.n.m.bootID()
}

// Probe implements scheduler.Kernel.
func (v view) Probe(o *scheduler.Owner) (scheduler.Proof, scheduler.Guard, error) {
	v.w.p.gate()
	m := v.w.n.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.LockPath == "" {
		o.LockPath = lockPath(o.WorkerID)
	}
	l := m.locks[o.LockPath]
	switch {
	case v.w.n.o.Break == LyingLock:
		return scheduler.Free, nil, nil
	case l == nil || l.ino != o.LockIno:
		return scheduler.Unproven, nil, nil
	case len(l.holders) > 0 || l.guarded:
		return scheduler.Held, nil, nil
	}
	l.guarded = true
	return scheduler.Free, guard{m, l}, nil
}

type guard struct {
	m *machine
	l *lockFile
}

// Close implements scheduler.Guard.
func (g guard) Close() {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	g.l.guarded = false
}

// runs reports that a process with this pid, start and boot lives.
func (m *machine) runs(pid int, start uint64, boot string) bool {
	if boot != m.bootID() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pids[pid]
	return p != nil && p.start == start
}

// Gone implements scheduler.Kernel.
func (v view) Gone(o *scheduler.Owner) bool {
	v.w.p.gate()
	return o.PID != 0 && !v.w.n.m.runs(o.PID, o.StartTicks, v.w.n.m.bootID())
}

// Signal implements scheduler.Kernel.
func (v view) Signal(o *scheduler.Owner, kill bool) error {
	v.w.p.gate()
	m := v.w.n.m
	if !m.runs(o.PID, o.StartTicks, m.bootID()) {
		return nil
	}
	m.mu.Lock()
	p := m.pids[o.PID]
	m.mu.Unlock()
	if p.kind != "worker" {
		m.n.wrong("I2 a warden signals %s", p.name)
	}
	m.n.tally("overrun workers signalled", 1)
	if kill {
		m.kill(p)
	} else {
		m.terminate(p)
	}
	return nil
}

// Hunt implements scheduler.Kernel.
func (v view) Hunt(o *scheduler.Owner, proven bool) (left []string, err error) {
	v.w.p.gate()
	m := v.w.n.m
	if b := v.w.n.o.Break; b == LyingLock || b == LazyHunt {
		return nil, nil
	}
	if proven {
		return m.hunt(m.prey(v.w.p, o.LockPath, o.LockIno, nil)), nil
	}
	left = m.hunt(m.prey(v.w.p, o.LockPath, 0, append([]int64{}, o.ExecIDs...)))
	for _, p := range m.prey(v.w.p, "", o.LockIno, []int64{-1}) {
		left = append(left, p.name)
	}
	return left, nil
}
