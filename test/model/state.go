// Package model searches every state that Nightshift's protocol of life and death
// can reach: workers that claim, checkpoint, finish, are stopped, killed, started
// anew and watch each other; programs that outlive their worker and let go of its
// lock; leases that run out, rows given up for silence, reboots, lost lock files,
// and a person who cancels, pauses and resumes.
//
// A step is what is atomic in the product: one transaction, one system call, one
// event of the outside world. Every change of a status passes task.Check, so that
// the model and the product share the table of transitions. In each state it is
// checked that no task has two programs at a time, that no write of a stale
// execution was let through, and that no task takes a step after a cancel was
// asked for before its claim; over the whole graph, that from every state a final
// one can be reached.
//
// Execution numbers and incarnations only matter by which are equal and which are
// later, so they are renamed to 1, 2, 3 … in each state. That makes the graph
// finite without bounding how often anything may happen.
//
// Rules weakens the protocol in one place at a time. Each weakening must be found
// out: a model that accepts everything proves nothing.
package model

import "nightshift/pkg/task"

// The largest model. Arrays keep a state comparable, so that it can be a map's key.
const (
	maxWorkers = 3
	maxTasks   = 2
)

// status is a task.Status as a small number.
type status uint8

var statuses = task.Statuses()

func (s status) name() task.Status { return statuses[s] }

func statusOf(name task.Status) status {
	for i, s := range statuses {
		if s == name {
			return status(i)
		}
	}
	panic("model: unknown status " + string(name))
}

var (
	pending, running, retrying = statusOf(task.Pending), statusOf(task.Running), statusOf(task.Retrying)
	paused, lost               = statusOf(task.Paused), statusOf(task.Lost)
	success, dead, cancelled   = statusOf(task.Success), statusOf(task.Dead), statusOf(task.Cancelled)
)

func (s status) final() bool { return s.name().Final() }

// control is what a person asks for.
type control uint8

const (
	none control = iota
	cancel
	pause
	resume
)

// row is a row of tasks: what decisions are made from.
type row struct {
	status  status
	owner   uint8 // worker + 1; 0: nobody
	exec    uint8
	control control
	expired bool // the lease has run out
	crashes uint8
	retries uint8
}

// phase is where a worker's process stands.
type phase uint8

const (
	down      phase = iota // no process
	starting               // holds its lock; its old tree may still live
	recovered              // has recovered, not registered (only where Rules.RegisterApart)
	up                     // claims
	upUnswept              // claims although it has not recovered (only where Rules.ClaimFirst)
)

// step is where a worker's execution stands.
type step uint8

const (
	idle      step = iota
	claimed        // in the database; the program is not started
	works          // the program runs
	stopping       // told to stop for a cancel
	pausing        // told to stop for a pause
	abandoned      // no longer ours: the program is killed, nothing is written
	succeeded      // the program has ended; not yet written
	failed
	stopped // ended after a cancel, not yet written
	held    // ended after a pause, not yet written
)

// watch is where a worker stands in looking after a dead neighbour.
type watch uint8

const (
	calm      watch = iota
	guards          // holds the neighbour's lock
	byReboot        // the neighbour's row is from another boot: proof without a lock
	byKernel        // lock file missing, but the recorded process is gone
	unproven        // no proof at all (only where Rules allow)
	guardsNot       // had the lock and let it go before the commit (only where Rules.GuardDropped)
)

// proc is a worker: its process, and what is on record of it.
type proc struct {
	phase   phase
	frozen  bool // SIGSTOP
	step    step
	task    uint8 // of the execution
	exec    uint8
	life    uint8 // incarnation of the process, or of the last one
	noFile  bool  // its lock file was deleted
	beat    uint8 // the incarnation that its heartbeat row names
	oldBoot bool  // the heartbeat row is from another boot

	// A checkpoint of an earlier execution that is still on its way: the program
	// wrote it on its socket and ended.
	late     uint8 // its execution; 0: none
	lateTask uint8

	watch  watch
	whom   uint8           // the neighbour
	saw    uint8           // the neighbour's incarnation on record when the watch began
	sawRun [maxTasks]uint8 // and the executions that it owned
	swept  bool            // the neighbour's tree was hunted and found empty
}

// program is a task's process: child of a worker, with all its descendants.
type program struct {
	exec uint8 // 0: none
	lock bool  // keeps the descriptor of its worker's lock
}

// state is everything.
type state struct {
	rows  [maxTasks]row
	procs [maxWorkers]proc
	kids  [maxWorkers][maxTasks]program
}

// Rules are the protocol, and the ways in which it can be weakened. The zero
// value is the protocol as it is.
type Rules struct {
	NoChildLock     bool // programs do not inherit the lock
	NoSweep         bool // nobody looks for programs that let go of the lock
	ExpiryIsDeath   bool // an expired lease allows a takeover
	SilenceIsDeath  bool // LOST by silence allows a takeover
	KillIsDeath     bool // after a kill nobody looks whether the lock is free
	GuardDropped    bool // the lock is let go before the takeover is committed
	NotAsked        bool // the takeover does not ask whether the worker is back
	NoExecFence     bool // writes are fenced by executor alone
	NoFence         bool // writes are not fenced at all
	RegisterApart   bool // recovery and heartbeat row are two transactions
	ClaimFirst      bool // a worker claims before it recovers
	PauseFirst      bool // PAUSED is written before the program has ended
	ResumeCancelled bool // recovery does not look at control
	BlindClaim      bool // the claim's UPDATE does not ask for the status that was read
	StartUnswept    bool // a worker starts while its old tree lives
	MissingIsFree   bool // a missing lock file counts as a free lock
	BackUnfenced    bool // LOST → RUNNING asks for the executor alone
}

// Model is a size and a set of rules.
type Model struct {
	Workers, Tasks int
	Rules          Rules

	// What the outside world may do beside kill, stop and continue.
	Reboots, LostFiles, Silence, Pauses, Cancels, Failures, LateWrites bool
}

// Limits of the counters; the product's are larger, and the paths the same.
const (
	maxCrashes = 2
	maxRetries = 1
)
