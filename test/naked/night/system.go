package night

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// system keeps the night's processes up: a supervisor, which the night restarts as
// systemd would, and workers started by hand, which it restarts itself.
type system struct {
	g       *ground
	o       Options
	keepers []*keeper
}

// keeper keeps one process up.
type keeper struct {
	name string
	args []string
	env  []string
	g    *ground

	mu     sync.Mutex
	wanted bool
	cmd    *exec.Cmd     // nil: not running
	gone   chan struct{} // closed when cmd has ended
	last   string        // how the last one ended
	starts int
	since  time.Time // the last start
}

func newSystem(g *ground, o Options) *system {
	s := &system{g: g, o: o}
	worker := []string{filepath.Join(g.bin, "worker"), "run", "--config", g.config()}
	env := append([]string{"NIGHTSHIFT_TEST_CLOCK=" + g.clockFile()}, o.Env...)
	if o.Workers > 0 {
		sup := []string{filepath.Join(g.bin, "supervisor"), "--workers", fmt.Sprint(o.Workers), "--run-dir", g.runDir(), "--"}
		// A supervisor passes no variable on that begins like ours: env(1) sets it.
		sup = append(append(sup, "/usr/bin/env"), own(env)...)
		s.keepers = append(s.keepers, &keeper{name: "supervisor", g: g, env: env, args: append(sup, worker...)})
	}
	for i := range o.Free {
		id := fmt.Sprintf("h%d", i+1)
		s.keepers = append(s.keepers, &keeper{name: id, g: g, env: env, args: append(worker[:len(worker):len(worker)], "--id", id)})
	}
	return s
}

// own are the variables that begin like Nightshift's.
func own(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return !strings.HasPrefix(v, "NIGHTSHIFT_") })
}

// supervisor is the keeper of the supervisor; nil when there is none.
func (s *system) supervisor() *keeper {
	if len(s.keepers) > 0 && s.keepers[0].name == "supervisor" {
		return s.keepers[0]
	}
	return nil
}

func (s *system) up() {
	for _, k := range s.keepers {
		k.want(true)
	}
}

// down ends everything gracefully and says what did not end as promised (I13).
func (s *system) down(limit time.Duration) []string {
	for _, k := range s.keepers {
		k.settle()
	}
	for _, k := range s.keepers {
		k.want(false)
		k.signal(syscall.SIGTERM)
	}
	deadline := time.Now().Add(limit)
	var wrong []string
	for _, k := range s.keepers {
		if !k.wait(time.Until(deadline)) {
			s.dumpStacks()
			wrong = append(wrong, fmt.Sprintf("I13 %s does not end within %v of SIGTERM", k.name, limit))
		} else if how := k.ended(); how != "exit status 0" {
			wrong = append(wrong, fmt.Sprintf("I13 %s ended with %s after SIGTERM", k.name, how))
		}
	}
	if len(wrong) > 0 {
		s.abandon()
	}
	return wrong
}

// blackout is a crash that nothing survives, not even what has left its tree and
// its environment behind.
func (s *system) blackout(t *tally) {
	s.crash(t)
	s.g.endHolders()
}

// crash kills everything at once, and waits until it is gone.
func (s *system) crash(t *tally) {
	for _, k := range s.keepers {
		k.want(false)
	}
	for range 200 {
		ps := s.g.processes()
		alive := 0
		for i := range ps {
			if ps[i].comm == "apiserver" || ps[i].state == 'Z' {
				continue
			}
			alive++
			hits := t.of(&ps[i], s)
			if s.g.signal(ps[i].pid, syscall.SIGKILL) {
				hits.Add(1)
			}
		}
		if alive == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, k := range s.keepers {
		k.wait(10 * time.Second)
	}
}

// of is the count of what p is. To be asked before p is killed: its keeper forgets it then.
func (t *tally) of(p *process, s *system) *atomic.Int64 {
	switch {
	case p.isScript():
		return &t.scripts
	case p.isWorker():
		return &t.workers
	case s.supervisor() != nil && s.supervisor().pid() == p.pid:
		return &t.supervisors
	default:
		return &t.others
	}
}

// abandon leaves nothing running, whatever happened.
func (s *system) abandon() {
	var t tally
	s.blackout(&t)
}

// dumpStacks makes every worker write its goroutines to its log before it is
// killed: the evidence of a hang.
func (s *system) dumpStacks() {
	ps := s.g.processes()
	for i := range ps {
		if ps[i].comm == "worker" || ps[i].comm == "supervisor" {
			s.g.signal(ps[i].pid, syscall.SIGCONT)
			s.g.signal(ps[i].pid, syscall.SIGQUIT)
		}
	}
	time.Sleep(time.Second)
}

// want says whether the process shall be up.
func (k *keeper) want(up bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = up
	if up && k.cmd == nil {
		k.start()
	}
}

// start needs mu.
func (k *keeper) start() {
	cmd := exec.Command(k.args[0], k.args[1:]...)
	cmd.Env = append(os.Environ(), "NAKED="+k.g.root)
	cmd.Env = append(cmd.Env, k.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is the night's own
	log, err := os.OpenFile(k.g.out(k.name+".log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic("night: log of " + k.name + ": " + err.Error())
	}
	defer log.Close() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		k.last = err.Error()
		k.again(cmd)
		return
	}
	k.starts++
	k.since = time.Now()
	k.cmd, k.gone = cmd, make(chan struct{})
	go k.watch(cmd, k.gone)
}

func (k *keeper) watch(cmd *exec.Cmd, gone chan struct{}) {
	err := cmd.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = "exit status 0"
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		k.last = exit.Error()
	case err != nil:
		k.last = err.Error()
	}
	k.cmd = nil
	close(gone)
	k.again(cmd)
}

// again restarts what shall be up, not faster than a service manager would.
func (k *keeper) again(*exec.Cmd) {
	if !k.wanted {
		return
	}
	time.AfterFunc(50*time.Millisecond, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.wanted && k.cmd == nil {
			k.start()
		}
	})
}

// wait waits until the process is not running.
func (k *keeper) wait(limit time.Duration) bool {
	k.mu.Lock()
	gone := k.gone
	running := k.cmd != nil
	k.mu.Unlock()
	if !running {
		return true
	}
	select {
	case <-gone:
		return true
	case <-time.After(max(limit, 0)):
		return false
	}
}

// settle waits until the process is up and has set up its signals: one that has not dies
// of TERM like any program, and so, to all appearance, does one that was just killed.
func (k *keeper) settle() {
	for deadline := time.Now().Add(30 * time.Second); !k.settled() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}

func (k *keeper) settled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.wanted {
		return true
	}
	if k.cmd == nil || time.Since(k.since) < 2*time.Second {
		return false
	}
	p := process{pid: k.cmd.Process.Pid}
	return p.readStat() && p.state != 'Z'
}

// noticed waits until the keeper of a process that was killed knows of it.
func (s *system) noticed(pid int) {
	for _, k := range s.keepers {
		if k.pid() == pid {
			k.wait(2 * time.Second)
		}
	}
}

func (k *keeper) ended() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil || k.cmd.Process == nil {
		return 0
	}
	return k.cmd.Process.Pid
}

func (k *keeper) signal(sig syscall.Signal) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cmd != nil && k.cmd.Process != nil && k.cmd.Process.Signal(sig) == nil
}
