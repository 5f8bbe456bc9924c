package cases

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/liveness"
	"nightshift/test/rig"
)

// newSystem is a system whose task types use @DIR@ and {LEDGER} freely.
func newSystem(t *testing.T, settings string) *rig.System {
	t.Helper()
	s := rig.New(t, "")
	s.Write("nightshift.yaml", "data_dir: ./data\n"+strings.ReplaceAll(settings, "@DIR@", s.Dir), 0o600)
	return s
}

// TestCR13SameNameSamePID: in a container the restarted worker had the name and
// the pid of the dead one, and its orphans were taken for alive.
func TestCR13SameNameSamePID(t *testing.T) {
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no pid namespace to be had: %v", err)
	}
	s := newSteps(t, 1, "")
	s.Add("a", "steps", "{}")
	life := func() *exec.Cmd {
		cmd := exec.Command("unshare", "-pf", "--mount-proc", filepath.Join(s.Bin, "supervisor"), "--workers", "1",
			"--run-dir", s.Path("data/run"), "--", filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		inner, err := liveness.Children(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range inner { // the namespace's first process: all others die with it
			s.Signal(p.PID, syscall.SIGKILL)
		}
		_ = cmd.Wait() // its child was killed
	}
	first := life()
	s.Until("some steps", patience, func() bool { return stepsOf(t, s, "a") >= 25 })
	before := s.WorkerPID("w1")
	end(first)
	second := life()
	defer end(second)
	s.UntilStatus("a", "SUCCESS", patience)
	t.Logf("the worker's pid was %d, and then %d", before, s.WorkerPID("w1"))
	if got := s.Text("SELECT max(executor_id)||' '||count(*) FROM exec_history WHERE task_id='a'"); got != "w1 2" {
		t.Errorf("executor and executions: %s; want w1, at its first start", got)
	}
	last := 0
	for _, st := range ledger(t, s) { // pids repeat, so the order alone is looked at
		if st.n != last+1 && (st.n%10 != 1 || st.n > last || st.n <= last-10) {
			t.Errorf("step %d after step %d; checkpoints are each 10", st.n, last)
		}
		last = st.n
	}
	if last != 200 {
		t.Errorf("the last step is %d", last)
	}
}

// TestCR14DamagedFileIsLeftAlone: after a power-off the state was unreadable, and
// the daemon started empty over what could have been rescued. (Power cuts
// themselves: TestAcceptedSurvivesPowerCuts.)
func TestCR14DamagedFileIsLeftAlone(t *testing.T) {
	s := newSteps(t, 1, "")
	s.MustSQL("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) INSERT INTO tasks(task_id,task_type) SELECT 'n'||i,'steps' FROM n")
	s.MustSQL("PRAGMA wal_checkpoint(TRUNCATE)")
	path := s.Path("data/nightshift.db")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 4096), 4096); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	sum := func() [32]byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(b)
	}
	before := sum()
	s.Start(1)
	s.Until("a word about it", patience, func() bool {
		return strings.Contains(s.Log(), path) && strings.Contains(s.Log(), "db check")
	})
	s.Stop()
	if sum() != before {
		t.Error("the damaged file was changed")
	}
	if names, err := filepath.Glob(path + "*"); err != nil || len(names) > 3 {
		t.Errorf("beside it: %v, %v", names, err)
	}
	if out, code := s.CLI("db", "check"); code == 0 {
		t.Errorf("db check finds nothing:\n%s", out)
	}
}

const batchBody = `#!/usr/bin/env python3
import hashlib, json, os, socket, time
line = socket.socket(fileno=3)
at = json.loads(os.environ.get("NIGHTSHIFT_CHECKPOINT") or '{"in": 0, "out": 0}')
with open("@DIR@/input", "rb") as source, open("@DIR@/output", "ab") as out:
    source.seek(at["in"])
    out.truncate(at["out"])
    out.seek(at["out"])
    n = 0
    for text in source:
        out.write(hashlib.sha256(text).hexdigest().encode() + b"\n")
        at["in"] += len(text)
        n += 1
        if n % 100 == 0:
            out.flush()
            at["out"] = out.tell()
            line.sendall(json.dumps({"checkpoint": at}).encode() + b"\n")
            if b"stop" in line.recv(4096):
                raise SystemExit(75)
            time.sleep(0.02)
`

// TestCR16TheNightBatchGoesOn: a loop of hours under nohup was lost at a logout and
// began at line 1. (10,000 lines; 8 kills instead of 20.)
func TestCR16TheNightBatchGoesOn(t *testing.T) {
	t.Parallel()
	s := newSystem(t, fmt.Sprintf(quick, 1)+"tasks:\n  batch: {command: ['@DIR@/batch.py']}\n")
	s.Write("batch.py", strings.ReplaceAll(batchBody, "@DIR@", s.Dir), 0o755)
	s.Write("output", "", 0o600)
	var input, want bytes.Buffer
	for i := range 10000 {
		text := fmt.Sprintf("record %d of the night\n", i)
		input.WriteString(text)
		fmt.Fprintf(&want, "%x\n", sha256.Sum256([]byte(text)))
	}
	s.Write("input", input.String(), 0o600)
	s.MustSQL("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('night','batch',50)")
	s.Start(1)
	size := func() int64 {
		fi, err := os.Stat(s.Path("output"))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	rng := rand.New(rand.NewPCG(5, 6))
	kills := 0
	for kills < 8 && s.Status("night") != "SUCCESS" {
		was, checkpoint := size(), s.Text("SELECT checkpoint FROM tasks WHERE task_id='night'")
		s.Until("it goes on", patience, func() bool {
			return size() > was && s.Text("SELECT checkpoint FROM tasks WHERE task_id='night'") != checkpoint || s.Status("night") == "SUCCESS"
		})
		kills++
		marked := s.Marked()
		switch worker := s.WorkerPID("w1"); rng.IntN(3) {
		case 0:
			s.Signal(worker, syscall.SIGKILL)
		case 1:
			for _, pid := range marked {
				if pid != worker {
					s.Signal(pid, syscall.SIGKILL)
				}
			}
		case 2:
			s.Kill()
			s.Start(1)
		}
	}
	s.UntilStatus("night", "SUCCESS", patience)
	got, err := os.ReadFile(s.Path("output"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("after %d kills the output is not that of an undisturbed run: %d lines of %d", kills, bytes.Count(got, []byte("\n")), 10000)
	}
	if kills < 4 {
		t.Errorf("%d kills only", kills)
	}
}

// TestDU05OneTaskForATick: each process with a scheduler made the recurring task.
// (A schedule each second for some seconds instead of each minute for ten.)
func TestDU05OneTaskForATick(t *testing.T) {
	t.Parallel()
	s := newSystem(t, fmt.Sprintf(quick, 1)+`
tasks:
  tick: {command: ["true"]}
schedules:
  beat: {every: 1s, task: tick, overlap: allow, missed: all}
`)
	s.Start(4)
	for i := range 3 {
		s.Until("more ticks", patience, func() bool {
			return s.Text("SELECT count(*)>=? FROM tasks WHERE schedule='beat' AND status='SUCCESS'", 3*(i+1)) == "1"
		})
		if pid := s.WorkerPID(fmt.Sprintf("w%d", i+1)); pid != 0 {
			s.Signal(pid, syscall.SIGKILL)
		}
	}
	if n := s.Text("SELECT count(*)-count(DISTINCT substr(task_id,1,25)) FROM tasks WHERE schedule='beat'"); n != "0" {
		t.Errorf("%s ticks have two tasks", n)
	}
	if n := s.Text("SELECT count(*) FROM tasks WHERE schedule='beat' AND task_id NOT GLOB 'beat@20*Z'"); n != "0" {
		t.Errorf("%s ids are not made of the schedule and its UTC time", n)
	}
	span := s.Text("SELECT (max(strftime('%s',replace(task_id,'beat@','')))-min(strftime('%s',replace(task_id,'beat@',''))))+1-count(*) FROM tasks WHERE schedule='beat'")
	if strings.HasPrefix(span, "-") {
		t.Errorf("%s more tasks than seconds", span)
	}
	for _, w := range []string{"w1", "w2", "w3", "w4"} {
		b, err := os.ReadFile(s.Path("data/logs/" + w + ".log"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ToLower(string(b)), "constraint") {
			t.Errorf("%s logs a constraint of the database:\n%s", w, b)
		}
	}
}

// TestDU10ASlowStartIsNotALostOne: the monitor took a slow start for a failure and
// started anew. (5 s instead of 20 s.)
func TestDU10ASlowStartIsNotALostOne(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `
worker: {slots: 1, poll_interval: 500ms, heartbeat_interval: 200ms, suspect_after: 600ms, offline_after: 2s, grace: 2s}
tasks:
  late: {command: ['@DIR@/late.sh'], env: {LEDGER: '@DIR@/ledger'}, timeout: 1m}
`)
	s.Script("late.sh", `sleep 5; exec sh -c 'echo "late 1 $$ 0" >>"$LEDGER"'`)
	s.Add("l", "late", "{}")
	s.Start(2)
	s.UntilStatus("l", "SUCCESS", patience)
	if got := s.Text("SELECT count(*)||' '||(SELECT count(*) FROM task_events WHERE task_id='l' AND to_status='LOST') FROM exec_history WHERE task_id='l'"); got != "1 0" {
		t.Errorf("executions and losses: %s", got)
	}
	if n := len(ledger(t, s)); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestTI10ATaskIsDueByTheWallClock: a timer slept with the machine, and the task
// came late by the night. (A wall clock that is moved stands for the suspend:
// timers stay where they are, the time of day does not.)
func TestTI10ATaskIsDueByTheWallClock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a worker of its own")
	}
	s := newSystem(t, fmt.Sprintf(quick, 1)+"tasks:\n  quick: {command: ['true']}\n")
	moved := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-tags", "testclock", "-o", moved, "nightshift/cmd/worker").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	clock := s.Write("clock", "0", 0o600)
	// A supervisor passes no variable of that prefix on: the worker sets its own.
	s.Worker = s.Script("worker.sh", fmt.Sprintf("NIGHTSHIFT_TEST_CLOCK=%q exec %q \"$@\"\n", clock, moved))
	s.MustSQL("INSERT INTO tasks(task_id,task_type,next_run_time) VALUES('d','quick',datetime('now','+1 hour'))")
	s.Start(1)
	s.Until("a worker", patience, func() bool { return s.WorkerPID("w1") != 0 })
	began := time.Now()
	s.Write("clock", "3700", 0o600)
	s.UntilStatus("d", "SUCCESS", patience)
	t.Logf("started and ended %v after the clock moved", time.Since(began))
}
