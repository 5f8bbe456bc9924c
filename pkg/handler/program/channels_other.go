//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package program

import "syscall"

func pipe() ([2]int, error) {
	return guarded(func() (p [2]int, err error) { return p, syscall.Pipe(p[:]) })
}

func socketpair() ([2]int, error) {
	return guarded(func() ([2]int, error) { return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0) })
}

// guarded marks a pair close-on-exec before any fork can copy it.
func guarded(pair func() ([2]int, error)) ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	p, err := pair()
	if err == nil {
		syscall.CloseOnExec(p[0])
		syscall.CloseOnExec(p[1])
	}
	return p, err
}
