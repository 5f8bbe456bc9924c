package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/rig"
)

// TestUnderSupervisord runs the shipped configuration, with this test's paths,
// under Debian's supervisord, and kills what it started.
func TestUnderSupervisord(t *testing.T) {
	needRoot(t, "supervisord", "sqlite3")
	s := rig.New(t, "")
	s.Write("steps.sh", steps, 0o755)
	s.Write("nightshift.yaml", fmt.Sprintf("data_dir: ./data\ntasks:\n  steps: {command: [%q], max_retry: 0}\n", s.Path("steps.sh")), 0o600)
	shipped, err := os.ReadFile("../../deploy/supervisord/nightshift.conf")
	if err != nil {
		t.Fatal(err)
	}
	program := strings.NewReplacer(
		"/usr/local/bin/nightshift-supervisor", filepath.Join(s.Bin, "supervisor"),
		"/usr/local/bin/nightshift-worker", filepath.Join(s.Bin, "worker"),
		"/etc/nightshift/nightshift.yaml", s.Path("nightshift.yaml"),
		"/var/lib/nightshift/run", s.Path("data/run"), "/var/lib/nightshift", s.Dir,
		"/var/log/nightshift", s.Dir, "user=nightshift", "user=root",
	).Replace(string(shipped))
	s.Write("supervisord.conf", fmt.Sprintf("[supervisord]\nnodaemon=true\nuser=root\nlogfile=%s\npidfile=%s\nchildlogdir=%s\n\n%s",
		s.Path("supervisord.log"), s.Path("supervisord.pid"), s.Dir, program), 0o600)
	cmd := exec.Command("supervisord", "-n", "-c", s.Path("supervisord.conf"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // its status is not what is tested
	}
	t.Cleanup(stop)
	supervisor := func() int {
		for _, pid := range children(cmd.Process.Pid) {
			return pid
		}
		return 0
	}
	for id, disturb := range map[string]func(){
		"supervisor-killed": func() { s.Signal(supervisor(), syscall.SIGKILL) },
		"worker-killed":     func() { s.Signal(s.WorkerPID("w1"), syscall.SIGKILL) },
	} {
		s.Add(id, "steps", "{}")
		s.Until(id+" makes progress", patience, func() bool { return s.Text("SELECT progress FROM tasks WHERE task_id=?", id) != "" })
		disturb()
		s.UntilStatus(id, "SUCCESS", patience)
	}
	s.Add("stopped", "steps", "{}")
	s.Until("progress", patience, func() bool { return s.Text("SELECT progress FROM tasks WHERE task_id='stopped'") != "" })
	stop()
	if left := s.Marked(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if st := s.Status("stopped"); st != "RUNNING" && st != "SUCCESS" {
		t.Errorf("the stopped task is %s", st)
	}
}

// TestPR07AsPIDOne: as PID 1, adopted children were never reaped until fork failed,
// or an unknown child made the manager exit.
func TestPR07AsPIDOne(t *testing.T) {
	needRoot(t, "unshare", "sqlite3")
	s := rig.New(t, "")
	s.Write("orphans.sh", "#!/bin/sh\nfor i in 1 2 3 4 5; do (setsid sleep 0.2 >/dev/null 2>&1 &); done\nexit 3\n", 0o755)
	s.Write("nightshift.yaml", fmt.Sprintf("data_dir: ./data\nworker: {slots: 4}\ntasks:\n  orph: {command: [%q], fatal: [3]}\n", s.Path("orphans.sh")), 0o600)
	cmd := exec.Command("unshare", "-pf", "--mount-proc", filepath.Join(s.Bin, "supervisor"), "--workers", "1", "--run-dir", s.Path("data/run"),
		"--", filepath.Join(s.Bin, "worker"), "run", "--config", s.Path("nightshift.yaml"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	one := 0
	s.Until("PID 1 of the namespace", patience, func() bool {
		for _, pid := range children(cmd.Process.Pid) {
			one = pid
		}
		return one != 0
	})
	t.Cleanup(func() {
		_ = syscall.Kill(one, syscall.SIGKILL) // PID 1: everything in the namespace ends
		_ = cmd.Wait()                         // killed: its status says no more than that
	})
	s.MustSQL("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200) INSERT INTO tasks(task_id,task_type) SELECT 'o'||i,'orph' FROM n")
	s.Until("all have ended", patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='FAILED'") == "200" })
	if n := s.Text("SELECT count(*) FROM exec_history WHERE exit_code=3"); n != "200" {
		t.Errorf("%s of 200 exit statuses are right: the reaper stole the others", n)
	}
	s.Until("few zombies", 20*time.Second, func() bool { return zombies(one) < 5 })
	if err := syscall.Kill(one, 0); err != nil {
		t.Error("the supervisor has ended")
	}
}

// zombies counts the dead but unburied processes below pid.
func zombies(pid int) int {
	n := 0
	for _, child := range children(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // buried meanwhile
		}
		if f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])); len(f) > 0 && f[0] == "Z" {
			n++
		}
		n += zombies(child)
	}
	return n
}
