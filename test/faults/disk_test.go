package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

// TestDiskErrorAtTheNthCall: one call that fails, wherever it falls in claim,
// checkpoint, heartbeat and finish, loses nothing: the task ends, and a checkpoint
// that was answered is there although its worker is killed afterwards.
func TestDiskErrorAtTheNthCall(t *testing.T) {
	s := newShim(t)
	nths := []int{1, 2, 3, 4, 6, 9, 14}
	if testing.Short() {
		nths = []int{1, 4}
	}
	faults := []fault{
		{op: onFsync, suffix: "-wal", err: syscall.EIO},
		{op: onWrite, suffix: "-wal", err: syscall.EIO},
		{op: onWrite, suffix: "-wal", err: syscall.ENOSPC},
	}
	fired := 0
	play(t, night.Options{Workers: -1, Free: 1, Still: true, NoLoop: true, Env: s.env(), Script: func(st *night.Stage) error {
		for _, f := range faults {
			for i, nth := range nths {
				f.nth = nth
				done := st.Done()
				s.arm(f)
				if _, err := st.Add("quick"); err != nil {
					return err
				}
				what := fmt.Sprintf("call %d of kind %d on %s with %v", nth, f.op, f.suffix, f.err)
				if i%3 == 2 { // and its worker is killed on top
					if err := st.Wait(what+": hit", 20*time.Second, func() bool { return s.fired() > 0 || st.Done() > done }); err != nil {
						return err
					}
					st.Kill(st.PID("h1"))
				}
				if err := st.Wait(what+": the task ends", 40*time.Second, func() bool { return st.Done() > done }); err != nil {
					return err
				}
				fired += s.fired()
				s.disarm()
				st.Did(f.err.Error())
			}
		}
		st.Kill(st.PID("h1"))
		return nil
	}})
	if fired < len(nths) {
		t.Errorf("%d calls were hit in %d tries: this proves little", fired, len(faults)*len(nths))
	}
}

// TestDiskThatFailsForAWhile: while every write fails nothing is lost, and when
// they go through again everything goes on by itself.
func TestDiskThatFailsForAWhile(t *testing.T) {
	s := newShim(t)
	play(t, night.Options{Workers: 2, Free: 1, NoLoop: true, Env: s.env(), Mix: []string{"plain", "batch", "fail"}, Script: func(st *night.Stage) error {
		for _, f := range []fault{
			{op: onFsync, suffix: "-wal", err: syscall.EIO},
			{op: onWrite, suffix: "-wal", err: syscall.EIO},
			{op: onFsync, suffix: ".db", err: syscall.EIO},
		} {
			f.nth, f.forever = 1, true
			before := st.Done()
			if err := st.Wait("tasks end", 30*time.Second, func() bool { return st.Done() > before+5 }); err != nil {
				return err
			}
			s.arm(f)
			time.Sleep(2 * time.Second)
			s.disarm()
			st.Did(f.err.Error())
			before = st.Done()
			if err := st.Wait("tasks end again", 30*time.Second, func() bool { return st.Done() > before+5 }); err != nil {
				return fmt.Errorf("after %v on %s: %w", f.err, f.suffix, err)
			}
			st.Kill(st.PID("h1"))
		}
		return nil
	}})
}

// TestSlowDiskKillsNobody: fsyncs of more than a second make everything late, and
// nothing else.
func TestSlowDiskKillsNobody(t *testing.T) {
	s := newShim(t)
	var before, after []int
	var lost int64
	play(t, night.Options{Workers: 2, Free: -1, NoLoop: true, Env: s.env(), Mix: []string{"plain", "batch"}, Backlog: 8, Script: func(st *night.Stage) error {
		if err := st.Wait("tasks end", 30*time.Second, func() bool { return st.Done() > 5 }); err != nil {
			return err
		}
		before = st.Workers()
		s.arm(fault{op: onFsync, suffix: "-wal", nth: 1, forever: true, delay: 1200 * time.Millisecond})
		time.Sleep(10 * time.Second)
		s.disarm()
		st.Did("slow fsync")
		done := st.Done()
		if err := st.Wait("tasks end again", 30*time.Second, func() bool { return st.Done() > done+5 }); err != nil {
			return err
		}
		after = st.Workers()
		lost = st.Int("SELECT count(*) FROM task_events WHERE reason='takeover'")
		st.Signal(after[0], syscall.SIGSTOP) // so that this night has a fault that the checker counts
		st.Signal(after[0], syscall.SIGCONT)
		return nil
	}})
	if fmt.Sprint(before) != fmt.Sprint(after) || len(before) != 2 {
		t.Errorf("workers were %v and are %v: a slow disk killed one", before, after)
	}
	if lost != 0 {
		t.Errorf("%d tasks were taken over: a slow disk is no death", lost)
	}
}

// TestDiskFull: claims pause, `add` says why it is refused, and when room is there
// again everything goes on by itself, with nobody's help.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root and a loop device")
	}
	play(t, night.Options{Workers: 2, Free: -1, Mix: []string{"plain", "batch"}, Script: func(st *night.Stage) error {
		if st.Mount() == "" {
			return errors.New("no disk of its own")
		}
		for range 2 {
			before := st.Done()
			if err := st.Wait("tasks end", 40*time.Second, func() bool { return st.Done() > before+5 }); err != nil {
				return err
			}
			filler := filepath.Join(st.Mount(), "filler")
			if err := night.Fill(filler); err != nil {
				return err
			}
			st.Did("disk full")
			if err := refusesWhenFull(st, filler); err != nil {
				return err
			}
			if err := os.Remove(filler); err != nil {
				return err
			}
			st.Kill(st.Workers()[0])
		}
		return nil
	}})
}

// refusesWhenFull adds until the ballast and what else is left are used up.
func refusesWhenFull(st *night.Stage, filler string) error {
	big := `{"pad":"` + strings.Repeat("x", 60_000) + `"}`
	payload := st.Out("big.json")
	if err := os.WriteFile(payload, []byte(big), 0o600); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		out, err := st.CLI("add", "witness", "--payload", "@"+payload, "--hold")
		if err == nil {
			if err := night.Fill(filler + "2"); err != nil {
				return err
			}
			continue
		}
		_ = os.Remove(filler + "2") // it may not be there
		if !strings.Contains(strings.ToLower(out), "disk") && !strings.Contains(strings.ToLower(out), "full") {
			return fmt.Errorf("add on a full disk says %q, which does not name the cause", out)
		}
		_, err = st.CLI("status")
		return err
	}
	return errors.New("add was never refused on a full disk")
}

// TestDiskTurnsReadOnly: the file system gives up under a running system, as it
// does after an error; repaired, everything is there and goes on.
func TestDiskTurnsReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root and a loop device")
	}
	play(t, night.Options{Workers: 2, Free: 1, Mix: []string{"plain", "batch", "shell"}, Script: func(st *night.Stage) error {
		if st.Mount() == "" {
			return errors.New("no disk of its own")
		}
		for range 2 {
			before := st.Done()
			if err := st.Wait("tasks end", 40*time.Second, func() bool { return st.Done() > before+5 }); err != nil {
				return err
			}
			if err := st.ReadOnly(2 * time.Second); err != nil {
				return err
			}
			st.Did("read-only")
		}
		return nil
	}})
}
