//go:build linux

package supervision

import (
	"bytes"
	"fmt"
	"io"
	"net"
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

func TestFault08SupervisorKilled(t *testing.T) {
	t.Parallel()
	for _, tree := range trees {
		t.Run(tree.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.set("task-w1", tree.script)
			r.start()
			pid := r.ready("w1", 0)
			r.planted("w1")
			old := r.marked("w1")
			r.clear("task-w1")
			r.kill()
			r.start()
			r.until("the next worker has begun", func() bool { return len(r.notes("starts-w1")) == 2 })
			for _, p := range old {
				if alive(p.PID) {
					t.Errorf("%v lives beside the next worker", p)
				}
			}
			r.ready("w1", pid)
			r.single()
		})
	}
}

func TestFault09SupervisorKilledWhileItsWorkerIsStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1).start()
	pid := r.ready("w1", 0)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.kill()
	if !alive(pid) {
		t.Fatal("the stopped worker is gone already: nothing is tested")
	}
	r.start()
	r.ready("w1", pid)
	if alive(pid) {
		t.Error("the stopped worker lives beside the next one")
	}
	r.single()
}

func TestFault10SupervisorPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, "--silence-limit", "5s").start()
	a, b := r.ready("w1", 0), r.ready("w2", 0)
	r.signal(syscall.SIGSTOP)
	time.Sleep(7 * time.Second)
	r.signal(syscall.SIGCONT)
	r.logged("no worker is blamed")
	time.Sleep(time.Second)
	if x, y := r.worker("w1"), r.worker("w2"); x.PID != a || y.PID != b || x.Starts+y.Starts != 2 {
		t.Errorf("workers were replaced: %+v %+v", x, y)
	}
}

// TestDU04EveryoneSlept: all are stopped and wake in the order that is worst.
func TestDU04EveryoneSlept(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, "--silence-limit", "5s").start()
	pids := []int{r.ready("w1", 0), r.ready("w2", 0)}
	r.signal(syscall.SIGSTOP)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(7 * time.Second)
	r.signal(syscall.SIGCONT)
	time.Sleep(100 * time.Millisecond)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	r.logged("no worker is blamed")
	time.Sleep(time.Second)
	if x, y := r.worker("w1"), r.worker("w2"); x.PID != pids[0] || y.PID != pids[1] {
		t.Errorf("workers were replaced: %+v %+v", x, y)
	}
}

func TestFault11TwoSupervisors(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.env = []string{"GOGC=1"} // the lock must survive the garbage collector
	r.start()
	r.ready("w1", 0)
	for range 3 {
		cmd := exec.Command(supervisorBin, "--run-dir", r.run, "--", workerBin, "--dir", r.dir)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 75 || !strings.Contains(string(out), strconv.Itoa(r.cmd.Process.Pid)) {
			t.Errorf("second supervisor: %v: %s; want exit 75 and the pid of the first", err, out)
		}
	}
	if n := len(r.notes("starts-w1")); n != 1 {
		t.Errorf("%d starts", n)
	}
}

func TestFault14BinaryBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	own := r.ownBinary()
	r.start()
	pid := r.ready("w1", 0)
	// A program that runs cannot be opened for writing, so the writer opens the next one.
	next := own + ".next"
	copyFile(t, workerBin, next)
	w, err := os.OpenFile(next, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, own); err != nil {
		t.Fatal(err)
	}
	sigkill(t, pid)
	r.logged("text file busy")
	w.Close()
	r.ready("w1", pid)
}

func TestFault15BinaryMissingOrBroken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(t *testing.T, path string)
		says  string
	}{
		{"missing", func(t *testing.T, path string) { check(t, os.Remove(path)) }, "no such file"},
		{"not executable", func(t *testing.T, path string) { check(t, os.Chmod(path, 0o600)) }, "permission denied"},
		{"half written", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.WriteFile(path, []byte("\x7fELF half"), 0o700))
		}, "exec format error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1)
			own := r.ownBinary()
			r.start()
			pid := r.ready("w1", 0)
			tt.spoil(t, own)
			sigkill(t, pid)
			r.logged(tt.says)
			tries := strings.Count(r.log(), tt.says)
			time.Sleep(2 * time.Second)
			if n := strings.Count(r.log(), tt.says); n != tries {
				t.Errorf("tried %d times more within 2 s, want to wait for a cure", n-tries)
			}
			copyFile(t, workerBin, own+".new")
			check(t, os.Rename(own+".new", own)) // seen within a second, long before the minute is over
			r.ready("w1", pid)
		})
	}
}

func TestFault15ConfigurationWrongThenHUP(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("exit-w1", "78")
	r.start()
	r.logged("exit 78")
	r.clear("exit-w1")
	r.signal(syscall.SIGHUP)
	r.ready("w1", 0)
}

func TestFault16ForkFails(t *testing.T) {
	needRoot(t)
	cgroup := "/sys/fs/cgroup/pids/nightshift-test-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Skipf("no pids cgroup can be made: %v", err)
	}
	defer os.Remove(cgroup)
	r := newRig(t, 1)
	r.wrap = []string{"bash", "-c", `echo $$ >` + cgroup + `/cgroup.procs; exec "$@"`, "sh"}
	r.start()
	pid := r.ready("w1", 0)
	limit := func(text string) { check(t, os.WriteFile(cgroup+"/pids.max", []byte(text), 0)) }
	current, err := os.ReadFile(cgroup + "/pids.current")
	check(t, err)
	sigkill(t, pid)
	limit("1")
	t.Logf("processes and threads before: %s", bytes.TrimSpace(current))
	time.Sleep(2 * time.Second)
	limit("max")
	r.ready("w1", pid)
	if r.status().PID != r.cmd.Process.Pid || !alive(r.cmd.Process.Pid) {
		t.Error("the supervisor did not survive")
	}
}

func TestFault17OutOfDescriptors(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1).start()
	pid := r.ready("w1", 0)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid))
	check(t, err)
	prlimit := func(n int) {
		t.Helper()
		if out, err := exec.Command("prlimit", "--pid", strconv.Itoa(r.cmd.Process.Pid), fmt.Sprintf("--nofile=%d:", n)).CombinedOutput(); err != nil {
			t.Skipf("prlimit: %v: %s", err, out)
		}
	}
	prlimit(len(fds) - 1)
	sigkill(t, pid)
	r.logged("too many open files")
	prlimit(1024)
	r.ready("w1", pid)
}

func TestFault18NotifySocketUnread(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	socket := filepath.Join(r.dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	check(t, err)
	defer c.Close()
	r.env = []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=300000"}
	r.start()
	pid := r.ready("w1", 0)
	time.Sleep(4 * time.Second) // a beat at each look: the socket holds about ten
	sigkill(t, pid)
	r.ready("w1", pid)
	// Read now: what was said is well formed, and the queue moves again.
	seen := ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !(strings.Contains(seen, "READY=1") && strings.Contains(seen, "WATCHDOG=1")); {
		buf := make([]byte, 4096)
		check(t, c.SetReadDeadline(end))
		n, err := c.Read(buf)
		check(t, err)
		seen += string(buf[:n]) + "\n"
	}
	for _, want := range []string{"READY=1", "WATCHDOG=1", "STATUS=w1 "} {
		if !strings.Contains(seen, want) {
			t.Errorf("the manager was not told %s: %q", want, seen)
		}
	}
}

func TestFault19StderrUnread(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	reader, writer, err := os.Pipe()
	check(t, err)
	defer reader.Close()
	r.stderr = writer
	check(t, writer.SetWriteDeadline(time.Now().Add(time.Second)))
	for { // fill it
		if _, err := writer.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	r.start()
	pid := r.ready("w1", 0)
	for range 3 {
		sigkill(t, pid)
		pid = r.ready("w1", pid)
	}
	reader.Close() // and now nobody can ever read it: EPIPE
	sigkill(t, pid)
	r.ready("w1", pid)
}

func TestFault20RunDirectoryFull(t *testing.T) {
	needRoot(t)
	r := newRig(t, 1)
	check(t, os.MkdirAll(r.run, 0o700))
	if err := syscall.Mount("tmpfs", r.run, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	unmount := func() { _ = syscall.Unmount(r.run, syscall.MNT_DETACH) } // at the end, once
	t.Cleanup(unmount)
	r.start()
	pid := r.ready("w1", 0)
	f, err := os.Create(filepath.Join(r.run, "filler"))
	check(t, err)
	_, err = io.Copy(f, zeros{})
	if err == nil {
		t.Fatal("the file system does not fill")
	}
	f.Close()
	for range 2 { // status.json is stale now: the workers' own notes tell
		n := len(r.notes("ready-w1"))
		sigkill(t, pid)
		r.until("it is started anew", func() bool { return len(r.notes("ready-w1")) == n+1 })
		pid = lastPID(t, r.notes("ready-w1"))
	}
	check(t, os.Remove(filepath.Join(r.run, "filler")))
	sigkill(t, pid)
	r.ready("w1", pid) // and the status file lives again
}

func TestFault20RunDirectoryReadOnly(t *testing.T) {
	needRoot(t)
	r := newRig(t, 1)
	check(t, os.MkdirAll(r.run, 0o700))
	if err := syscall.Mount("tmpfs", r.run, "tmpfs", syscall.MS_RDONLY, "mode=0700"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	defer func() { _ = syscall.Unmount(r.run, syscall.MNT_DETACH) }() // at the end, once
	r.start()
	if code := r.wait(); code != 73 {
		t.Errorf("exit %d, want 73", code)
	}
	r.logged("read-only file system")
}

func TestFault21NumbersReused(t *testing.T) {
	needRoot(t)
	t.Parallel()
	// In a PID namespace the next number can be chosen: the dead worker's goes to a bystander.
	r := newRig(t, 1)
	r.set("bystander.sh", `#!/bin/bash
set -eu
"$@" &
sup=$!
last() { cut -d' ' -f1 "$D/$1" 2>/dev/null | tail -n1; }
until [ -s "$D/ready-w1" ]; do sleep 0.05; done
old=$(last ready-w1)
kill -9 "$old"
until [ "$(last ready-w1)" != "$old" ]; do sleep 0.02; done
echo $((old-1)) >/proc/sys/kernel/ns_last_pid
setsid env -i sleep 3600 &
got=$!
kill -9 "$(last ready-w1)"
sleep 1
if kill -0 "$got"; then echo "verdict alive old=$old got=$got" >"$D/verdict"; else echo "verdict dead" >"$D/verdict"; fi
kill -9 "$got"
kill -TERM "$sup"
wait "$sup"
`)
	r.env = []string{"D=" + r.dir}
	r.wrap = []string{"unshare", "-pf", "--mount-proc", "bash", filepath.Join(r.dir, "bystander.sh")}
	r.start()
	r.until("the verdict", func() bool { return r.notes("verdict") != nil })
	verdict := r.notes("verdict")[0]
	var old, got int
	if _, err := fmt.Sscanf(verdict, "verdict alive old=%d got=%d", &old, &got); err != nil {
		t.Fatalf("%s", verdict)
	}
	if old != got {
		t.Skipf("the number was not reused (%s)", verdict)
	}
	if code := r.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestFault23TaskOutOfMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("task-w1", `ulimit -v 200000; python3 -c 'x = bytearray(1 << 30)'; kill -9 $$`)
	r.start()
	pid := r.ready("w1", 0)
	r.until("the task failed", func() bool { return r.notes("tasks-w1") != nil })
	if w := r.worker("w1"); w.PID != pid {
		t.Errorf("the worker was replaced: %+v", w)
	}
}

func TestFault24WorkerOutOfMemory(t *testing.T) {
	needRoot(t)
	cgroup := "/sys/fs/cgroup/memory/nightshift-test-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made: %v", err)
	}
	defer os.Remove(cgroup)
	check(t, os.WriteFile(cgroup+"/memory.limit_in_bytes", []byte("30M"), 0))
	r := newRig(t, 1)
	r.set("task-w1", `setsid env -i sleep 3600 & sleep 3600`)
	r.start()
	pid := r.ready("w1", 0)
	r.planted("w1")
	old := r.marked("w1")
	r.set("task-w1", `sleep 3600 & wait`)
	check(t, os.WriteFile(cgroup+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0))
	check(t, os.WriteFile(cgroup+"/memory.limit_in_bytes", []byte("1M"), 0)) // less than it has: refused or killed
	if alive(pid) {
		sigkill(t, pid) // what the kernel sends; a worker at rest asks for no more memory
	}
	r.until("the next worker has begun", func() bool { return len(r.notes("starts-w1")) == 2 })
	for _, p := range old {
		if alive(p.PID) {
			t.Errorf("%v lives beside the next worker", p)
		}
	}
	r.ready("w1", pid)
}

func TestFault25MassDeath(t *testing.T) {
	t.Parallel()
	const workers = 4
	rounds := 5
	if *measure {
		rounds = 60
	}
	r := newRig(t, workers).start()
	for i := range workers {
		r.ready(fmt.Sprintf("w%d", i+1), 0)
	}
	before := openFiles(t, r.cmd.Process.Pid)
	for range rounds {
		pids := make([]int, workers)
		for i := range workers {
			pids[i] = r.ready(fmt.Sprintf("w%d", i+1), 0)
		}
		for _, pid := range pids {
			sigkill(t, pid)
		}
		r.signal(syscall.SIGHUP) // who waits is tried at once
		for i, pid := range pids {
			r.untilHUP("a new worker", func() bool { w := r.worker(fmt.Sprintf("w%d", i+1)); return w.State == "ready" && w.PID != pid })
		}
	}
	r.until("no zombies", func() bool { return zombiesOf(t, r.cmd.Process.Pid) == 0 })
	if after := openFiles(t, r.cmd.Process.Pid); after > before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
	r.single()
}

func TestFault26StopWithADeafScript(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--stop-timeout", "2s")
	r.set("deaf-w1", "")
	r.set("task-w1", `trap '' TERM; setsid sleep 3600 & while :; do sleep 1; done`)
	r.start()
	r.ready("w1", 0)
	r.planted("w1")
	began := time.Now()
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(began); took < 2*time.Second || took > 12*time.Second {
		t.Errorf("stopped after %v, want the timeout and a little", took)
	}
	if left := r.marked("w1"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestFault27SignalStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.set("slowdrain-w1", "1s")
	r.set("slowdrain-w2", "1s")
	r.start()
	a, b := r.ready("w1", 0), r.ready("w2", 0)
	for range 1000 {
		r.signal(syscall.SIGUSR1)
		r.signal(syscall.SIGHUP)
		r.signal(syscall.SIGCHLD)
		r.signal(syscall.SIGUSR2)
		r.signal(syscall.SIGPIPE)
	}
	r.logged("rolled: every worker")
	r.ready("w1", a)
	r.ready("w2", b)
	if n := strings.Count(r.log(), "rolled: every worker"); n != 1 {
		t.Errorf("%d rolls", n)
	}
	for _, w := range []string{"w1", "w2"} {
		if n := len(r.notes("starts-" + w)); n != 2 {
			t.Errorf("%s: %d starts, want 2", w, n)
		}
	}
}

func TestFault28RollOntoABadBinary(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	own := r.ownBinary()
	r.start()
	old := []int{r.ready("w1", 0), r.ready("w2", 0), r.ready("w3", 0)}
	check(t, os.WriteFile(own+".new", []byte("#!/bin/sh\nexit 1\n"), 0o700))
	check(t, os.Rename(own+".new", own))
	r.signal(syscall.SIGUSR1)
	r.logged("roll ended: the new worker does not start")
	if b, c := r.worker("w2"), r.worker("w3"); b.PID != old[1] || c.PID != old[2] {
		t.Errorf("old workers were touched: %+v %+v", b, c)
	}
	copyFile(t, workerBin, own+".new")
	check(t, os.Rename(own+".new", own))
	r.ready("w1", old[0])
	r.signal(syscall.SIGUSR1)
	r.logged("rolled: every worker")
	r.ready("w2", old[1])
	r.ready("w3", old[2])
	r.single()
}

func TestRollGoesOneByOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2).start()
	a, b := r.ready("w1", 0), r.ready("w2", 0)
	r.set("noready-w1", "")
	r.signal(syscall.SIGUSR1)
	r.until("w1 is being replaced", func() bool { return len(r.notes("starts-w1")) == 2 })
	time.Sleep(500 * time.Millisecond)
	if w := r.worker("w2"); w.PID != b {
		t.Errorf("w2 was touched before w1 is READY: %+v", w)
	}
	r.clear("noready-w1") // the next word of it is R
	r.ready("w1", a)
	r.ready("w2", b)
}

func TestDU01WorkerStartedByHandIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	check(t, os.MkdirAll(r.run, 0o700))
	l, err := liveness.Acquire(filepath.Join(r.run, "w1.lock"))
	check(t, err)
	r.start()
	r.logged(fmt.Sprintf("process %d", os.Getpid()))
	time.Sleep(1500 * time.Millisecond)
	if n := strings.Count(r.log(), "worker trouble"); n != 1 {
		t.Errorf("said %d times within seconds, want once", n)
	}
	if r.notes("starts-w1") != nil {
		t.Error("a second worker was started")
	}
	l.Release()
	r.ready("w1", 0)
}

func TestPR08DirectoryIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	gone := filepath.Join(r.dir, "gone")
	check(t, os.Mkdir(gone, 0o700))
	r.wrap = []string{"sh", "-c", `cd "$1" && rmdir "$1" && shift && exec "$@"`, "sh", gone}
	r.start()
	pid := r.ready("w1", 0)
	sigkill(t, pid)
	r.ready("w1", pid)
}

func TestPR15NeverGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("exit-w1", "69")
	r.start()
	r.until("several tries", func() bool { return len(r.notes("starts-w1")) >= 3 })
	if w := r.worker("w1"); w.Failures < 2 || !strings.Contains(w.Reason, "exit 69") {
		t.Errorf("status: %+v", w)
	}
	r.clear("exit-w1")
	r.ready("w1", 0)
}

func TestSecondTermDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--stop-timeout", "60s")
	r.set("slowdrain-w1", "60s")
	r.start()
	r.ready("w1", 0)
	r.signal(syscall.SIGTERM)
	r.until("it drains", func() bool { return strings.Contains(fmt.Sprint(r.notes("signals-w1")), "terminated") })
	r.signal(syscall.SIGINT)
	if code := r.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestPID1 runs the supervisor as the first process of a PID namespace (CR-13, PR-07): it
// reaps what is not its own, and the same numbers mean new processes in the next life.
func TestPID1(t *testing.T) {
	needRoot(t)
	t.Parallel()
	r := newRig(t, 1)
	r.wrap = []string{"unshare", "-pf", "--kill-child", "--mount-proc"}
	r.set("task-w1", `for i in $(seq 50); do (setsid sleep 0.1 &); done; sleep 3600`)
	for life := 1; life <= 2; life++ {
		r.start()
		r.until("it is ready", func() bool { return len(r.notes("ready-w1")) == 2*life-1 })
		r.until("the supervisor is the first process", func() bool { return r.status().PID == 1 })
		inner := lastPID(t, r.notes("ready-w1"))
		outer := 0
		r.until("the worker is seen from outside", func() bool {
			for _, p := range strays(r.dir) {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID)); err == nil && p.Comm == "testworker" &&
					strings.Contains(string(b), fmt.Sprintf("NSpid:\t%d\t%d\n", p.PID, inner)) {
					outer = p.PID
				}
			}
			return outer != 0
		})
		sigkill(t, outer)
		r.until("it is started anew", func() bool { return len(r.notes("ready-w1")) == 2*life })
		r.kill() // unshare, and with it the namespace
		r.until("all are gone", func() bool { return len(strays(r.dir)) == 0 })
	}
	r.single()
}
