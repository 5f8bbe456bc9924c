//go:build linux

package supervision

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trees are the seven ways in which a program's processes escape; each starts processes
// that sleep for an hour.
var trees = []struct{ name, script string }{
	{"plain", `sleep 3600 & wait`},
	{"setsid", `setsid sleep 3600 & wait`},
	{"double fork", `(setsid sh -c 'sleep 3600 & exit' &); sleep 3600`},
	{"Python subprocess", `python3 -c 'import subprocess; subprocess.Popen(["sleep","3600"], start_new_session=True); subprocess.Popen(["sleep","3600"]).wait()'`},
	{"nohup", `nohup sleep 3600 >/dev/null 2>&1 & wait`},
	{"deaf to TERM", `trap '' TERM HUP INT; setsid sleep 3600 & while :; do sleep 1; done`},
	{"stopped", `setsid sleep 3600 & kill -STOP $!; wait`},
}

// planted waits until the slot's tree has all its processes, and returns how many.
func (r *rig) planted(id string) int {
	r.t.Helper()
	last, since := 0, time.Now()
	r.until("the tree of "+id+" stands", func() bool {
		n := len(r.marked(id))
		if n != last {
			last, since = n, time.Now()
		}
		return n >= 3 && time.Since(since) > 300*time.Millisecond // worker, script, child; and no more come
	})
	return last
}

func TestFault01WorkerKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2).start()
	pid, other := r.ready("w1", 0), r.ready("w2", 0)
	began := time.Now()
	sigkill(t, pid)
	r.ready("w1", pid)
	t.Logf("READY again after %v", time.Since(began).Round(time.Millisecond))
	if now := r.ready("w2", 0); now != other {
		t.Errorf("w2 was replaced too: %d, was %d", now, other)
	}
	r.until("w2 is told of the death", func() bool { return strings.Contains(fmt.Sprint(r.notes("signals-w2")), "user defined signal 2") })
	r.single()
}

func TestFault02ItsScripts(t *testing.T) {
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
			sigkill(t, pid)
			r.until("the next worker has begun", func() bool { return len(r.notes("starts-w1")) == 2 })
			for _, p := range old { // it began: nothing of the last one may live
				if alive(p.PID) {
					t.Errorf("%v lives beside the next worker", p)
				}
			}
		})
	}
}

func TestFault03WorkerStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--silence-limit", "5s").start()
	pid := r.ready("w1", 0)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.ready("w1", pid)
	r.logged("silent: told to show its stacks and end")
}

func TestFault04ControlLoopHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--silence-limit", "5s").start()
	pid := r.ready("w1", 0)
	r.set("silent-w1", "")
	r.until("it is gone", func() bool { return !alive(pid) })
	r.clear("silent-w1")
	r.ready("w1", pid)
	if log := r.log(); !strings.Contains(log, "SIGQUIT") || !strings.Contains(log, "goroutine 1") {
		t.Errorf("the log has no stacks of the hung worker")
	}
}

func TestFault05BootStalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--boot-limit", "2s")
	r.set("noready-w1", "") // its loop beats, and never says R
	r.start()
	r.until("it was replaced", func() bool { return len(r.notes("starts-w1")) > 1 })
	r.clear("noready-w1")
	r.ready("w1", 0)
}

func TestFault06DatabaseStalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "--silence-limit", "5s", "--boot-limit", "2s")
	r.set("stall-w1", "")
	r.start()
	pid := r.ready("w1", 0)
	r.until("status.json says so", func() bool { return r.worker("w1").Reason == "the database does not answer" })
	time.Sleep(6 * time.Second) // longer than either limit: the claim is that nothing happens
	if now := r.worker("w1"); now.PID != pid || now.Starts != 1 {
		t.Errorf("restarted for a stalled database: %+v", now)
	}
	r.clear("stall-w1")
	r.until("all is well again", func() bool { return r.worker("w1").Reason == "" })
}

func TestFault07DatabaseMissingAtBoot(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("exit-w1", "75")
	r.start()
	r.until("it is tried again", func() bool { return len(r.notes("starts-w1")) >= 2 })
	if n := len(r.notes("starts-w1")); n > 3 {
		t.Errorf("%d starts within about a second", n)
	}
	r.clear("exit-w1")
	r.ready("w1", 0)
}

func TestFault12UninterruptibleWait(t *testing.T) {
	needRoot(t)
	r := newRig(t, 2)
	mount := loopMount(t, r.dir)
	r.set("stuck-w1", filepath.Join(mount.dir, "file"))
	r.start()
	pid, other := r.ready("w1", 0), r.ready("w2", 0)
	r.until("it writes", func() bool { st, err := os.Stat(filepath.Join(mount.dir, "file")); return err == nil && st.Size() > 0 })
	mount.freeze(t)
	time.Sleep(300 * time.Millisecond) // a write must be under way in the frozen file system
	sigkill(t, pid)
	sigkill(t, other)
	r.ready("w2", other) // the other slot goes on
	if n := len(r.notes("starts-w1")); n != 1 {
		t.Errorf("w1 was replaced beside a worker in an uninterruptible wait (%d starts)", n)
	}
	r.clear("stuck-w1")
	mount.thaw(t)
	r.ready("w1", pid)
	r.single()
}

func TestFault13CrashLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("exit-w1", "1")
	r.start()
	time.Sleep(7 * time.Second) // 0, 0, .2, .6, 1.4, 3.0, 6.2 s and up to a fifth more
	if n := len(r.notes("starts-w1")); n > 7 {
		t.Errorf("%d starts in 7 s, want at most 7", n)
	}
	r.until("it is still tried", func() bool { return r.worker("w1").Failures >= 5 })
	r.clear("exit-w1")
	r.ready("w1", 0)
}

func TestFault30ControlPipeClosedOrFlooded(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"close-w1", "flood-w1"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2, "--silence-limit", "5s", "--boot-limit", "5s")
			r.set(fault, "")
			if fault == "flood-w1" {
				r.set("silent-w1", "") // noise is no sign of life
			}
			r.start()
			r.ready("w2", 0)
			r.until("it was treated as silent", func() bool { return len(r.notes("starts-w1")) > 1 })
			r.clear(fault)
			if fault == "flood-w1" {
				r.clear("silent-w1")
			}
			r.ready("w1", 0)
		})
	}
}

func TestFault31GrandchildKeepsStdout(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("task-w1", `sleep 3600 & wait`) // inherits 1 and 2
	r.start()
	pid := r.ready("w1", 0)
	r.planted("w1")
	began := time.Now()
	sigkill(t, pid)
	r.ready("w1", pid)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("READY again after %v", took)
	}
}

func TestFault32AdoptedZombies(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	// Their parent dies with the worker: all of them come to the supervisor.
	r.set("task-w1", `for i in $(seq 100); do (sleep 0.4 &); done; touch "$DIR/forked"; sleep 3600`)
	r.start()
	pid := r.ready("w1", 0)
	r.until("all are forked", func() bool { _, err := os.Stat(filepath.Join(r.dir, "forked")); return err == nil })
	r.clear("task-w1")
	sigkill(t, pid)
	r.ready("w1", pid)
	r.until("no zombie is left", func() bool { return zombiesOf(t, r.cmd.Process.Pid) == 0 })
	if n := len(r.notes("starts-w1")); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestFault33ThreadsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("threads-w1", "") // the death signal of its script must not follow a thread that ends
	r.set("task-w1", `while :; do sleep 0.2; done`)
	r.start()
	pid := r.ready("w1", 0)
	r.planted("w1")
	time.Sleep(2 * time.Second) // hundreds of threads end meanwhile
	if w := r.worker("w1"); w.PID != pid || r.notes("tasks-w1") != nil {
		t.Errorf("worker %+v, task ended: %v", w, r.notes("tasks-w1"))
	}
}

func TestFault34WhatAWorkerIsGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.set("env-w1", "")
	r.env = []string{"NOTIFY_SOCKET=/nowhere", "WATCHDOG_USEC=1", "WATCHDOG_PID=1", "LISTEN_FDS=1", "NIGHTSHIFT_TASK_ID=outer", "NIGHTSHIFT_CONFIG=/etc/x", "KEPT=yes"}
	r.wrap = []string{"python3", "-c", `import ctypes, os, platform, resource, signal, sys
sigaction = {"x86_64": 13, "aarch64": 134}[platform.machine()]
for sig in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP}: # the C library's own, too
    assert ctypes.CDLL(None).syscall(sigaction, sig, (ctypes.c_ulong * 4)(signal.SIG_IGN), 0, 8) == 0, sig
resource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.umask(0o077)
os.execvp(sys.argv[1], sys.argv[1:])`}
	r.start()
	r.ready("w1", 0)
	got := strings.Join(r.notes("report-w1"), "\n") + "\n"
	for _, want := range []string{
		"umask 0027\n", "nofile 300\n", "SigBlk: 0000000000000000\n", "SigIgn: 0000000000000000\n",
		"env NIGHTSHIFT_WORKER_ID=w1\n", "env NIGHTSHIFT_RUN_DIR=" + r.run + "\n", "env NIGHTSHIFT_CONTROL_FD=3\n",
		"env NIGHTSHIFT_LOCK_FD=4\n", "env NIGHTSHIFT_MARK=" + r.run + "/w1.lock\n", "env NIGHTSHIFT_CONFIG=/etc/x\n", "env KEPT=yes\n",
		"fd 0 /dev/null\n", "fd 3 pipe:", "fd 4 " + r.run + "/w1.lock\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the worker was not given %q", want)
		}
	}
	for _, not := range []string{"NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_FDS", "NIGHTSHIFT_TASK_ID", "supervisor.lock", "status.json"} {
		if strings.Contains(got, not) {
			t.Errorf("the worker was given %s", not)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
