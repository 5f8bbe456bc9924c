package model

import (
	"testing"
	"time"
)

// everything is all that the outside world may do.
func everything(workers, tasks int) Model {
	return Model{Workers: workers, Tasks: tasks, Reboots: true, LostFiles: true, Silence: true, Pauses: true, Cancels: true, Failures: true}
}

func TestTheProtocolHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Model
	}{
		{name: "two workers, one task, all that may happen", m: everything(2, 1)},
		{name: "two workers, one task, late writes", m: Model{Workers: 2, Tasks: 1, Silence: true, Cancels: true, Failures: true, LateWrites: true}},
		{name: "two workers, two tasks, crashes and silence", m: Model{Workers: 2, Tasks: 2, Silence: true}},
		{name: "three workers, one task, crashes, silence, cancel", m: Model{Workers: 3, Tasks: 1, Silence: true, Cancels: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			r := c.m.Search(true)
			t.Logf("%d states, %d steps, depth %d, %s", r.States, r.Steps, r.Depth, time.Since(start).Round(time.Millisecond))
			if r.Violation != "" {
				t.Errorf("%s after %d steps:", r.Violation, len(r.Trace))
				tell(t, r.Trace)
			}
			if r.Stuck > 0 {
				t.Errorf("%d states have no way to a final one; the first:", r.Stuck)
				tell(t, r.StuckTrace)
			}
		})
	}
}

func tell(t *testing.T, trace []string) {
	t.Helper()
	for i, s := range trace {
		t.Logf("%4d  %s", i+1, s)
	}
}

// Each weakening of the protocol must be found out, or the model is worth nothing.
func TestEveryWeakeningIsFoundOut(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules Rules
		holds bool // a second protection covers it
		late  bool // it takes a late write to show
	}{
		{name: "expired lease OR dead", rules: Rules{ExpiryIsDeath: true}},
		{name: "silent OR dead", rules: Rules{SilenceIsDeath: true}},
		{name: "killed, and nobody looked at the lock again", rules: Rules{KillIsDeath: true}},
		{name: "nobody looks for what let go of the lock", rules: Rules{NoSweep: true}},
		{name: "neither lock nor hunt covers the programs", rules: Rules{NoChildLock: true, NoSweep: true}},
		{name: "programs without the lock, but hunted", rules: Rules{NoChildLock: true}, holds: true},
		{name: "lock let go before the takeover commits", rules: Rules{GuardDropped: true}},
		{name: "missing lock file taken for a free lock", rules: Rules{MissingIsFree: true}},
		{name: "fence without exec_id", rules: Rules{NoExecFence: true}, late: true},
		{name: "no fence", rules: Rules{NoFence: true}, late: true},
		{name: "LOST to RUNNING without exec_id", rules: Rules{BackUnfenced: true}, late: true},
		{name: "recovery and heartbeat row in two transactions", rules: Rules{RegisterApart: true}},
		{name: "claims before recovery", rules: Rules{ClaimFirst: true}},
		{name: "starts while its old tree lives", rules: Rules{StartUnswept: true}},
		{name: "PAUSED before the program has ended", rules: Rules{PauseFirst: true}},
		{name: "recovery does not look at control", rules: Rules{ResumeCancelled: true}},
		{name: "claim without the status in its WHERE", rules: Rules{BlindClaim: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := everything(2, 1)
			if c.holds || c.late {
				m = Model{Workers: 2, Tasks: 1, Silence: true, Failures: true}
			}
			m.Rules, m.LateWrites = c.rules, c.late
			start := time.Now()
			r := m.Search(c.holds) // names stay what they are in a trace that is read
			t.Logf("%q: %s; %d steps, %d states, %s", c.name, r.Violation, len(r.Trace), r.States, time.Since(start).Round(time.Millisecond))
			if c.holds != (r.Violation == "") {
				t.Errorf("violation %q, expected one: %v", r.Violation, !c.holds)
			}
			if testing.Verbose() {
				tell(t, r.Trace)
			}
		})
	}
}
