package liveness

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrGone says that the process meant is not there any more; its number may belong to another.
var ErrGone = errors.New("the process is gone")

// Process is one process at one moment. PID and StartTicks together name it for as long
// as the machine runs; a PID alone is reused.
type Process struct {
	PID        int
	StartTicks uint64 // since boot, in 1/100 s
	PPID       int
	PGID       int
	SID        int
	State      byte // as in /proc/PID/stat: R, S, D, T, Z …
	Threads    int
	Comm       string
}

// Alive says whether any part of the process can still act. A zombie leader beside a
// thread that hangs in the kernel (state D) is alive: it keeps descriptors and locks.
func (p Process) Alive() bool {
	return p.PID > 0 && (p.State != 'Z' && p.State != 'X' || p.Threads > 1)
}

func (p Process) String() string {
	if since := p.Started(); !since.IsZero() {
		return fmt.Sprintf("process %d (%s, since %s)", p.PID, p.Comm, since.Format(time.RFC3339))
	}
	return fmt.Sprintf("process %d (%s)", p.PID, p.Comm)
}

// Self is the calling process.
func Self() Process {
	p, err := ReadProcess(os.Getpid())
	if err != nil {
		return Process{PID: os.Getpid(), PPID: os.Getppid(), State: 'R', Threads: 1}
	}
	return p
}
