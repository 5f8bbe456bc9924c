package operator

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/liveness"
	"nightshift/pkg/store"
)

// Life is what is known of a worker: from the kernel first, from its heartbeat
// where the kernel cannot tell.
type Life string

// The lives of a worker.
const (
	Alive    Life = "alive"
	Draining Life = "draining" // alive, takes nothing new
	Suspect  Life = "suspect"  // its process is there, but silent beyond suspect_after
	Offline  Life = "offline"  // the same beyond offline_after
	Stopped  Life = "stopped"  // ended in good order
	Gone     Life = "dead"     // proven: its lock is free, or the machine was restarted
	Unknown  Life = "unknown"  // neither proof of death nor a process that answers
)

// Lives says whether work can be expected of a worker in this state.
func (l Life) Lives() bool { return l == Alive || l == Draining || l == Suspect }

// Worker is one worker process with its executors.
type Worker struct {
	ID        string
	Life      Life
	Why       string // why it is not simply alive; empty when it is
	PID       int
	Host      string
	Version   string
	Started   time.Time
	LastBeat  time.Time
	Stopped   time.Time
	Holders   []liveness.Process // who keeps a dead worker's lock
	Executors []store.Heartbeat  // by id
}

// Slots is how many tasks the worker can run at a time.
func (w *Worker) Slots() int { return len(w.Executors) }

// Busy is how many of them are at work.
func (w *Worker) Busy() int {
	n := 0
	for _, e := range w.Executors {
		if e.CurrentTaskID != "" {
			n++
		}
	}
	return n
}

// WorkerOf is the worker that an executor belongs to: w1.2 is w1's second slot.
func WorkerOf(executor string) string {
	dot := strings.LastIndexByte(executor, '.')
	if dot < 0 {
		return executor
	}
	if _, err := strconv.Atoi(executor[dot+1:]); err != nil {
		return executor
	}
	return executor[:dot]
}

// prober asks the kernel; tests put their own answers in its place.
type prober struct {
	bootID  func() (string, error)
	probe   func(path string, dev, ino uint64) (liveness.Proof, error)
	process func(pid int) (liveness.Process, error)
	holders func(path string, dev, ino uint64) ([]liveness.Process, error)
}

var kernel = prober{liveness.BootID, liveness.ProbeLock, liveness.ReadProcess, liveness.Holders}

// workers asks the database who there should be, and the kernel who there is.
func (d *Desk) workers() ([]Worker, error) {
	rows, err := d.Store.Heartbeats()
	if err != nil {
		return nil, err
	}
	return d.prober().examine(rows, d.Config.Worker, d.Now()), nil
}

// prober is whom this desk asks.
func (d *Desk) prober() prober {
	if d.ask != nil {
		return *d.ask
	}
	return kernel
}

// examine groups heartbeat rows into workers and finds out which of them live.
func (p prober) examine(rows []store.Heartbeat, c config.Worker, now time.Time) []Worker {
	byID := map[string]*Worker{}
	for _, r := range rows {
		id := WorkerOf(r.WorkerID)
		w := byID[id]
		if w == nil {
			w = &Worker{ID: id}
			byID[id] = w
		}
		w.Executors = append(w.Executors, r)
	}
	workers := make([]Worker, 0, len(byID))
	for _, w := range byID {
		p.judge(w, c, now)
		workers = append(workers, *w)
	}
	sort.Slice(workers, func(i, j int) bool { return naturalLess(workers[i].ID, workers[j].ID) })
	return workers
}

// judge fills in what the newest row of a worker says and what the kernel does.
func (p prober) judge(w *Worker, c config.Worker, now time.Time) {
	newest := w.Executors[0]
	for _, r := range w.Executors {
		if r.LastHeartbeat.After(newest.LastHeartbeat) {
			newest = r
		}
	}
	w.Executors = current(w.Executors, newest)
	w.PID, w.Host, w.Version, w.Started = newest.PID, newest.Hostname, newest.Version, newest.StartedAt
	w.LastBeat, w.Stopped = newest.LastHeartbeat, newest.StoppedAt
	w.Life, w.Why = p.life(w, newest, c, now)
}

// current leaves out rows of slots that an earlier incarnation had and this one
// has not, and puts the others in order.
func current(rows []store.Heartbeat, newest store.Heartbeat) []store.Heartbeat {
	var kept []store.Heartbeat
	for _, r := range rows {
		if r.PID == newest.PID && r.StartTicks == newest.StartTicks && r.BootID == newest.BootID {
			kept = append(kept, r)
		}
	}
	sort.Slice(kept, func(i, j int) bool { return naturalLess(kept[i].WorkerID, kept[j].WorkerID) })
	return kept
}

func (p prober) life(w *Worker, r store.Heartbeat, c config.Worker, now time.Time) (Life, string) {
	proof, err := p.probe(r.LockPath, r.LockDev, r.LockIno)
	proof.Guard.Close()
	if boot, berr := p.bootID(); berr == nil && boot != "" && r.BootID != "" && boot != r.BootID {
		switch {
		case err == nil && proof.Outcome == liveness.Held:
			// In a container one of us is shown another boot id: a held lock outweighs it.
			return silence(r, liveness.Process{}, c, now)
		case !r.StoppedAt.IsZero():
			return Stopped, ""
		}
		return Gone, "the machine was restarted since"
	}
	process, perr := p.process(r.PID)
	running := perr == nil && process.StartTicks == r.StartTicks && process.Alive()
	switch {
	case err != nil && !running:
		return Unknown, err.Error()
	case err == nil && proof.Outcome == liveness.Free && !r.StoppedAt.IsZero():
		return Stopped, ""
	case err == nil && proof.Outcome == liveness.Free:
		return Gone, "its process is gone"
	case running:
		return silence(r, process, c, now)
	case err == nil && proof.Outcome == liveness.Held:
		return p.heldByOthers(w, r)
	case !r.StoppedAt.IsZero():
		return Stopped, ""
	}
	return Unknown, proof.Why + ", and no process " + strconv.Itoa(r.PID) + " of its runs"
}

// silence judges a worker whose process is there by its last heartbeat.
func silence(r store.Heartbeat, process liveness.Process, c config.Worker, now time.Time) (Life, string) {
	silent := max(now.Sub(r.LastHeartbeat), 0)
	how := ""
	if process.State == 'T' || process.State == 't' {
		how = ", its process is stopped (SIGSTOP)"
	}
	switch {
	case silent > c.OfflineAfter:
		return Offline, "silent " + words(silent) + how
	case silent > c.SuspectAfter:
		return Suspect, "silent " + words(silent) + how
	case r.Draining:
		return Draining, "takes no new task" + how
	}
	return Alive, strings.TrimPrefix(how, ", ")
}

// heldByOthers names who keeps the lock of a worker whose process is gone: a
// descendant that inherited the descriptor (case CR-05), or the worker's next
// incarnation, which has not written its row yet.
func (p prober) heldByOthers(w *Worker, r store.Heartbeat) (Life, string) {
	holders, err := p.holders(r.LockPath, r.LockDev, r.LockIno)
	w.Holders = holders
	if err != nil || len(holders) == 0 {
		return Unknown, "its process is gone, but its lock is held: it is being started, or another user's process has it"
	}
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = fmt.Sprintf("%d (%s)", h.PID, h.Comm)
	}
	return Gone, "its process is gone, but its lock is held by process " + strings.Join(names, ", ")
}

// naturalLess puts w2 before w10.
func naturalLess(a, b string) bool {
	headA, numA := splitNumber(a)
	headB, numB := splitNumber(b)
	if headA != headB || numA < 0 || numB < 0 {
		return a < b
	}
	return numA < numB
}

func splitNumber(s string) (head string, n int) {
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	n, err := strconv.Atoi(s[i:])
	if err != nil {
		return s, -1
	}
	return s[:i], n
}
