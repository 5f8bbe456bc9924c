package cases

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCA02CancelledBeforeItStarted: a job already handed to the pool no longer
// looked at the revocation.
func TestCA02CancelledBeforeItStarted(t *testing.T) {
	s := newSteps(t, 1, "  mark: {command: ['@DIR@/mark.sh'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Script("mark.sh", `echo "$NIGHTSHIFT_TASK_ID 1 $$ 0" >>"$LEDGER"; exec sleep 0.05`)
	s.Start(1)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		s.Add(a, "mark", "{}")
		s.Add(b, "mark", "{}")
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		out, code := s.CLI("cancel", b)
		s.Until("the end of "+b, patience, func() bool { st := s.Status(b); return st == "CANCELLED" || st == "SUCCESS" })
		ran := false
		for _, st := range ledger(t, s) {
			ran = ran || st.task == b
		}
		executions := s.Text("SELECT count(*) FROM exec_history WHERE task_id=?", b)
		if ran && executions == "0" || s.Status(b) == "SUCCESS" && !ran {
			t.Errorf("%s is %s, its script ran: %v, executions %s; cancel said (exit %d) %s", b, s.Status(b), ran, executions, code, out)
		}
	}
}

// TestCA03OnlyTheShellDied: kill or timeout ended sh, and the real work below it
// went on for days.
func TestCA03OnlyTheShellDied(t *testing.T) {
	s := newSteps(t, 1, "  tree: {command: ['@DIR@/tree.sh']}\n")
	s.Script("tree.sh", `bash -c "python3 -c 'import time; time.sleep(1000)' & sleep 1000 | cat; wait"`)
	for name, how := range map[string]func(id string){
		"cancel":  func(id string) { s.CLI("cancel", id) },
		"timeout": nil,
	} {
		id := "t-" + name
		timeout := "NULL"
		if how == nil {
			timeout = "2"
		}
		s.MustSQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type,max_retry,timeout_seconds) VALUES('%s','tree',0,%s)", id, timeout))
	}
	s.Start(1)
	s.UntilStatus("t-cancel", "RUNNING", patience)
	s.Until("the tree", patience, func() bool { return len(s.Marked()) >= 6 })
	s.CLI("cancel", "t-cancel")
	s.UntilStatus("t-cancel", "CANCELLED", patience)
	s.UntilStatus("t-timeout", "DEAD", patience)
	s.Until("an empty tree", patience, func() bool { return len(s.Marked()) <= 1 })
	if why := s.Text("SELECT reason FROM task_events WHERE task_id='t-timeout' AND to_status='RETRYING'"); why != "timeout" {
		t.Errorf("reason %q", why)
	}
	for _, id := range []string{"t-cancel", "t-timeout"} {
		if got := s.Text("SELECT result FROM exec_history WHERE task_id=?", id); !strings.Contains(got, "TERM") && !strings.Contains(got, "KILL") {
			t.Errorf("%s: the history does not say which signal was needed: %q", id, got)
		}
	}
}

// TestCA05CancelMeetsCompletion: the state shown was the one written last.
func TestCA05CancelMeetsCompletion(t *testing.T) {
	s := newSteps(t, 4, "  nap: {command: [sleep, '0.1']}\n")
	s.Start(1)
	rng := rand.New(rand.NewPCG(3, 4))
	outcomes := map[string]int{}
	for i := range 60 {
		id := fmt.Sprintf("n%d", i)
		s.Add(id, "nap", "{}")
		time.Sleep(time.Duration(60+rng.IntN(90)) * time.Millisecond)
		out, code := s.CLI("cancel", "--wait", id)
		status := s.Status(id)
		outcomes[status]++
		if (status == "CANCELLED") != (code == 0) {
			t.Errorf("%s is %s, cancel's exit status %d: %s", id, status, code, out)
		}
	}
	if n := s.Text("SELECT count(*) FROM (SELECT task_id FROM task_events WHERE to_status IN ('SUCCESS','FAILED','DEAD','CANCELLED') GROUP BY 1 HAVING count(*)<>1)"); n != "0" {
		t.Errorf("%s tasks with other than one final event", n)
	}
	t.Logf("outcomes: %v", outcomes)
}

// TestCA06PauseAndResume: a pause takes effect at the next checkpoint and frees
// the slot; a silent script starts over, and the command says so.
func TestCA06PauseAndResume(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 1, "  silent: {command: ['@DIR@/silent.sh'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Script("silent.sh", `echo "silent 1 $$ $(date +%s%N)" >>"$LEDGER"; sleep 1; [ -e "$LEDGER.go" ] || sleep 60`)
	s.Add("a", "steps", "{}")
	s.Start(1)
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "a") >= 15 })
	s.CLI("pause", "a")
	s.UntilStatus("a", "PAUSED", patience)
	was := stepsOf(t, s, "a")
	if was%10 != 0 {
		t.Errorf("paused after step %d, not at a checkpoint", was)
	}
	s.Add("b", "silent", "{}")
	s.UntilStatus("b", "RUNNING", patience) // the slot is free
	out, _ := s.CLI("pause", "b")
	if !strings.Contains(out, "start") {
		t.Errorf("pause of a silent script does not say that it starts over:\n%s", out)
	}
	s.UntilStatus("b", "PAUSED", patience)
	s.CLI("resume", "a")
	s.UntilStatus("a", "SUCCESS", patience)
	clean(t, s, "a")
	s.Write("ledger.go", "", 0o600)
	s.CLI("resume", "b")
	s.UntilStatus("b", "SUCCESS", patience)
}

// TestCA08CancelTenThousand: cancelling many dropped some.
func TestCA08CancelTenThousand(t *testing.T) {
	s := newSteps(t, 4, "  hang: {command: [sleep, '1000']}\n")
	s.MustSQL("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<10000) INSERT INTO tasks(task_id,task_type) SELECT 'h'||i,'hang' FROM n")
	s.Start(1)
	s.Until("four run", patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='RUNNING'") == "4" })
	began := time.Now()
	out, code := s.CLI("cancel", "--type", "hang", "--yes")
	t.Logf("cancel of 10,000 took %v: %s", time.Since(began), out)
	if code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	s.Until("all cancelled", patience, func() bool {
		return s.Text("SELECT count(*) FROM tasks WHERE status='CANCELLED'") == "10000"
	})
}

// TestPR17StopTellsScriptsThroughTheirDescriptor: a stop sent TERM to everything
// at once, and scripts died before they were told.
func TestPR17StopTellsScripts(t *testing.T) {
	s := newSteps(t, 2, "")
	for _, id := range []string{"a", "b"} {
		s.Add(id, "steps", "{}")
	}
	s.Start(1)
	s.Until("steps of both", patience, func() bool { return stepsOf(t, s, "a") >= 15 && stepsOf(t, s, "b") >= 15 })
	began := time.Now()
	s.Stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if left := s.Marked(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, id := range []string{"a", "b"} {
		if n := stepsOf(t, s, id); n%10 != 0 {
			t.Errorf("%s ended at step %d, not at a checkpoint", id, n)
		}
		if st := s.Status(id); st != "RUNNING" {
			t.Errorf("%s is %s while its worker is away", id, st)
		}
	}
	s.Start(1)
	for _, id := range []string{"a", "b"} {
		s.UntilStatus(id, "SUCCESS", patience)
	}
	clean(t, s, "a", "b")
}

// TestPR10IgnoredSignalsAreNotInherited: a child started with HUP ignored could
// not use it.
func TestPR10IgnoredSignalsAreNotInherited(t *testing.T) {
	s := newSteps(t, 1, "  trap: {command: ['@DIR@/trap.sh'], max_retry: 0}\n")
	s.Script("trap.sh", `grep -E 'Sig(Ign|Blk)' /proc/self/status | tr -d '\n'; echo
trap 'echo got; exit 0' HUP; kill -HUP $$; echo deaf; exit 3`)
	s.Add("h", "trap", "{}")
	cmd := exec.Command("bash", "-c", `trap "" HUP INT PIPE USR1; exec "$@"`, "bash", filepath.Join(s.Bin, "supervisor"), "--workers", "1",
		"--run-dir", s.Path("data/run"), "--", filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Signal(cmd.Process.Pid, syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("supervisor: %v", err)
		}
	}()
	s.Until("its end", patience, func() bool { st := s.Status("h"); return st == "SUCCESS" || st == "DEAD" || st == "FAILED" })
	if st := s.Status("h"); st != "SUCCESS" {
		t.Errorf("status %s: %s", st, s.Text("SELECT result FROM exec_history WHERE task_id='h'"))
	}
}
