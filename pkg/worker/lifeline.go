package worker

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/task"
)

// lifeline is the worker's end of the supervisor's pipe: one byte a second says
// that the loop lives, and a broken pipe that the supervisor does not.
type lifeline struct {
	fd    int // -1: started by hand
	clock executor.Clock
	log   hclog.Logger
}

const readyByte = 'R'

// envControlFD names the descriptor on which the supervisor listens.
const envControlFD = "NIGHTSHIFT_CONTROL_FD"

// openLifeline takes the descriptor that the supervisor passed. It must not
// reach a child: the supervisor would wait for its end.
func openLifeline(clock executor.Clock, log hclog.Logger) (*lifeline, error) {
	l := &lifeline{fd: -1, clock: clock, log: log}
	text, ok := os.LookupEnv(envControlFD)
	if !ok {
		return l, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, errors.New(envControlFD + " is " + strconv.Quote(text) + ", not a descriptor's number")
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, errors.New(envControlFD + "=" + text + " is not an open descriptor")
	}
	l.fd = fd
	return l, nil
}

// send writes one byte. A full pipe is a supervisor that is stopped: it forgives
// its own pause, so the byte may be dropped. gone reports a broken pipe.
func (l *lifeline) send(b byte) (gone bool) {
	if l.fd < 0 {
		return false
	}
	for {
		_, err := syscall.Write(l.fd, []byte{b})
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EPIPE):
			return true
		case err != nil && !errors.Is(err, syscall.EAGAIN):
			l.log.Warn("control byte", "err", err)
		}
		return false
	}
}

// run sends a byte a second that says how the loop is, until done is closed. A
// loop that hangs sends none, and the supervisor ends the process. lost is called
// once when the supervisor is gone.
func (l *lifeline) run(pulse *scheduler.Pulse, lost func(), done <-chan struct{}) {
	if l.fd < 0 {
		return
	}
	for {
		if s := pulse.State(l.clock.Now()); s != scheduler.Hung && l.send(byte(s)) {
			l.log.Warn("the supervisor is gone: draining")
			lost()
			return
		}
		t := l.clock.NewTimer(task.OnSecond(l.clock.Now(), time.Second))
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C():
		}
	}
}
