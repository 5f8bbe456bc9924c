package faults

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

var samples = flag.Int("samples", 12, "how often each time is measured")

// The bounds are far above what an idle machine shows (docs/reliability.md): a
// test on a busy one must not fail for that.
const busy = 10

// TestTimeFromKillToRunningAgain: kill -9 of a worker that runs tasks, under a
// supervisor that has not restarted it lately.
func TestTimeFromKillToRunningAgain(t *testing.T) {
	v := play(t, night.Options{
		Workers: 2, Free: -1, Slots: 2, NoLoop: true, Mix: []string{"plain"}, Backlog: 12, Level: true,
		Script: func(st *night.Stage) error {
			for i := 0; i < *samples; i++ {
				id := fmt.Sprintf("w%d", 1+i%2)
				if err := killBusy(st, id); err != nil {
					return err
				}
				st.Did("kill worker")
				if err := st.Wait("its tasks run again", 60*time.Second, func() bool { return st.Waiting() == 0 }); err != nil {
					return err
				}
				if i%2 == 1 { // a new supervisor: no back-off
					if err := st.Restart("supervisor"); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
	judgeTimes(t, "kill to running again, with a supervisor", v.Again, time.Second)
}

// killBusy kills a worker at a moment at which it runs something.
func killBusy(st *night.Stage, id string) error {
	pid := 0
	err := st.Wait(id+" runs tasks", 60*time.Second, func() bool {
		pid = st.Worker(id)
		return pid > 0 && len(st.Scripts(id)) > 0
	})
	if err != nil {
		return err
	}
	st.Kill(pid)
	return nil
}

// TestTimeToTakeOver: the worker is gone for good, and nobody restarts it.
func TestTimeToTakeOver(t *testing.T) {
	v := play(t, night.Options{
		Workers: -1, Free: 3, Slots: 2, NoLoop: true, Mix: []string{"plain"}, Backlog: 12, Level: true,
		Script: func(st *night.Stage) error {
			for i := 0; i < *samples; i++ {
				id := fmt.Sprintf("h%d", 1+i%3)
				if err := st.Wait(id+" runs tasks", 60*time.Second, func() bool { return len(st.Scripts(id)) > 0 }); err != nil {
					return err
				}
				st.Want(id, false)
				if err := killBusy(st, id); err != nil {
					return err
				}
				st.Did("kill worker")
				if err := st.Wait("its tasks run elsewhere", 60*time.Second, func() bool { return st.Waiting() == 0 }); err != nil {
					return err
				}
				st.Want(id, true)
			}
			return nil
		},
	})
	judgeTimes(t, "worker gone for good to task running elsewhere", v.Again, 3*time.Second)
}

// TestTimeFromRebootToFirstTask: everything was running, the machine comes back.
func TestTimeFromRebootToFirstTask(t *testing.T) {
	var times []time.Duration
	play(t, night.Options{
		Workers: 2, Free: -1, Slots: 2, NoLoop: true, Mix: []string{"plain"}, Backlog: 12, Level: true,
		Script: func(st *night.Stage) error {
			for i := 0; i < *samples; i++ {
				if err := st.Wait("tasks run", 60*time.Second, func() bool { return len(st.Scripts("w1")) > 0 }); err != nil {
					return err
				}
				d, err := st.Reboot(60 * time.Second)
				if err != nil {
					return err
				}
				st.Did("reboot")
				times = append(times, d)
			}
			return nil
		},
	})
	judgeTimes(t, "start after a reboot to the first task", times, 2*time.Second)
}

func judgeTimes(t *testing.T, what string, times []time.Duration, bound time.Duration) {
	t.Helper()
	if len(times) == 0 {
		t.Fatalf("%s: nothing was measured", what)
	}
	slices.Sort(times)
	at := func(p float64) time.Duration {
		return times[min(int(p*float64(len(times))), len(times)-1)].Round(time.Millisecond)
	}
	t.Logf("%s: n=%d p50 %v p90 %v p99 %v max %v", what, len(times), at(.5), at(.9), at(.99), times[len(times)-1].Round(time.Millisecond))
	if at(.5) > busy*bound {
		t.Errorf("%s: p50 %v, even for a busy machine beyond %v", what, at(.5), busy*bound)
	}
}

// TestTakeOverFromUnderAStray: what a task has left behind, without its environment
// and outside of its session, keeps the dead worker's lock. It is no proof of life.
func TestTakeOverFromUnderAStray(t *testing.T) {
	v := play(t, night.Options{
		Workers: -1, Free: 3, Slots: 2, NoLoop: true, Mix: []string{"escape"}, Backlog: 12, Level: true,
		Script: func(st *night.Stage) error {
			for i := range 6 {
				id := fmt.Sprintf("h%d", 1+i%3)
				if err := st.Wait(id+" runs tasks", 60*time.Second, func() bool { return len(st.Scripts(id)) > 0 }); err != nil {
					return err
				}
				st.Want(id, false)
				if err := killBusy(st, id); err != nil {
					return err
				}
				st.Did("kill worker")
				if err := st.Wait("its tasks run elsewhere", 30*time.Second, func() bool { return st.Waiting() == 0 }); err != nil {
					return err
				}
				st.Want(id, true)
			}
			return nil
		},
	})
	judgeTimes(t, "task of a worker whose lock a stray keeps, to running elsewhere", v.Again, 3*time.Second)
}
