package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// machine is the simulated kernel. Nothing blocks while mu is held.
type machine struct {
	n     *night
	begin time.Time

	mu      sync.Mutex
	offset  time.Duration // of the wall clock
	highest time.Time     // the latest wall time that ever was
	jumps   int
	boots   int
	booted  time.Time
	pids    map[int]*proc
	nextPID int
	uids    int
	locks   map[string]*lockFile
	inodes  uint64
}

// pidSpace is small, so that pids are reused soon.
const pidSpace = 300

// lockFile is an inode; who holds it is told by the descriptors of processes.
type lockFile struct {
	path    string
	ino     uint64
	holders map[*proc]bool
	guarded bool // a prober has it in hand
}

// proc is a simulated process.
type proc struct {
	m      *machine
	uid    int // never reused
	kind   string
	name   string
	pid    int
	start  uint64
	parent *proc
	mark   string // the lock whose worker started it
	exec   int64  // the execution that started it; 0: none
	gone   chan struct{}

	// Guarded by m.mu:
	dead     bool
	code     int
	held     bool            // stopped
	waiting  []chan struct{} // goroutines at the gate of a stopped process, as they came
	stuck    bool            // in the kernel: a kill waits
	doomed   bool
	survives bool // its parent
	byHand   bool // a worker that bears no mark of its own: a person started it
	timers   map[*time.Timer]time.Time
	rng      *rand.Rand

	term, hup, usr2 func() // what signals do; nil: nothing, TERM kills
	bury            func() // wakes what sleeps in it, once it is dead
}

func newMachine(n *night) *machine {
	m := &machine{n: n, begin: time.Now(), pids: map[int]*proc{}, locks: map[string]*lockFile{}, inodes: 100}
	m.boot()
	return m
}

func (m *machine) boot() {
	m.boots++
	m.booted, m.nextPID = time.Now(), 2
}

// at is the time since the night began.
func (m *machine) at() time.Duration { return time.Since(m.begin) }

// now is what a process reads from the clock.
func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	wall := time.Now().Add(m.offset)
	if wall.After(m.highest) {
		m.highest = wall
	}
	return instant(wall, m.at())
}

func (m *machine) bootID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("boot-%d", m.boots)
}

// setClock moves the wall clock.
func (m *machine) setClock(offset time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offset = offset
	m.jumps++
}

// spawn makes a process. It inherits its parent's locks.
func (m *machine) spawn(kind, name string, parent *proc) *proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.pids[m.nextPID] != nil {
		m.nextPID = 2 + (m.nextPID-1)%pidSpace
	}
	m.uids++
	p := &proc{
		m: m, uid: m.uids, kind: kind, name: name, pid: m.nextPID, start: uint64(time.Since(m.booted)/(10*time.Millisecond)) + 1,
		parent: parent, gone: make(chan struct{}), timers: map[*time.Timer]time.Time{},
		rng: rand.New(rand.NewPCG(m.n.o.Seed, uint64(m.uids))),
	}
	m.n.trace("begin %s", name)
	m.pids[p.pid] = p
	m.nextPID = 2 + (m.nextPID-1)%pidSpace
	if parent != nil {
		p.mark = parent.mark
		for _, l := range m.locks {
			if l.holders[parent] {
				l.holders[p] = true
			}
		}
	}
	return p
}

// gate is where a process meets the world: a stopped one waits, a dead one ends.
func (p *proc) gate() {
	for {
		p.m.mu.Lock()
		dead, held := p.dead, p.held
		on := make(chan struct{})
		if held {
			p.waiting = append(p.waiting, on)
		}
		p.m.mu.Unlock()
		if dead {
			runtime.Goexit()
		}
		if !held {
			return
		}
		<-on
	}
}

// newTimer makes a timer of the process; its end makes it fire. lane anyLane: the
// first free one.
func (p *proc) newTimer(d time.Duration, lane int) *time.Timer {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	now := time.Now()
	if lane == anyLane {
		lane = p.freeLane(now, d)
	}
	d = place(d, lane, p.uid)
	t := time.NewTimer(d)
	if p.dead {
		t.Reset(0)
		return t
	}
	p.timers[t] = now.Add(d)
	return t
}

// freeLane finds a lane in which no other timer of the process fires at that time:
// which one it is must not depend on the order of goroutines. Old timers are dropped.
func (p *proc) freeLane(now time.Time, d time.Duration) int {
	taken := [productLanes]bool{}
	first := now.Add(place(d, 0, p.uid))
	for t, at := range p.timers {
		if at.Before(now) {
			delete(p.timers, t)
		} else if off := at.Sub(first) / grain; off >= 0 && off < productLanes {
			taken[off] = true
		}
	}
	return max(slices.Index(taken[:], false), 0)
}

func (p *proc) forget(t *time.Timer) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	delete(p.timers, t)
}

// sleep rests; a dead process does not return from it.
func (p *proc) sleep(d time.Duration) { p.rest(d, laneSleep) }

func (p *proc) rest(d time.Duration, lane int) {
	t := p.newTimer(d, lane)
	<-t.C
	p.forget(t)
	p.gate()
}

// random draws a number below n from the process's own source.
func (p *proc) random(n int64) int64 {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.rng.Int64N(max(n, 1))
}

func (p *proc) alive() bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return !p.dead
}

func (p *proc) stopped() bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.held
}

// kill is SIGKILL. Children that asked for it die with their parent.
func (m *machine) kill(p *proc) { m.end(p, 137) }

// end is the end of a process, by a signal or by its own exit.
func (m *machine) end(p *proc, code int) {
	m.mu.Lock()
	if p.dead || p.stuck {
		p.doomed = p.doomed || p.stuck
		m.mu.Unlock()
		return
	}
	p.dead, p.code = true, code
	if m.pids[p.pid] == p {
		delete(m.pids, p.pid)
	}
	for _, l := range m.locks {
		delete(l.holders, p)
	}
	for _, on := range p.waiting {
		close(on)
	}
	p.held, p.waiting = false, nil
	close(p.gone)
	for t := range p.timers {
		t.Reset(0)
	}
	bury := p.bury
	var kin []*proc
	for _, c := range m.sorted() {
		if c.parent == p && !c.survives {
			kin = append(kin, c)
		}
	}
	m.mu.Unlock()
	m.n.trace("end %s %d", p.name, code)
	if bury != nil {
		bury()
	}
	for _, c := range kin {
		m.kill(c)
	}
}

// sorted lists the living in the order of their births. mu is held.
func (m *machine) sorted() []*proc {
	all := make([]*proc, 0, len(m.pids))
	for _, p := range m.pids {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *proc) int { return a.uid - b.uid })
	return all
}

// living lists processes of some kinds; none: all.
func (m *machine) living(kinds ...string) []*proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(m.sorted(), func(p *proc) bool { return len(kinds) > 0 && !slices.Contains(kinds, p.kind) })
}

func (m *machine) stop(p *proc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.held = !p.dead
}

// cont lets a stopped process go on: its goroutines one after the other, as they
// came to the gate. Their order in one instant would be the Go scheduler's.
func (m *machine) cont(p *proc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, on := range p.waiting {
		time.AfterFunc(place(time.Duration(i)*grid, laneWake, p.uid), func() { close(on) })
	}
	p.held, p.waiting = false, nil
}

// terminate is SIGTERM; a stopped process hears it when it goes on.
func (m *machine) terminate(p *proc) {
	if p.term == nil {
		m.kill(p)
		return
	}
	p.term()
}

// wedge keeps a process in the kernel: it does nothing, and a kill waits.
func (m *machine) wedge(p *proc) {
	m.stop(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	p.stuck = !p.dead
}

func (m *machine) unwedge(p *proc) {
	m.mu.Lock()
	p.stuck = false
	doomed := p.doomed
	m.mu.Unlock()
	if doomed {
		m.kill(p)
		return
	}
	m.cont(p)
}

// reboot ends everything at once.
func (m *machine) reboot() {
	for _, p := range m.living("worker", "supervisor", "program", "grandchild", "stranger") {
		m.mu.Lock()
		p.stuck = false
		m.mu.Unlock()
		m.kill(p)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot()
}

// lock opens a lock file, makes it if need be, and takes it for p if it is free.
func (m *machine) lock(path string, p *proc) (l *lockFile, got bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l = m.locks[path]
	if l == nil {
		m.inodes++
		l = &lockFile{path: path, ino: m.inodes, holders: map[*proc]bool{}}
		m.locks[path] = l
	}
	if len(l.holders) > 0 || l.guarded || p.dead {
		return l, false
	}
	l.holders[p] = true
	return l, true
}

// closeLock gives a descriptor up.
func (m *machine) closeLock(l *lockFile, p *proc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(l.holders, p)
}

// unlink removes a lock file's name; who holds it keeps the inode.
func (m *machine) unlink(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.locks[path]; l != nil {
		m.inodes++
		delete(m.locks, path)
		m.locks[fmt.Sprintf("%s (deleted %d)", path, m.inodes)] = l
	}
}

// prey lists what bears the mark (of these executions, if any are named) or has
// the lock open; self is left out.
func (m *machine) prey(self *proc, mark string, ino uint64, execs []int64) []*proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*proc
	for _, p := range m.sorted() {
		marked := p.mark == mark && !p.byHand && (execs == nil || slices.Contains(execs, p.exec))
		holds := false
		for _, l := range m.locks {
			holds = holds || ino != 0 && l.ino == ino && l.holders[p]
		}
		if p != self && (marked || holds) {
			found = append(found, p)
		}
	}
	return found
}

// hunt kills prey and names who does not die.
func (m *machine) hunt(prey []*proc) (left []string) {
	for _, p := range prey {
		if p.kind == "stranger" {
			m.n.wrong("I2 a stranger is hunted: %s", p.name)
		}
		m.kill(p)
		if p.alive() {
			left = append(left, p.name)
		}
	}
	return left
}
