package night

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// between draws a duration.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// freeze stops a process and lets it go on later.
func (m *nemesis) freeze(pid int, d time.Duration) bool {
	m.mu.Lock()
	frozen := m.held[pid]
	m.mu.Unlock()
	if frozen || !m.n.g.signal(pid, syscall.SIGSTOP) {
		return false
	}
	m.n.tally.stops.Add(1)
	m.mu.Lock()
	m.held[pid] = true
	m.mu.Unlock()
	m.going.Add(1)
	go func() {
		defer m.going.Done()
		time.Sleep(d)
		m.n.g.signal(pid, syscall.SIGCONT)
		m.mu.Lock()
		delete(m.held, pid)
		m.mu.Unlock()
	}()
	return true
}

func (m *nemesis) stopScript(r *rand.Rand) string {
	ps := m.find((*process).isScript)
	x, d := r.Uint64(), between(r, 100*time.Millisecond, 3*time.Second)
	if len(ps) == 0 {
		return ""
	}
	p := &ps[x%uint64(len(ps))]
	if !m.freeze(p.pid, d) {
		return ""
	}
	return fmt.Sprintf("%d of %s for %v", p.pid, p.env["NIGHTSHIFT_TASK_ID"], d.Round(time.Millisecond))
}

// stopWorker stops it for less or more than it takes to be suspect, offline, or
// replaced by its supervisor.
func (m *nemesis) stopWorker(r *rand.Rand) string {
	p := m.pickWorker(r)
	d := between(r, 100*time.Millisecond, 7*time.Second)
	if p == nil || !m.freeze(p.pid, d) {
		return ""
	}
	return fmt.Sprintf("%d (%s) for %v", p.pid, m.workerID(p), d.Round(time.Millisecond))
}

func (m *nemesis) stopSupervisor(r *rand.Rand) string {
	pid := m.n.sys.supervisor().pid()
	d := between(r, 200*time.Millisecond, 5*time.Second)
	if pid == 0 || !m.freeze(pid, d) {
		return ""
	}
	return fmt.Sprintf("%d for %v", pid, d.Round(time.Millisecond))
}

// swizzle stops all workers one by one and lets them go in another order.
func (m *nemesis) swizzle(r *rand.Rand) string {
	ps := m.find((*process).isWorker)
	r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	wait := between(r, 10*time.Millisecond, 200*time.Millisecond)
	d := make([]time.Duration, len(ps))
	for i := range d {
		d[i] = between(r, 500*time.Millisecond, 5*time.Second)
	}
	n := 0
	for i := range ps {
		if m.freeze(ps[i].pid, d[i]) {
			n++
		}
		time.Sleep(wait)
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d workers", n)
}

// writeLockByte of the -shm file is the lock of who writes (SQLite's walformat).
const writeLockByte = 120

// stopWriter stops a worker inside a write transaction, so that it holds the write
// lock while it is away.
func (m *nemesis) stopWriter(r *rand.Rand) string {
	d := between(r, 200*time.Millisecond, 4*time.Second)
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		for _, pid := range writers() {
			if !m.n.g.signal(pid, 0) || !m.freeze(pid, d) {
				continue
			}
			return fmt.Sprintf("%d for %v", pid, d.Round(time.Millisecond))
		}
	}
	return ""
}

// writers lists the pids that hold a write lock on the byte.
func writers() []int {
	return lockers(func(c []string) bool {
		return len(c) >= 8 && c[1] == "POSIX" && c[3] == "WRITE" && c[6] == strconv.Itoa(writeLockByte)
	})
}

// flockers lists the pids that hold an exclusive flock on the file.
func flockers(path string) []int {
	st, err := os.Stat(path)
	if err != nil {
		return nil // nobody has made it yet
	}
	inode := fmt.Sprintf(":%d", st.Sys().(*syscall.Stat_t).Ino)
	return lockers(func(c []string) bool { return c[1] == "FLOCK" && c[3] == "WRITE" && strings.HasSuffix(c[5], inode) })
}

// lockers reads the pids of the wanted lines of /proc/locks:
//
//	1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120
//
// A line with an arrow is one that waits.
func lockers(want func(columns []string) bool) []int {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil // elsewhere than on Linux nobody can be caught at it
	}
	defer f.Close() // opened for reading
	var pids []int
	for s := bufio.NewScanner(f); s.Scan(); {
		c := strings.Fields(s.Text())
		if len(c) < 6 || c[1] == "->" || !want(c) {
			continue
		}
		if pid, err := strconv.Atoi(c[4]); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
