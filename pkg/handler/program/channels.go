package program

import (
	"os"
	"syscall"
)

// channels are the descriptors between the worker and one program.
type channels struct {
	stdout, stderr, speech *os.File // ours: non-blocking, waited for by the runtime's poller
	theirs                 [3]int   // the program's ends: stdout, stderr, descriptor 3; blocking
}

// openChannels makes them; on an error nothing stays open.
func openChannels() (*channels, error) {
	var fds [3][2]int
	for i := range fds {
		pair := pipe
		if i == 2 {
			pair = socketpair
		}
		var err error
		if fds[i], err = pair(); err == nil {
			// An end's own description: the program's stays blocking.
			if err = syscall.SetNonblock(fds[i][0], true); err != nil {
				closePair(fds[i])
			}
		}
		if err != nil {
			for _, p := range fds[:i] {
				closePair(p)
			}
			return nil, err
		}
	}
	return &channels{
		stdout: os.NewFile(uintptr(fds[0][0]), "stdout of a program"),
		stderr: os.NewFile(uintptr(fds[1][0]), "stderr of a program"),
		speech: os.NewFile(uintptr(fds[2][0]), "descriptor 3 of a program"),
		theirs: [3]int{fds[0][1], fds[1][1], fds[2][1]},
	}, nil
}

// closePair gives up descriptors that nothing was sent through.
func closePair(p [2]int) {
	syscall.Close(p[0])
	syscall.Close(p[1])
}

// closeTheirs closes the program's ends, which it has inherited by then.
func (c *channels) closeTheirs() {
	for _, fd := range c.theirs {
		syscall.Close(fd)
	}
}

// closeOurs is for a program that did not start.
func (c *channels) closeOurs() {
	c.stdout.Close()
	c.stderr.Close()
	c.speech.Close()
}
