package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// faultEvery is the mean time between two faults.
const faultEvery = 55 * time.Second

// nemesis does harm. It is the one goroutine that draws from its source.
type nemesis struct {
	n   *night
	u   *users
	rnd *rand.Rand
	end time.Duration
}

// act is a kind of fault. It reports whether it took place.
type act struct {
	name   string
	weight int
	do     func(m *nemesis) bool
}

var acts = []act{
	{"worker killed", 10, (*nemesis).killWorker},
	{"trap before a write", 3, func(m *nemesis) bool { return m.trapWorker("worker killed before a write", queued) }},
	{"trap inside a write", 4, func(m *nemesis) bool { return m.trapWorker("worker killed inside a write", inside) }},
	{"trap behind a COMMIT", 5, func(m *nemesis) bool { return m.trapWorker("worker killed behind a COMMIT", answered) }},
	{"worker stopped for seconds", 5, func(m *nemesis) bool { return m.stopWorker(m.span(time.Second, 25*time.Second)) }},
	{"worker stopped for minutes", 3, func(m *nemesis) bool { return m.stopWorker(m.span(time.Minute, 25*time.Minute)) }},
	{"trap to stop in", 2, (*nemesis).stopInside},
	{"worker and supervisor stopped", 2, (*nemesis).stopBoth},
	{"worker told to end", 3, (*nemesis).termWorker},
	{"supervisor killed", 4, (*nemesis).killSupervisor},
	{"supervisor stopped", 2, (*nemesis).stopSupervisor},
	{"supervisor and worker killed", 2, func(m *nemesis) bool { return m.killWorker() && m.killSupervisor() }},
	{"reboot", 2, (*nemesis).reboot},
	{"clock set by seconds", 4, func(m *nemesis) bool { return m.clock(time.Minute) }},
	{"clock set by hours", 3, func(m *nemesis) bool { return m.clock(5 * time.Hour) }},
	{"clock set by years", 1, func(m *nemesis) bool { return m.clock(3 * 365 * 24 * time.Hour) }},
	{"disk full", 3, func(m *nemesis) bool { return m.disk(full) }},
	{"I/O errors", 3, func(m *nemesis) bool { return m.disk(failing) }},
	{"slow disk", 2, func(m *nemesis) bool { return m.disk(slow) }},
	{"a stranger's write lock", 3, (*nemesis).stranger},
	{"program killed", 5, func(m *nemesis) bool { return m.killOne("program") }},
	{"program stopped", 3, (*nemesis).stopProgram},
	{"program stuck in the kernel", 3, (*nemesis).wedgeProgram},
	{"leftover's worker killed", 4, (*nemesis).orphan},
	{"lock file removed", 1, (*nemesis).unlink},
	{"pid reused by a stranger", 4, (*nemesis).reusePID},
	{"configuration re-read", 3, (*nemesis).reload},
	{"rolling restart", 2, (*nemesis).roll},
	{"operator's drain", 1, (*nemesis).drain},
}

// rage does harm for the night's hours.
func (n *night) rage(u *users) {
	m := &nemesis{n: n, u: u, rnd: rand.New(rand.NewPCG(n.o.Seed, 0)), end: time.Duration(n.o.Hours * float64(time.Hour))}
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	for {
		wait := time.Duration(-math.Log(1-m.rnd.Float64()) * float64(faultEvery))
		if n.m.at()+wait >= m.end {
			time.Sleep(m.end - n.m.at())
			return
		}
		time.Sleep(place(wait, lanes-1, grain-1))
		k := m.rnd.IntN(sum)
		for _, a := range acts {
			if k -= a.weight; k < 0 {
				if a.do(m) {
					n.fault(a.name)
				}
				break
			}
		}
	}
}

func (m *nemesis) span(from, to time.Duration) time.Duration {
	return from + time.Duration(m.rnd.Int64N(int64(to-from)))
}

// one picks a living process.
func (m *nemesis) one(kinds ...string) *proc {
	all := m.n.m.living(kinds...)
	if len(all) == 0 {
		return nil
	}
	return all[m.rnd.IntN(len(all))]
}

func (m *nemesis) killOne(kinds ...string) bool {
	p := m.one(kinds...)
	if p == nil {
		return false
	}
	m.n.m.kill(p)
	return true
}

func (m *nemesis) killWorker() bool { return m.killOne("worker") }

// trapWorker kills a worker at a place of its next write.
func (m *nemesis) trapWorker(fault, at string) bool { return m.trap(fault, at, m.n.m.kill) }

// trap waits for a worker's next write. It is a fault only once it springs.
func (m *nemesis) trap(fault, at string, spring func(p *proc)) bool {
	p := m.one("worker")
	if p == nil {
		return false
	}
	d := m.n.db
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trap = &trap{p: p, at: at, spring: func(p *proc) {
		m.n.fault(fault)
		spring(p)
	}}
	return false
}

// holdUp stops a process and lets it go on after d.
func (m *nemesis) holdUp(p *proc, d time.Duration) {
	m.n.m.stop(p)
	m.n.after(d, func() { m.n.m.cont(p) })
}

func (m *nemesis) stopWorker(d time.Duration) bool {
	p := m.one("worker")
	if p != nil {
		m.holdUp(p, d)
	}
	return p != nil
}

func (m *nemesis) stopInside() bool {
	d := m.span(time.Second, 5*time.Minute)
	return m.trap("worker stopped inside a write", inside, func(p *proc) { m.holdUp(p, d) })
}

func (m *nemesis) stopBoth() bool {
	s, w := m.one("supervisor"), m.one("worker")
	if s == nil || w == nil {
		return false
	}
	d := m.span(time.Minute, 25*time.Minute)
	m.holdUp(w, d)
	m.holdUp(s, d+m.span(0, time.Minute))
	return true
}

func (m *nemesis) termWorker() bool {
	p := m.one("worker")
	if p != nil {
		m.n.m.terminate(p)
	}
	return p != nil
}

func (m *nemesis) killSupervisor() bool { return m.killOne("supervisor") }

func (m *nemesis) stopSupervisor() bool {
	p := m.one("supervisor")
	if p != nil {
		m.holdUp(p, m.span(time.Second, 10*time.Minute))
	}
	return p != nil
}

func (m *nemesis) reboot() bool {
	m.n.eff.reboot()
	m.n.m.reboot()
	return true
}

// clock sets the wall clock. A large step is taken back after a while, as people
// do: what is added meanwhile is due when the clock says so again.
func (m *nemesis) clock(most time.Duration) bool {
	by := time.Duration(m.rnd.Int64N(2*int64(most))) - most
	m.n.m.mu.Lock()
	now := m.n.m.offset
	m.n.m.mu.Unlock()
	m.n.m.setClock(now + by)
	if most > time.Minute {
		m.n.after(m.span(time.Second, 4*time.Minute), func() {
			if m.n.raging() {
				m.n.m.setClock(now)
			}
		})
	}
	return true
}

func (m *nemesis) disk(t trouble) bool {
	if m.n.db.ailment() != healthy {
		return false
	}
	m.n.db.setTrouble(t)
	m.n.after(m.span(time.Second, 4*time.Minute), func() { m.n.db.setTrouble(healthy) })
	return true
}

// stranger keeps the write lock: a shell with a forgotten BEGIN IMMEDIATE.
func (m *nemesis) stranger() bool {
	p := m.n.m.spawn("stranger", "a stranger's shell", nil)
	d := m.span(time.Second, 5*time.Minute)
	go func() {
		if !m.n.db.acquire(p, 0) {
			return
		}
		defer m.n.db.release()
		p.sleep(d)
		m.n.m.end(p, 0)
	}()
	return true
}

func (m *nemesis) stopProgram() bool {
	p := m.one("program")
	if p != nil {
		m.holdUp(p, m.span(time.Second, 8*time.Minute))
	}
	return p != nil
}

func (m *nemesis) wedgeProgram() bool {
	p := m.one("program", "grandchild")
	if p == nil {
		return false
	}
	m.n.m.wedge(p)
	m.n.after(m.span(time.Second, 8*time.Minute), func() { m.n.m.unwedge(p) })
	return true
}

// orphan kills a worker whose program lives on.
func (m *nemesis) orphan() bool {
	c := m.one("program", "grandchild")
	if c == nil || c.parent == nil {
		return false
	}
	w := c.parent
	if w.kind == "program" {
		w = w.parent
	}
	if !w.alive() {
		return false
	}
	m.n.m.mu.Lock()
	c.survives = true
	m.n.m.mu.Unlock()
	m.n.m.kill(w)
	return true
}

// unlink removes a lock file, as a cleaner of temporary files does.
func (m *nemesis) unlink() bool {
	p := m.one("worker")
	if p != nil {
		m.n.m.unlink(p.mark)
	}
	return p != nil
}

// reusePID kills a worker and gives its pid to a stranger.
func (m *nemesis) reusePID() bool {
	p := m.one("worker")
	if p == nil {
		return false
	}
	m.n.m.kill(p)
	m.n.m.mu.Lock()
	m.n.m.nextPID = p.pid
	m.n.m.mu.Unlock()
	s := m.n.m.spawn("stranger", "a stranger with a worker's pid", nil)
	m.n.after(m.span(time.Second, 20*time.Minute), func() { m.n.m.kill(s) })
	return true
}

func (m *nemesis) reload() bool {
	m.n.mu.Lock()
	m.n.programLimit = 1 + m.rnd.IntN(3)
	m.n.mu.Unlock()
	for _, p := range m.n.m.living("worker") {
		p.hup()
	}
	return true
}

func (m *nemesis) roll() bool {
	if m.one("supervisor") == nil {
		return false
	}
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	m.n.sup.usr1.Store(true)
	return true
}

func (m *nemesis) drain() bool {
	on := m.rnd.IntN(2) == 0
	m.n.after(0, func() { m.u.drain(on && m.n.raging()) })
	if on {
		m.n.after(m.span(time.Second, 5*time.Minute), func() { m.u.drain(false) })
	}
	return true
}
