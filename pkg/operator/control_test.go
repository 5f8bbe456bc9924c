package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestCancelSaysWhatWillHappen(t *testing.T) {
	for _, c := range []struct {
		name  string
		id    string
		wish  string
		kill  bool
		want  string
		code  int
		after task.Status
	}{
		{"a waiting task", "20261201T120000.000-0000000000000020", "cancel", false, "cancelled; it was PENDING", 0, task.Cancelled},
		{"a retrying task", "20261201T100000.000-0000000000000004", "cancel", false, "cancelled; it was RETRYING", 0, task.Cancelled},
		{"a held task", "20261201T100000.000-0000000000000008", "cancel", false, "cancelled; it was PAUSED", 0, task.Cancelled},
		{"a running one that has spoken", "20261201T100000.000-0000000000000005", "cancel", false,
			"running; it stops at its next checkpoint, with 30s from then on to undo what it must; the last checkpoint was 8 s ago (6000/10000)", 0, task.Running},
		{"the same, now", "20261201T100000.000-0000000000000005", "cancel", true,
			"running; TERM now, KILL after 5 s; the last checkpoint was 8 s ago (6000/10000)", 0, task.Running},
		{"one whose worker is dead", "20261201T100000.000-0000000000000006", "cancel", false,
			"its worker w3 is dead; it will be CANCELLED without another step, as the first act of whoever comes next", 0, task.Running},
		{"a lost one", "20261201T100000.000-0000000000000007", "cancel", false,
			"its worker is lost; it will be CANCELLED without another step once that worker is proven dead", 0, task.Lost},
		{"a finished one", "20261201T100000.000-0000000000000001", "cancel", false, "had already finished: SUCCESS, 4 h ago", ExitFinished, task.Success},
		{"pause a running one that has spoken", "20261201T100000.000-0000000000000005", "pause", false,
			"running; it pauses at its next checkpoint, with 30s from then on to undo what it must; the last checkpoint was 8 s ago (6000/10000)", 0, task.Running},
		{"pause a waiting one", "20261201T120000.000-0000000000000020", "pause", false, "held; it stays PENDING and is not started until `nightshift resume`", 0, task.Pending},
		{"resume a held one", "20261201T100000.000-0000000000000008", "resume", false, "goes on, from its last checkpoint, as soon as an executor is idle", 0, task.Paused},
		{"resume a running one", "20261201T100000.000-0000000000000005", "resume", false, "runs; nothing holds it", 0, task.Running},
		{"resume a finished one", "20261201T100000.000-0000000000000002", "resume", false, "had already finished: FAILED, 3 h ago", ExitFinished, task.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNight(t)
			n.work()
			d, out, _ := n.desk(0, 0)
			o := ControlOptions{IDs: []string{c.id}, Kill: c.kill}
			err := map[string]func() error{
				"cancel": func() error { return d.Cancel(t.Context(), o) },
				"pause":  func() error { return d.Pause(o) },
				"resume": func() error { return d.Resume(o) },
			}[c.wish]()
			exits(t, err, c.code)
			if want := c.id + ": " + c.want + "\n"; out.String() != want {
				t.Errorf("got  %swant %s", out.String(), want)
			}
			got, err := n.store.Get(c.id)
			if err != nil || got.Status != c.after {
				t.Errorf("it is %s, %v, want %s", got.Status, err, c.after)
			}
		})
	}
}

// A program that never spoke on descriptor 3 gets TERM, and a pause makes it
// start over: the answer says so (case CA-06).
func TestCA06SilentProgram(t *testing.T) {
	for wish, want := range map[task.Control]string{
		task.Cancel: "running; it has made no checkpoint yet, so it gets TERM now, KILL after 30s",
		task.Pause:  "running; it has made no checkpoint yet, so it gets TERM now (KILL after 30s) and starts from the beginning when it is resumed",
		task.Kill:   "running; TERM now, KILL after 5 s; it has made no checkpoint yet",
	} {
		n := newNight(t)
		n.at(time.Minute)
		id := n.add(store.NewTask{ID: "silent", Type: "clean_csv"})
		n.run(id, "w1")
		n.at(0)
		n.must(n.store.Register([]store.Heartbeat{beat("w1", 101, 0)}))
		d, out, _ := n.desk(0, 0)
		if _, err := d.control("x", wish, ControlOptions{IDs: []string{id}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "silent: "+want+"\n" {
			t.Errorf("%s: %s", wish, got)
		}
	}
}

// One wrong id does not keep the others from being done.
func TestCancelSeveral(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, errOut := n.desk(0, 0)
	err := d.Cancel(t.Context(), ControlOptions{IDs: []string{"20261201T120000.000-0000000000000020", "no\x1bsuch", "20261201T100000.000-0000000000000001"}})
	exits(t, err, ExitNoInput)
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(errOut.String(), `there is no task "no\x1bsuch"`) {
		t.Errorf("out %q, err %q", out.String(), errOut.String())
	}
}

// CA-08: cancelling ten thousand drops none, and takes under two seconds.
func TestCA08CancelTenThousand(t *testing.T) {
	n := newNight(t)
	n.at(time.Minute)
	var running []string
	for i := range 4 {
		id := fmt.Sprintf("run-%d", i)
		n.add(store.NewTask{ID: id, Type: "clean_csv"})
		n.run(id, fmt.Sprintf("w1.%d", i+1))
		running = append(running, id)
	}
	many := make([]store.NewTask, 10_000)
	for i := range many {
		many[i] = store.NewTask{Type: "clean_csv"}
	}
	_, err := n.store.Add(n.now, many...)
	n.must(err)
	n.add(store.NewTask{ID: "other", Type: "inspect"})

	d, out, errOut := n.desk(0, 0)
	if err := d.Cancel(t.Context(), ControlOptions{Selection: Selection{Types: []string{"clean_csv"}}}); ExitCode(err) != ExitUsage {
		t.Fatalf("a script without --yes: %v", err)
	} else if want := "this would cancel 10,004 tasks: 10,000 PENDING, 4 RUNNING; nothing was done; add --yes to do it"; err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	start := time.Now()
	if err := d.Cancel(t.Context(), ControlOptions{Selection: Selection{Types: []string{"clean_csv"}}, Yes: true}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("10,004 tasks cancelled in %v", took)
	if took > time.Minute { // 2 s are meant, on a machine with nothing else to do
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{"10,000 tasks cancelled\n", "4 tasks running: asked to stop at the next checkpoint\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the answer lacks %q: %q %q", want, out.String(), errOut.String())
		}
	}
	counts, err := n.store.Count()
	if err != nil || counts[task.Cancelled] != 10_000 || counts[task.Running] != 4 || counts[task.Pending] != 1 {
		t.Errorf("counts %v, %v", counts, err)
	}
	for _, id := range running {
		if got, err := n.store.Get(id); err != nil || got.Control != task.Cancel {
			t.Errorf("%s: control %q, %v", id, got.Control, err)
		}
	}
}

func TestBulkVerbsAskAPerson(t *testing.T) {
	for answer, want := range map[string]task.Status{"y\n": task.Cancelled, "YES\n": task.Cancelled, "n\n": task.Pending, "\n": task.Pending, "": task.Pending, "yesterday\n": task.Pending} {
		n := newNight(t)
		id := n.add(store.NewTask{Type: "clean_csv"})
		d, _, errOut := n.desk(0, 0)
		d.Asks, d.In = true, strings.NewReader(answer)
		if err := d.Cancel(t.Context(), ControlOptions{Selection: Selection{Types: []string{"clean_csv"}}}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(errOut.String(), "cancel 1 task: 1 PENDING\nGo on? [y/N] ") {
			t.Errorf("asked: %q", errOut.String())
		}
		if got, err := n.store.Get(id); err != nil || got.Status != want {
			t.Errorf("%q: it is %s, %v, want %s", answer, got.Status, err, want)
		}
	}
}

func TestBulkVerbsDryRun(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, _ := n.desk(0, 0)
	if err := d.Cancel(t.Context(), ControlOptions{Selection: Selection{Statuses: []string{"unfinished"}, Types: []string{"inspect"}}, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if want := "would cancel 13 tasks: 12 PENDING, 1 RUNNING\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	if err := d.Rerun(ControlOptions{Selection: Selection{Since: "24h"}, DryRun: true}, false); err != nil {
		t.Fatal(err)
	}
	if want := "would rerun 2 tasks: 1 FAILED, 1 DEAD\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

func TestRerunMakesNewTasks(t *testing.T) {
	n := newNight(t)
	n.work()
	for _, c := range []struct {
		name       string
		fresh      bool
		checkpoint string
	}{{"from its checkpoint", false, `{"n":7}`}, {"from the beginning", true, ""}} {
		t.Run(c.name, func(t *testing.T) {
			n.at(0)
			old := n.run(n.add(store.NewTask{Type: "日报", Payload: `{"day": 1}`, Priority: new(int64), Checkpoint: `{"n":7}`}), "w1.3")
			n.end(old, store.Finish{Verdict: store.Fail})
			d, out, _ := n.desk(0, 0)
			if err := d.Rerun(ControlOptions{IDs: []string{old.ID}}, c.fresh); err != nil {
				t.Fatal(err)
			}
			got, err := n.store.Get(strings.TrimSuffix(out.String(), "\n"))
			if err != nil || got.RerunOf != old.ID || got.Checkpoint != c.checkpoint || got.Payload != `{"day": 1}` || got.Status != task.Pending {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := n.store.SetControl(got.ID, task.Cancel, n.now); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("an unfinished one is refused", func(t *testing.T) {
		d, _, errOut := n.desk(0, 0)
		exits(t, d.Rerun(ControlOptions{IDs: []string{"20261201T100000.000-0000000000000005"}}, false), ExitInput)
		if !strings.Contains(errOut.String(), "only a finished task can be run again") {
			t.Errorf("got %q", errOut.String())
		}
	})
	t.Run("a selection by state and time", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		if err := d.Rerun(ControlOptions{Selection: Selection{Statuses: []string{"DEAD"}, Since: "24h"}, Yes: true}, false); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("%d new ids: %q", lines, out.String())
		}
	})
}

func TestWaitStatuses(t *testing.T) {
	n := newNight(t)
	n.work()
	id := func(i int) string { return fmt.Sprintf("20261201T100000.000-%016d", i) }
	for _, c := range []struct {
		name string
		o    WaitOptions
		code int
		out  string
	}{
		{"success", WaitOptions{IDs: []string{id(1)}}, 0, id(1) + "  SUCCESS  100000 rows\n"},
		{"failed", WaitOptions{IDs: []string{id(2)}}, 1, id(2) + `  FAILED  exit 65: no column "price" in line 1\nsecond line` + "\n"},
		{"dead", WaitOptions{IDs: []string{id(3)}}, 2, id(3) + "  DEAD  signal 11 (SEGV)\n"},
		{"cancelled", WaitOptions{IDs: []string{id(9)}}, 3, id(9) + "  CANCELLED\n"},
		{"the largest of several", WaitOptions{IDs: []string{id(1), id(3), id(2)}, Quiet: true}, 2, ""},
		{"one id twice", WaitOptions{IDs: []string{id(1), id(1)}}, 0, id(1) + "  SUCCESS  100000 rows\n"},
		{"the program's own status", WaitOptions{IDs: []string{id(2)}, ProgramStatus: true, Quiet: true}, 65, ""},
		{"the program's signal", WaitOptions{IDs: []string{id(3)}, ProgramStatus: true, Quiet: true}, 128 + 11, ""},
		{"not at its end", WaitOptions{IDs: []string{id(5), id(1)}, Timeout: "1ms", Quiet: true}, 124, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, out, _ := n.desk(0, 0)
			exits(t, d.Wait(t.Context(), c.o), c.code)
			if out.String() != c.out {
				t.Errorf("got %q, want %q", out.String(), c.out)
			}
		})
	}
	t.Run("an unknown id, at once", func(t *testing.T) {
		d, _, _ := n.desk(0, 0)
		if err := d.Wait(t.Context(), WaitOptions{IDs: []string{id(5), "nobody"}}); ExitCode(err) != ExitNoInput {
			t.Errorf("got %v", err)
		}
	})
	t.Run("Ctrl-C ends only the waiting", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d, _, _ := n.desk(0, 0)
		exits(t, d.Wait(ctx, WaitOptions{IDs: []string{id(5)}}), ExitInterrupted)
		if got, err := n.store.Get(id(5)); err != nil || got.Control != task.NoControl {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("an end while it waits", func(t *testing.T) {
		done := make(chan error, 1)
		d, out, _ := n.desk(0, 0)
		go func() { done <- d.Wait(t.Context(), WaitOptions{IDs: []string{id(8), id(4)}}) }()
		for _, i := range []int{4, 8} {
			if _, err := n.store.SetControl(id(i), task.Cancel, n.now); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-done:
			exits(t, err, 3)
		case <-time.After(20 * time.Second):
			t.Fatal("it waits for ever")
		}
		if strings.Count(out.String(), "CANCELLED") != 2 {
			t.Errorf("got %q", out.String())
		}
	})
}

func TestCL03WaitSaysThatNobodyWorks(t *testing.T) {
	n := newNight(t)
	id := n.add(store.NewTask{Type: "clean_csv"})
	d, _, errOut := n.desk(0, 0)
	exits(t, d.Wait(t.Context(), WaitOptions{IDs: []string{id}, Timeout: "10ms"}), ExitWaitTimeout)
	if !strings.Contains(errOut.String(), "warning: no worker is alive, and none has ever used this database") {
		t.Errorf("got %q", errOut.String())
	}
}
