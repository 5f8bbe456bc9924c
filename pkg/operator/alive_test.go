package operator

import (
	"errors"
	"testing"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/liveness"
	"nightshift/pkg/store"
)

// CL-04: what is shown is what is, not what a table says.
func TestCL04LifeComesFromTheKernel(t *testing.T) {
	process := liveness.Process{PID: 101, StartTicks: 101, State: 'S', Threads: 1}
	stopped := process
	stopped.State = 'T'
	reused := process
	reused.StartTicks = 999
	zombie := process
	zombie.State = 'Z'
	held, free := liveness.Proof{Outcome: liveness.Held}, liveness.Proof{Outcome: liveness.Free}
	missing := liveness.Proof{Outcome: liveness.Unproven, Why: "the lock file is missing"}
	limits := config.Worker{SuspectAfter: 90 * time.Second, OfflineAfter: 5 * time.Minute}
	for _, c := range []struct {
		name     string
		row      func(h *store.Heartbeat)
		proof    liveness.Proof
		probeErr error
		process  *liveness.Process
		holders  []liveness.Process
		life     Life
		why      string
	}{
		{name: "alive", proof: held, process: &process, life: Alive},
		{name: "draining", row: func(h *store.Heartbeat) { h.Draining = true }, proof: held, process: &process, life: Draining, why: "takes no new task"},
		{name: "silent for three beats", row: silent(95 * time.Second), proof: held, process: &process, life: Suspect, why: "silent 95 s"},
		{name: "silent for five minutes", row: silent(6 * time.Minute), proof: held, process: &process, life: Offline, why: "silent 6 min"},
		{name: "SIGSTOP", row: silent(95 * time.Second), proof: held, process: &stopped, life: Suspect, why: "silent 95 s, its process is stopped (SIGSTOP)"},
		{name: "SIGSTOP a moment ago", proof: held, process: &stopped, life: Alive, why: "its process is stopped (SIGSTOP)"},
		{name: "a heartbeat from a clock ahead", row: silent(-time.Hour), proof: held, process: &process, life: Alive},
		{name: "killed", proof: free, life: Gone, why: "its process is gone"},
		{name: "killed, its pid reused", proof: free, process: &reused, life: Gone, why: "its process is gone"},
		{name: "killed, not yet reaped", proof: free, process: &zombie, life: Gone, why: "its process is gone"},
		{name: "ended in good order", row: saidGoodbye, proof: free, life: Stopped},
		{name: "started again, not yet registered", row: saidGoodbye, proof: held, life: Unknown, why: "its process is gone, but its lock is held: it is being started, or another user's process has it"},
		{name: "an orphan keeps its lock", proof: held, holders: []liveness.Process{{PID: 7, Comm: "sleep"}, {PID: 9, Comm: "sh"}}, life: Gone, why: "its process is gone, but its lock is held by process 7 (sleep), 9 (sh)"},
		{name: "the machine was restarted", row: func(h *store.Heartbeat) { h.BootID = "boot-before" }, proof: free, process: &process, life: Gone, why: "the machine was restarted since"},
		{name: "the machine was restarted, its lock file is gone", row: func(h *store.Heartbeat) { h.BootID = "boot-before" }, proof: missing, process: &process, life: Gone, why: "the machine was restarted since"},
		{name: "another boot id, as a container sees it, and a held lock", row: func(h *store.Heartbeat) { h.BootID = "boot-before" }, proof: held, life: Alive},
		{name: "stopped before the restart", row: func(h *store.Heartbeat) { h.BootID = "boot-before"; saidGoodbye(h) }, proof: missing, life: Stopped},
		{name: "its lock file was removed, its process lives", proof: missing, process: &process, life: Alive},
		{name: "its lock file was removed, its process is gone", proof: missing, life: Unknown, why: "the lock file is missing, and no process 101 of its runs"},
		{name: "the lock can't be probed", probeErr: errors.New("permission denied"), life: Unknown, why: "permission denied"},
		{name: "the lock can't be probed, its process lives", probeErr: errors.New("permission denied"), process: &process, life: Alive},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := beat("w1", 101, 10*time.Second)
			if c.row != nil {
				c.row(&row)
			}
			p := prober{
				bootID: func() (string, error) { return "boot-now", nil },
				probe:  func(string, uint64, uint64) (liveness.Proof, error) { return c.proof, c.probeErr },
				process: func(int) (liveness.Process, error) {
					if c.process == nil {
						return liveness.Process{}, liveness.ErrGone
					}
					return *c.process, nil
				},
				holders: func(string, uint64, uint64) ([]liveness.Process, error) { return c.holders, nil },
			}
			got := p.examine([]store.Heartbeat{row}, limits, midnight)
			if len(got) != 1 || got[0].Life != c.life || got[0].Why != c.why {
				t.Errorf("got %s (%s), want %s (%s)", got[0].Life, got[0].Why, c.life, c.why)
			}
		})
	}
}

func silent(d time.Duration) func(*store.Heartbeat) {
	return func(h *store.Heartbeat) { h.LastHeartbeat = midnight.Add(-d) }
}

func saidGoodbye(h *store.Heartbeat) { h.StoppedAt = midnight.Add(-time.Minute) }

func TestExecutorsAreGroupedByWorker(t *testing.T) {
	old := beat("w1.3", 77, time.Hour) // of a former life that had three slots
	rows := []store.Heartbeat{beat("w10", 101, 0), beat("w2.10", 102, 0), beat("w2.2", 102, 0), beat("w1.1", 101, 0), old, beat("w1.2", 101, 0)}
	got := nightKernel().examine(rows, config.Worker{SuspectAfter: time.Minute, OfflineAfter: time.Hour}, midnight)
	var ids []string
	for _, w := range got {
		ids = append(ids, w.ID)
		for _, e := range w.Executors {
			ids = append(ids, e.WorkerID)
		}
	}
	want := []string{"w1", "w1.1", "w1.2", "w2", "w2.2", "w2.10", "w10", "w10"}
	if len(ids) != len(want) {
		t.Fatalf("got %q, want %q", ids, want)
	}
	for i := range want {
		if ids[i] != want[i] {
			t.Fatalf("got %q, want %q", ids, want)
		}
	}
	for executor, worker := range map[string]string{"w1": "w1", "w1.2": "w1", "a.b": "a.b", "a.b.3": "a.b", ".1": ""} {
		if got := WorkerOf(executor); got != worker {
			t.Errorf("WorkerOf(%q) = %q, want %q", executor, got, worker)
		}
	}
}
