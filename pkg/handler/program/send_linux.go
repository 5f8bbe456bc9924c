package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// sendNow writes what the socket takes at once and returns how much that was.
func sendNow(f *os.File, p []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0 // closed
	}
	// The program is gone or its buffer is full: the rest is kept, or nobody reads it.
	_ = raw.Control(func(fd uintptr) {
		sent, err := unix.SendmsgN(int(fd), p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil {
			n = sent
		}
	})
	return n
}

// unreadBytes is what lies in the socket's other end, unread.
func unreadBytes(f *os.File) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0 // closed
	}
	_ = raw.Control(func(fd uintptr) {
		if queued, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			n = queued
		}
	})
	return n
}
