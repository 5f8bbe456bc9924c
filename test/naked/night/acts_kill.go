package night

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

func (m *nemesis) killScript(r *rand.Rand) string {
	ps := m.find((*process).isScript)
	x := r.Uint64()
	if len(ps) == 0 {
		return ""
	}
	p := &ps[x%uint64(len(ps))]
	if !m.kill(p) {
		return ""
	}
	return fmt.Sprintf("%d of %s", p.pid, p.env["NIGHTSHIFT_TASK_ID"])
}

func (m *nemesis) kill(p *process) bool {
	hits := m.n.tally.of(p, m.n.sys)
	if !m.n.g.signal(p.pid, syscall.SIGKILL) {
		return false
	}
	hits.Add(1)
	m.n.sys.noticed(p.pid)
	return true
}

func (m *nemesis) killWorker(r *rand.Rand) string {
	p := m.pickWorker(r)
	if p == nil {
		return ""
	}
	id := m.workerID(p)
	m.expectBack(id)
	if !m.kill(p) {
		return ""
	}
	return fmt.Sprintf("%d (%s)", p.pid, id)
}

func (m *nemesis) pickWorker(r *rand.Rand) *process {
	ps := m.find((*process).isWorker)
	x := r.Uint64()
	if len(ps) == 0 {
		return nil
	}
	return &ps[x%uint64(len(ps))]
}

// expectBack begins to time how long the tasks of a worker are away.
func (m *nemesis) expectBack(id string) {
	var tasks []string
	for _, s := range m.scriptsOf(id) {
		tasks = append(tasks, s.env["NIGHTSHIFT_TASK_ID"])
	}
	m.n.eff.killed(monotonic(), tasks)
}

func (m *nemesis) killSupervisor(*rand.Rand) string {
	p := process{pid: m.n.sys.supervisor().pid()}
	if p.pid == 0 || !m.kill(&p) {
		return ""
	}
	return fmt.Sprint(p.pid)
}

// killTree kills a worker and all that it runs.
func (m *nemesis) killTree(r *rand.Rand) string {
	p := m.pickWorker(r)
	if p == nil {
		return ""
	}
	id := m.workerID(p)
	scripts := m.scriptsOf(id)
	m.expectBack(id)
	if !m.kill(p) {
		return ""
	}
	for i := range scripts {
		m.kill(&scripts[i])
	}
	return fmt.Sprintf("%d (%s) and %d scripts", p.pid, id, len(scripts))
}

func (m *nemesis) killInsert(*rand.Rand) string {
	if !m.n.sub.disturb() {
		return ""
	}
	m.n.tally.others.Add(1)
	return "the client"
}

// killAll kills everything at once, and starts it again.
func (m *nemesis) killAll(*rand.Rand) string {
	m.world.Lock()
	defer m.world.Unlock()
	m.n.sys.crash(&m.n.tally)
	m.n.sys.up()
	return "supervisor, workers, scripts"
}

// reboot: all pids are gone, and the boot is another one.
func (m *nemesis) reboot(r *rand.Rand) string {
	boot := fmt.Sprintf("00000000-0000-4000-8000-%012x", r.Uint64()>>16)
	m.world.Lock()
	defer m.world.Unlock()
	m.n.sys.blackout(&m.n.tally)
	m.n.cut.RLock()
	defer m.n.cut.RUnlock()
	if out, err := m.n.g.sql("UPDATE worker_heartbeats SET boot_id='" + boot + "'"); err != nil {
		m.n.g.log("acts.log", "boot id not changed: "+out) // a full disk: then it was only a crash
	}
	m.n.sys.up()
	return boot
}

func (m *nemesis) graceful(*rand.Rand) string {
	k := m.n.sys.supervisor()
	if !m.beside("graceful", func() {
		m.world.Lock()
		defer m.world.Unlock()
		k.want(false)
		k.signal(syscall.SIGTERM)
		if !k.wait(60 * time.Second) {
			m.bad("I13 the supervisor does not end within a minute of SIGTERM")
		}
		k.want(true)
	}) {
		return ""
	}
	return "the supervisor"
}

func (m *nemesis) roll(*rand.Rand) string {
	if !m.n.sys.supervisor().signal(syscall.SIGUSR1) {
		return ""
	}
	return "the workers"
}
