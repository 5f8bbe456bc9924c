// Command testworker is the smallest worker that keeps the contract with its supervisor, and
// breaks it on demand: each file below --dir named after a fault and a worker (silent-w1)
// switches that fault on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/liveness"
)

const (
	controlFD = 3
	lockFD    = 4
)

var (
	dir  = flag.String("dir", "", "where the switches are, and where is written what happened")
	beat = flag.Duration("beat", 100*time.Millisecond, "between two signs of life")
	id   = os.Getenv("NIGHTSHIFT_WORKER_ID")
)

func main() {
	flag.Parse()
	note("starts", "%d %d", os.Getpid(), time.Now().UnixNano())
	if text, on := fault("exit"); on { // exit-w1 holds the code
		code, err := strconv.Atoi(strings.TrimSpace(text))
		check(err)
		os.Exit(code)
	}
	check(liveness.SetSubreaper())
	unix.CloseOnExec(controlFD)
	check(unix.SetNonblock(controlFD, true))
	lock, err := liveness.Inherit(lockFD, os.Getenv("NIGHTSHIFT_MARK"))
	check(err)
	alone()
	if _, on := fault("env"); on {
		report()
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR2)
	if script, on := fault("task"); on {
		go task(lock, script)
	}
	if _, on := fault("threads"); on {
		go dropThreads()
	}
	if _, on := fault("stuck"); on {
		go writeForEver()
	}
	if _, on := fault("close"); on {
		unix.Close(controlFD)
	}
	if _, on := fault("flood"); on {
		go flood()
	}
	live(signals)
}

// live says R and then a byte each beat, and obeys signals.
func live(signals chan os.Signal) {
	ready := false
	for ticker := time.NewTicker(*beat); ; {
		word := byte(liveness.SaysAlive)
		// Each switch is read once a round: a test may throw it at any moment.
		if _, never := fault("noready"); !ready && !never {
			word = liveness.SaysReady
		} else if _, stalled := fault("stall"); ready && stalled {
			word = liveness.SaysStalled
		}
		if _, hung := fault("silent"); !hung {
			if say(word) {
				note("drains", "%d supervisor gone", os.Getpid())
				drain()
			}
			if word == liveness.SaysReady {
				ready = true
				note("ready", "%d %d", os.Getpid(), time.Now().UnixNano())
			}
		}
		select {
		case <-ticker.C:
		case sig := <-signals:
			note("signals", "%d %v", os.Getpid(), sig)
			if sig == unix.SIGTERM {
				if _, deaf := fault("deaf"); !deaf {
					drain()
				}
			}
		}
	}
}

// say writes one byte; gone reports that nobody listens any more.
func say(b byte) (gone bool) {
	if _, on := fault("close"); on {
		return false
	}
	_, err := unix.Write(controlFD, []byte{b})
	return errors.Is(err, unix.EPIPE)
}

func drain() {
	if text, on := fault("slowdrain"); on { // slowdrain-w1 holds the time
		d, err := time.ParseDuration(strings.TrimSpace(text))
		check(err)
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(*beat) {
			say(liveness.SaysDraining)
		}
	}
	note("ends", "%d", os.Getpid())
	os.Exit(0)
}

// task runs a script as the real worker runs a program: its own session, death with this
// thread's, the mark, the lock at descriptor 4.
func task(lock *liveness.Lock, script string) {
	runtime.LockOSThread()
	cmd := exec.Command("/bin/bash", "-c", script)
	cmd.Dir = *dir
	cmd.Env = append(os.Environ(), "NIGHTSHIFT_TASK_ID=t1", "NIGHTSHIFT_ATTEMPT=1", "DIR="+*dir)
	null, err := os.Open(os.DevNull)
	check(err)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{null, lock.File()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	note("tasks", "%d %v", os.Getpid(), cmd.Run())
}

// alone shows that no other process has this slot: a lock that no child inherits, on a bare
// descriptor, which the garbage collector does not know.
func alone() {
	fd, err := unix.Open(filepath.Join(*dir, "alone-"+id), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	check(err)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		note("overlaps", "%d", os.Getpid())
	}
}

// report writes what this process was given.
func report() {
	umask := unix.Umask(0)
	unix.Umask(umask)
	files, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output() // Go raises its own, and gives children what it was given
	check(err)
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	oom, err := os.ReadFile("/proc/self/oom_score_adj")
	check(err)
	fds, err := os.ReadDir("/proc/self/fd")
	check(err)
	text := fmt.Sprintf("umask %04o\nnofile %soom %s", umask, files, oom)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigBlk:") || strings.HasPrefix(line, "SigIgn:") {
			text += strings.ReplaceAll(line, "\t", " ")
		}
	}
	for _, fd := range fds {
		if n, err := strconv.Atoi(fd.Name()); err == nil && n < 16 {
			link, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // the one ReadDir used is gone
			text += fmt.Sprintf("fd %s %s\n", fd.Name(), link)
		}
	}
	for _, e := range os.Environ() {
		text += "env " + e + "\n"
	}
	check(os.WriteFile(filepath.Join(*dir, "report-"+id), []byte(text), 0o600))
}

// dropThreads ends operating system threads all the time, as a goroutine does that returns
// while it is locked to its thread.
func dropThreads() {
	for {
		go runtime.LockOSThread()
		time.Sleep(time.Millisecond)
	}
}

// writeForEver is stuck in the kernel when the file's file system freezes.
func writeForEver() {
	path, _ := fault("stuck")
	f, err := os.OpenFile(strings.TrimSpace(path), os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	for {
		_, err := f.WriteString("x")
		check(err)
		check(f.Sync())
		time.Sleep(5 * time.Millisecond)
	}
}

func flood() {
	noise := make([]byte, 1<<20)
	for {
		if _, err := unix.Write(controlFD, noise); errors.Is(err, unix.EPIPE) {
			return
		}
	}
}

// fault reads a switch.
func fault(name string) (text string, on bool) {
	b, err := os.ReadFile(filepath.Join(*dir, name+"-"+id))
	return string(b), err == nil
}

// note appends a line to the file of what happened to this slot.
func note(name, format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(*dir, name+"-"+id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	defer f.Close()
	_, err = fmt.Fprintf(f, format+"\n", args...)
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "testworker:", err)
		os.Exit(70)
	}
}
