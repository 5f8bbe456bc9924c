package worker

import (
	"os"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/execlog"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/liveness"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// makeMeans makes what executions need of the process: a thread that forks, a
// reaper of what they leave behind, places to run in.
func (p *process) makeMeans() error {
	if err := liveness.SetSubreaper(); err != nil {
		p.log.Warn("not a subreaper: strays of tasks are found by their mark alone", "err", err)
	}
	p.spawner = program.NewSpawner()
	p.reaper = program.NewReaper(p.spawner, p.lock.Path(), p.log.Named("reaper"))
	cfg := p.config()
	p.places = &places{tasks: cfg.TasksDir(), log: p.log, logs: func() (*execlog.Dir, error) {
		cfg := p.config()
		return execlog.OpenDir(cfg.ExecLogDir(), cfg.Log.ExecMaxSize)
	}}
	var err error
	p.kernel, err = newKernel()
	return err
}

// assemble ties the loops together.
func (p *process) assemble(set *scheduler.Settings, rows []store.Heartbeat, resume []task.Task) {
	p.heart = &heart{
		store: p.store, clock: p.clock, log: p.log, rows: rows, told: map[string]int64{},
		last: p.clock.Now(), every: func() time.Duration { return p.config().Worker.HeartbeatInterval },
		board:  func() map[string]*executor.Execution { return p.sched.Board() },
		drains: func() bool { return p.sched.Pulse().State(p.clock.Now()) == scheduler.Draining },
	}
	p.sched = scheduler.New(scheduler.Config{
		WorkerID: p.id, Slots: p.slots, Store: p.store, Logger: p.log, Changes: p.store.Changes(),
		Deps: executor.Deps{Store: p.store, Place: p.places, Clock: p.clock, Rand: random},
		Beat: p.heart.Beat, LastBeat: p.heart.Last, Discard: p.places.discard,
		Stepped: func(time.Duration) { p.table.Look() },
	}, set, resume)
	p.warden = scheduler.NewWarden(scheduler.WardenConfig{
		WorkerID: p.id, Store: p.store, Kernel: p.kernel, Clock: p.clock, Logger: p.log,
		Settings: func() scheduler.WardenSettings { return wardenSettings(p.config()) },
		Took:     p.sched.Kick, LastBeat: p.heart.Last,
	})
	p.table = scheduler.NewTimetable(p.store, p.clock, p.log, p.sched.Kick)
}

// heartbeatRows are the rows of this life, one a slot.
func (p *process) heartbeatRows(now time.Time) []store.Heartbeat {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // for people only
	}
	self := liveness.Self()
	dev, ino := p.lock.Inode()
	rows := make([]store.Heartbeat, len(p.slots))
	for i, slot := range p.slots {
		rows[i] = store.Heartbeat{
			WorkerID: slot, PID: self.PID, Hostname: host, LastHeartbeat: now, Version: p.opts.Version,
			BootID: p.kernel.BootID(), StartedAt: now, StartTicks: self.StartTicks,
			LockPath: p.lock.Path(), LockDev: dev, LockIno: ino,
		}
	}
	return rows
}

// hooksFor gives the store what it must know of the hooks of cfg.
func (p *process) hooksFor(cfg *config.Config) {
	h := hook(cfg)
	events := make([]string, 0, len(cfg.Hooks.On))
	for _, e := range cfg.Hooks.On {
		if e != slowEvent {
			events = append(events, e)
		}
	}
	if cfg.Hooks.Task == "" {
		events = nil
	}
	p.store.SetHook(events, h)
}
