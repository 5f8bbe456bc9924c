package liveness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetSubreaper makes the calling process the new parent of all descendants whose own
// parent dies. Both supervisor and worker are: were the worker not, the daemonised helpers
// of live tasks would come to the supervisor and look like the leavings of a dead worker.
func SetSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

// childAttr is how a supervisor starts a worker: in a session of its own, told by death when
// its parent dies, and in its cgroup from the first instruction on (group may be nil).
// The death signal follows the thread that forked, so fork on one that never ends: the
// main thread (golang/go#27505).
func childAttr(group *Group, onParentDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: onParentDeath}
	if group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.dir.Fd())
	}
	return attr
}

// Reap waits for one dead child, if there is any. dying is called with its number while
// it is still a zombie: until it is waited for, neither that number nor the one of its
// process group can belong to anybody else.
func Reap(dying func(pid int)) (pid int, status syscall.WaitStatus, ok bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return 0, 0, false // ECHILD: no children
		}
	}
	if pid = siginfoPID(&info); pid <= 0 {
		return 0, 0, false
	}
	dying(pid)
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			return pid, status, err == nil
		}
	}
}

// siginfoPID reads si_pid, which unix.Siginfo keeps opaque: it lies behind three 32-bit
// words, aligned as a pointer is.
func siginfoPID(info *unix.Siginfo) int {
	const align = unsafe.Sizeof(uintptr(0))
	const offset = (3*4 + align - 1) / align * align
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// oomScoreAdj reads how willingly the kernel kills this process when memory is short.
func oomScoreAdj() int {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // the kernel writes a number here
	return n
}

// setOOMScoreAdj sets it for a process (-1000 never … 1000 first). To lower it needs privilege.
func setOOMScoreAdj(pid, adj int) error {
	return os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(adj)), 0)
}
