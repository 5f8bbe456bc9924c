// Package scheduler decides when: it wakes when something is due, claims as many
// tasks as there are idle slots, starts their executions and writes how they
// ended, one transaction for the ends and the next claims.
//
// Beside that loop stand the Heart, which tells others that this worker lives,
// the Warden, which looks after the tasks of other workers (proof of death, then
// takeover), and the Timetable, which turns schedules into tasks.
//
// Invariants: nothing is claimed ahead of a free slot; at most one turn with the
// database is under way, in a goroutine of its own, so that the loop always
// answers; a finished execution is kept until the database has it.
package scheduler

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Store is what the loop needs of the database.
type Store interface {
	executor.Recorder
	Turn(finishes []store.Finish, claim *store.ClaimRequest) (store.TurnResult, error)
	NextDue(types map[string]store.TypeRule) (due time.Time, found bool, err error)
	LetGo(f task.Fence, now time.Time) error
	Controls(workerID string) ([]store.OwnedTask, error)
	RenewLeases(now time.Time, renewals []store.Renewal) error
	PullIn(now, was time.Time, limit func(taskType string) task.Backoff, rnd func(n int64) int64) (int, error)
	Draining() (bool, error)
	Get(id string) (task.Task, error)
	Slow(f task.Fence, now time.Time, hook *store.NewTask) error
}

// Settings is what the configuration decides; Reload swaps it as a whole.
type Settings struct {
	Types         map[string]executor.Type
	Rules         map[string]store.TypeRule // the same keys as Types
	PollInterval  time.Duration             // the net under the exact wake-up
	SuspectAfter  time.Duration
	OfflineAfter  time.Duration
	MaxCrashes    int64
	MaxExecutions int64 // 0: no limit
	DrainTimeout  time.Duration
	Backoff       func(taskType string) task.Backoff // of any type, known or not
	SlowHook      func(t *task.Task) *store.NewTask  // nil: none
}

// suspectAt is the crash count from which a task runs without another of its
// kind beside it in the same worker, so that the next crash can be blamed.
func (s *Settings) suspectAt() int64 { return max(1, s.MaxCrashes-1) }

// NoTimeoutLease is the lease of a task without a timeout: 2 × offline_after,
// renewed by each heartbeat (DESIGN §7).
func (s *Settings) NoTimeoutLease() time.Duration { return 2 * s.OfflineAfter }

// Config is fixed for the scheduler's life.
type Config struct {
	WorkerID string
	Slots    []string // executor ids
	Store    Store
	Deps     executor.Deps
	Logger   hclog.Logger
	// Changes fires when anyone has committed to the database.
	Changes <-chan struct{}
	// Beat writes this worker's heartbeat now.
	Beat func() error
	// LastBeat is when the last heartbeat was written, with its monotonic reading.
	LastBeat func() time.Time
	// Discard removes what an ended task leaves behind (its directory). It must not
	// block: it is called on the loop.
	Discard func(t *task.Task)
	// Stepped is told when the wall clock was set; may be nil.
	Stepped func(by time.Duration)
}

// Scheduler is one worker's loop. Create it with New, then call Run once.
type Scheduler struct {
	cfg Config
	log hclog.Logger

	mu       sync.Mutex
	settings *Settings
	board    map[string]*executor.Execution // by executor id: what runs now

	resume []task.Task
	ends   chan executor.Completion
	drain  chan struct{}
	kick   chan struct{}
	pulse  Pulse
}

// New prepares a scheduler whose first act is to run resume, the tasks that
// recovery found to be this worker's own.
func New(cfg Config, settings *Settings, resume []task.Task) *Scheduler {
	return &Scheduler{
		cfg: cfg, log: cfg.Logger, settings: settings, resume: resume,
		board: map[string]*executor.Execution{},
		ends:  make(chan executor.Completion, len(cfg.Slots)),
		drain: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}
}

// Reload puts new settings in force for the next claim; running executions keep
// theirs. Safe from any goroutine.
func (s *Scheduler) Reload(settings *Settings) {
	s.mu.Lock()
	s.settings = settings
	s.mu.Unlock()
	s.Kick()
}

func (s *Scheduler) current() *Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Kick makes the loop look at once. Safe from any goroutine.
func (s *Scheduler) Kick() {
	select {
	case s.kick <- struct{}{}:
	default: // a look is already asked for
	}
}

// Drain makes Run end: no new claims; running tasks are told to stop at their
// next checkpoint. Safe from any goroutine; repeating is harmless.
func (s *Scheduler) Drain() {
	select {
	case s.drain <- struct{}{}:
	default: // already asked for
	}
}

// Board returns what runs now, by executor id. Safe from any goroutine.
func (s *Scheduler) Board() map[string]*executor.Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := make(map[string]*executor.Execution, len(s.board))
	for k, v := range s.board {
		b[k] = v
	}
	return b
}

// Pulse tells whether the loop lives. Safe from any goroutine.
func (s *Scheduler) Pulse() *Pulse { return &s.pulse }

// ErrAbandoned ends Run when a handler could not be stopped: the process must
// exit, because only its end proves that the handler no longer runs.
var ErrAbandoned = errors.New("a handler could not be stopped")

// Run is the loop. It returns nil after a drain, ErrAbandoned when a handler
// obeyed nothing.
func (s *Scheduler) Run() error {
	l := s.newLoop()
	defer l.close()
	l.pullIn(l.now(), time.Time{}) // retries stamped before this start, under whatever clock
	l.startAll(s.resume, l.set)
	for {
		l.step()
		l.diary.write()
		if l.over() {
			return l.verdict()
		}
		s.pulse.Beat(s.cfg.Deps.Clock.Now(), l.turning)
		select {
		case c := <-s.ends:
			l.end(c)
			l.gather()
		case r := <-l.turned:
			l.turnedOver(r)
		case <-s.cfg.Changes:
			l.lookNow()
			l.watchSoon()
		case <-s.kick:
			l.lookNow()
		case <-fires(l.alarm):
			l.alarm = nil
			l.lookNow()
		case <-l.tick.C():
			l.everySecond()
		case <-s.drain:
			l.beginDrain()
		case <-fires(l.drainEnd):
			l.drainEnd = nil
			l.force()
		}
	}
}

func fires(t executor.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C()
}
