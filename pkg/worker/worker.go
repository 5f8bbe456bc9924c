// Package worker is a worker process: the composition root, its start, its loops
// and its end.
//
// The order of a start is a rule (DESIGN §4, §5): take the lock, open the
// database, kill what an earlier life left behind, write the heartbeat, recover,
// and only then claim. A user's own worker binary imports this package and
// pkg/handler, and nothing else of ours.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/config"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/liveness"
	"nightshift/pkg/logging"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
)

// Exit codes of a worker process (sysexits.h); the supervisor knows them.
const (
	ExitOK          = 0
	ExitUsage       = 64
	ExitUnavailable = 69 // the database cannot be used now
	ExitSoftware    = 70 // a handler could not be stopped, or a bug
	ExitTempFail    = 75
	ExitConfig      = 78 // the configuration, or the id is taken
)

// Options are what a worker is started with.
type Options struct {
	ConfigPath string // "": found as DESIGN §11 says
	DataDir    string // "": the configuration's
	WorkerID   string // "": $NIGHTSHIFT_WORKER_ID, or w1
	Slots      int    // 0: the configuration's
	Handlers   handler.Registry
	Version    string
	Stderr     io.Writer      // nil: os.Stderr
	Clock      executor.Clock // nil: the machine's
}

// process is one life of a worker.
type process struct {
	opts  Options
	id    string
	clock executor.Clock
	cfg   atomic.Pointer[config.Config]
	log   hclog.Logger
	logs  *logging.Log
	lock  *liveness.Lock
	store *store.Store
	line  *lifeline

	reaper *program.Reaper
	lines  *logging.Limiter
	places *places
	heart  *scheduler.Heart
	sched  *scheduler.Scheduler
	warden *scheduler.Warden
	table  *scheduler.Timetable
	kernel *kernel
	slots  []string

	done  chan struct{} // closed when the loops beside the scheduler shall end
	loops sync.WaitGroup
}

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exit(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// Run lives as a worker until it is told to stop (SIGTERM, SIGINT, the end of
// ctx or of the supervisor) and returns the process's exit code. Call it once a
// process: it takes over the process's signals and children.
func Run(ctx context.Context, o Options) int {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	// Caught, not ignored: an ignored signal would be inherited by every program. A
	// reader of our stderr that went away (`make run | head`) must not end the worker.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	p := &process{opts: o, log: hclog.NewNullLogger(), clock: o.Clock, done: make(chan struct{})}
	if p.clock == nil {
		p.clock = systemClock()
	}
	ballast := make([]byte, gcBallast)
	err := p.live(ctx)
	runtime.KeepAlive(ballast)
	if err == nil {
		return ExitOK
	}
	var e *exitError
	code := ExitSoftware
	if errors.As(err, &e) {
		code = e.code
	}
	p.lastWords(code, err)
	return code
}

// gcBallast is never touched and so takes no memory, but counts as live: a collection then
// comes after that much garbage instead of after each 4 MiB. A worker's own heap is that
// small, and a flood of short tasks spent a fifth of its CPU on collections. A user's
// handlers keep GOGC's proportion for what is theirs.
const gcBallast = 12 << 20

func (p *process) lastWords(code int, err error) {
	p.log.Error("worker ends", "worker", p.id, "exit", code, "err", err)
	// Stderr belongs to the supervisor's story; where it cannot be written nobody listens.
	_, _ = fmt.Fprintf(p.opts.Stderr, "worker %s: %v\n", p.id, err)
}

func (p *process) closeLogs() {
	if err := p.logs.Close(); err != nil {
		_, _ = fmt.Fprintf(p.opts.Stderr, "worker %s: log files: %v\n", p.id, err) // nobody else to tell
	}
}

// live is the story of the process.
func (p *process) live(ctx context.Context) error {
	if err := p.prepare(); err != nil {
		return err
	}
	if err := p.takeLock(); err != nil {
		return err
	}
	if err := p.openLogs(); err != nil {
		return err
	}
	defer p.closeLogs()
	if err := p.openStore(); err != nil {
		return err
	}
	defer p.closeStore()
	if err := p.clearOldLife(); err != nil {
		return err
	}
	set, rows, resume, err := p.recover()
	if err != nil {
		return err
	}
	table, err := schedules(p.config())
	if err != nil {
		return &exitError{ExitConfig, err}
	}
	p.assemble(set, table, rows, resume)
	return p.work(ctx, len(resume))
}

// prepare reads the configuration and makes the directories.
func (p *process) prepare() error {
	p.id = p.opts.WorkerID
	if p.id == "" {
		p.id = os.Getenv("NIGHTSHIFT_WORKER_ID")
	}
	if p.id == "" {
		p.id = "w1"
	}
	if err := checkWorkerID(p.id); err != nil {
		return &exitError{ExitUsage, err}
	}
	cfg, err := loadConfig(p.opts)
	if err != nil {
		return &exitError{ExitConfig, err}
	}
	p.cfg.Store(cfg)
	if err := makeDirs(cfg.DataDir, runDir(cfg.DataDir), cfg.Log.Dir); err != nil {
		return err
	}
	n := p.opts.Slots
	if n == 0 {
		n = cfg.Worker.Slots
	}
	p.slots = slotNames(p.id, n)
	return nil
}

// openLogs comes after the lock, which says better than a log file who is second.
func (p *process) openLogs() (err error) {
	p.logs, err = logging.Open(logging.Options{Worker: p.id, Config: p.config().Log, Console: p.opts.Stderr})
	var held *logging.HeldError
	if errors.As(err, &held) {
		return p.secondOfItsName(held)
	}
	if err != nil {
		return exit(ExitTempFail, "log files: %w", err)
	}
	p.log = p.logs.Logger()
	if p.line, err = openLifeline(p.clock, p.log); err != nil {
		return &exitError{ExitUsage, err}
	}
	return nil
}

// config is the configuration in force. Safe from any goroutine.
func (p *process) config() *config.Config { return p.cfg.Load() }

// slotNames gives the executor ids: w1 with one slot; w1.1, w1.2 … with more.
func slotNames(id string, n int) []string {
	if n == 1 {
		return []string{id}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%d", id, i+1)
	}
	return names
}

// work runs the loops until the drain is over.
func (p *process) work(ctx context.Context, resumed int) error {
	signals := p.listen(ctx)
	defer signals.close()
	p.also(func() { p.heart.Run(p.done) })
	p.also(func() { p.line.run(p.sched.Pulse(), p.sched.Drain, p.done) })
	p.also(func() { p.warden.Run(p.done) })
	p.also(func() { p.table.Run(p.done) })
	p.also(func() { p.keepHouse(p.done) })
	p.also(func() { p.watchWriteLock(p.done) })
	p.also(p.places.clean)
	p.log.Info("worker ready", "worker", p.id, "pid", os.Getpid(), "slots", len(p.slots), "resumed", resumed,
		"version", p.opts.Version)
	if p.line.send(readyByte) {
		p.sched.Drain()
	}
	err := p.sched.Run()
	close(p.done)
	close(p.places.gone)
	p.loops.Wait()
	if err != nil {
		// The abandoned handler still runs: no clean end is recorded, so that the
		// next life counts this one as a crash of that task.
		return &exitError{ExitSoftware, err}
	}
	p.leaveNothing()
	if err := p.store.Stopped(p.id, p.clock.Now()); err != nil {
		return exit(ExitUnavailable, "clean end not recorded: %w", err)
	}
	p.log.Info("worker ends", "worker", p.id, "exit", ExitOK)
	return nil
}

// leaveNothing ends what tasks of this life left behind, before it ends itself:
// afterwards it would hold the lock, and nobody would be its parent.
func (p *process) leaveNothing() {
	p.reaper.Close()
	dev, ino := p.lock.Inode()
	left, err := p.sweep(dev, ino).KillAll(leftoverWait)
	if err != nil || len(left) > 0 {
		p.log.Warn("processes of ended tasks stay behind", "left", left, "err", err)
	}
}

// also runs f beside the scheduler until it returns.
func (p *process) also(f func()) {
	p.loops.Add(1)
	go func() {
		defer p.loops.Done()
		f()
	}()
}

// random gives the jitter; math/rand/v2's global source is safe for concurrent use.
func random(n int64) int64 { return rand.Int64N(n) }
