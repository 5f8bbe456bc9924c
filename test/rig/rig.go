// Package rig runs the real binaries for tests of whole processes: it builds
// them once, gives each test a scratch directory with a configuration, starts and
// stops the system, and reads the database from outside, as a stranger would.
package rig

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the reader of a stranger
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nightshift-bin-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"supervisor", "worker"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "nightshift/cmd/"+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, os.Symlink("worker", filepath.Join(dir, "nightshift"))
})

// Binaries builds supervisor, worker and nightshift once a test process and
// returns their directory. Call Cleanup from TestMain.
func Binaries(t testing.TB) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Cleanup removes the binaries that Binaries built.
func Cleanup() {
	if dir, err := build(); err == nil {
		_ = os.RemoveAll(dir) // a scratch directory of the system's own temp place
	}
}

// System is one installation in a scratch directory.
type System struct {
	t   testing.TB
	Dir string // holds nightshift.yaml, data/, and what programs write
	Bin string
	DB  *sql.DB // read-only
	// Worker is the worker binary; "": the stock one.
	Worker string

	sup *exec.Cmd
	err *lockedBuffer
}

// New makes a system with the given configuration (data_dir is added) and an
// empty database. Everything it started is ended with the test.
func New(t testing.TB, config string) *System {
	t.Helper()
	s := &System{t: t, Dir: t.TempDir(), Bin: Binaries(t), err: &lockedBuffer{}}
	s.Write("nightshift.yaml", "data_dir: ./data\n"+config, 0o600)
	if out, code := s.CLI("db", "init"); code != 0 {
		t.Fatalf("db init: exit %d: %s", code, out)
	}
	db, err := sql.Open("sqlite3", "file:"+s.Path("data/nightshift.db")+"?mode=ro&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	s.DB = db
	t.Cleanup(func() {
		s.Kill()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		s.sweep()
		if t.Failed() {
			t.Logf("supervisor and workers said:\n%s", tail(s.err.String(), 8000))
			for _, f := range []string{"data/logs/w1.log", "data/logs/w2.log"} {
				if b, err := os.ReadFile(s.Path(f)); err == nil {
					t.Logf("%s:\n%s", f, tail(string(b), 12000))
				}
			}
		}
	})
	return s
}

// Path is a file below the system's directory.
func (s *System) Path(name string) string { return filepath.Join(s.Dir, name) }

// Write makes a file below the system's directory.
func (s *System) Write(name, content string, mode os.FileMode) string {
	s.t.Helper()
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Script makes an executable sh script.
func (s *System) Script(name, body string) string {
	s.t.Helper()
	return s.Write(name, "#!/bin/sh\n"+body, 0o755)
}

// Start starts the supervisor with n workers.
func (s *System) Start(n int, flags ...string) {
	s.t.Helper()
	args := append([]string{"--workers", fmt.Sprint(n), "--run-dir", s.Path("data/run")}, flags...)
	worker := s.Worker
	if worker == "" {
		worker = filepath.Join(s.Bin, "worker")
	}
	args = append(args, "--", worker, "run", "--config", s.Path("nightshift.yaml"))
	s.sup = exec.Command(filepath.Join(s.Bin, "supervisor"), args...)
	s.sup.Dir, s.sup.Stdout, s.sup.Stderr = s.Dir, s.err, s.err
	s.sup.Env = append(os.Environ(), "LEDGER="+s.Path("ledger"))
	if err := s.sup.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Supervisor is the supervisor's pid; 0 when none was started.
func (s *System) Supervisor() int {
	if s.sup == nil || s.sup.Process == nil {
		return 0
	}
	return s.sup.Process.Pid
}

// Stop asks the supervisor to end and waits for it.
func (s *System) Stop() {
	s.t.Helper()
	if s.sup == nil {
		return
	}
	if err := s.sup.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	s.wait(60 * time.Second)
}

// Kill ends the supervisor with SIGKILL; its workers notice by themselves.
func (s *System) Kill() {
	if s.sup == nil {
		return
	}
	_ = s.sup.Process.Kill() // it may have ended by itself
	s.wait(60 * time.Second)
}

func (s *System) wait(limit time.Duration) {
	done := make(chan error, 1)
	cmd := s.sup
	cmd.WaitDelay = time.Second // workers inherit its stderr and may outlive it
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
		s.sup = nil
	case <-time.After(limit):
		s.t.Errorf("the supervisor does not end within %v", limit)
	}
}

// Log is what supervisor and workers wrote to stderr.
func (s *System) Log() string { return s.err.String() }

// sweep ends what bears this system's mark: a test leaves nothing behind. Workers
// whose supervisor was killed end by themselves, and take with them what only they
// can find; they are given the time for it.
func (s *System) sweep() {
	for deadline := time.Now().Add(20 * time.Second); len(s.Marked()) > 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		pids := s.Marked()
		if len(pids) == 0 || time.Now().After(deadline) {
			if len(pids) > 0 {
				s.t.Errorf("processes left behind: %v", pids)
			}
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already: fine
		}
	}
}

// Marked lists the processes that bear this system's mark in their environment.
func (s *System) Marked() []int {
	dirs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	var pids []int
	for _, d := range dirs {
		env, err := os.ReadFile(d)
		if err != nil || !bytes.Contains(env, []byte("NIGHTSHIFT_MARK="+s.Path("data/run"))) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(d, "/proc/%d/environ", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// CLI runs nightshift with the system's configuration.
func (s *System) CLI(args ...string) (out string, code int) {
	s.t.Helper()
	return s.CLIIn("", args...)
}

// CLIIn is CLI with a standard input.
func (s *System) CLIIn(stdin string, args ...string) (out string, code int) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.Bin, "nightshift"), append([]string{"--config", s.Path("nightshift.yaml")}, args...)...)
	cmd.Dir, cmd.Stdin = s.Dir, strings.NewReader(stdin)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("nightshift %v: %v", args, err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// SQL runs a statement through the stock sqlite3 shell, as a stranger's script
// does, and returns what it prints.
func (s *System) SQL(statement string) (string, error) {
	s.t.Helper()
	out, err := s.Shell(statement).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Shell is a sqlite3 shell that runs the given statements and dot commands, not
// started yet.
func (s *System) Shell(lines ...string) *exec.Cmd {
	s.t.Helper()
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		s.t.Skip("the sqlite3 shell is not installed")
	}
	return exec.Command(shell, append([]string{"-cmd", ".timeout 5000", s.Path("data/nightshift.db")}, lines...)...)
}

// Hold keeps the database's write lock for so many seconds.
func (s *System) Hold(seconds int) {
	s.t.Helper()
	if out, err := s.Shell("BEGIN EXCLUSIVE", fmt.Sprintf(".shell sleep %d", seconds), "COMMIT").CombinedOutput(); err != nil {
		s.t.Fatalf("hold: %v: %s", err, out)
	}
}

// MustSQL is SQL that fails the test on an error.
func (s *System) MustSQL(statement string) string {
	s.t.Helper()
	out, err := s.SQL(statement)
	if err != nil {
		s.t.Fatalf("%s: %v: %s", statement, err, out)
	}
	return out
}

// Add inserts a task by the shell.
func (s *System) Add(id, taskType, payload string) {
	s.t.Helper()
	s.MustSQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type,payload) VALUES('%s','%s','%s')", strings.ReplaceAll(id, "'", "''"), taskType, strings.ReplaceAll(payload, "'", "''")))
}

// Text reads one value from the database; "" for none or NULL.
func (s *System) Text(query string, args ...any) string {
	s.t.Helper()
	var v sql.NullString
	if err := s.DB.QueryRow(query, args...).Scan(&v); err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.t.Fatalf("%s: %v", query, err)
	}
	return v.String
}

// Status is a task's status.
func (s *System) Status(id string) string {
	s.t.Helper()
	return s.Text("SELECT status FROM tasks WHERE task_id=?", id)
}

// Until waits for a condition.
func (s *System) Until(what string, limit time.Duration, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// UntilStatus waits for a task to reach a status.
func (s *System) UntilStatus(id, want string, limit time.Duration) {
	s.t.Helper()
	s.Until(fmt.Sprintf("task %s %s (it is %s)", id, want, s.Status(id)), limit, func() bool { return s.Status(id) == want })
}

// WorkerPID is the pid in a worker's heartbeat row; 0 when there is none.
func (s *System) WorkerPID(id string) int {
	s.t.Helper()
	var pid int
	if err := s.DB.QueryRow("SELECT pid FROM worker_heartbeats WHERE worker_id=?", id).Scan(&pid); err != nil {
		return 0
	}
	return pid
}

// Signal sends a signal to a process that the system started.
func (s *System) Signal(pid int, sig syscall.Signal) {
	s.t.Helper()
	if pid <= 1 {
		s.t.Fatalf("no process to signal: pid %d", pid)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Fatal(err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
