package night

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Stage is what a script plays on: one night's system, seen and handled from
// outside.
type Stage struct{ n *night }

// Say adds a line to the story.
func (s *Stage) Say(format string, args ...any) { s.n.story.say(format, args...) }

// Out is a place for evidence that no fault touches.
func (s *Stage) Out(name string) string { return s.n.g.out(name) }

// Mount is the small disk; "" when there is none.
func (s *Stage) Mount() string { return s.n.g.mount }

// Data is the data directory.
func (s *Stage) Data() string { return s.n.g.data }

// CLI runs nightshift and returns what it printed.
func (s *Stage) CLI(args ...string) (string, error) { return s.n.g.cli(args...) }

// SQL runs a statement in the stock shell.
func (s *Stage) SQL(lines ...string) (string, error) { return s.n.g.sql(lines...) }

// Int reads a number from the database, -1 for none.
func (s *Stage) Int(query string, args ...any) int64 {
	s.n.cut.RLock()
	defer s.n.cut.RUnlock()
	var v sql.NullInt64
	if err := s.n.watch.db.QueryRow(query, args...).Scan(&v); err != nil || !v.Valid {
		return -1
	}
	return v.Int64
}

// Text reads a text from the database, "" for none.
func (s *Stage) Text(query string, args ...any) string {
	s.n.cut.RLock()
	defer s.n.cut.RUnlock()
	var v sql.NullString
	if err := s.n.watch.db.QueryRow(query, args...).Scan(&v); err != nil {
		return ""
	}
	return v.String
}

// Add inserts a task of the kind by the shell, and returns its id.
func (s *Stage) Add(kindName string) (string, error) {
	for i := range kinds {
		if kinds[i].name == kindName {
			return s.n.sub.addOne(&kinds[i])
		}
	}
	return "", fmt.Errorf("no kind %q", kindName)
}

// Wait waits for a condition.
func (s *Stage) Wait(what string, limit time.Duration, ok func() bool) error {
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %v", what, limit)
		}
	}
	return nil
}

// PID of the supervisor or of a worker started by hand; 0 when it does not run.
func (s *Stage) PID(name string) int {
	if k := s.keeper(name); k != nil {
		return k.pid()
	}
	return 0
}

// Starts is how often it was started.
func (s *Stage) Starts(name string) int {
	k := s.keeper(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.starts
}

// Want says whether it shall be up; it is not ended by this.
func (s *Stage) Want(name string, up bool) { s.keeper(name).want(up) }

// Gone waits until it has ended.
func (s *Stage) Gone(name string, limit time.Duration) bool { return s.keeper(name).wait(limit) }

func (s *Stage) keeper(name string) *keeper {
	for _, k := range s.n.sys.keepers {
		if k.name == name {
			return k
		}
	}
	return nil
}

// Workers lists the pids of all workers.
func (s *Stage) Workers() []int {
	var pids []int
	for _, p := range s.n.nem.find((*process).isWorker) {
		pids = append(pids, p.pid)
	}
	return pids
}

// Scripts lists the pids of what a worker runs, with their tasks.
func (s *Stage) Scripts(worker string) map[int]string {
	m := map[int]string{}
	for _, p := range s.n.nem.scriptsOf(worker) {
		m[p.pid] = p.env["NIGHTSHIFT_TASK_ID"]
	}
	return m
}

// Kill kills one of the night's processes and counts it.
func (s *Stage) Kill(pid int) bool {
	p := process{pid: pid}
	for _, q := range s.n.g.processes() {
		if q.pid == pid {
			p = q
		}
	}
	if p.isWorker() {
		s.n.nem.expectBack(s.n.nem.workerID(&p))
	}
	return s.n.nem.kill(&p)
}

// Signal sends another signal.
func (s *Stage) Signal(pid int, sig syscall.Signal) bool {
	if !s.n.g.signal(pid, sig) {
		return false
	}
	if sig == syscall.SIGSTOP {
		s.n.tally.stops.Add(1)
	}
	return true
}

// Stopped waits until a SIGSTOP has reached every thread: until then one of them may
// still take a lock.
func (s *Stage) Stopped(pid int, limit time.Duration) bool {
	return s.Wait("stopped", limit, func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return err == nil && len(stats) > 0 && !slices.ContainsFunc(stats, func(path string) bool {
			b, err := os.ReadFile(path)
			state := bytes.LastIndexByte(b, ')') + 2
			return err == nil && (state >= len(b) || b[state] != 'T')
		})
	}) == nil
}

// Did counts a fault under a name.
func (s *Stage) Did(name string) {
	s.n.nem.mu.Lock()
	defer s.n.nem.mu.Unlock()
	s.n.nem.done[name]++
	s.n.nem.said = name
}

// Done is how many tasks have ended.
func (s *Stage) Done() int {
	return int(s.Int("SELECT count(*) FROM tasks WHERE status IN ('SUCCESS','FAILED','DEAD','CANCELLED')"))
}

// Power cuts the power: the disk drops what is not on it, everything dies, the
// machine comes back with another boot.
func (s *Stage) Power() error { return s.n.nem.powerCut("00000000-0000-4000-8000-000000000001") }

// ReadOnly lets the file system give up, as ext4 does after an error, and repairs
// it after a while.
func (s *Stage) ReadOnly(d time.Duration) error {
	m := s.n.nem
	m.world.Lock()
	defer m.world.Unlock()
	s.n.cut.Lock()
	defer s.n.cut.Unlock()
	s.n.eff.mark("CUT")
	if out, err := run("mount", "-o", "remount,abort", s.n.g.mount); err != nil {
		return fmt.Errorf("remount,abort: %w: %s", err, out)
	}
	time.Sleep(d)
	s.n.sys.blackout(&s.n.tally)
	s.n.eff.mark("UP")
	if err := s.n.watch.detach(); err != nil {
		s.Say("reader closed: %v", err) // its disk is gone
	}
	if err := s.n.g.remount(); err != nil {
		return err
	}
	s.n.sys.up()
	return nil
}

// Died counts a process that killed itself at a failpoint.
func (s *Stage) Died() { s.n.tally.workers.Add(1) }

// HoldsDatabase reports that a process is inside a write transaction, or has the
// turn to begin one.
func (s *Stage) HoldsDatabase(pid int) bool {
	return slices.Contains(writers(), pid) || slices.Contains(flockers(s.n.g.runDir()+"/turn.lock"), pid)
}

// Reboot kills everything and starts it again under another boot. It returns how
// long it took from the start to the first step of a task.
func (s *Stage) Reboot(limit time.Duration) (time.Duration, error) {
	s.n.nem.world.Lock()
	defer s.n.nem.world.Unlock()
	s.n.sys.blackout(&s.n.tally)
	if out, err := s.n.g.sql("UPDATE worker_heartbeats SET boot_id='00000000-0000-4000-8000-000000000002'"); err != nil {
		return 0, fmt.Errorf("boot id: %w: %s", err, out)
	}
	before := s.n.eff.size()
	began := time.Now()
	s.n.sys.up()
	err := s.Wait("the first task after a reboot", limit, func() bool { return s.n.eff.size() > before })
	return time.Since(began), err
}

// Worker finds a worker's pid; 0 when it does not run.
func (s *Stage) Worker(id string) int {
	for _, p := range s.n.nem.find((*process).isWorker) {
		if s.n.nem.workerID(&p) == id {
			return p.pid
		}
	}
	return 0
}

// Restart ends the process gracefully; it is started again.
func (s *Stage) Restart(name string) error {
	k := s.keeper(name)
	k.settle()
	k.want(false)
	k.signal(syscall.SIGTERM)
	if !k.wait(time.Minute) {
		return fmt.Errorf("%s does not end within a minute of SIGTERM", name)
	}
	k.want(true)
	return nil
}

// Waiting is how many tasks of killed workers have not started again yet.
func (s *Stage) Waiting() int {
	s.n.eff.read()
	s.n.eff.mu.Lock()
	defer s.n.eff.mu.Unlock()
	return len(s.n.eff.kills)
}
