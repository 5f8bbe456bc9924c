package task

import "fmt"

// Status is where a task stands. The nine values are the seed's (§2.2) and the
// database knows no other.
type Status string

// The nine states. The first five are unfinished, the last four are final.
const (
	Pending   Status = "PENDING"   // waits for its time and a free slot
	Running   Status = "RUNNING"   // owned by an executor
	Paused    Status = "PAUSED"    // held by a person
	Retrying  Status = "RETRYING"  // failed, waits for its next attempt
	Lost      Status = "LOST"      // its executor is silent or dead, no proof acted on yet
	Success   Status = "SUCCESS"   // final
	Failed    Status = "FAILED"    // final: an error that no retry can cure
	Dead      Status = "DEAD"      // final: retries, crashes or executions exhausted
	Cancelled Status = "CANCELLED" // final: a person's wish
)

// Statuses lists all states, unfinished ones first.
func Statuses() []Status {
	return []Status{Pending, Running, Retrying, Paused, Lost, Success, Failed, Dead, Cancelled}
}

// Final reports that no transition leaves s.
func (s Status) Final() bool {
	return s == Success || s == Failed || s == Dead || s == Cancelled
}

// Known reports that s is one of the nine.
func (s Status) Known() bool {
	for _, k := range Statuses() {
		if s == k {
			return true
		}
	}
	return false
}

// Reason says why a status changed. Every change bears one, and each pair of
// states admits only the reasons of its line in the table.
type Reason string

// The reasons of the table of transitions.
const (
	Claimed          Reason = "claimed"
	UserCancel       Reason = "user_cancel"
	UserPause        Reason = "user_pause"
	UserResume       Reason = "user_resume"
	Done             Reason = "done"
	FatalError       Reason = "fatal_error"
	RetryableError   Reason = "retryable_error"
	TimedOut         Reason = "timeout"
	LeaseExpired     Reason = "lease_expired"
	RetriesExhausted Reason = "retries_exhausted"
	WorkerCrash      Reason = "worker_crash"   // death proven
	WorkerOffline    Reason = "worker_offline" // silence only
	Takeover         Reason = "takeover"
	WorkerBack       Reason = "worker_back"
	CrashesExhausted Reason = "crashes_exhausted"
)

// Transition is one line of the table: a pair of states and a reason it admits.
type Transition struct {
	From, To Status
	Reason   Reason
}

// transitions is the state machine. schema.sql holds the same table as a
// trigger; a test compares all 81 pairs and every reason.
var transitions = []Transition{
	{Pending, Running, Claimed},
	{Pending, Cancelled, UserCancel},
	{Running, Success, Done},
	{Running, Failed, FatalError},
	{Running, Retrying, RetryableError},
	{Running, Retrying, TimedOut},
	{Running, Retrying, LeaseExpired},
	{Running, Paused, UserPause},
	{Running, Cancelled, UserCancel},
	{Running, Lost, WorkerCrash},
	{Running, Lost, WorkerOffline},
	{Retrying, Running, Claimed},
	{Retrying, Dead, RetriesExhausted},
	{Retrying, Cancelled, UserCancel},
	{Paused, Running, UserResume},
	{Paused, Cancelled, UserCancel},
	{Lost, Pending, Takeover},
	{Lost, Running, WorkerBack},
	{Lost, Dead, CrashesExhausted},
}

// Transitions returns a copy of the table.
func Transitions() []Transition {
	return append([]Transition(nil), transitions...)
}

// IllegalTransition is refused by Check, and by the database's trigger alike.
type IllegalTransition struct {
	From, To Status
	Reason   Reason
}

func (e *IllegalTransition) Error() string {
	return fmt.Sprintf("illegal status change %s -> %s (reason %q)", e.From, e.To, string(e.Reason))
}

// Check is the gate that every status change passes: nil when the table admits
// from → to with this reason, an *IllegalTransition otherwise.
func Check(from, to Status, reason Reason) error {
	for _, t := range transitions {
		if t.From == from && t.To == to && t.Reason == reason {
			return nil
		}
	}
	return &IllegalTransition{from, to, reason}
}

// Control is what a person asks of a task: one column, set by the command line
// or by a shell's UPDATE alike, NULL (empty here) once honoured.
type Control string

// The wishes. Kill is a cancel that does not wait for the batch in hand.
const (
	NoControl Control = ""
	Cancel    Control = "cancel"
	Kill      Control = "kill"
	Pause     Control = "pause"
	Resume    Control = "resume"
)

// Cancels reports that c ends the task (cancel or kill).
func (c Control) Cancels() bool { return c == Cancel || c == Kill }
