package liveness

import (
	"fmt"
	"syscall"
	"time"
)

const (
	quitGrace = 5 * time.Second // from SIGQUIT, at which a Go program writes its stacks, to SIGKILL
	killGrace = 5 * time.Second // from SIGKILL to the word that it does not help
	stuckEach = time.Minute     // between two such words
)

// Child is a worker process that a supervisor started. Until it is reaped its number cannot
// belong to another, so signals by number are safe; after that it gets none. Its methods
// belong to the Family's goroutine.
type Child struct {
	Process
	Line  *Lifeline
	Began time.Duration

	stage    Stage
	due      time.Duration // of the next stage
	forgiven time.Duration // silence is counted from here at the earliest
	owed     []syscall.Signal
	death    *Death
}

// Stage is how far a child is on its way out.
type Stage int

// The stages. From Silent on, each follows when the grace of the one before it is over.
const (
	Working Stage = iota
	Silent        // no sign of life within its limit: SIGQUIT
	Asked         // to go, by AskToGo
	Killed        // SIGKILL sent, to its process group too
	Stuck         // it did not help: a thread is in an uninterruptible wait
)

func (s Stage) String() string {
	return [...]string{"working", "silent: told to show its stacks and end", "told to end", "killed", "cannot be killed"}[s]
}

// Limits are how long a worker may be silent: until it is READY, and after; and how long it
// may take to go when it is asked to.
type Limits struct{ Boot, Steady, Stop time.Duration }

// Dead gives the end of the child, once it was reaped.
func (c *Child) Dead() (*Death, bool) { return c.death, c.death != nil }

// AskToGo sends the first signal of the way out, of which SIGKILL is the end after grace. A
// stopped process is to hear it too. Asked again, it only shortens the grace. No child (nil)
// is gone already.
func (c *Child) AskToGo(sig syscall.Signal, now, grace time.Duration) {
	if c == nil || c.stage > Asked || c.stage > Working && c.due <= now+grace {
		return
	}
	c.stage, c.due = Asked, now+grace
	c.signal(sig)
	c.signal(syscall.SIGCONT)
}

// Watch does what is due: it ends a silent child, and goes on with the way out of one that
// was asked to go. It says where that is, and whether it has just come there (Stuck: each
// minute again), and when to look next.
func (c *Child) Watch(now time.Duration, l Limits) (stage Stage, news bool, next time.Duration) {
	switch {
	case c.stage == Working:
		limit := l.Boot
		if c.Line.Ready() {
			limit = l.Steady
		}
		if left := limit - c.silence(now); left > 0 {
			return Working, false, now + left
		}
		c.AskToGo(syscall.SIGQUIT, now, quitGrace)
		c.stage = Silent
	case now < c.due:
		return c.stage, false, c.due
	case c.stage < Killed:
		c.stage, c.due = Killed, now+killGrace
		_ = syscall.Kill(-c.PID, sigkill) // the group: it may have none of its own yet
		c.signal(sigkill)
	default:
		c.stage, c.due = Stuck, now+stuckEach
	}
	return c.stage, true, c.due
}

// silence is how long the child has given no sign of life.
func (c *Child) silence(now time.Duration) time.Duration {
	return now - max(c.Began, c.forgiven, c.Line.Heard())
}

// tell sends a signal that means something to a worker that is ready, and would end one
// that is not: that one gets it when it is.
func (c *Child) tell(sig syscall.Signal) {
	if c.Line.Ready() {
		c.signal(sig)
	} else {
		c.owed = append(c.owed[:min(len(c.owed), 7)], sig) // more of them would say no more
	}
}

// payOwed sends what tell could not.
func (c *Child) payOwed() {
	if len(c.owed) == 0 || !c.Line.Ready() {
		return
	}
	for _, sig := range c.owed {
		c.signal(sig)
	}
	c.owed = nil
}

func (c *Child) signal(sig syscall.Signal) {
	if c.death == nil {
		_ = syscall.Kill(c.PID, sig) // a zombie does not mind
	}
}

// Death is the end of a worker.
type Death syscall.WaitStatus

// Code is the exit code; that of a signal is 128 + its number, as shells have it.
func (d Death) Code() int {
	if ws := syscall.WaitStatus(d); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return syscall.WaitStatus(d).ExitStatus()
}

func (d Death) String() string {
	if ws := syscall.WaitStatus(d); ws.Signaled() {
		return fmt.Sprintf("signal %d (%s)", ws.Signal(), ws.Signal())
	}
	return fmt.Sprintf("exit %d", d.Code())
}
