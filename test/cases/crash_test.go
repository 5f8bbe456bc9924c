package cases

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCR01DeadOwnerResumes: the record said running for ever, and only hand-made
// SQL helped.
func TestCR01DeadOwner(t *testing.T) {
	for name, cancel := range map[string]bool{"resumes": false, "is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			s := newSteps(t, 1, "")
			s.Add("a", "steps", "{}")
			s.Start(1)
			s.Until("some steps", patience, func() bool { return stepsOf(t, s, "a") >= 25 })
			killAll(t, s)
			out, code := s.CLI("show", "a")
			if code != 0 || !strings.Contains(out, "dead") {
				t.Errorf("show says nothing of the dead owner (exit %d):\n%s", code, out)
			}
			before := stepsOf(t, s, "a")
			if cancel {
				if out, code := s.CLI("cancel", "a"); code != 0 {
					t.Fatalf("cancel: exit %d: %s", code, out)
				}
			}
			s.Start(1)
			if cancel {
				s.UntilStatus("a", "CANCELLED", patience)
				if after := stepsOf(t, s, "a"); after != before {
					t.Errorf("%d steps after the cancel", after-before)
				}
				return
			}
			s.UntilStatus("a", "SUCCESS", patience)
			clean(t, s, "a")
		})
	}
}

// TestCR02PowerButton: after a reboot everything "still ran", and nobody compared
// with reality. A reboot costs a task nothing.
func TestCR02PowerButton(t *testing.T) {
	s := newSteps(t, 1, "")
	for _, id := range []string{"a", "b"} {
		s.Add(id, "steps", "{}")
	}
	s.Start(2)
	s.Until("steps of both", patience, func() bool { return stepsOf(t, s, "a") >= 15 && stepsOf(t, s, "b") >= 15 })
	killAll(t, s)
	s.MustSQL("UPDATE worker_heartbeats SET boot_id='00000000-0000-0000-0000-000000000000'")
	s.Start(2)
	for _, id := range []string{"a", "b"} {
		s.UntilStatus(id, "SUCCESS", patience)
		if got := s.Text("SELECT retry_count||' '||crash_count FROM tasks WHERE task_id=?", id); got != "0 0" {
			t.Errorf("task %s: retry and crash count %s", id, got)
		}
		if open := s.Text("SELECT count(*) FROM exec_history WHERE task_id=? AND end_time IS NULL", id); open != "0" {
			t.Errorf("task %s: %s executions without an end", id, open)
		}
	}
	clean(t, s, "a", "b")
}

// TestCR05OrphanThatLeftEverything: a descendant left group, session, environment
// and parent, and kept the lock's descriptor for ever.
func TestCR05OrphanThatLeftEverything(t *testing.T) {
	s := newSteps(t, 1, "  esc: {command: ['@DIR@/esc.sh'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Script("esc.sh", `echo "esc 1 $$ $(date +%s%N)" >>"$LEDGER"
env -i LEDGER="$LEDGER" setsid sh -c 'while :; do echo "orphan 1 $$ $(date +%s%N)" >>"$LEDGER"; sleep .1; done' >/dev/null 2>&1 &
sleep 60
`)
	s.Add("e", "esc", "{}")
	s.Start(1)
	s.Until("the orphan", patience, func() bool { return stepsOf(t, s, "orphan") > 0 })
	pid := s.WorkerPID("w1")
	s.Signal(pid, syscall.SIGKILL)
	s.Until("w1 starts again", patience, func() bool { p := s.WorkerPID("w1"); return p != 0 && p != pid })
	s.Until("the task runs again", patience, func() bool {
		n := 0
		for _, st := range ledger(t, s) {
			if st.task == "esc" {
				n++
			}
		}
		return n >= 2
	})
	var again int64
	old := 0
	for _, st := range ledger(t, s) {
		switch {
		case st.task == "orphan" && old == 0:
			old = st.pid
		case st.task == "esc":
			again = st.at
		}
	}
	for _, st := range ledger(t, s) {
		if st.task == "orphan" && st.pid == old && st.at > again {
			t.Fatalf("the orphan %d still worked when its task ran again", old)
		}
	}
}

// TestCR06GrandchildThatClosedAllDescriptors: liveness by an inherited descriptor
// misses it; it is found by its mark.
func TestCR06GrandchildThatClosedAllDescriptors(t *testing.T) {
	s := newSteps(t, 1, "  pyk: {command: [python3, '@DIR@/pyk.py'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Write("pyk.py", `import subprocess, time, os
with open(os.environ["LEDGER"], "a") as f:
    f.write("pyk 1 %d %d\n" % (os.getpid(), time.time_ns()))
subprocess.Popen(["sh", "-c", 'for i in $(seq 300); do echo "late 1 $$ $(date +%s%N)" >>$LEDGER; sleep .1; done'], start_new_session=True)
time.sleep(60)
`, 0o600)
	s.Add("p", "pyk", "{}")
	s.Start(1)
	s.Until("the grandchild", patience, func() bool { return stepsOf(t, s, "late") > 0 })
	s.Signal(s.WorkerPID("w1"), syscall.SIGKILL)
	starts := func() (n int, at int64) {
		for _, st := range ledger(t, s) {
			if st.task == "pyk" {
				n, at = n+1, st.at
			}
		}
		return n, at
	}
	s.Until("the task runs again", patience, func() bool { n, _ := starts(); return n >= 2 })
	_, again := starts()
	first := 0
	for _, st := range ledger(t, s) {
		if st.task != "late" {
			continue
		}
		if first == 0 {
			first = st.pid
		}
		if st.pid == first && st.at > again {
			t.Fatalf("the grandchild %d still worked when its task ran again", first)
		}
	}
}

// TestCR07PoisonPill: a task takes its worker down each time; its neighbours must
// not be condemned with it.
func TestCR07PoisonPill(t *testing.T) {
	s := newSteps(t, 4, "  pill: {command: ['@DIR@/pill.sh']}\n  short: {command: [sleep, '0.3']}\n")
	s.Script("pill.sh", "kill -9 $PPID; sleep 5\n")
	s.Add("p", "pill", "{}")
	for i := range 20 {
		s.Add(fmt.Sprintf("s%02d", i), "short", "{}")
	}
	s.Start(1)
	s.UntilStatus("p", "DEAD", 2*patience)
	if why := s.Text("SELECT reason FROM tasks WHERE task_id='p'"); why != "crashes_exhausted" {
		t.Errorf("reason %q", why)
	}
	s.Until("the short ones succeed", 2*patience, func() bool {
		return s.Text("SELECT count(*) FROM tasks WHERE task_type='short' AND status='SUCCESS'") == "20"
	})
}

// TestCR08KilledScript: "terminated unexpectedly", without a word why.
func TestCR08KilledScript(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 2, "  oom: {command: ['@DIR@/oom.sh']}\n")
	s.Script("oom.sh", "kill -9 $$\n")
	s.MustSQL("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('o','oom',1)")
	s.Add("a", "steps", "{}")
	s.Start(1)
	pid := 0
	s.Until("a worker", patience, func() bool { pid = s.WorkerPID("w1.1"); return pid != 0 })
	s.UntilStatus("o", "DEAD", patience)
	got := s.Text("SELECT result FROM exec_history WHERE task_id='o' ORDER BY exec_id LIMIT 1")
	if !strings.Contains(got, "signal 9") || !strings.Contains(got, "memory") {
		t.Errorf("the history says %q", got)
	}
	if n := s.Text("SELECT retry_count||' '||crash_count FROM tasks WHERE task_id='o'"); n != "2 0" {
		t.Errorf("retry and crash count %s: it is the task's own failure", n)
	}
	s.UntilStatus("a", "SUCCESS", patience)
	if s.WorkerPID("w1.1") != pid {
		t.Error("the worker went down with it")
	}
}

// TestCR09ADeployEatsNoRetries: after a few deploys a healthy job was dead.
func TestCR09ADeployEatsNoRetries(t *testing.T) {
	s := newSteps(t, 1, "")
	s.MustSQL("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('d','steps',0)")
	for i := range 5 {
		s.Start(1)
		before := i * 15
		s.Until("progress", patience, func() bool { return stepsOf(t, s, "d") > before+12 || s.Status("d") == "SUCCESS" })
		s.Stop()
	}
	s.Start(1)
	s.UntilStatus("d", "SUCCESS", patience)
	if got := s.Text("SELECT retry_count||' '||crash_count FROM tasks WHERE task_id='d'"); got != "0 0" {
		t.Errorf("retry and crash count %s", got)
	}
	if n := s.Text("SELECT count(*) FROM exec_history WHERE task_id='d' AND outcome='success'"); n != "1" {
		t.Errorf("%s successful executions", n)
	}
	clean(t, s, "d")
}

// TestCR09KillsWithProgress: a task that makes progress survives any number of
// kills. (5, more than max_crashes; the supervisor's back-off grows with each.)
func TestCR09KillsWithProgress(t *testing.T) {
	s := newSteps(t, 1, "")
	s.MustSQL("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('d','steps',0)")
	s.Start(1)
	for i := 1; i <= 5; i++ {
		s.Until("progress", patience, func() bool { return stepsOf(t, s, "d") > i*20 })
		s.Signal(s.WorkerPID("w1"), syscall.SIGKILL)
	}
	s.UntilStatus("d", "SUCCESS", patience)
	if got := s.Text("SELECT retry_count FROM tasks WHERE task_id='d'"); got != "0" {
		t.Errorf("retry count %s", got)
	}
	clean(t, s, "d")
}

// TestCR11RollingStops: success and failure at once when a worker stopped as its
// task finished.
func TestCR11RollingStops(t *testing.T) {
	s := newSteps(t, 1, "  nap: {command: [sh, -c, 'sleep 0.$(($$ % 9))']}\n")
	s.MustSQL("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<80) INSERT INTO tasks(task_id,task_type) SELECT 'n'||i,'nap' FROM n")
	s.Start(3)
	for i := range 6 {
		id := fmt.Sprintf("w%d", i%3+1)
		done := s.Text("SELECT count(*) FROM tasks WHERE status='SUCCESS'")
		s.Until("some tasks end", patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='SUCCESS'") != done })
		if pid := s.WorkerPID(id); pid != 0 {
			s.Signal(pid, syscall.SIGTERM)
		}
	}
	s.Until("all succeed", 2*patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='SUCCESS'") == "80" })
	if n := s.Text("SELECT count(*) FROM (SELECT task_id FROM exec_history WHERE outcome='success' GROUP BY 1 HAVING count(*)<>1)"); n != "0" {
		t.Errorf("%s tasks with more than one success", n)
	}
	if n := s.Text("SELECT count(*) FROM task_events WHERE to_status='LOST'"); n != "0" {
		t.Errorf("%s tasks were LOST in a graceful stop", n)
	}
}

// TestCR12CrashBetweenTheWorksEndAndItsRecord: the job had finished, the mark was
// not made; it ran again from its final checkpoint, with nothing left to do.
func TestCR12CrashBetweenTheWorksEndAndItsRecord(t *testing.T) {
	s := newSteps(t, 1, "  gasp: {command: ['@DIR@/gasp.sh'], env: {LEDGER: '@DIR@/ledger'}}\n")
	s.Script("gasp.sh", `case $NIGHTSHIFT_CHECKPOINT in *end*) echo "again"; exit 0;; esac
echo "gasp 1 $$ $(date +%s%N)" >>"$LEDGER"
printf '{"checkpoint":{"at":"end"}}\n' >&3; read -r a <&3
kill -STOP $PPID; exit 0
`)
	s.Add("g", "gasp", "{}")
	s.Start(1, "--silence-limit", "30s")
	s.Until("the last gasp", patience, func() bool {
		return s.Text("SELECT checkpoint FROM tasks WHERE task_id='g'") != "" && stopped(s.WorkerPID("w1"))
	})
	s.Signal(s.WorkerPID("w1"), syscall.SIGKILL)
	s.UntilStatus("g", "SUCCESS", patience)
	if n := len(ledger(t, s)); n != 1 {
		t.Errorf("the work was done %d times", n)
	}
}

func stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := string(b[strings.LastIndexByte(string(b), ')')+1:])
	return strings.HasPrefix(strings.TrimSpace(f), "T")
}

// TestCR15ADatabaseErrorCostsNoSlot: a claim that failed left its slot counted as
// used, and the worker idled for ever.
func TestCR15ADatabaseErrorCostsNoSlot(t *testing.T) {
	t.Parallel()
	s := newSteps(t, 2, "  nap: {command: [sleep, '0.5']}\n")
	s.Start(1)
	s.Until("a worker", patience, func() bool { return s.WorkerPID("w1.1") != 0 })
	for range 2 {
		s.Hold(3)
	}
	began := time.Now()
	for i := range 4 {
		s.Add(fmt.Sprintf("n%d", i), "nap", "{}")
	}
	s.Until("all succeed", patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='SUCCESS'") == "4" })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("four naps of half a second on two slots took %v", took)
	}
}
