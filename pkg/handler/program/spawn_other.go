//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package program

import (
	"syscall"
	"time"
)

// keepDescriptors marks the first descriptors that this process may have been
// started with as not for its programs; nothing lists them here.
func keepDescriptors() {
	for fd := 3; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
}

func prepareThread() {}

// setUmask changes the process's umask for the moment of the fork. Files that are
// made at that moment have explicit modes, which a umask can only narrow.
func setUmask(mask int) (restore func()) {
	old := syscall.Umask(mask)
	return func() { syscall.Umask(old) }
}

func sysProcAttr(*int) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// endsWithin is for pollable children.
func (c *child) endsWithin(time.Duration) bool { return false }

// wait closes exited when the leader is dead, and leaves it unburied.
func (c *child) wait() {
	defer close(c.exited)
	kq, err := syscall.Kqueue()
	if err != nil {
		return // no descriptor free: bury waits for the death in its place
	}
	defer syscall.Close(kq)
	change := make([]syscall.Kevent_t, 1)
	syscall.SetKevent(&change[0], c.pid, syscall.EVFILT_PROC, syscall.EV_ADD|syscall.EV_ONESHOT)
	change[0].Fflags = syscall.NOTE_EXIT
	for {
		_, err := syscall.Kevent(kq, change, make([]syscall.Kevent_t, 1), nil)
		if err != syscall.EINTR {
			return // the event, or ESRCH: it is dead already
		}
	}
}

// succeeded can't be told before the burial; the group is killed all the same.
func (c *child) succeeded() bool { return true }
