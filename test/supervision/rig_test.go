//go:build linux

// Package supervision tests the supervisor as a whole: real binaries, real signals. The
// tests are named by the faults that they inject.
package supervision

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/liveness"
)

// measure asks for the full counts whose figures the documentation quotes.
var measure = flag.Bool("measure", false, "measure with the full counts (minutes), and print the figures")

var supervisorBin, workerBin, scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	code := func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "nightshift-supervision-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		supervisorBin, workerBin = build("../../cmd/supervisor"), build("./testworker")
		code := m.Run()
		if left := strays(scratch); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "left over after the tests: %v\n", left)
			code = 1
		}
		return code
	}()
	os.Exit(code)
}

func build(pkg string) string {
	bin := filepath.Join(scratch, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build %s: %v\n%s", pkg, err, out))
	}
	return bin
}

// strays are the processes whose environment or command line names a path below dir.
func strays(dir string) (left []liveness.Process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ") // gone, or not ours
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(env, []byte(dir)) || bytes.Contains(line, []byte(dir)) {
			if p, err := liveness.ReadProcess(pid); err == nil && p.Alive() {
				left = append(left, p)
			}
		}
	}
	return left
}

// rig is one supervisor under test, its scratch directory and its log.
type rig struct {
	t       *testing.T
	dir     string // switches and notes of the test workers
	run     string // the run directory
	workers int
	flags   []string
	env     []string
	command []string
	wrap    []string // what starts the supervisor: prlimit, unshare …
	cmd     *exec.Cmd
	exited  chan error
	stderr  *os.File
}

func newRig(t *testing.T, workers int, flags ...string) *rig {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "rig-")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, run: filepath.Join(dir, "run"), workers: workers, flags: flags}
	r.command = []string{workerBin, "--dir", dir}
	t.Cleanup(r.end)
	return r
}

// start runs the supervisor; it may be called again after its end.
func (r *rig) start() *rig {
	r.t.Helper()
	args := append([]string{}, r.wrap...)
	args = append(args, supervisorBin, "--workers", strconv.Itoa(r.workers), "--run-dir", r.run)
	args = append(append(append(args, r.flags...), "--"), r.command...)
	r.cmd = exec.Command(args[0], args[1:]...)
	r.cmd.Env = append(os.Environ(), r.env...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.stderr == nil {
		var err error
		if r.stderr, err = os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.cmd.Stdout, r.cmd.Stderr = r.stderr, r.stderr
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	exited := make(chan error, 1)
	r.exited = exited
	go func(cmd *exec.Cmd) { exited <- cmd.Wait() }(r.cmd)
	return r
}

// end stops the supervisor and shows that nothing of it is left.
func (r *rig) end() {
	if r.exited != nil {
		r.signal(syscall.SIGCONT)
		r.signal(syscall.SIGTERM)
		r.signal(syscall.SIGTERM)
		select {
		case <-r.exited:
		case <-time.After(20 * time.Second):
			r.t.Error("the supervisor does not end")
			r.signal(syscall.SIGKILL)
			<-r.exited
		}
	}
	if r.stderr != nil {
		r.stderr.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	left := strays(r.dir)
	for ; len(left) > 0 && time.Now().Before(deadline); left = strays(r.dir) {
		time.Sleep(5 * time.Millisecond)
	}
	if len(left) > 0 {
		r.t.Errorf("left over at the end: %v", left)
		for _, p := range left {
			_ = liveness.Kill(p, syscall.SIGKILL) // reported already
		}
	}
	if r.t.Failed() {
		r.t.Logf("log:\n%s", r.log())
	}
}

func (r *rig) signal(sig syscall.Signal) { _ = r.cmd.Process.Signal(sig) } // it may have ended

// kill ends the supervisor without a word, and waits for its death.
func (r *rig) kill() {
	r.t.Helper()
	r.signal(syscall.SIGKILL)
	r.wait()
}

// wait returns the exit code.
func (r *rig) wait() int {
	r.t.Helper()
	select {
	case err := <-r.exited:
		r.exited = nil
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(30 * time.Second):
		r.t.Fatal("the supervisor does not end")
		return -1
	}
}

// state is what status.json says of one worker.
type state struct {
	Worker, State, Reason string
	PID, Starts, Failures int
}

type status struct {
	PID               int
	Stopping, Rolling bool
	Workers           []state
	LogLinesDropped   int `json:"log_lines_dropped"`
}

func (r *rig) status() (s status) {
	b, err := os.ReadFile(filepath.Join(r.run, "status.json"))
	if err != nil {
		return s // not written yet
	}
	if err := json.Unmarshal(b, &s); err != nil {
		r.t.Fatalf("status.json: %v: %s", err, b)
	}
	return s
}

func (r *rig) worker(id string) state {
	for _, w := range r.status().Workers {
		if w.Worker == id {
			return w
		}
	}
	return state{}
}

// ready waits until a worker is READY under a pid other than not, and returns the pid.
func (r *rig) ready(id string, not int) (pid int) {
	r.t.Helper()
	r.until(id+" is ready", func() bool {
		w := r.worker(id)
		pid = w.PID
		return w.State == "ready" && pid != not && pid != 0 && alive(pid)
	})
	return pid
}

func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	within(r.t, time.Minute, what, is)
}

func within(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// set switches a fault of a test worker on, clear off.
func (r *rig) set(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) clear(name string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

// notes are the lines that a test worker wrote under a name.
func (r *rig) notes(name string) []string {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return nil
	}
	whole := strings.LastIndexByte(string(b), '\n') // a line may be on its way
	if whole < 0 {
		return nil
	}
	return strings.Split(string(b[:whole]), "\n")
}

func (r *rig) log() string {
	b, _ := os.ReadFile(filepath.Join(r.dir, "log")) // none before the start
	return string(b)
}

func (r *rig) logged(what string) {
	r.t.Helper()
	r.until("the log says "+what, func() bool { return strings.Contains(r.log(), what) })
}

// single asserts that no slot ever had two workers.
func (r *rig) single() {
	r.t.Helper()
	for i := range r.workers {
		if lines := r.notes(fmt.Sprintf("overlaps-w%d", i+1)); lines != nil {
			r.t.Errorf("two workers on w%d: %v", i+1, lines)
		}
	}
}

func alive(pid int) bool {
	p, err := liveness.ReadProcess(pid)
	return err == nil && p.Alive()
}

func sigkill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no worker to kill: pid %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// marked are the living processes that bear a slot's mark.
func (r *rig) marked(id string) []liveness.Process {
	found, err := liveness.Sweep{Mark: filepath.Join(r.run, id+".lock")}.Find()
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
