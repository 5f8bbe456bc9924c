//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package program

import (
	"syscall"
	"time"

	"nightshift/pkg/liveness"
)

// watch has nothing to do where orphans go to process 1.
func (r *Reaper) watch() {
	defer close(r.stopped)
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
		}
	}
}

// sweep finds nothing here.
func (r *Reaper) sweep() (clean bool) { return true }

// killTree kills the group, which is all that can be found without /proc.
func (r *Reaper) killTree(c *child) (killed int, left []liveness.Process) {
	for !c.dead() {
		c.signal(syscall.SIGKILL)
		time.Sleep(10 * time.Millisecond)
	}
	return 0, nil
}
