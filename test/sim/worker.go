package sim

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/cron"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Exit codes, as pkg/worker has them.
const (
	exitSoftware = 70
	exitTempFail = 75
	exitConfig   = 78
)

// worker is one life of a simulated worker process. Its start keeps the order of
// pkg/worker: lock, store, the old life's end, recovery, and only then claims.
type worker struct {
	n     *night
	id    string
	p     *proc
	lock  *lockFile
	slots []string

	mu    sync.Mutex
	db    *access
	sched *scheduler.Scheduler
	guard *scheduler.Warden
	table *scheduler.Timetable
	place map[int64]int // the slot of an execution
	ready bool

	done  chan struct{}
	loops sync.WaitGroup
}

func lockPath(id string) string { return "run/" + id + ".lock" }

// newWorker makes the process; run starts it. sup is nil for one that a person starts.
func (n *night) newWorker(id string, sup *supervisor) *worker {
	w := &worker{n: n, id: id, place: map[int64]int{}, done: make(chan struct{}), slots: []string{id}}
	if id == byHand {
		w.slots = []string{id + ".1", id + ".2"}
	}
	var parent *proc
	if sup != nil {
		parent = sup.p
	}
	w.p = n.m.spawn("worker", id, parent)
	w.p.mark, w.p.survives, w.p.byHand = lockPath(id), true, sup == nil
	w.p.term, w.p.hup, w.p.usr2, w.p.bury = w.terminate, w.reload, w.notice, w.bury
	return w
}

// run is the process's main goroutine.
func (w *worker) run() { w.n.m.end(w.p, w.live()) }

func (w *worker) live() int {
	w.p.sleep(50*time.Millisecond + time.Duration(w.p.random(int64(300*time.Millisecond))))
	if !w.takeLock() {
		return exitConfig
	}
	s, err := store.Open(store.Options{Path: w.n.db.path, Clock: w.n.m.now})
	if err != nil {
		w.n.wrong("I13 %s cannot open the database: %v", w.id, err)
		return exitTempFail
	}
	w.mu.Lock()
	w.db = &access{d: w.n.db, p: w.p, s: s}
	w.mu.Unlock()
	w.p.gate()
	if code := w.clearOldLife(); code != 0 {
		return code
	}
	if w.n.o.Break == RecoverLate {
		w.p.sleep(time.Millisecond)
		return w.work(nil)
	}
	resume, err := w.recover()
	if err != nil {
		return exitTempFail
	}
	return w.work(resume)
}

// takeLock: a supervisor hands the lock over; a person's worker takes it, and
// kills what holds it unless that is a worker.
func (w *worker) takeLock() bool {
	if w.lock != nil {
		return true
	}
	l, got := w.n.m.lock(lockPath(w.id), w.p)
	w.lock = l
	if got {
		return true
	}
	prey := w.n.m.prey(w.p, w.p.mark, l.ino, nil)
	if slices.ContainsFunc(prey, func(p *proc) bool { return p.kind == "worker" }) {
		return false
	}
	w.n.m.hunt(prey)
	w.p.sleep(10 * time.Millisecond)
	_, got = w.n.m.lock(lockPath(w.id), w.p)
	return got
}

// clearOldLife kills what bears this worker's mark, and refuses to start beside a
// living worker of the same name.
func (w *worker) clearOldLife() int {
	rows, err := w.db.s.Heartbeats()
	if err != nil {
		return exitTempFail
	}
	for i := range rows {
		r := &rows[i]
		if id, _, _ := strings.Cut(r.WorkerID, "."); id == w.id && r.StoppedAt.IsZero() && w.n.m.runs(r.PID, r.StartTicks, r.BootID) {
			return exitConfig
		}
	}
	if len(w.n.m.hunt(w.n.m.prey(w.p, w.p.mark, w.lock.ino, nil))) == 0 {
		return 0
	}
	w.p.sleep(5 * time.Second)
	if len(w.n.m.hunt(w.n.m.prey(w.p, w.p.mark, w.lock.ino, nil))) > 0 {
		return exitTempFail
	}
	return 0
}

func (w *worker) heartbeatRows() []store.Heartbeat {
	rows := make([]store.Heartbeat, len(w.slots))
	now := w.n.m.now()
	for i, slot := range w.slots {
		rows[i] = store.Heartbeat{
			WorkerID: slot, PID: w.p.pid, LastHeartbeat: now, BootID: w.n.m.bootID(), StartedAt: now,
			StartTicks: w.p.start, LockPath: w.lock.path, LockDev: 1, LockIno: w.lock.ino,
		}
	}
	return rows
}

func (w *worker) recover() ([]task.Task, error) {
	set := w.n.settings(w)
	got, err := w.db.Recover(store.RecoverRequest{
		Worker: w.id, Executors: w.slots, BootID: w.n.m.bootID(), Now: w.n.m.now(),
		Types: set.Rules, Backoff: set.Backoff, Rand: w.p.random, NoTimeoutLease: set.NoTimeoutLease(),
		MaxCrashes: maxCrashes, Register: w.heartbeatRows(),
	})
	return got.Resume, err
}

// work runs the loops until the drain is over.
func (w *worker) work(resume []task.Task) int {
	heart := w.assemble(resume)
	// A little apart: their timers keep their distance from then on.
	w.also(1, func() { heart.Run(w.done) })
	w.also(2, func() { w.guard.Run(w.done) })
	w.also(3, func() { w.table.Run(w.done) })
	if w.n.o.Break == RecoverLate {
		w.also(4, func() {
			w.p.sleep(time.Minute)
			if _, err := w.recover(); err != nil {
				return // a broken order of things is broken in any case
			}
		})
	}
	err := w.sched.Run()
	close(w.done)
	w.loops.Wait()
	if err != nil {
		w.n.tally("workers that ended for a handler that obeys nothing", 1)
		return exitSoftware
	}
	w.n.m.hunt(w.n.m.prey(w.p, w.p.mark, 0, nil))
	if err := w.db.Stopped(w.id, w.n.m.now()); err != nil {
		return exitTempFail
	}
	return 0
}

func (w *worker) also(after int, f func()) {
	w.loops.Add(1)
	go func() {
		defer w.loops.Done()
		w.p.rest(time.Duration(after)*7*time.Millisecond, laneSleep+after)
		f()
	}()
}

func (w *worker) assemble(resume []task.Task) *scheduler.Heart {
	c, log := clock{w.p}, hclog.NewNullLogger()
	changes := make(chan struct{}, 1)
	w.n.db.watch(w.p, changes)
	w.mu.Lock()
	defer w.mu.Unlock()
	heart := scheduler.NewHeart(scheduler.HeartConfig{
		Store: w.db, Clock: c, Logger: log, Rows: w.heartbeatRows(),
		Every:  func() time.Duration { return 30 * time.Second },
		Board:  func() map[string]*executor.Execution { return w.sched.Board() },
		Drains: func() bool { return w.sched.Pulse().State(w.n.m.now()) == scheduler.Draining },
	})
	w.sched = scheduler.New(scheduler.Config{
		WorkerID: w.id, Slots: w.slots, Store: w.db, Logger: log, Changes: changes,
		Deps: executor.Deps{Store: w.db, Place: w, Clock: c, Rand: w.p.random},
		Beat: heart.Beat, LastBeat: heart.Last, Discard: func(*task.Task) {},
		Stepped: func(time.Duration) { w.table.Look() },
	}, w.n.settings(w), resume)
	w.guard = scheduler.NewWarden(scheduler.WardenConfig{
		WorkerID: w.id, Store: w.db, Kernel: view{w}, Clock: c, Logger: log,
		Settings: w.n.wardenSettings(w), Took: w.sched.Kick, LastBeat: heart.Last,
	})
	w.table = scheduler.NewTimetable(scheduler.TimetableConfig{
		Store: w.db, Clock: c, Logger: log, Fired: w.sched.Kick,
		Poll: func() time.Duration { return pollInterval }, MaxRetry: func(string) int64 { return 3 },
	}, w.n.schedules())
	w.ready = true
	return heart
}

// Open implements executor.Place. The slots of a worker start a little apart.
func (w *worker) Open(t *task.Task) (executor.Log, error) {
	slot := slices.Index(w.slots, t.ExecutorID)
	w.mu.Lock()
	w.place[t.ExecID] = slot
	w.mu.Unlock()
	w.p.rest(time.Millisecond, lanePlace+slot)
	return nullLog{}, nil
}

// Dir implements executor.Place; no job asks for one.
func (w *worker) Dir(*task.Task) (string, error) {
	return "", errors.New("there are no directories here")
}

type nullLog struct{}

func (nullLog) Write(b []byte) (int, error) { return len(b), nil }
func (nullLog) Close() error                { return nil }
func (nullLog) Path() string                { return "" }

func (w *worker) slotOf(exec int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.place[exec]
}

// loopsOf returns what signals reach; nil before it is ready.
func (w *worker) loopsOf() (*scheduler.Scheduler, *scheduler.Warden, *scheduler.Timetable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sched, w.guard, w.table
}

// later has f done a moment from now, as signals come.
func (w *worker) later(f func()) { time.AfterFunc(place(time.Millisecond, laneSleep+3, w.p.uid), f) }

func (w *worker) terminate() {
	w.later(func() {
		if s, _, _ := w.loopsOf(); s != nil {
			s.Drain()
			return
		}
		w.n.m.kill(w.p) // nobody listens yet: the default action
	})
}

func (w *worker) reload() {
	w.later(func() {
		if s, _, t := w.loopsOf(); s != nil {
			s.Reload(w.n.settings(w))
			t.Reload(w.n.schedules())
		}
	})
}

func (w *worker) notice() {
	w.later(func() {
		if _, g, _ := w.loopsOf(); g != nil {
			g.Notice()
		}
	})
}

// bury wakes the goroutines of a dead worker, so that they end at its gate, and
// closes its connections, which rolls back what was not committed.
func (w *worker) bury() {
	w.n.db.unwatch(w.p)
	w.n.died(w)
	s, g, t := w.loopsOf()
	if s != nil {
		for _, x := range s.Board() {
			if x != nil {
				x.Order(handler.ErrLost, true)
			}
		}
		s.Kick()
		g.Notice()
		t.Look()
	}
	w.mu.Lock()
	db := w.db
	w.mu.Unlock()
	if db == nil {
		return
	}
	go func() {
		if err := db.s.Close(); err != nil {
			w.n.wrong("I8 %s: close: %v", w.id, err)
		}
	}()
}

// pulse reports the control byte: none from a process that is stopped or hangs.
func (w *worker) pulse() bool {
	s, _, _ := w.loopsOf()
	return s != nil && !w.p.stopped() && s.Pulse().State(w.n.m.now()) != scheduler.Hung
}

func (n *night) settings(w *worker) *scheduler.Settings {
	backoff := task.Backoff{Base: 5 * time.Second, Cap: time.Minute}
	kinds := func(timeout time.Duration, f handler.Func) executor.Type {
		return executor.Type{Handler: f, Timeout: timeout, Grace: 30 * time.Second, SlowAfter: time.Minute, Backoff: backoff}
	}
	n.mu.Lock()
	limit := n.programLimit
	n.mu.Unlock()
	set := &scheduler.Settings{
		Types: map[string]executor.Type{
			"go": kinds(4*time.Minute, w.goHandler), "program": kinds(4*time.Minute, w.program), "long": kinds(0, w.goHandler),
		},
		Rules: map[string]store.TypeRule{
			"go": {Timeout: 4 * time.Minute}, "program": {Timeout: 4 * time.Minute, Limit: limit}, "long": {},
		},
		PollInterval: pollInterval, SuspectAfter: 90 * time.Second, OfflineAfter: 5 * time.Minute,
		MaxCrashes: maxCrashes, DrainTimeout: 30 * time.Second,
		Backoff:  func(string) task.Backoff { return backoff },
		SlowHook: func(*task.Task) *store.NewTask { return nil },
	}
	if n.o.Break == ForgottenType {
		delete(set.Types, "long")
		delete(set.Rules, "long")
	}
	return set
}

func (n *night) wardenSettings(w *worker) func() scheduler.WardenSettings {
	set := scheduler.WardenSettings{
		SuspectAfter: 90 * time.Second, OfflineAfter: 5 * time.Minute, StopGrace: time.Minute, MaxCrashes: maxCrashes,
		Backoff: func(string) task.Backoff { return task.Backoff{Base: 5 * time.Second, Cap: time.Minute} }, Rand: w.p.random,
	}
	return func() scheduler.WardenSettings { return set }
}

// schedules are those of the configuration, compiled.
func (n *night) schedules() []*cron.Schedule {
	var all []*cron.Schedule
	for _, d := range []cron.Definition{
		{Name: "often", Cron: "*/10 * * * *", Zone: "UTC", Task: "go", Payload: []byte(`{"Steps":1,"Each":1000000000,"End":"well"}`)},
		{Name: "hourly", Cron: "7 * * * *", Zone: "Europe/Berlin", Task: "program", Missed: cron.MissedAll, MissedLimit: 3,
			Overlap: cron.OverlapAllow, Payload: []byte(`{"Steps":2,"Each":5000000000,"End":"well"}`)},
	} {
		s, err := d.Compile()
		if err != nil {
			panic("sim: schedule: " + err.Error())
		}
		all = append(all, s)
	}
	return all
}
