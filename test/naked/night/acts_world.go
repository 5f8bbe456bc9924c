package night

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// holdDatabase is a stranger with a forgotten BEGIN in a terminal.
func (m *nemesis) holdDatabase(r *rand.Rand) string {
	d := between(r, 300*time.Millisecond, 5*time.Second)
	if !m.beside("hold", func() {
		m.n.cut.RLock()
		defer m.n.cut.RUnlock()
		// It may not get the lock in time, and a full disk may refuse it.
		_, _ = m.n.g.sql("BEGIN IMMEDIATE", fmt.Sprintf(".shell sleep %.2f", d.Seconds()), "COMMIT")
	}) {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// wishFor asks for a task's end, pause or resumption, by the command or by SQL.
func (m *nemesis) wishFor(r *rand.Rand) string {
	ids := m.n.watch.some()
	x, what, byCLI := r.Uint64(), r.IntN(10), r.IntN(2) == 0
	if len(ids) == 0 {
		return ""
	}
	id := ids[x%uint64(len(ids))]
	control, verb := "pause", []string{"pause"}
	switch {
	case what < 1:
		control, verb = "kill", []string{"cancel", "--now"}
	case what < 3:
		control, verb = "cancel", []string{"cancel"}
	case what < 6:
		control, verb = "resume", []string{"resume"}
	}
	if control == "kill" || control == "cancel" {
		m.mu.Lock()
		m.wish[id] = true
		m.mu.Unlock()
	}
	if !m.beside("wish", func() {
		m.n.cut.RLock()
		defer m.n.cut.RUnlock()
		// Both may be refused: the task may have ended, a cancel may have been asked for, the disk may be full.
		if byCLI {
			_, _ = m.n.g.cli(append(verb, id)...)
			return
		}
		_, _ = m.n.g.sql(fmt.Sprintf("UPDATE tasks SET control='%s' WHERE task_id='%s'", control, id))
	}) {
		return ""
	}
	return control + " " + id
}

// forbidden are statements that change nothing, whoever tries them (I10).
var forbidden = []string{
	"UPDATE tasks SET status='SUCCESS' WHERE status='RUNNING'",
	"UPDATE tasks SET status='PENDING' WHERE status='RUNNING'",
	"UPDATE tasks SET status='RUNNING' WHERE status='PENDING'",
	"UPDATE tasks SET status='PENDING', reason='takeover' WHERE status='SUCCESS'",
	"DELETE FROM tasks WHERE status='RUNNING'",
	"UPDATE tasks SET exec_id=exec_id-1 WHERE status='RUNNING'",
	"UPDATE tasks SET executor_id='thief' WHERE status='RUNNING'",
	"INSERT OR REPLACE INTO tasks(task_id,task_type) SELECT task_id,'witness' FROM tasks WHERE status='RUNNING' LIMIT 1",
}

func (m *nemesis) byHand(r *rand.Rand) string {
	s := forbidden[r.IntN(len(forbidden))]
	if !m.beside("by hand", func() {
		m.n.cut.RLock()
		defer m.n.cut.RUnlock()
		out, err := m.n.g.sql(s + "; SELECT 'changed', changes()")
		if err == nil && !strings.HasSuffix(out, "changed|0") {
			m.bad("I10 not refused: %s: %s", s, out)
		}
	}) {
		return ""
	}
	return s
}

// emptyHistory moves away what is for people only; nothing may depend on it.
func (m *nemesis) emptyHistory(*rand.Rand) string {
	if !m.beside("empty history", func() {
		m.n.cut.RLock()
		defer m.n.cut.RUnlock()
		out, err := m.n.g.sql(fmt.Sprintf(`ATTACH '%s' AS kept;
			CREATE TABLE IF NOT EXISTS kept.task_events (n INTEGER PRIMARY KEY, task_id, from_status, to_status, reason, executor_id, exec_id, at);
			BEGIN IMMEDIATE;
			INSERT INTO kept.task_events (task_id, from_status, to_status, reason, executor_id, exec_id, at)
			  SELECT task_id, from_status, to_status, reason, executor_id, exec_id, at FROM main.task_events ORDER BY event_id;
			DELETE FROM main.task_events; DELETE FROM main.exec_history; COMMIT`, m.n.g.out("kept.db")))
		if err != nil {
			m.n.g.log("acts.log", "history not emptied: "+out) // held, or the disk is full
		}
	}) {
		return ""
	}
	return "exec_history, task_events"
}

func (m *nemesis) reload(r *rand.Rand) string {
	level := []string{"info", "debug"}[r.IntN(2)]
	if err := m.n.g.writeConfig(level); err != nil {
		m.bad("configuration: %v", err)
	}
	for _, k := range m.n.sys.keepers {
		k.signal(syscall.SIGHUP)
	}
	return "log level " + level
}

// unlinkLock does what a cleaner of temporary files does.
func (m *nemesis) unlinkLock(r *rand.Rand) string {
	locks, err := filepath.Glob(filepath.Join(m.n.g.runDir(), "[wh]*.lock"))
	x := r.Uint64()
	if err != nil || len(locks) == 0 {
		return ""
	}
	lock := locks[x%uint64(len(locks))]
	if os.Remove(lock) != nil {
		return ""
	}
	return filepath.Base(lock)
}

// moveClock sets the workers' wall clock for a while, several times in a row.
func (m *nemesis) moveClock(r *rand.Rand) string {
	jumps := []int64{3600, -3600, 86400, -86400, 10 * 365 * 86400, 59, -59}
	var by []int64
	var wait []time.Duration
	for range 1 + r.IntN(4) {
		by = append(by, jumps[r.IntN(len(jumps))])
		wait = append(wait, between(r, 50*time.Millisecond, 1500*time.Millisecond))
	}
	if !m.beside("clock", func() {
		for i := range by {
			if err := os.WriteFile(m.n.g.clockFile(), fmt.Appendf(nil, "%d", by[i]), 0o600); err != nil {
				m.bad("clock: %v", err)
			}
			time.Sleep(wait[i])
		}
		if err := os.Remove(m.n.g.clockFile()); err != nil {
			m.bad("clock: %v", err)
		}
	}) {
		return ""
	}
	return fmt.Sprintf("%+d s", by)
}

func (m *nemesis) cutNetwork(r *rand.Rand) string {
	d := between(r, 200*time.Millisecond, 4*time.Second)
	if !m.beside("network", func() {
		if err := m.n.g.net.cut(); err != nil {
			m.bad("network: %v", err)
		}
		time.Sleep(d)
		if err := m.n.g.net.mend(); err != nil {
			m.bad("network: %v", err)
		}
	}) {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// fillDisk takes the last byte of the disk, and gives it back.
func (m *nemesis) fillDisk(r *rand.Rand) string {
	d := between(r, 300*time.Millisecond, 4*time.Second)
	if !m.beside("disk full", func() {
		m.n.cut.RLock()
		defer m.n.cut.RUnlock()
		path := filepath.Join(m.n.g.mount, "filler")
		if err := Fill(path); err != nil {
			m.bad("disk full: %v", err)
		}
		time.Sleep(d)
		if err := os.Remove(path); err != nil {
			m.bad("disk full: %v", err)
		}
	}) {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// Fill writes into path until nothing goes in any more.
func Fill(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // what matters is that the write failed
	for block := 1 << 20; block > 0; {
		_, err := f.Write(make([]byte, block))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			block /= 4
		case err != nil:
			return err
		}
	}
	return nil
}

// ext4Shutdown is EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32); noLogFlush drops what
// the journal has not written, as a power cut does.
const (
	ext4Shutdown = 0x8004587d
	noLogFlush   = 2
)

// PowerOff cuts a mounted ext4 off: nothing reaches it any more.
func PowerOff(mount string) error {
	fd, err := unix.Open(mount, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) // opened for the ioctl
	return unix.IoctlSetPointerInt(fd, ext4Shutdown, noLogFlush)
}

// cutPower: what was accepted before is there after.
func (m *nemesis) cutPower(r *rand.Rand) string {
	boot := fmt.Sprintf("00000000-0000-4000-8000-%012x", r.Uint64()>>16)
	if err := m.powerCut(boot); err != nil {
		m.bad("power: %v", err)
		return ""
	}
	return boot
}

func (m *nemesis) powerCut(boot string) error {
	m.world.Lock()
	defer m.world.Unlock()
	m.n.cut.Lock() // nobody outside is in the middle of anything
	defer m.n.cut.Unlock()
	m.n.eff.mark("CUT")
	if err := PowerOff(m.n.g.mount); err != nil {
		return err
	}
	m.n.sys.blackout(&m.n.tally)
	m.n.eff.mark("UP")
	if err := m.n.watch.detach(); err != nil {
		m.n.g.log("acts.log", "reader closed: "+err.Error()) // its disk is gone
	}
	if err := m.n.g.remount(); err != nil {
		return err
	}
	if out, err := m.n.g.sql("UPDATE worker_heartbeats SET boot_id='" + boot + "'"); err != nil {
		m.n.g.log("acts.log", "boot id not changed: "+out)
	}
	m.mu.Lock()
	m.cuts++
	m.mu.Unlock()
	m.n.sys.up()
	return nil
}
