package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// sendNow writes what the socket takes at once and returns how much that was.
func sendNow(f *os.File, p []byte) (n int) {
	atOnce(f, func(fd int) {
		sent, err := unix.SendmsgN(fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil { // else its buffer is full, or it is gone: the rest is kept
			n = sent
		}
	})
	return n
}

// unreadBytes is what lies in the socket's other end, unread.
func unreadBytes(f *os.File) (n int) {
	atOnce(f, func(fd int) {
		if queued, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			n = queued
		}
	})
	return n
}
