package worker

import (
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/config"
	"nightshift/pkg/cron"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/liveness"
	"nightshift/pkg/logging"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// checkpointLine is how often a task's checkpoints show in the log at info.
const checkpointLine = 10 * time.Second

// makeMeans makes what executions need of the process: a thread that forks, a
// reaper of what they leave behind, places to run in.
func (p *process) makeMeans() error {
	binDir := ""
	if exe, err := os.Executable(); err == nil {
		binDir = filepath.Dir(exe) // for `nightshift checkpoint` in scripts
	}
	var err error
	p.reaper, err = program.NewReaper(program.ReaperOptions{
		WorkerID: p.id, Mark: p.lock.Path(), Lock: p.lock.File(), BinDir: binDir, Log: p.log.Named("reaper"),
	})
	if err != nil {
		return err
	}
	p.lines = logging.NewLimiter(checkpointLine)
	cfg := p.config()
	p.places = &places{tasks: cfg.TasksDir(), log: p.log, gone: make(chan string, goneQueue), where: func() (string, int64) {
		cfg := p.config()
		return cfg.ExecLogDir(), cfg.Log.ExecMaxSize
	}}
	p.kernel, err = newKernel(filepath.Dir(p.lock.Path()))
	return err
}

// assemble ties the loops together.
func (p *process) assemble(set *scheduler.Settings, schedules []*cron.Schedule, rows []store.Heartbeat, resume []task.Task) {
	p.heart = scheduler.NewHeart(scheduler.HeartConfig{
		Store: p.store, Clock: p.clock, Logger: p.log, Rows: rows,
		Every:  func() time.Duration { return p.config().Worker.HeartbeatInterval },
		Board:  func() map[string]*executor.Execution { return p.sched.Board() },
		Drains: func() bool { return p.sched.Pulse().State(p.clock.Now()) == scheduler.Draining },
	})
	p.sched = scheduler.New(scheduler.Config{
		WorkerID: p.id, Slots: p.slots, Store: p.store, Logger: p.log, Changes: p.store.Changes(),
		Deps: executor.Deps{Store: p.store, Place: p.places, Clock: p.clock, Rand: random, Moved: p.checkpointed},
		Beat: p.heart.Beat, LastBeat: p.heart.Last, Discard: p.places.discard,
		Stepped: func(time.Duration) { p.table.Look() },
	}, set, resume)
	p.warden = scheduler.NewWarden(scheduler.WardenConfig{
		WorkerID: p.id, Store: p.store, Kernel: p.kernel, Clock: p.clock, Logger: p.log,
		Settings: func() scheduler.WardenSettings { return wardenSettings(p.config()) },
		Took:     p.sched.Kick, LastBeat: p.heart.Last,
	})
	p.table = scheduler.NewTimetable(scheduler.TimetableConfig{
		Store: p.store, Clock: p.clock, Logger: p.log, Fired: p.sched.Kick,
		Poll:     func() time.Duration { return p.config().Worker.PollInterval },
		MaxRetry: func(taskType string) int64 { return p.config().Type(taskType).MaxRetry },
	}, schedules)
}

// checkpointed logs a durable checkpoint: at info at most one line in 10 s for a
// task, all of them at debug (DESIGN §10).
func (p *process) checkpointed(t *task.Task, progress string) {
	level := hclog.Debug
	if p.lines.Allow(t.ID, p.clock.Now()) {
		level = hclog.Info
	}
	p.log.Log(level, "checkpoint", "task", t.ID, "exec", t.ExecID, "worker", t.ExecutorID, "progress", progress)
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
