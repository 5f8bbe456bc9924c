package night

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"sync"
	"syscall"
	"time"
)

// act is one thing that the nemesis does. run draws what it needs from the rng
// before it returns; what takes time goes on beside the next acts.
type act struct {
	name   string
	weight int
	run    func(r *rand.Rand) string // says what was done; "" when there was nothing to do it to
}

// nemesis brings the night's disasters, in an order given by the seed.
type nemesis struct {
	n       *night
	list    []act
	skipped []string

	world sync.Mutex // held by acts that take the whole system down and up
	going sync.WaitGroup

	mu    sync.Mutex
	done  map[string]int
	busy  map[string]bool
	said  string
	wrong []string
	held  map[int]bool // processes that we stopped
	cuts  int
	wish  map[string]bool // tasks that somebody may have cancelled
}

func newNemesis(n *night) *nemesis {
	m := &nemesis{n: n, done: map[string]int{}, busy: map[string]bool{}, held: map[int]bool{}, wish: map[string]bool{}}
	m.list = []act{
		{"kill script", 26, m.killScript},
		{"kill worker", 24, m.killWorker},
		{"kill supervisor", 8, m.killSupervisor},
		{"kill tree", 6, m.killTree},
		{"kill insert", 2, m.killInsert},
		{"kill all", 2, m.killAll},
		{"reboot", 1, m.reboot},
		{"stop script", 4, m.stopScript},
		{"stop worker", 6, m.stopWorker},
		{"stop supervisor", 2, m.stopSupervisor},
		{"stop writer", 3, m.stopWriter},
		{"stop in turn", 1, m.swizzle},
		{"hold database", 3, m.holdDatabase},
		{"wish", 7, m.wishFor},
		{"by hand", 3, m.byHand},
		{"empty history", 2, m.emptyHistory},
		{"reload", 3, m.reload},
		{"roll", 1, m.roll},
		{"stop gracefully", 1, m.graceful},
		{"unlink lock", 1, m.unlinkLock},
		{"clock", 3, m.moveClock},
		{"network", 2, m.cutNetwork},
		{"disk full", 2, m.fillDisk},
		{"power", 1, m.cutPower},
	}
	var err error
	if n.g.net, err = newNetwork(n.g); err != nil && n.o.Script == nil {
		m.skip(fmt.Sprintf("network in a namespace of its own (%v): the server is killed instead", err))
	}
	if n.g.mount == "" && n.o.Script == nil {
		m.skip("disk full, power cut (they need root and a loop device)")
	}
	if n.g.mount == "" {
		m.drop("disk full", "power")
	}
	if n.o.Workers == 0 {
		m.drop("kill supervisor", "stop supervisor", "roll", "stop gracefully")
	}
	if n.o.Only != nil {
		m.list = slices.DeleteFunc(m.list, func(a act) bool { return !slices.Contains(n.o.Only, a.name) })
	}
	return m
}

func (m *nemesis) skip(what string) { m.skipped = append(m.skipped, what) }

func (m *nemesis) drop(names ...string) {
	m.list = slices.DeleteFunc(m.list, func(a act) bool { return slices.Contains(names, a.name) })
}

// rage acts until the time is up.
func (m *nemesis) rage(ctx context.Context, d time.Duration, r *rand.Rand) {
	m.warmUp(ctx)
	sum := 0
	for _, a := range m.list {
		sum += a.weight
	}
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil && sum > 0; {
		at := r.IntN(sum)
		for _, a := range m.list {
			if at -= a.weight; at < 0 {
				m.perform(a, r)
				break
			}
		}
		time.Sleep(min(time.Duration(r.ExpFloat64()*float64(m.n.o.Pace)), 5*m.n.o.Pace))
	}
}

// warmUp waits until the first tasks run: before that there is nothing to kill.
func (m *nemesis) warmUp(ctx context.Context) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if m.n.eff.size() > 0 {
			return
		}
	}
}

func (m *nemesis) perform(a act, r *rand.Rand) {
	what := a.run(r)
	if what == "" {
		return
	}
	m.n.g.log("acts.log", a.name+": "+what)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[a.name]++
	m.said = a.name + " " + what[:min(len(what), 60)]
}

// beside runs f beside the next acts, one of a name at a time.
func (m *nemesis) beside(name string, f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[name] {
		return false
	}
	m.busy[name] = true
	m.going.Add(1)
	go func() {
		defer m.going.Done()
		f()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, name)
	}()
	return true
}

// calm takes the faults away.
func (m *nemesis) calm() {
	m.going.Wait()
	m.mu.Lock()
	held := m.held
	m.held = map[int]bool{}
	m.mu.Unlock()
	for pid := range held {
		m.n.g.signal(pid, syscall.SIGCONT)
	}
	if err := os.Remove(m.n.g.clockFile()); err != nil && !os.IsNotExist(err) {
		m.bad("clock not put back: %v", err)
	}
	m.n.sys.up()
}

func (m *nemesis) bad(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

func (m *nemesis) last() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said
}

func (m *nemesis) acts() int {
	n := 0
	for _, c := range m.counts() {
		n += c
	}
	return n
}

func (m *nemesis) counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(map[string]int, len(m.done))
	for k, v := range m.done {
		c[k] = v
	}
	return c
}

// cancelled reports that somebody may have asked for the task's end.
func (m *nemesis) cancelled(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wish[id]
}

// workers and scripts, in the order of their pids.
func (m *nemesis) find(want func(*process) bool) []process {
	var list []process
	for _, p := range m.n.g.processes() {
		if want(&p) && p.state != 'Z' {
			list = append(list, p)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].pid < list[j].pid })
	return list
}

// workerID of a worker process: from its environment or, started by hand, from us.
func (m *nemesis) workerID(p *process) string {
	if id := p.env["NIGHTSHIFT_WORKER_ID"]; id != "" {
		return id
	}
	for _, k := range m.n.sys.keepers {
		if k.pid() == p.pid {
			return k.name
		}
	}
	return "?"
}

// scriptsOf finds what a worker runs, by the mark.
func (m *nemesis) scriptsOf(id string) []process {
	mark := m.n.g.runDir() + "/" + id + ".lock"
	return m.find(func(p *process) bool { return p.isScript() && p.env["NIGHTSHIFT_MARK"] == mark })
}
