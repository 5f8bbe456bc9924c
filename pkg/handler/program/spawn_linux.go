package program

import (
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keepDescriptors marks everything that this process was started with, beside stdin,
// stdout and stderr, as not for its programs: a shell or a service manager leaves
// descriptors open that nobody knows of.
func keepDescriptors() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return // an old kernel without /proc: they stay as they are
	}
	defer dir.Close() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// ownUmask: the forking thread has a umask (and a current directory) of its own.
var ownUmask bool

// prepareThread is called once, on the forking thread.
func prepareThread() {
	// In a container without the right to unshare, the umask is the process's.
	ownUmask = unix.Unshare(unix.CLONE_FS) == nil
	var none unix.Sigset_t
	// It can't fail: the arguments are constant.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
}

// setUmask sets the umask that the next program inherits, and returns what undoes
// it where other threads would see it. Only the forking thread calls it. Files that
// others make at that moment have explicit modes, which a umask can only narrow.
func setUmask(mask int) (restore func()) {
	if ownUmask {
		syscall.Umask(mask)
		return func() {}
	}
	old := syscall.Umask(mask)
	return func() { syscall.Umask(old) }
}

// sysProcAttr: a session of its own, so that TERM and KILL reach its group alone,
// and death with this worker.
func sysProcAttr(pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: pidfd}
}

// endsWithin waits for the leader's end, at most for d.
func (c *child) endsWithin(d time.Duration) bool {
	if c.pidfd == nil {
		return false
	}
	// It fails only on a file that can't be polled; then wait finds another way.
	if c.pidfd.SetReadDeadline(time.Now().Add(d)) != nil || !c.poll() {
		return false
	}
	close(c.exited)
	return true
}

// wait closes exited when the leader is dead, and leaves it unburied.
func (c *child) wait() {
	defer close(c.exited)
	if c.pidfd != nil && c.pidfd.SetReadDeadline(time.Time{}) == nil && c.poll() {
		return
	}
	for !hasExited(unix.P_PID, c.pid, 0) {
	}
}

// poll lets the runtime's poller wait: a blocked wait would take a thread.
func (c *child) poll() bool {
	raw, err := c.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool { return hasExited(unix.P_PIDFD, int(fd), unix.WNOHANG) }) == nil
}

// hasExited looks whether a child is dead, without burying it. Unless options has
// WNOHANG it waits for that.
func hasExited(idType, id, options int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		switch err {
		case nil:
			return info.Signo != 0
		case unix.EINTR:
		case unix.EAGAIN: // of a non-blocking pidfd
			return false
		default:
			return true // ECHILD: it is gone
		}
	}
}

// succeeded looks at the exit status of the dead, unburied leader.
func (c *child) succeeded() bool {
	const exited = 1 // CLD_EXITED, as opposed to killed
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil {
		return false
	}
	_, status := death(&info)
	return info.Signo != 0 && info.Code == exited && status == 0
}
