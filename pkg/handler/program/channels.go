package program

import "syscall"

// channels are the descriptors between the worker and one program.
type channels struct {
	ours   [3]int // stdout, stderr, descriptor 3; non-blocking
	theirs [3]int // the program's ends of them; blocking
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
		ours:   [3]int{fds[0][0], fds[1][0], fds[2][0]},
		theirs: [3]int{fds[0][1], fds[1][1], fds[2][1]},
	}, nil
}

// closePair gives up descriptors that nothing was sent through.
func closePair(p [2]int) {
	syscall.Close(p[0])
	syscall.Close(p[1])
}

// closeTheirs closes the program's ends, which it has inherited by then.
func (c *channels) closeTheirs() { closeAll(c.theirs) }

// closeOurs is for a program that did not start.
func (c *channels) closeOurs() { closeAll(c.ours) }

func closeAll(fds [3]int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}
