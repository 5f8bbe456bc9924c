package model

import (
	"os"
	"testing"
	"time"
)

// Models that hold, and how large each is. The last are for the patient:
// NIGHTSHIFT_MODEL=all.
var models = []struct {
	name string
	m    Model
	size size
}{
	{"two workers, one task, late writes", Model{Workers: 2, Tasks: 1, Silence: true, Cancels: true, Failures: true, LateWrites: true}, small},
	{"three workers, one task, wishes and failures", Model{Workers: 3, Tasks: 1, Silence: true, Pauses: true, Cancels: true, Failures: true}, medium},
	{"three workers, one task, reboots", Model{Workers: 3, Tasks: 1, Silence: true, Reboots: true}, medium},
	{"two workers, two tasks, failures", Model{Workers: 2, Tasks: 2, Silence: true, Failures: true}, medium},
	{"two workers, one task, all that may happen", Model{Workers: 2, Tasks: 1, Reboots: true, LostFiles: true, Silence: true, Pauses: true, Cancels: true, Failures: true}, medium},
	{"two workers, two tasks, reboots and lost lock files", Model{Workers: 2, Tasks: 2, Silence: true, Reboots: true, LostFiles: true}, large},
}

type size int

const (
	small  size = iota // thousands of states
	medium             // up to 200,000: seconds
	large              // millions: a minute, and a gigabyte
)

func TestTheProtocolHolds(t *testing.T) {
	most := medium
	switch {
	case os.Getenv("NIGHTSHIFT_MODEL") == "all":
		most = large
	case raced || testing.Short():
		most = small
	}
	for _, c := range models {
		if c.size > most {
			continue
		}
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
// How long the shortest way to its harm is stands in the log.
func TestEveryWeakeningIsFoundOut(t *testing.T) {
	core := Model{Workers: 2, Tasks: 1, Silence: true, Failures: true}
	with := func(change func(*Model)) Model {
		m := core
		change(&m)
		return m
	}
	reboots := with(func(m *Model) { m.Reboots = true })
	lostFiles := with(func(m *Model) { m.LostFiles = true })
	late := with(func(m *Model) { m.LateWrites = true })
	wishes := with(func(m *Model) { m.Cancels, m.Pauses = true, true })
	for _, c := range []struct {
		name  string
		rules Rules
		m     Model
		holds bool // a second protection covers it
	}{
		{"expired lease OR dead", Rules{ExpiryIsDeath: true}, core, false},
		{"silent OR dead", Rules{SilenceIsDeath: true}, core, false},
		{"killed, and nobody looked at the lock again", Rules{KillIsDeath: true}, core, false},
		{"nobody looks for what let go of the lock", Rules{NoSweep: true}, core, false},
		{"neither lock nor hunt covers the programs", Rules{NoChildLock: true, NoSweep: true}, core, false},
		{"programs without the lock, but hunted", Rules{NoChildLock: true}, core, true},
		{"lock let go before the takeover commits, which does not ask who is back", Rules{GuardDropped: true, NotAsked: true}, core, false},
		{"lock let go before the takeover commits, which asks", Rules{GuardDropped: true}, core, true},
		{"takeover with the lock that does not ask who is back", Rules{NotAsked: true}, core, true},
		{"takeover after a reboot that does not ask who is back", Rules{NotAsked: true}, reboots, false},
		{"missing lock file taken for a free lock", Rules{MissingIsFree: true}, lostFiles, false},
		{"fence without exec_id", Rules{NoExecFence: true}, late, false},
		{"no fence", Rules{NoFence: true}, late, false},
		{"no fence, and no write is ever late", Rules{NoFence: true}, core, true},
		{"LOST to RUNNING without exec_id", Rules{BackUnfenced: true}, late, false},
		{"recovery and heartbeat row in two transactions, after a reboot", Rules{RegisterApart: true}, reboots, false},
		{"recovery and heartbeat row in two transactions, lock file lost", Rules{RegisterApart: true}, lostFiles, false},
		{"recovery and heartbeat row in two transactions, otherwise", Rules{RegisterApart: true}, core, true},
		{"claims before recovery", Rules{ClaimFirst: true}, core, false},
		{"starts while its old tree lives", Rules{StartUnswept: true}, core, false},
		{"PAUSED before the program has ended", Rules{PauseFirst: true}, wishes, false},
		{"recovery does not look at control", Rules{ResumeCancelled: true}, wishes, false},
		{"claim without the status in its WHERE", Rules{BlindClaim: true}, core, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.m.Rules = c.rules
			r := c.m.Search(c.holds) // unmerged, names stay what they are in a trace that is read
			if c.holds != (r.Violation == "") {
				t.Errorf("violation %q, expected one: %v", r.Violation, !c.holds)
			}
			if r.Violation == "" {
				t.Logf("%s: holds, %d states", c.name, r.States)
				return
			}
			t.Logf("%s: %s after %d steps (%d states)", c.name, r.Violation, len(r.Trace), r.States)
			tell(t, r.Trace)
		})
	}
}
