package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/liveness"
)

// A start script that forks its service and exits: SUCCESS once, at once, and what
// it left behind is ended (PR-06).
func TestPR06DaemonisingScript(t *testing.T) {
	scripts := map[string]string{
		"own session, no output":  `setsid sh -c 'echo $$ >pid; while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null &`,
		"own session, our output": `setsid sh -c 'echo $$ >pid; while :; do sleep 0.1; done' &`,
		"same group":              `sh -c 'echo $$ >pid; while :; do sleep 0.1; done' >/dev/null 2>&1 &`,
		"no environment":          `env -i setsid sh -c 'echo $$ >pid; while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null &`,
		"a true daemon":           `env -i setsid sh -c 'exec 3>&- 4>&-; (setsid sh -c "echo \$\$ >pid; while :; do sleep 0.1; done" &)' >/dev/null 2>&1 </dev/null &`,
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			tr := sh(t, script+` while [ ! -s pid ]; do sleep 0.01; done; echo started`)
			tr.run().wantResult(t, `"started"`)
			gone(t, slurp(t, filepath.Join(tr.dir, "pid")))
		})
	}
}

// A program that fails may run again at once: nothing of it is alive when its
// handler returns, however it hid.
func TestNothingOfAFailedProgramIsAlive(t *testing.T) {
	for _, end := range []string{"exit 1", "kill -9 $$"} {
		tr := sh(t, `setsid sh -c 'exec 3>&- 4>&- >/dev/null 2>&1 </dev/null; echo $$ >pid; while :; do sleep 0.1; done' &
			while [ ! -s pid ]; do sleep 0.01; done; `+end)
		o := tr.run()
		if pid := slurp(t, filepath.Join(tr.dir, "pid")); o.kind() != "retry" || alive(pid) {
			t.Errorf("%s: %s, and process %s lives", end, o.kind(), pid)
		}
	}
}

// A worker that ends right after a success leaves nothing of it behind.
func TestCloseFindsTheLastStray(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	tr := try(t, testBinary(t))
	tr.cfg.Env = map[string]string{"PROGRAM_TEST_JOB": "short life", "PID_FILE": file}
	tr.run().wantResult(t, `"done"`)
	if pid := slurp(t, file); alive(pid) {
		t.Errorf("process %s outlived the worker that started it", pid)
	}
}

// What a living program has started in a way of its own is not touched when another
// program ends.
func TestHelpersOfALivingProgramLive(t *testing.T) {
	tr := sh(t, `(setsid sh -c 'echo $$ >>pids; while :; do sleep 0.1; done' &)
		(env -i setsid sh -c 'echo $$ >>pids; while :; do sleep 0.1; done' >/dev/null 2>&1 &)
		(env -i setsid sh -c 'exec 3>&- 4>&-; echo $$ >>pids; while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null &)
		echo on; sleep 1000`)
	done := tr.start()
	pids := filepath.Join(tr.dir, "pids")
	until(t, "three helpers", func() bool {
		b, err := os.ReadFile(pids)
		return err == nil && strings.Count(string(b), "\n") == 3
	})
	other := sh(t, `setsid sh -c 'echo $$ >pid; while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null & while [ ! -s pid ]; do sleep 0.01; done`)
	other.run().wantResult(t, "")
	gone(t, slurp(t, filepath.Join(other.dir, "pid")))
	for _, pid := range strings.Fields(slurp(t, pids)) {
		if !alive(pid) {
			t.Errorf("helper %s of a living program was killed", pid)
		}
	}
	tr.stop <- cancel()
	await(t, done).want(t, "cancelled", "SIGTERM")
	for _, pid := range strings.Fields(slurp(t, pids)) {
		gone(t, pid) // at the latest when no program is left that it can belong to
	}
}

// A background process that filters the output may finish its last lines.
func TestOutputOfAFilterIsNotCut(t *testing.T) {
	bash := need(t, "bash")
	for range 5 {
		o := try(t, bash, "-c", `exec > >(sleep 0.05; sed "s/^/filtered: /"); for i in 1 2 3; do echo line $i; done`).run()
		o.wantResult(t, `"filtered: line 3"`)
	}
}

// Adopted children that die are buried, and nobody's exit status is stolen: not a
// program's, not one of os/exec in the same process (PR-07).
func TestPR07NoZombiesAndNoStolenStatuses(t *testing.T) {
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for w := range 3 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := range 30 {
				code := 1 + (w*30+i)%60
				o := sh(t, fmt.Sprintf("(sleep 0.0%d &); (setsid sleep 0.0%d >/dev/null 2>&1 3>&- 4>&- &); exit %d", i%10, i%7, code)).run()
				if o.ExitCode == nil || *o.ExitCode != code {
					errs <- fmt.Errorf("program: exit code %v (%q), want %d", o.ExitCode, o.Summary, code)
				}
			}
		}()
		go func() {
			defer wg.Done()
			for i := range 60 {
				code := 1 + i
				cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", code))
				if err := cmd.Start(); err != nil {
					errs <- err
					return
				}
				if i%20 == 0 {
					time.Sleep(1500 * time.Millisecond) // a dead child that its owner has not asked for yet
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != code {
					errs <- fmt.Errorf("os/exec: %w, want exit status %d", err, code)
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	until(t, "no zombie is left", func() bool {
		children, err := liveness.Children(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range children {
			if p.State == 'Z' {
				return false
			}
		}
		return true
	})
}

// While one long program runs, the zombies of its orphans do not pile up.
func TestPR07OrphansOfALongProgram(t *testing.T) {
	tr := sh(t, `i=0; while [ $i -lt 50 ]; do i=$((i+1)); (sleep 0 &); done; echo on; read -r x <&3`)
	done := tr.start()
	tr.untilLogged("on")
	until(t, "they are buried", func() bool {
		children, err := liveness.Children(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		zombies := 0
		for _, p := range children {
			if p.State == 'Z' {
				zombies++
			}
		}
		return zombies <= 1
	})
	tr.stop <- cancel()
	await(t, done).want(t, "cancelled", "SIGTERM")
}

// A Go handler may start processes, too, and with a session of their own.
func TestChildrenOfGoHandlersAreLeftAlone(t *testing.T) {
	plain := exec.Command("sleep", "1000")
	own := exec.Command("setsid", "sleep", "1000")
	for _, cmd := range []*exec.Cmd{plain, own} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		sh(t, "setsid sleep 1000 & exit 0").run().wantResult(t, "")
	}
	time.Sleep(2 * time.Second) // longer than any search waits
	for _, cmd := range []*exec.Cmd{plain, own} {
		if !alive(fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("%v was killed", cmd.Args)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("wait for %v: %v", cmd.Args, err)
		}
	}
}

// The program dies with its worker, whatever thread the worker's code has ended.
func TestProgramOutlivesThreadsAndDiesWithItsWorker(t *testing.T) {
	cmd := exec.Command(testBinary(t))
	cmd.Env = append(os.Environ(), "PROGRAM_TEST_JOB=threads")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(buf[:n]))
	if !alive(pid) {
		t.Fatalf("no process %q", pid)
	}
	time.Sleep(300 * time.Millisecond) // threads end meanwhile
	if !alive(pid) {
		t.Error("the program died with a thread that had nothing to do with it")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	gone(t, pid)
}

// Where something else in the process has taken the exit status (a library that waits
// for any child), there is none: its zero value would be success.
func TestAStolenStatusIsNoSuccess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 3")
	if err := cmd.Run(); err == nil { // this has taken it
		t.Fatal("exit 3 was a success")
	}
	c := &child{pid: cmd.Process.Pid, exited: make(chan struct{})}
	c.reap()
	for _, order := range []error{nil, handler.ErrTimeout} {
		x := &execution{child: c, speech: &speech{}, out: &stream{}, errout: &stream{}, order: order}
		r, err := x.verdict()
		if err == nil || !strings.Contains(err.Error(), "exit status was taken") || !errors.Is(err, order) && order != nil {
			t.Errorf("ordered %v, the verdict is %v", order, err)
		}
		got := r.(handler.Report)
		if got.ExitCode != nil || got.Signal != "" || got.Summary == "" || strings.Contains(got.Summary, "exit 0") {
			t.Errorf("ordered %v, the report is %+v", order, got)
		}
	}
}
