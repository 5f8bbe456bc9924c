package store

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/task"
)

// Options says how to open a store.
type Options struct {
	Path     string           // the database file; it must exist (Init makes it)
	RunDir   string           // holds turn.lock; "": run beside the database
	Logger   hclog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now
	ReadOnly bool             // no writer: writes return ErrReadOnly
	MaxWait  time.Duration    // how long a write waits for others; 0: for ever (workers)
	Ballast  string           // a file of BallastBytes that is given up when the disk is full; "": none
	// AllowNetworkFS opens a file on a network file system all the same, without WAL.
	AllowNetworkFS bool
}

var errNotYet = errors.New("not yet written")

// Store is one process's way into a database.
type Store struct{}

func Open(o Options) (*Store, error) { return nil, errNotYet }
func Init(path string) error         { return errNotYet }
func (s *Store) Close() error        { return errNotYet }

func (s *Store) SetHook(events []string, h func(event string, t *task.Task) (NewTask, bool)) {}

func (s *Store) Add(now time.Time, tasks ...NewTask) (ids []string, err error) { return nil, errNotYet }
func (s *Store) AddStream(now time.Time, next func() (NewTask, bool, error), each func(id string)) (int, error) {
	return 0, errNotYet
}
func (s *Store) Turn(finishes []Finish, claim *ClaimRequest) (TurnResult, error) {
	return TurnResult{}, errNotYet
}
func (s *Store) NextDue(types map[string]TypeRule) (due time.Time, ok bool, err error) {
	return time.Time{}, false, errNotYet
}
func (s *Store) Checkpoint(f task.Fence, state, progress string, now time.Time) (task.Control, error) {
	return "", errNotYet
}
func (s *Store) Slow(f task.Fence, now time.Time, hook *NewTask) error { return errNotYet }
func (s *Store) LetGo(f task.Fence, now time.Time) error               { return errNotYet }
func (s *Store) Controls(workerID string) ([]OwnedTask, error)         { return nil, errNotYet }
func (s *Store) RenewLeases(now time.Time, renewals []Renewal) error   { return errNotYet }

func (s *Store) Register(rows []Heartbeat) error              { return errNotYet }
func (s *Store) Beat(rows []Heartbeat) error                  { return errNotYet }
func (s *Store) Stopped(workerID string, now time.Time) error { return errNotYet }
func (s *Store) Heartbeats() ([]Heartbeat, error)             { return nil, errNotYet }
func (s *Store) Foreign(workerID string) ([]Owner, error)     { return nil, errNotYet }

func (s *Store) Recover(r RecoverRequest) (Recovered, error)             { return Recovered{}, errNotYet }
func (s *Store) TakeOver(r TakeOverRequest) (TakenOver, error)           { return TakenOver{}, errNotYet }
func (s *Store) MarkOffline(executor string, now time.Time) (int, error) { return 0, errNotYet }
func (s *Store) ExpireLease(f task.Fence, retryAt, now time.Time) (task.Status, error) {
	return "", errNotYet
}
func (s *Store) PullInRetries(now time.Time, limit func(taskType string) task.Backoff, rnd func(n int64) int64) (int, error) {
	return 0, errNotYet
}

func (s *Store) SetControl(id string, c task.Control, now time.Time) (ControlResult, error) {
	return ControlResult{}, errNotYet
}
func (s *Store) SetControlWhere(f Filter, c task.Control, now time.Time, each func(ControlResult, error)) error {
	return errNotYet
}
func (s *Store) Rerun(id string, fresh bool, now time.Time) (newID string, err error) {
	return "", errNotYet
}
func (s *Store) Get(id string) (task.Task, error)                                { return task.Task{}, errNotYet }
func (s *Store) List(f Filter, each func(seq int64, t *task.Task) error) error   { return errNotYet }
func (s *Store) Count() (map[task.Status]int64, error)                           { return nil, errNotYet }
func (s *Store) History(id string) ([]Execution, error)                          { return nil, errNotYet }
func (s *Store) Execution(execID int64) (Execution, error)                       { return Execution{}, errNotYet }
func (s *Store) Events(id string) ([]Event, error)                               { return nil, errNotYet }
func (s *Store) EventsSince(from time.Time, each func(Event) error) error        { return errNotYet }
func (s *Store) Running() ([]task.Task, error)                                   { return nil, errNotYet }
func (s *Store) FailedSince(from time.Time, each func(t *task.Task) error) error { return errNotYet }
func (s *Store) RunningByType() (map[string]int, error)                          { return nil, errNotYet }

func (s *Store) SyncSchedules(defs []ScheduleDef, now time.Time) error   { return errNotYet }
func (s *Store) Schedules() ([]ScheduleState, error)                     { return nil, errNotYet }
func (s *Store) ScheduleState(name string) (ScheduleState, error)        { return ScheduleState{}, errNotYet }
func (s *Store) FireOccurrences(f Firing, now time.Time) (Fired, error)  { return Fired{}, errNotYet }
func (s *Store) Skips(name string, limit int) ([]Skip, error)            { return nil, errNotYet }
func (s *Store) Occurrences(name string, limit int) ([]task.Task, error) { return nil, errNotYet }

func (s *Store) SetDrain(on bool, now time.Time) error { return errNotYet }
func (s *Store) Draining() (bool, error)               { return false, errNotYet }

func (s *Store) Prune(p PrunePolicy) (Pruned, error) { return Pruned{}, errNotYet }
func (s *Store) Backup(dst string) error             { return errNotYet }
func (s *Store) Check(deep bool) ([]Finding, error)  { return nil, errNotYet }
func (s *Store) Holders() ([]LockHolder, error)      { return nil, errNotYet }
func (s *Store) Sizes() (Size, error)                { return Size{}, errNotYet }
func (s *Store) Changes() <-chan struct{}            { return nil }
func (s *Store) Err() error                          { return nil }
