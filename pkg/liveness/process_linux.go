package liveness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, fixed at 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// BootID names this run of the kernel. Another one in a record means that every process
// of that record is dead.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// ReadProcess looks at one process; ErrGone when there is none of that number.
func ReadProcess(pid int) (Process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, gone(err)
	}
	return parseStat(b)
}

// parseStat reads /proc/PID/stat (proc(5)). The command is in brackets and may itself hold
// brackets, spaces and newlines, so the last ')' ends it.
func parseStat(b []byte) (Process, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("/proc stat line %q has no command", b)
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 {
		return Process{}, fmt.Errorf("/proc stat line %q is short", b)
	}
	num := func(field []byte) int {
		n, _ := strconv.Atoi(string(field)) // the kernel writes numbers here
		return n
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("/proc stat line %q: %w", b, err)
	}
	return Process{
		PID: num(bytes.TrimSpace(b[:open])), Comm: string(b[open+1 : end]), State: f[0][0],
		PPID: num(f[1]), PGID: num(f[2]), SID: num(f[3]), Threads: num(f[17]), StartTicks: start,
	}, nil
}

// Started is when the process began, for people: it moves when somebody sets the clock.
func (p Process) Started() time.Time {
	var up unix.Timespec
	if p.StartTicks == 0 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	age := time.Duration(up.Nano()) - time.Duration(p.StartTicks)*(time.Second/ticksPerSecond)
	return time.Now().Add(-age).UTC().Truncate(time.Second)
}

// Kill signals exactly p. The pidfd pins whoever has the number now; if that one started
// at another time, p is gone and nobody is signalled.
func Kill(p Process, sig syscall.Signal) error {
	if p.PID <= 1 || p.StartTicks == 0 {
		return fmt.Errorf("signal %s to process %d: not a process to kill", sig, p.PID)
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", p, gone(err))
	}
	defer unix.Close(fd)
	now, err := ReadProcess(p.PID)
	if err != nil {
		return err
	}
	if now.StartTicks != p.StartTicks {
		return ErrGone
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("signal %s to %s: %w", sig, p, gone(err))
	}
	return nil
}

// ThreadStates tells how a process's threads are (DSS: one in an uninterruptible wait): the
// leader alone can look like a zombie beside a thread that no signal reaches.
func ThreadStates(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "gone"
	}
	var states []byte
	for _, e := range entries {
		if b, err := os.ReadFile(dir + e.Name() + "/stat"); err == nil {
			if t, err := parseStat(b); err == nil {
				states = append(states, t.State)
			}
		}
	}
	return string(states)
}

// Children lists the direct children of a process, zombies included.
func Children(pid int) ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, p := range all {
		if p.PPID == pid {
			list = append(list, p)
		}
	}
	return list, nil
}

// processes reads the whole process table.
func processes() (map[int]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("read process table: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read process table: %w", err)
	}
	all := make(map[int]Process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		p, err := ReadProcess(pid)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[pid] = p
	}
	return all, nil
}

// gone turns the errors of a vanished process into ErrGone.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}
