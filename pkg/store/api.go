package store

import (
	"time"

	"nightshift/pkg/task"
)

// NewTask is a task to be inserted. The zero values of its optional fields mean
// the schema's defaults.
type NewTask struct {
	ID         string // "": a new time-ordered one
	Type       string
	Payload    string    // JSON text, kept byte for byte; "": {}
	Held       bool      // inserted PAUSED
	Priority   *int64    // nil: 100
	NextRun    time.Time // zero: now
	MaxRetry   *int64    // nil: 5
	Timeout    *int64    // seconds; nil: the type's; 0: none
	RetryCount int64     // failures to count from
	Checkpoint string    // JSON text to start from
	UniqueKey  string    // at most one unfinished task bears it
	Schedule   string    // the schedule that makes it
	RerunOf    string    // the task that it runs again
}

// Verdict is what becomes of a RUNNING task when its execution ends.
type Verdict int

// The verdicts. Whatever the verdict, a cancel that was asked for meanwhile wins
// over Retry, Timeout, Pause and Release.
const (
	Succeed Verdict = iota + 1 // SUCCESS, done
	Fail                       // FAILED, fatal_error
	Retry                      // RETRYING, retryable_error; DEAD beyond max_retry
	Timeout                    // RETRYING, timeout; DEAD beyond max_retry
	Cancel                     // CANCELLED, user_cancel
	Pause                      // PAUSED, user_pause
	Release                    // stays RUNNING for its worker's return; the history row is closed
)

// The values of exec_history.outcome.
const (
	OutcomeSuccess      = "success"
	OutcomeFailed       = "failed"
	OutcomeRetry        = "retry"
	OutcomeTimeout      = "timeout"
	OutcomeCancelled    = "cancelled"
	OutcomePaused       = "paused"
	OutcomeStopped      = "stopped"       // released by a worker that drained
	OutcomeInterrupted  = "interrupted"   // its worker came back and ran it on
	OutcomeLost         = "lost"          // taken over
	OutcomeLeaseExpired = "lease_expired" // overran its lease
)

// Finish ends one execution.
type Finish struct {
	Fence    task.Fence
	Verdict  Verdict
	Result   string // JSON text; "": none
	Summary  string // for people, cut to 4 KiB
	ExitCode *int
	Signal   string
	Program  string
	Outcome  string // "": by the verdict
	LogPath  string
	RetryAt  time.Time // of Retry and Timeout: when the next attempt is due
	Now      time.Time // zero: the store's clock
}

// FinishResult says what a Finish did. Err is ErrNotMine when the fence no
// longer matched; the other finishes of the Turn are not affected.
type FinishResult struct {
	Status task.Status
	Err    error
}

// TypeRule is what a claim must know of a task type.
type TypeRule struct {
	Limit   int           // how many may run at once over all workers; 0: no limit
	Timeout time.Duration // for rows without timeout_seconds; 0: none
}

// ClaimRequest asks for as many due tasks as there are idle executors.
type ClaimRequest struct {
	Executors []string            // idle slots, one task each
	Worker    string              // the worker they belong to
	Types     map[string]TypeRule // what this worker can run; others are never claimed
	Now       time.Time           // zero: the store's clock

	NoTimeoutLease time.Duration // lease of a task without a timeout: 2 × offline_after
	SuspectAt      int64         // from this crash_count on a task runs alone among its like; 0: off
	MaxExecutions  int64         // 0: no limit
}

// TurnResult is the outcome of a Turn. Finished parallels the finishes.
type TurnResult struct {
	Finished []FinishResult
	Claimed  []task.Task
	NextDue  time.Time // the earliest due time of what could not be claimed yet; zero: none. In the past: more is due now
	DiskFull bool      // the claim was left out because the disk is nearly full
}

// OwnedTask is a RUNNING or LOST row of a worker.
type OwnedTask struct {
	ID         string
	Type       string
	ExecutorID string
	ExecID     int64
	Status     task.Status
	Control    task.Control
	LeaseUntil time.Time
	CrashCount int64
}

// Fence returns the fence of the row's current execution.
func (o OwnedTask) Fence() task.Fence {
	return task.Fence{TaskID: o.ID, ExecutorID: o.ExecutorID, ExecID: o.ExecID}
}

// Renewal gives an execution a new lease.
type Renewal struct {
	Fence task.Fence
	Lease time.Time
}

// Heartbeat is a row of worker_heartbeats: one executor. Times that are zero are NULL.
type Heartbeat struct {
	WorkerID      string // the executor's id: w1, or w1.2 with several slots
	PID           int
	Hostname      string
	LastHeartbeat time.Time
	CurrentTaskID string
	Progress      string
	Version       string
	BootID        string
	StartedAt     time.Time
	StartTicks    uint64
	Beat          int64 // counts up with each Register and Beat
	StoppedAt     time.Time
	LockPath      string
	LockDev       uint64
	LockIno       uint64
	Draining      bool
	SlowSince     time.Time
}

// Owner is an executor that owns RUNNING or LOST rows, with its heartbeat row
// (WorkerID "" in it when there is none).
type Owner struct {
	ExecutorID string
	Tasks      int
	MinLease   time.Time
	Heartbeat  Heartbeat
}

// RecoverRequest is a worker's own recovery before its first claim (DESIGN §5).
type RecoverRequest struct {
	Worker    string
	Executors []string // the slots that exist now
	BootID    string
	Now       time.Time
	Graceful  bool // the old incarnation said good-bye, or another boot: no crash is counted
	Types     map[string]TypeRule
	Backoff   func(taskType string) task.Backoff
	Rand      func(n int64) int64

	NoTimeoutLease time.Duration
	MaxCrashes     int64
	SuspectAt      int64 // 0: max(MaxCrashes-1, 1)
	MaxExecutions  int64 // 0: no limit
}

// Recovered is what a recovery did.
type Recovered struct {
	Resume    []task.Task // RUNNING under a new exec_id: run them on at once
	Requeued  int         // LOST, or more than there are slots: PENDING again
	Expired   int         // RETRYING, lease_expired
	Dead      int         // retries, crashes or executions exhausted
	Cancelled int         // a cancel had been asked for
	Paused    int         // a pause had been asked for
	LetGo     int         // moved by hand while it ran: claimable again
}

// TakeOverRequest moves the tasks of executors that are proven dead.
type TakeOverRequest struct {
	Executors []string // exactly these; nil with Worker: all of the worker's
	Worker    string
	BootID    string // only rows whose heartbeat bears this boot; "": any
	Graceful  bool   // a good-bye or a reboot: no crash is counted
	Now       time.Time

	MaxCrashes    int64
	MaxExecutions int64
}

// TakenOver is what a takeover did.
type TakenOver struct {
	Requeued  []string
	Dead      []string
	Cancelled []string
	LetGo     int
}

// ControlResult says what setting a control did.
type ControlResult struct {
	ID      string
	Before  task.Status
	After   task.Status
	Control task.Control // what now stands in the row; NoControl when it acted at once
}

// Filter selects tasks for List, Count and SetControlWhere.
type Filter struct {
	Statuses []task.Status // empty: all
	Type     string
	Schedule string
	Executor string
	Before   int64 // only rows inserted before this row number (Row.Seq); 0: from the newest
	Limit    int   // 0: no limit
	Full     bool  // with payload, checkpoint and result
}

// Execution is a row of exec_history.
type Execution struct {
	ExecID     int64
	TaskID     string
	ExecutorID string
	Start, End time.Time // End is zero while it runs
	Outcome    string
	Result     string
	LogPath    string
	ExitCode   *int
	Signal     string
	Program    string
}

// Event is a row of task_events.
type Event struct {
	ID         int64
	TaskID     string
	From, To   task.Status
	Reason     task.Reason
	ExecutorID string
	ExecID     int64
	At         time.Time
}

// ScheduleState is a row of schedules.
type ScheduleState struct {
	Name            string
	Definition      string
	ConsideredUntil time.Time // zero: never looked at
	Enabled         bool
}

// ScheduleDef declares a schedule.
type ScheduleDef struct {
	Name       string
	Definition string // canonical text of what it is; a change starts it afresh from Now
	Enabled    bool
}

// Skip is an occurrence that did not run.
type Skip struct {
	Schedule   string
	Occurrence time.Time
	Reason     string
	At         time.Time
}

// Firing moves a schedule on: its tasks, its skips and its considered_until, in
// one transaction, if the row still says Seen.
type Firing struct {
	Schedule string
	Seen     time.Time // considered_until as it was read
	Until    time.Time // considered_until as it becomes
	Tasks    []NewTask // inserted with OR IGNORE: an occurrence exists at most once
	Skips    []Skip
	// NoOverlap turns the tasks into skips ("overlap") when an unfinished task of
	// the schedule exists at the moment of the transaction.
	NoOverlap bool
}

// Fired is what a Firing did.
type Fired struct {
	Moved    bool // false: another worker was faster, nothing was done
	Inserted []string
	Skipped  []Skip
}

// PrunePolicy says what may go. Only finished tasks ever go.
type PrunePolicy struct {
	Before   time.Time // finished before this; zero: nothing by age
	MaxBytes int64     // then the oldest finished, until the database is smaller; 0: no budget
	Now      time.Time
}

// Pruned is what a prune removed. Tasks lists the ids, so that their directories
// and logs can go too.
type Pruned struct {
	Tasks    []string
	LogPaths []string
	Skips    int
	Bytes    int64 // given back to the file system
}

// Finding is one line of Check.
type Finding struct {
	Fatal bool // the database must not be used
	What  string
	Cure  string
}

// LockHolder is a process that holds the write lock, the turn or a read lock.
type LockHolder struct {
	PID   int
	Comm  string
	State string // one letter of /proc/PID/stat: T is stopped
	What  string // "write", "turn", "read"
}

// Size is the room that the database takes.
type Size struct {
	Database, WAL int64 // bytes on disk
	Used          int64 // bytes of pages in use
	FreeDisk      int64 // bytes free for this user on the file system
}
