//go:build linux

package liveness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, line string
		want       Process
	}{
		{"plain", "42 (sleep) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9",
			Process{PID: 42, Comm: "sleep", State: 'S', PPID: 1, PGID: 42, SID: 42, Threads: 1, StartTicks: 777}},
		{"brackets, spaces and a newline in the command", "7 (a) R (\n b) Z 2 3 4 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 5 0 18446744073709551615 9",
			Process{PID: 7, Comm: "a) R (\n b", State: 'Z', PPID: 2, PGID: 3, SID: 4, Threads: 5, StartTicks: 1<<64 - 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.line))
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", "1 x) S"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) found no fault", bad)
		}
	}
}

func TestAliveTellsAZombieFromAThreadStuckInTheKernel(t *testing.T) {
	tests := []struct {
		name string
		p    Process
		want bool
	}{
		{"running", Process{PID: 5, State: 'R', Threads: 1}, true},
		{"stopped", Process{PID: 5, State: 'T', Threads: 1}, true},
		{"zombie", Process{PID: 5, State: 'Z', Threads: 1}, false},
		{"leader ended, a thread in an uninterruptible wait", Process{PID: 5, State: 'Z', Threads: 2}, true},
		{"none", Process{}, false},
	}
	for _, tt := range tests {
		if got := tt.p.Alive(); got != tt.want {
			t.Errorf("%s: alive %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSelfAndStarted(t *testing.T) {
	self := Self()
	if self.PID != os.Getpid() || self.PPID != os.Getppid() || self.StartTicks == 0 {
		t.Errorf("self is %+v", self)
	}
	if age := time.Since(self.Started()); age < -2*time.Second || age > time.Hour {
		t.Errorf("this test began %v ago", age)
	}
}

func TestKillMeetsOnlyTheProcessMeant(t *testing.T) {
	p := start(t, nil, "sleep", "60")
	other := p
	other.StartTicks++ // the number was reused: whoever has it now began at another time
	if err := Kill(other, syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("kill of a reused number: %v, want ErrGone", err)
	}
	if now, err := ReadProcess(p.PID); err != nil || !now.Alive() {
		t.Fatalf("the bystander is %+v, %v", now, err)
	}
	if err := Kill(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitDead(t, p)
	for _, never := range []Process{{}, {PID: 1, StartTicks: 1}, {PID: -5, StartTicks: 1}, {PID: p.PID}} {
		if err := Kill(never, syscall.SIGKILL); err == nil {
			t.Errorf("kill of %+v was tried", never)
		}
	}
}

func TestReadProcessOfNobody(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProcess(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("read of a reaped process: %v, want ErrGone", err)
	}
}

func TestSweepFindsTheTree(t *testing.T) {
	tests := []struct {
		name, script string
		want         int // processes beside the script itself
	}{
		{"plain child", `sleep 300 & echo up; wait`, 1},
		{"own session", `setsid sleep 300 & echo up; wait`, 1},
		{"double fork, parent gone", `(setsid sh -c 'sleep 300 & exit' &) ; sleep 0.2; echo up; exec sleep 301`, 1},
		{"no mark but the descriptor (CR-05)", `env -i setsid sleep 300 & echo up; wait`, 1},
		{"no descriptor but the mark (CR-06)", `sleep 300 9>&- & echo up; wait`, 1},
		{"neither, below a marked parent", `(env -i setsid sleep 300 9>&-; true) & echo up; wait`, 2},
		{"neither, in the session of a marked leader", `setsid sh -c 'env -i sleep 300 9>&- & exec sleep 302' & echo up; wait`, 2},
		{"stopped", `sleep 300 & kill -STOP $!; echo up; wait`, 1},
		{"deaf to TERM", `trap "" TERM; sleep 300 & echo up; wait`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := acquire(t, filepath.Join(t.TempDir(), "w1.lock"))
			dev, ino := l.Inode()
			leader := startShell(t, l, tt.script)
			s := Sweep{Mark: l.Path(), LockDev: dev, LockIno: ino}
			var found []Process
			until(t, "the whole tree is found", func() bool {
				var err error
				if found, err = s.Find(); err != nil {
					t.Fatal(err)
				}
				return len(found) >= tt.want+1
			})
			if len(found) != tt.want+1 {
				t.Fatalf("found %v, want %d and the script", found, tt.want)
			}
			left, err := s.KillAll(5 * time.Second)
			if err != nil || len(left) > 0 {
				t.Fatalf("left %v, %v", left, err)
			}
			for _, p := range found {
				waitDead(t, p)
			}
			waitDead(t, leader)
		})
	}
}

func TestSweepFindsTheHolderOfARemovedLock(t *testing.T) {
	// A cleaner of temporary files took the lock file away; the new life has a new one.
	path := filepath.Join(t.TempDir(), "w1.lock")
	old := acquire(t, path)
	orphan := startShell(t, old, `echo up; exec env -i sleep 300`)
	until(t, "the environment is clean", func() bool {
		found, err := Sweep{Env: []string{markName + path}}.Find()
		return err == nil && len(found) == 0
	})
	remove(t, path)
	old.Release()
	dev, ino := acquire(t, path).Inode()
	for _, s := range []Sweep{{Mark: path, LockDev: dev, LockIno: ino}, {Mark: path}} {
		if found, err := s.Find(); err != nil || len(found) != 1 || found[0].PID != orphan.PID {
			t.Errorf("%+v found %v, %v; want %v", s, found, err, orphan)
		}
	}
}

func TestSweepSparesNeighboursAndProbers(t *testing.T) {
	dir := t.TempDir()
	l := acquire(t, filepath.Join(dir, "w1.lock"))
	dev, ino := l.Inode()
	neighbour := start(t, []string{markName + filepath.Join(dir, "w11.lock")}, "sleep", "60")
	prober := startShellFD(t, l.Path(), `exec sleep 60 <"$1"`)
	spared := startShell(t, l, `echo up; exec sleep 60`)
	young := startShell(t, l, `echo up; exec sleep 60`)
	s := Sweep{Mark: l.Path(), LockDev: dev, LockIno: ino, Not: map[int]bool{spared.PID: true, young.PID: true}}
	if found, err := s.Find(); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v; want none", found, err)
	}
	s.Not = map[int]bool{spared.PID: true}
	s.StartedBefore = young.StartTicks
	if found, err := s.Find(); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v, although all began at or after the limit", found, err)
	}
	for _, p := range []Process{neighbour, prober} {
		if now, err := ReadProcess(p.PID); err != nil || !now.Alive() {
			t.Errorf("%v: %v, %v", p, now, err)
		}
	}
}

func TestSweepOfOneExecution(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "w1.lock")
	start(t, []string{markName + mark, "NIGHTSHIFT_ATTEMPT=7"}, "sleep", "60")
	eighth := start(t, []string{markName + mark, "NIGHTSHIFT_ATTEMPT=8"}, "sleep", "60")
	start(t, []string{markName + mark, "NIGHTSHIFT_ATTEMPT=88"}, "sleep", "60")
	start(t, []string{"NIGHTSHIFT_ATTEMPT=8"}, "sleep", "60")
	found, err := Sweep{Mark: mark, Env: []string{"NIGHTSHIFT_ATTEMPT=8"}}.Find()
	if err != nil || len(found) != 1 || found[0].PID != eighth.PID {
		t.Errorf("found %v, %v; want %v alone", found, err, eighth)
	}
}

func TestSweepKillsAncestorsNever(t *testing.T) {
	// As in a task whose program asks for a sweep of its own slot: the caller and all
	// above it live on, whatever mark they bear.
	self := Self()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	spared := Sweep{}.spared(all)
	for _, pid := range []int{1, self.PID, self.PPID} {
		if !spared[pid] {
			t.Errorf("process %d is not spared", pid)
		}
	}
}

func TestKillAllOutlastsForks(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "w1.lock")
	// Each link forks the next and ends at once: any single look can miss it.
	script := filepath.Join(t.TempDir(), "chain.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 0.01\nsetsid \"$0\" &\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Env = append(os.Environ(), markName+mark)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	s := Sweep{Mark: mark}
	if left, err := s.KillAll(10 * time.Second); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if found, err := s.Find(); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v after the hunt", found, err)
	}
}

func TestReapPinsTheNumberUntilDying(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 7"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var seen Process
	until(t, "the child is reaped", func() bool {
		got, ws, ok := Reap(func(pid int) {
			if seen, err = ReadProcess(pid); err != nil {
				t.Error(err)
			}
		})
		if ok && (got != pid || ws.ExitStatus() != 7) {
			t.Errorf("reaped %d, %v; want %d, exit 7", got, ws, pid)
		}
		return ok
	})
	if seen.PID != pid || seen.State != 'Z' {
		t.Errorf("dying saw %+v, want the zombie", seen)
	}
	if got, _, ok := Reap(func(int) {}); ok {
		t.Errorf("reaped %d although no child is left", got)
	}
}

func TestChildrenOfTheTest(t *testing.T) {
	p := start(t, nil, "sleep", "60")
	list, err := Children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.PID == p.PID && c.StartTicks == p.StartTicks {
			return
		}
	}
	t.Errorf("children %v, want %v among them", list, p)
}

func TestGroupNeedsDelegation(t *testing.T) {
	g, err := NewGroup("w1")
	if err == nil {
		t.Cleanup(func() { _ = g.Remove() }) // a test's own, empty
		t.Skip("this session's cgroup is delegated")
	}
	if !errors.Is(err, ErrNoDelegation) {
		t.Fatal(err)
	}
	if empty, err := g.KillAll(time.Second); !empty || err != nil {
		t.Errorf("a group that is not: %v, %v", empty, err)
	}
}

// TestGroupKillsWhatNoMarkFinds runs in a cgroup of its own that is marked as systemd
// marks a delegated one.
func TestGroupKillsWhatNoMarkFinds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to make a cgroup")
	}
	root := ""
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
			if fs := new(unix.Statfs_t); unix.Statfs(dir, fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
				root = dir
			}
		}
	}
	if root == "" {
		t.Skip("no cgroup v2 mounted")
	}
	parent := filepath.Join(root, fmt.Sprintf("nightshift-test-%d", os.Getpid()))
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer os.Remove(parent)
	if err := unix.Setxattr(parent, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Skipf("no attribute can be set on a cgroup: %v", err)
	}
	if !delegated(parent) || delegated(root) {
		t.Fatalf("delegated: own %v, root %v", delegated(parent), delegated(root))
	}
	path := filepath.Join(parent, "w1")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	g := &Group{path: path, dir: dir}
	cmd := exec.Command("setsid", "env", "-i", "/bin/sh", "-c", "sleep 300 & sleep 301 & wait")
	cmd.SysProcAttr = childAttr(g, 0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if populated, err := g.Populated(); !populated || err != nil {
		t.Errorf("populated %v, %v with a member", populated, err)
	}
	go func() { _ = cmd.Wait() }() // killed below; its status says nothing
	if empty, err := g.KillAll(5 * time.Second); !empty || err != nil {
		t.Errorf("empty %v, %v after the kill", empty, err)
	}
	until(t, "the group is removed", func() bool { return g.Remove() == nil || os.IsNotExist(unix.Access(path, 0)) })
}

// start runs a command with extra environment, kills it at the test's end.
func start(t *testing.T, env []string, name string, args ...string) Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	return run(t, cmd)
}

func run(t *testing.T, cmd *exec.Cmd) Process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { _ = cmd.Wait(); close(reaped) }() // killed at the end; its status says nothing
	t.Cleanup(func() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // gone already in most tests
		<-reaped
	})
	return p
}

// startShell runs a script as a worker's: marked, the lock's descriptor as 9. It returns
// when the script has written a line.
func startShell(t *testing.T, l *Lock, script string) Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), markName+l.Path())
	cmd.Stdout = w
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, l.File()} // 3 + 6 = 9
	p := run(t, cmd)
	w.Close()
	if _, err := r.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return p
}

// startShellFD runs a script with one argument.
func startShellFD(t *testing.T, arg, script string) Process {
	t.Helper()
	p := run(t, exec.Command("/bin/sh", "-c", script, "sh", arg))
	until(t, "the script has the file open", func() bool {
		link, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/fd/0")
		return err == nil && strings.HasPrefix(link, arg)
	})
	return p
}

func waitDead(t *testing.T, p Process) {
	t.Helper()
	until(t, p.String()+" is dead", func() bool {
		now, err := ReadProcess(p.PID)
		return errors.Is(err, ErrGone) || err == nil && (now.StartTicks != p.StartTicks || !now.Alive())
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
