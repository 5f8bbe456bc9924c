package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// trouble is what ails the disk for a while.
type trouble int

const (
	healthy trouble = iota
	full            // every write: store.ErrFull
	failing         // every write: an I/O error, now and then one whose outcome is unknown
	slow            // every write takes seconds
)

// What a write may change, and a read depend on.
const (
	queue  = iota // what may be claimed, and when
	rows          // RUNNING and LOST rows, their owners and wishes
	beats         // heartbeats
	table         // schedules
	drains        // the operator's drain
	subjects
)

// The places in a write where a trap can spring.
const (
	queued   = "queued"   // before its transaction
	inside   = "inside"   // with the write lock in hand
	answered = "answered" // committed, and nobody knows
)

// database is the one file, seen from all processes: its write lock in virtual
// time, its troubles, and how often it was changed.
type database struct {
	n    *night
	path string

	mu       sync.Mutex
	versions [subjects]uint64 // each rises with the writes that touch it: what was read before is old
	busy     bool
	queue    []*ticket
	trouble  trouble
	trap     *trap
	watchers map[*proc]chan struct{}
}

// ticket is a place in the queue for the write lock.
type ticket struct {
	p       *proc
	granted chan struct{}
	got     bool
}

// trap does something to a process when it is at a place of its next write.
type trap struct {
	p      *proc
	at     string
	spring func(p *proc)
}

func (d *database) setTrouble(t trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = t
}

func (d *database) ailment() trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble
}

func (d *database) pass(p *proc, at string) {
	d.mu.Lock()
	t := d.trap
	if t == nil || t.p != p || t.at != at {
		d.mu.Unlock()
		return
	}
	d.trap = nil
	d.mu.Unlock()
	t.spring(p)
	p.gate()
}

// acquire waits for the write lock; patience 0 waits for ever. It reports whether
// it came in time. A process that dies meanwhile leaves the queue.
func (d *database) acquire(p *proc, patience time.Duration) bool {
	d.mu.Lock()
	if !d.busy {
		d.busy = true
		d.mu.Unlock()
		return true
	}
	t := &ticket{p: p, granted: make(chan struct{})}
	d.queue = append(d.queue, t)
	d.mu.Unlock()
	var late <-chan time.Time
	if patience > 0 {
		late = p.newTimer(patience, laneSleep+1).C
	}
	select {
	case <-t.granted:
		return true
	case <-late:
	case <-p.gone:
	}
	d.mu.Lock()
	got := t.got
	for i, q := range d.queue {
		if q == t {
			d.queue = append(d.queue[:i], d.queue[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	if got {
		d.release()
	}
	p.gate()
	return false
}

// release hands the lock on, a moment later: who gives it up and who gets it may be
// of one process, and draw from its source.
func (d *database) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.busy = false
		return
	}
	next := d.queue[0]
	d.queue = d.queue[1:]
	next.got = true
	time.AfterFunc(place(0, laneGrant, next.p.uid), func() { close(next.granted) })
}

// latency is how long a part of a write takes.
func (d *database) latency(p *proc) time.Duration {
	most := int64(4 * time.Millisecond)
	if d.ailment() == slow {
		most = int64(10 * time.Second)
	}
	return time.Duration(p.random(most))
}

// committed tells those who watch the file, each a little later.
func (d *database) committed(touched []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, subject := range touched {
		d.versions[subject]++
	}
	for p, c := range d.watchers {
		time.AfterFunc(place(2*time.Millisecond, laneSleep+2, p.uid), func() {
			select {
			case c <- struct{}{}:
			default: // one pending signal is enough
			}
		})
	}
}

func (d *database) watch(p *proc, c chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers[p] = c
}

func (d *database) unwatch(p *proc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watchers, p)
}

// version is that of some subjects together.
func (d *database) version(of []int) (sum uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, subject := range of {
		sum += d.versions[subject]
	}
	return sum
}

// access is one process's way into the database: the real store behind the
// simulated world. It implements what scheduler and executor ask for.
type access struct {
	d        *database
	p        *proc
	s        *store.Store
	patience time.Duration // 0: for ever (workers)

	mu       sync.Mutex
	due      memo[due]
	draining memo[bool]
	controls memo[[]store.OwnedTask]
	foreign  memo[[]store.Owner]
	table    memo[[]store.ScheduleState]
}

type due struct {
	at    time.Time
	found bool
}

// memo is the answer to a read that nobody's write has made old: each second's
// questions cost no query. What is read depends on the database alone.
type memo[T any] struct {
	version uint64
	known   bool
	value   T
}

func recall[T any](a *access, m *memo[T], read func() (T, error), of ...int) (T, error) {
	a.p.gate()
	now := a.d.version(of)
	a.mu.Lock()
	if m.known && m.version == now {
		defer a.mu.Unlock()
		return m.value, nil
	}
	a.mu.Unlock()
	v, err := read()
	a.p.gate()
	if err != nil {
		return v, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m.version, m.known, m.value = now, true, v
	return v, nil
}

// kinds are the names of all writes.
var kinds = []string{"turn", "checkpoint", "beat", "renew", "fire", "sync", "take over", "offline", "let go", "pull in",
	"slow", "recover", "stopped", "add", "control", "rerun", "drain", secondSlots}

// secondSlots is the checkpoint of a worker's second slot, which must not fall into one
// instant with that of the first.
const secondSlots = "checkpoint of slot 2"

// write is the way of every write.
func (a *access) write(what string, do func() error, touched ...int) error {
	// Two goroutines of a process that write at one instant queue in the order of kinds.
	a.p.rest(0, laneWrite+slices.Index(kinds, what))
	a.d.pass(a.p, queued)
	if !a.d.acquire(a.p, a.patience) {
		return fmt.Errorf("%s: %w", what, store.ErrBusy)
	}
	held := true
	release := func() {
		if held {
			held = false
			a.d.release()
		}
	}
	defer release() // a process that is killed inside leaves the lock free
	a.p.rest(a.d.latency(a.p), laneSleep)
	a.d.pass(a.p, inside)
	err := a.commit(what, do, touched)
	release()
	a.d.pass(a.p, answered)
	if a.p.random(4) == 0 {
		a.p.rest(a.d.latency(a.p), laneSleep)
	}
	return err
}

func (a *access) commit(what string, do func() error, touched []int) error {
	switch a.d.ailment() {
	case full:
		return fmt.Errorf("%s: %w", what, store.ErrFull)
	case failing:
		if a.p.random(4) != 0 {
			return fmt.Errorf("%s: %w", what, sqlite3.Error{Code: sqlite3.ErrIoErr})
		}
		if a.p.random(2) == 0 { // the frames reached the disk after all
			if err := do(); err != nil {
				return err
			}
			a.d.committed(touched)
		}
		return fmt.Errorf("%s: %w", what, store.ErrUnknown)
	}
	err := do()
	a.d.committed(touched)
	a.d.n.trace("%s %s %v", a.p.name, what, err == nil) // an error names ids, which are random
	return err
}

func (a *access) Checkpoint(f task.Fence, state, progress string, now time.Time) (c task.Control, err error) {
	what := "checkpoint"
	if strings.HasSuffix(f.ExecutorID, ".2") {
		what = secondSlots
	}
	err = a.write(what, func() (err error) {
		if a.d.n.o.Break == LyingCheckpoint {
			return nil
		}
		c, err = a.s.Checkpoint(f, state, progress, now)
		return err
	}, rows)
	return c, err
}

func (a *access) Turn(fs []store.Finish, claim *store.ClaimRequest) (r store.TurnResult, err error) {
	if a.d.n.o.Break == ChargedStop {
		for i := range fs {
			if fs[i].Verdict == store.Release {
				fs[i].Verdict, fs[i].RetryAt = store.Retry, fs[i].Now
			}
		}
	}
	err = a.write("turn", func() (err error) {
		if r, err = a.s.Turn(fs, claim); err == nil {
			a.d.n.eff.turned(fs, &r)
		}
		return err
	}, queue, rows)
	return r, err
}

func (a *access) NextDue(types map[string]store.TypeRule) (time.Time, bool, error) {
	d, err := recall(a, &a.due, func() (d due, err error) {
		d.at, d.found, err = a.s.NextDue(types)
		return d, err
	}, queue)
	return d.at, d.found, err
}

func (a *access) Draining() (bool, error) { return recall(a, &a.draining, a.s.Draining, drains) }

func (a *access) Controls(worker string) ([]store.OwnedTask, error) {
	return recall(a, &a.controls, func() ([]store.OwnedTask, error) { return a.s.Controls(worker) }, rows)
}

func (a *access) Foreign(worker string) ([]store.Owner, error) {
	return recall(a, &a.foreign, func() ([]store.Owner, error) { return a.s.Foreign(worker) }, rows, beats)
}

func (a *access) Schedules() ([]store.ScheduleState, error) {
	return recall(a, &a.table, a.s.Schedules, table, queue)
}

func (a *access) Get(id string) (task.Task, error) {
	a.p.gate()
	return a.s.Get(id)
}

func (a *access) LetGo(f task.Fence, now time.Time) error {
	return a.write("let go", func() error { return a.s.LetGo(f, now) }, queue, rows)
}

func (a *access) RenewLeases(now time.Time, r []store.Renewal) error {
	return a.write("renew", func() error { return a.s.RenewLeases(now, r) }, rows)
}

func (a *access) PullIn(now, was time.Time, b func(string) task.Backoff, rnd func(int64) int64) (n int, err error) {
	err = a.write("pull in", func() (err error) {
		if n, err = a.s.PullIn(now, was, b, rnd); n > 0 {
			a.d.n.eff.pulledIn() // here: whoever asked may not live to hear it
		}
		return err
	}, queue)
	return n, err
}

func (a *access) Slow(f task.Fence, now time.Time, hook *store.NewTask) error {
	return a.write("slow", func() error { return a.s.Slow(f, now, hook) }, rows, queue)
}

func (a *access) TakeOver(r store.TakeOverRequest) (t store.TakenOver, err error) {
	err = a.write("take over", func() (err error) {
		if t, err = a.s.TakeOver(r); err == nil {
			a.d.n.tally("takeovers", len(t.Requeued)+len(t.Expired)+len(t.Dead)+len(t.Cancelled))
		}
		return err
	}, queue, rows)
	return t, err
}

func (a *access) MarkOffline(executor string, now time.Time) (marked int, err error) {
	err = a.write("offline", func() (err error) {
		marked, err = a.s.MarkOffline(executor, now)
		a.d.n.tally("marked offline", marked)
		return err
	}, rows)
	return marked, err
}

func (a *access) SyncSchedules(defs []store.ScheduleDef, now time.Time) error {
	return a.write("sync", func() error { return a.s.SyncSchedules(defs, now) }, table)
}

func (a *access) FireOccurrences(f store.Firing, now time.Time) (out store.Fired, err error) {
	err = a.write("fire", func() (err error) {
		out, err = a.s.FireOccurrences(f, now)
		a.d.n.eff.fired(out.Inserted)
		return err
	}, queue, table)
	return out, err
}

func (a *access) Beat(rows []store.Heartbeat) error {
	return a.write("beat", func() error { return a.s.Beat(rows) }, beats)
}

func (a *access) Recover(r store.RecoverRequest) (got store.Recovered, err error) {
	err = a.write("recover", func() (err error) {
		if got, err = a.s.Recover(r); err == nil {
			a.d.n.tally("resumed", len(got.Resume))
		}
		return err
	}, queue, rows, beats)
	return got, err
}

func (a *access) Stopped(worker string, now time.Time) error {
	return a.write("stopped", func() error { return a.s.Stopped(worker, now) }, beats)
}
