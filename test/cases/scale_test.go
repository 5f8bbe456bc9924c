package cases

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestDB06TwoNamesForOneFile: by another name the journal was not found.
func TestDB06TwoNamesForOneFile(t *testing.T) {
	s := newSystem(t, fmt.Sprintf(quick, 1)+"tasks:\n  quick: {command: ['true']}\n")
	if err := os.Symlink(s.Path("data"), s.Path("other")); err != nil {
		t.Fatal(err)
	}
	s.Add("before", "quick", "{}")
	s.Start(1)
	s.UntilStatus("before", "SUCCESS", patience)
	if out, code := s.CLI("--data", s.Path("other"), "add", "quick", "--id", "linked"); code != 0 {
		t.Fatalf("add through a symbolic link: exit %d, %s", code, out)
	}
	s.UntilStatus("linked", "SUCCESS", patience)
	if err := os.Symlink(s.Path("data/nightshift.db"), s.Path("link.db")); err != nil {
		t.Fatal(err)
	}
	cmd := s.Shell()
	cmd.Args = []string{cmd.Path, "-cmd", ".timeout 5000", s.Path("link.db"), "INSERT INTO tasks(task_id,task_type) VALUES('shell','quick')"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("a shell through a symbolic link: %v, %s", err, out)
	}
	s.UntilStatus("shell", "SUCCESS", patience)
	if err := os.Link(s.Path("data/nightshift.db"), s.Path("hard.db")); err != nil {
		t.Fatal(err)
	}
	if out, _ := s.CLI("db", "check"); !strings.Contains(out, "hard link") {
		t.Errorf("db check says nothing of the hard link:\n%s", out)
	}
}

// TestSC03ManyDueAtOnce: everything was loaded or started at the same moment.
// (20,000 instead of 100,000; the answers are given 10 s for a busy machine, and
// their times are logged.)
func TestSC03ManyDueAtOnce(t *testing.T) {
	s := newSystem(t, fmt.Sprintf(quick, 4)+"tasks:\n  nap: {command: [sleep, '0.2']}\n")
	s.MustSQL("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000) INSERT INTO tasks(task_id,task_type,priority,next_run_time) SELECT 'n'||i,'nap',i%7,'2026-01-01T00:00:00.000Z' FROM n")
	s.Start(2)
	s.Until("some run", patience, func() bool { return s.Text("SELECT count(*)>=20 FROM tasks WHERE status='SUCCESS'") == "1" })
	for range 20 {
		if n := s.Text("SELECT count(*)>8 FROM tasks WHERE status='RUNNING'"); n != "0" {
			t.Error("more tasks run than there are slots")
		}
	}
	if n := s.Text("SELECT count(*) FROM tasks WHERE status IN ('RUNNING','SUCCESS') AND priority<>0"); n != "0" {
		t.Errorf("%s tasks of a lower priority ran first", n)
	}
	for _, args := range [][]string{{"add", "nap", "--id", "late", "--priority", "9"}, {"cancel", "n1"}, {"status"}} {
		began := time.Now()
		out, code := s.CLI(args...)
		took := time.Since(began)
		t.Logf("%v took %v", args, took)
		if code > 1 || took > 10*time.Second {
			t.Errorf("%v: exit %d after %v: %s", args, code, took, out)
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.WorkerPID("w1.1")))
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	for line := range strings.Lines(string(b)) {
		if n, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 && err == nil && kib > 150<<10 {
			t.Errorf("the worker holds %d KiB", kib)
		}
	}
	t.Logf("the worker holds %d KiB", kib)
	if out, code := s.CLI("cancel", "--type", "nap", "--status", "PENDING", "--yes"); code != 0 {
		t.Errorf("cancel of the rest: exit %d, %s", code, out)
	}
}

// TestSC05AddOneByOne: a loop that adds took minutes. (50 by the command and 50
// by the shell instead of 10,000; limits for a busy machine, times are logged.)
func TestSC05AddOneByOne(t *testing.T) {
	s := newSteps(t, 1, "  quick: {command: ['true']}\n")
	s.Add("busy", "steps", "{}")
	s.Start(1)
	s.UntilStatus("busy", "RUNNING", patience)
	began := time.Now()
	for i := range 50 {
		if out, code := s.CLI("add", "quick", "--quiet", "--hold", "--id", fmt.Sprintf("c%d", i)); code != 0 {
			t.Fatalf("add: exit %d, %s", code, out)
		}
	}
	each := time.Since(began) / 50
	began = time.Now()
	for i := range 50 {
		s.MustSQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type,status) VALUES('s%d','quick','PAUSED')", i))
	}
	shell := time.Since(began) / 50
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, `{"type":"quick","hold":true,"payload":{"n":%d}}`+"\n", i)
	}
	began = time.Now()
	if out, code := s.CLIIn(lines.String(), "add", "--batch", "-", "--quiet"); code != 0 {
		t.Fatalf("add --batch: exit %d, %.300s", code, out)
	}
	batch := time.Since(began)
	t.Logf("add %v each, shell %v each, a batch of 20,000 in %v", each, shell, batch)
	if each > 500*time.Millisecond || batch > 30*time.Second {
		t.Errorf("add %v each, a batch of 20,000 in %v", each, batch)
	}
	if n := s.Text("SELECT count(*) FROM tasks WHERE task_type='quick'"); n != "20100" {
		t.Errorf("%s tasks, want 20100", n)
	}
}

// TestCL02WaitingInAScript: there was no right way to say "run it and give me its
// exit status".
func TestCL02WaitingInAScript(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 4, `
  good: {command: ['true']}
  odd:  {command: [sh, -c, 'exit 3']}
  bad:  {command: [sh, -c, 'exit 65']}
  shot: {command: [sh, -c, 'kill -SEGV $$']}
  hang: {command: [sleep, '1000']}
`)
	for _, id := range []string{"good", "odd", "bad", "shot", "hang"} {
		s.MustSQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('%s','%s',0)", id, id))
	}
	s.Add("gone", "hang", "{}")
	s.Add("long", "steps", "{}")
	if out, code := s.CLI("cancel", "gone"); code != 0 {
		t.Fatalf("cancel: exit %d, %s", code, out)
	}
	s.Start(1)
	for _, c := range []struct {
		name string
		want int
		args []string
	}{
		{"success", 0, []string{"good"}},
		{"a failure that is final", 1, []string{"bad"}},
		{"retries exhausted", 2, []string{"odd"}},
		{"cancelled", 3, []string{"gone"}},
		{"the largest of several", 3, []string{"good", "bad", "gone"}},
		{"no such task", 66, []string{"nobody"}},
		{"its own limit", 124, []string{"--timeout", "1s", "hang"}},
		{"the program's own status", 3, []string{"--program-status", "odd"}},
		{"a signal", 128 + 11, []string{"--program-status", "shot"}},
		{"already finished", 0, []string{"good"}},
	} {
		if out, code := s.CLI(append([]string{"wait"}, c.args...)...); code != c.want {
			t.Errorf("%s: exit %d, want %d: %s", c.name, code, c.want, out)
		}
	}
	done := make(chan int, 1)
	go func() {
		_, code := s.CLI("wait", "long")
		done <- code
	}()
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "long") >= 15 })
	pid := s.WorkerPID("w1.1")
	s.Signal(pid, 9)
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("through a killed worker: exit %d", code)
		}
	case <-time.After(patience):
		t.Error("wait does not return after the worker was killed")
	}
}
