package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/liveness"
)

// TestDU01SecondDaemonOnTheSameStore: two instances ran, or none, depending on a
// leftover file.
func TestDU01SecondDaemonOnTheSameStore(t *testing.T) {
	s := newSteps(t, 1, "")
	s.Start(1)
	s.Until("a worker", patience, func() bool { return s.WorkerPID("w1") != 0 })
	first := s.WorkerPID("w1")

	out, err := exec.Command(filepath.Join(s.Bin, "supervisor"), "--workers", "1", "--run-dir", s.Path("data/run"),
		"--", filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml")).CombinedOutput()
	if code := exitCode(err); code != 75 {
		t.Errorf("second supervisor: exit %d, %s", code, out)
	}
	elsewhere := exec.Command(filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml"), "--id", "w1")
	elsewhere.Dir = t.TempDir()
	elsewhere.Env = append(os.Environ(), "NIGHTSHIFT_RUN_DIR="+t.TempDir()) // another lock directory
	out, err = elsewhere.CombinedOutput()
	if code := exitCode(err); code != 78 || !strings.Contains(string(out), fmt.Sprint(first)) {
		t.Errorf("second w1 with a lock of its own: exit %d, %s", code, out)
	}
	same := exec.Command(filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml"), "--id", "w1")
	out, err = same.CombinedOutput()
	if code := exitCode(err); code != 78 || !strings.Contains(string(out), fmt.Sprint(first)) {
		t.Errorf("second w1: exit %d, %s", code, out)
	}
	if s.WorkerPID("w1") != first {
		t.Error("the first worker was disturbed")
	}
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return -1
}

// TestDU02LongHealthyTask: the lease was shorter than the job, and a second copy
// started while the first worked.
func TestDU02LongHealthyTask(t *testing.T) {
	s := newSteps(t, 1, "")
	s.MustSQL("INSERT INTO tasks(task_id,task_type,timeout_seconds) VALUES('l','steps',0)")
	s.Start(3)
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "l") >= 15 })
	for range 3 { // a lease that looks expired again and again
		s.MustSQL("UPDATE tasks SET lease_expire_time=datetime('now','-1 hour') WHERE task_id='l' AND status='RUNNING'")
		was := stepsOf(t, s, "l")
		s.Until("it goes on", patience, func() bool { return stepsOf(t, s, "l") > was+20 || s.Status("l") == "SUCCESS" })
	}
	s.UntilStatus("l", "SUCCESS", patience)
	if n := s.Text("SELECT count(*) FROM exec_history WHERE task_id='l'"); n != "1" {
		t.Errorf("%s executions", n)
	}
	clean(t, s, "l")
}

// TestDU04LaptopLidWholeSystem: everyone slept, and after waking everyone was dead.
func TestDU04LaptopLidWholeSystem(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 1, "")
	s.Add("a", "steps", "{}")
	s.Start(2, "--silence-limit", "5s")
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "a") >= 15 })
	pids := append([]int{s.Supervisor()}, s.Marked()...)
	before := s.WorkerPID("w1")
	for _, pid := range pids {
		s.Signal(pid, syscall.SIGSTOP)
	}
	time.Sleep(12 * time.Second) // longer than every limit of the supervisor in this test
	for _, pid := range pids {   // the supervisor first
		s.Signal(pid, syscall.SIGCONT)
	}
	s.UntilStatus("a", "SUCCESS", patience)
	if n := s.Text("SELECT count(*) FROM exec_history WHERE task_id='a'"); n != "1" {
		t.Errorf("%s executions", n)
	}
	if s.WorkerPID("w1") != before {
		t.Error("a healthy worker was replaced after the sleep")
	}
	clean(t, s, "a")
}

// TestDU08OneRowTwoClaimers: select and update apart from each other let two
// consumers take the same task. (1,000 tasks instead of 20,000, 4 workers.)
func TestDU08OneRowTwoClaimers(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 200
	}
	s := newSteps(t, 2, "  mark: {command: ['@DIR@/mark.sh'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Script("mark.sh", `echo "$NIGHTSHIFT_TASK_ID 1 $$ 0" >>"$LEDGER"`)
	s.MustSQL(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) INSERT INTO tasks(task_id,task_type) SELECT 'm'||i,'mark' FROM n", n))
	s.Start(4)
	s.Until("all succeed", 5*patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='SUCCESS'") == fmt.Sprint(n) })
	seen := map[string]int{}
	for _, st := range ledger(t, s) {
		seen[st.task]++
	}
	if len(seen) != n || len(ledger(t, s)) != n {
		t.Errorf("%d distinct tasks ran, %d times in all; want %d", len(seen), len(ledger(t, s)), n)
	}
	if h := s.Text("SELECT count(*) FROM exec_history"); h != fmt.Sprint(n) {
		t.Errorf("%s executions on record", h)
	}
}

// TestPR16KillTheSupervisor: managed processes ran on unmanaged, and the next
// manager started doubles.
func TestPR16KillTheSupervisor(t *testing.T) {
	s := newSteps(t, 1, "")
	for _, id := range []string{"a", "b"} {
		s.Add(id, "steps", "{}")
	}
	s.Start(2)
	s.Until("steps of both", patience, func() bool { return stepsOf(t, s, "a") >= 15 && stepsOf(t, s, "b") >= 15 })
	old := []int{s.WorkerPID("w1"), s.WorkerPID("w2")}
	s.Signal(s.Supervisor(), syscall.SIGKILL)
	s.Kill()
	s.Start(2)
	s.Until("both slots run anew", patience, func() bool {
		return s.WorkerPID("w1") != old[0] && s.WorkerPID("w2") != old[1]
	})
	for _, pid := range old {
		if p, err := liveness.ReadProcess(pid); err == nil && p.Alive() { // one that nobody has reaped yet is dead, too
			t.Errorf("worker %v of the old supervisor still lives", p)
		}
	}
	for _, id := range []string{"a", "b"} {
		s.UntilStatus(id, "SUCCESS", patience)
		if got := s.Text("SELECT retry_count||' '||crash_count FROM tasks WHERE task_id=?", id); got != "0 0" {
			t.Errorf("task %s: retry and crash count %s", id, got)
		}
	}
	clean(t, s, "a", "b")
}

// TestPR18ASlowDatabaseKillsNobody: the heartbeat waited behind a lock, and the
// watcher concluded death.
func TestPR18ASlowDatabaseKillsNobody(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 1, "")
	s.Add("a", "steps", "{}")
	s.Start(2, "--silence-limit", "5s")
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "a") >= 15 })
	pid := s.WorkerPID("w1")
	s.Hold(12)
	s.UntilStatus("a", "SUCCESS", patience)
	if s.WorkerPID("w1") != pid {
		t.Error("the worker was replaced")
	}
	if got := s.Text("SELECT count(*) FROM exec_history WHERE task_id='a'"); got != "1" {
		t.Errorf("%s executions", got)
	}
	clean(t, s, "a")
}
