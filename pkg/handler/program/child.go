package program

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// child is the leader of a program's session: the process that was started.
type child struct {
	pid     int
	attempt int64
	pidfd   *os.File // nil where the system has none

	// ends are the inodes of the program's stdout, stderr and descriptor 3. A
	// descendant that has shed environment, session and parent often still holds one.
	ends [3]uint64

	exited chan struct{} // closed when it is dead and not yet buried

	mu     sync.Mutex
	buried bool
	status syscall.WaitStatus
	stolen error // the status could not be had: the zero one would say success
}

func newChild(pid, pidfd int, o spawnOrder) *child {
	c := &child{pid: pid, attempt: o.attempt, exited: make(chan struct{})}
	if pidfd >= 0 {
		if err := syscall.SetNonblock(pidfd, true); err == nil { // else it can't be polled, and wait blocks a thread
			c.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
		} else {
			syscall.Close(pidfd)
		}
	}
	c.ends = inodes(o.channels.theirs)
	return c
}

// inodes names the objects behind the program's descriptors.
func inodes(fds [3]int) (n [3]uint64) {
	for i, fd := range fds {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err == nil { // an open descriptor always has a stat
			n[i] = uint64(st.Ino)
		}
	}
	return n
}

// endNames are the same as /proc/PID/fd shows them.
func (c *child) endNames() []string {
	return []string{
		fmt.Sprintf("pipe:[%d]", c.ends[0]), fmt.Sprintf("pipe:[%d]", c.ends[1]), fmt.Sprintf("socket:[%d]", c.ends[2]),
	}
}

// signal sends sig to the whole process group, unless the leader is buried: from
// then on the number may be another's.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.buried {
		// ESRCH can't be, EPERM is met by a program that changed its user: what is
		// left of it then is found, and told, by the search for the tree.
		_ = syscall.Kill(-c.pid, sig)
	}
}

// terminate asks the group to end; a stopped one is woken to hear it.
func (c *child) terminate() {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
}

// reap takes the status of the dead leader. Only Reaper.bury calls it.
func (c *child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, c.stolen = syscall.Wait4(c.pid, &c.status, 0, nil)
		if c.stolen != syscall.EINTR {
			break // ECHILD: something in this process waits for any child
		}
	}
	c.buried = true
	if c.pidfd != nil {
		c.pidfd.Close()
	}
}

// dead reports that the leader has exited.
func (c *child) dead() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}
