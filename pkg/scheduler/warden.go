package scheduler

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Kernel is what only the operating system can say of another worker. The
// product passes pkg/liveness; tests and the simulation their own.
type Kernel interface {
	// BootID names this boot; a heartbeat with another one is from a dead worker.
	BootID() string
	// Probe tries the owner's lock. With Free the guard holds the lock until it is
	// closed: whoever commits a takeover holds it meanwhile.
	Probe(o *Owner) (Proof, Guard, error)
	// Gone reports that the recorded process (pid and start time) no longer runs.
	Gone(o *Owner) bool
	// Signal sends sig to the recorded process after checking its identity.
	Signal(o *Owner, kill bool) error
	// Hunt kills what the dead worker left behind, and returns who is still there.
	// proven says that the caller holds the free lock.
	Hunt(o *Owner, proven bool) (left []string, err error)
}

// Proof is what a lock says about its owner.
type Proof int

// The answers of a probe.
const (
	Held     Proof = iota // somebody keeps the descriptor
	Free                  // proof of death: every holder is gone
	Unproven              // the lock file is missing or another one: no proof either way
)

// Guard holds a dead worker's lock.
type Guard interface{ Close() }

// WardenStore is what the warden needs of the database.
type WardenStore interface {
	Foreign(workerID string) ([]store.Owner, error)
	TakeOver(r store.TakeOverRequest) (store.TakenOver, error)
	MarkOffline(executor string, now time.Time) (int, error)
}

// WardenSettings are the warden's limits; all are durations on its own clock.
type WardenSettings struct {
	SuspectAfter  time.Duration // silence to be mentioned (seed §3.4: 90 s)
	OfflineAfter  time.Duration // silence to be LOST (seed §3.4: 5 min)
	StopGrace     time.Duration // between telling an overrun worker and killing it
	MaxCrashes    int64
	MaxExecutions int64
	Backoff       func(taskType string) task.Backoff
	Rand          func(n int64) int64
}

// The warden's rhythm. A probe costs a microsecond.
const (
	probeEvery = time.Second
	// comeBackGrace is how long the lock of a dead worker stays free before its
	// neighbours take its tasks: a supervisor restarts it at once, and then it goes
	// on with them itself (DESIGN §5).
	comeBackGrace = time.Second
	// recheckSoon follows up on a lock that has just become free.
	recheckSoon = 100 * time.Millisecond
	// ownGap is how late a round may come before the observer distrusts its own
	// measurements: it was stopped, or the machine slept (DESIGN §4).
	ownGap = 5 * time.Second
)

// Warden looks after the tasks of other workers. Silence and an expired lease
// allow a kill; only proof of death allows a takeover. One goroutine runs it.
type Warden struct {
	worker   string
	store    WardenStore
	kernel   Kernel
	clock    executor.Clock
	log      hclog.Logger
	settings func() WardenSettings

	notice   chan struct{}
	seen     map[string]*observation // by worker process (lock path, or id without one)
	last     time.Time               // the last round, monotonic
	soon     bool
	took     func() // told after a takeover: something is due
	lastBeat func() time.Time
}

// observation is what the warden remembers of one worker between two rounds.
type observation struct {
	beat     int64
	movedAt  time.Time // when the beat was last seen to move
	freeAt   time.Time // since when the lock is free (or no process is left)
	goneAt   time.Time // since when the recorded process is gone while the lock is held
	leaseAt  time.Time // since when a lease of it is expired
	toldAt   time.Time // when it was told to stop for that
	saidAt   time.Time // the last log line about it
	suspects bool
}

// WardenConfig is fixed for the warden's life.
type WardenConfig struct {
	WorkerID string
	Store    WardenStore
	Kernel   Kernel
	Clock    executor.Clock
	Logger   hclog.Logger
	Settings func() WardenSettings
	Took     func()           // called after a takeover
	LastBeat func() time.Time // when this worker's own heartbeat was last written
}

// NewWarden prepares a warden; Run starts it.
func NewWarden(c WardenConfig) *Warden {
	return &Warden{
		worker: c.WorkerID, store: c.Store, kernel: c.Kernel, clock: c.Clock, log: c.Logger,
		settings: c.Settings, took: c.Took, lastBeat: c.LastBeat,
		notice: make(chan struct{}, 1), seen: map[string]*observation{},
	}
}

// Notice makes the warden look at once: a worker died, says the supervisor.
func (w *Warden) Notice() {
	select {
	case w.notice <- struct{}{}:
	default: // a look is already asked for
	}
}

// Run looks each second until done is closed.
func (w *Warden) Run(done <-chan struct{}) {
	for {
		w.Round()
		wait := task.OnSecond(w.clock.Now(), probeEvery)
		if w.soon {
			wait = recheckSoon
		}
		t := w.clock.NewTimer(wait)
		select {
		case <-done:
			t.Stop()
			return
		case <-w.notice:
			t.Stop()
		case <-t.C():
		}
	}
}

// Round looks once at every worker that owns tasks and is not this one.
func (w *Warden) Round() {
	now := w.clock.Now()
	set := w.settings()
	if gap := now.Sub(w.last); !w.last.IsZero() && gap > ownGap {
		w.log.Info("the warden was away: all silences are measured afresh", "for", gap.Round(time.Second))
		w.forgive(now)
	}
	w.last, w.soon = now, false
	if now.Sub(w.lastBeat()) > set.SuspectAfter {
		// We could not write either: the database stood still, not the others.
		w.forgive(now)
	}
	rows, err := w.store.Foreign(w.worker)
	if err != nil {
		w.log.Debug("owners of tasks", "err", err)
		return
	}
	owners := group(rows)
	present := make(map[string]bool, len(owners))
	for _, o := range owners {
		present[o.WorkerID] = true
		w.tend(o, w.observe(o, now), now, set)
	}
	for id := range w.seen {
		if !present[id] {
			delete(w.seen, id)
		}
	}
}

// forgive starts every measurement of silence anew.
func (w *Warden) forgive(now time.Time) {
	for _, s := range w.seen {
		s.movedAt, s.leaseAt, s.toldAt = now, time.Time{}, time.Time{}
	}
}

func (w *Warden) observe(o *Owner, now time.Time) *observation {
	s := w.seen[o.WorkerID]
	if s == nil {
		s = &observation{beat: o.Beat, movedAt: now}
		w.seen[o.WorkerID] = s
	}
	if s.beat != o.Beat {
		if s.suspects {
			w.log.Info("worker beats again", "worker", o.WorkerID)
		}
		s.beat, s.movedAt, s.suspects = o.Beat, now, false
	}
	return s
}

// tend decides about one worker.
func (w *Warden) tend(o *Owner, s *observation, now time.Time, set WardenSettings) {
	if o.WorkerID == "" {
		w.ownerless(s, now)
		return
	}
	proof, guard, err := w.kernel.Probe(o)
	if err != nil {
		w.say(s, now, "lock cannot be probed", "worker", o.WorkerID, "err", err)
		return
	}
	if guard != nil {
		defer guard.Close()
	}
	if o.BootID != "" && o.BootID != w.kernel.BootID() {
		if proof == Held {
			// Its next life is on its way; or it lives in a container that is shown another
			// boot id than we are. A lock that is held outweighs an id.
			w.say(s, now, "worker bears another boot id, and its lock is held: it is left alone", "worker", o.WorkerID)
			return
		}
		w.dead(o, s, now, set, reboot)
		return
	}
	switch {
	case proof == Free:
		w.dead(o, s, now, set, proven)
	case w.kernel.Gone(o):
		w.leftBehind(o, s, now, set, proof)
	default:
		s.freeAt, s.goneAt = time.Time{}, time.Time{}
		w.silence(o, s, now, set)
	}
}

// ownerless frees rows that somebody set RUNNING by hand, without an executor:
// nobody runs them, and nobody ever did.
func (w *Warden) ownerless(s *observation, now time.Time) {
	if _, err := w.store.TakeOver(store.TakeOverRequest{Executors: []string{""}, Now: now, Graceful: true}); err != nil {
		w.say(s, now, "rows without an executor", "err", err)
		return
	}
	w.log.Warn("rows that were set RUNNING by hand are PENDING again")
	w.took()
}

// death is how a worker's death was proven.
type death int

const (
	reboot death = iota // another boot: nothing of it can run
	proven              // its lock is free, and in our hand
	gone                // its process is gone by the kernel's word; its lock file is missing
)

// dead takes the tasks of a worker that is proven dead and has not come back.
func (w *Warden) dead(o *Owner, s *observation, now time.Time, set WardenSettings, how death) {
	if s.freeAt.IsZero() {
		s.freeAt = now
	}
	if now.Sub(s.freeAt) < comeBackGrace {
		w.soon = true
		return
	}
	if how != reboot {
		if left, err := w.kernel.Hunt(o, how == proven); err != nil || len(left) > 0 {
			w.soon = err == nil
			w.say(s, now, "tasks wait: processes of a dead worker do not end", "worker", o.WorkerID, "left", left, "err", err)
			return
		}
	}
	got, err := w.store.TakeOver(store.TakeOverRequest{
		Executors: o.Executors, Worker: o.WorkerID, BootID: o.BootID,
		PID: o.PID, StartTicks: o.StartTicks, ThisBoot: w.kernel.BootID(),
		Now: now, Graceful: how == reboot, Overran: !s.leaseAt.IsZero(),
		MaxCrashes: set.MaxCrashes, MaxExecutions: set.MaxExecutions, Backoff: set.Backoff, Rand: set.Rand,
	})
	if errors.Is(err, store.ErrNotMine) {
		return // it is back: its row names another process now
	}
	if err != nil {
		w.say(s, now, "takeover", "worker", o.WorkerID, "err", err)
		return
	}
	delete(w.seen, o.WorkerID)
	w.log.Warn("tasks of a dead worker taken over", "worker", o.WorkerID, "reboot", how == reboot,
		"pending", len(got.Requeued), "expired", len(got.Expired), "dead", len(got.Dead), "cancelled", len(got.Cancelled))
	w.took()
}

// leftBehind: the worker's process is gone, but its lock is held (or its lock
// file is missing): descendants keep the descriptor, or a new incarnation is on
// its way. What its tasks started before we noticed is killed; then we look again.
func (w *Warden) leftBehind(o *Owner, s *observation, now time.Time, set WardenSettings, proof Proof) {
	if s.goneAt.IsZero() {
		s.goneAt = now
	}
	w.soon = true
	if now.Sub(s.goneAt) < comeBackGrace {
		return
	}
	left, err := w.kernel.Hunt(o, false)
	if err != nil || len(left) > 0 {
		w.say(s, now, "tasks wait: the lock of a dead worker is held", "worker", o.WorkerID, "left", left, "err", err)
		return
	}
	if proof == Unproven {
		// The file is no proof, but the kernel says that the recorded process is gone,
		// and no process bears its mark.
		w.dead(o, s, now, set, gone)
	}
}

// silence judges a worker that lives: it is mentioned, marked offline, and
// killed only when a lease of its has run out too.
func (w *Warden) silence(o *Owner, s *observation, now time.Time, set WardenSettings) {
	quiet := now.Sub(s.movedAt)
	if quiet > set.SuspectAfter && !s.suspects {
		s.suspects = true
		w.log.Warn("worker is silent (suspect)", "worker", o.WorkerID, "pid", o.PID, "for", quiet.Round(time.Second))
	}
	if quiet > set.OfflineAfter {
		w.offline(o, s, now)
	}
	w.lease(o, s, now, set)
}

func (w *Warden) offline(o *Owner, s *observation, now time.Time) {
	marked := 0
	for _, id := range o.Executors {
		n, err := w.store.MarkOffline(id, now)
		if err != nil {
			w.say(s, now, "offline worker not marked", "worker", id, "err", err)
			return
		}
		marked += n
	}
	if marked > 0 {
		w.log.Warn("worker is offline: its tasks are LOST until its death is proven", "worker", o.WorkerID, "tasks", marked)
	}
}

// lease: one that ran out while its owner lives. A healthy owner stamps it anew
// within a second or two, so only one that stays expired on our own clock counts.
func (w *Warden) lease(o *Owner, s *observation, now time.Time, set WardenSettings) {
	if o.LeaseUntil.IsZero() || now.Round(0).Before(o.LeaseUntil) {
		s.leaseAt, s.toldAt = time.Time{}, time.Time{}
		return
	}
	if s.leaseAt.IsZero() {
		s.leaseAt = now
	}
	if now.Sub(s.leaseAt) < set.SuspectAfter {
		return
	}
	switch {
	case s.toldAt.IsZero():
		s.toldAt = now
		w.log.Warn("lease ran out while its owner lives: it is told to stop", "worker", o.WorkerID, "pid", o.PID)
		w.signal(o, s, now, false)
	case now.Sub(s.toldAt) > set.StopGrace:
		w.log.Warn("lease ran out and its owner does not stop: it is killed", "worker", o.WorkerID, "pid", o.PID)
		w.signal(o, s, now, true)
	}
}

func (w *Warden) signal(o *Owner, s *observation, now time.Time, kill bool) {
	if err := w.kernel.Signal(o, kill); err != nil {
		w.say(s, now, "signal", "worker", o.WorkerID, "pid", o.PID, "err", err)
	}
}

// say logs at most once a minute about one worker.
func (w *Warden) say(s *observation, now time.Time, msg string, args ...any) {
	if !s.saidAt.IsZero() && now.Sub(s.saidAt) < time.Minute {
		return
	}
	s.saidAt = now
	w.log.Warn(msg, args...)
}
