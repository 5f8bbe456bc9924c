package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightshift/pkg/handler"
)

// unreadPatience is how long a stop reply may lie unread before the program is
// taken for one that only writes, and gets SIGTERM, too.
const unreadPatience = 5 * time.Second

// outputPatience is how long a process that the program left in the background may
// go on printing after the program's end: `exec > >(tee log)` needs a moment, and
// more than one on a machine that is busy.
const outputPatience = 3 * time.Second

// silence is how long a program may run before anybody listens to it, or gives it
// orders. A very short one, of which there may be thousands, has ended by then, and
// is spared four goroutines; another gets the answer to its first word that much later.
const silence = 5 * time.Millisecond

// attend waits for the program's end and takes care that it ends when it should
// (DESIGN §7): told at its checkpoint when it speaks, TERM when it does not, KILL
// when its patience is over.
func (x *execution) attend(ctx context.Context) {
	if x.child.endsWithin(silence) {
		return
	}
	x.listen()
	go x.child.wait()
	stop, over := x.t.Stop, ctx.Done()
	told := x.speech.told
	var deaf *time.Timer // rings when a stop reply was given long ago
	defer func() { stopTimer(x.kill); stopTimer(deaf) }()
	for {
		select {
		case <-x.child.exited:
			return
		case o, ok := <-stop:
			if !ok {
				stop = nil
				continue
			}
			x.obey(o)
		case err := <-told:
			x.told(err)
			deaf = time.NewTimer(unreadPatience)
		case <-rings(deaf):
			deaf = nil
			if x.speech.unread() {
				x.say("did not read the reply")
				x.terminate()
			}
		case <-over: // nobody waits for this run any more
			over = nil
			x.obey(handler.StopOrder{Err: handler.ErrStopping, Force: true})
		case <-rings(x.kill):
			x.kill = nil
			x.say("SIGKILL after %s", x.patience())
			x.destroy()
			return
		}
		if x.gone() {
			return
		}
	}
}

func rings(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// gone: destroy has been here.
func (x *execution) gone() bool { return x.order != nil && x.child.dead() }

// obey acts on an order. A stronger one replaces the reason; what runs already is
// only ever made shorter.
func (x *execution) obey(o handler.StopOrder) {
	switch {
	case errors.Is(o.Err, handler.ErrLost):
		// The task may be another's: not one step more.
		x.order = o.Err
		x.say("SIGKILL")
		x.destroy()
	case o.Force:
		x.order = o.Err
		x.terminate()
		x.patient(true)
	case errors.Is(o.Err, handler.ErrTimeout):
		x.order = o.Err
		x.terminate()
		x.patient(false)
	case errors.Is(o.Err, handler.ErrStopping), x.speaks():
		// It is told at its next checkpoint.
	default:
		x.order = o.Err
		x.terminate()
		x.patient(false)
	}
}

// speaks: the program is one that reports checkpoints, now or in an earlier
// execution; it is told at the next one and not in the middle of a batch.
func (x *execution) speaks() bool {
	return x.speech.said.Load() || x.t.LastCheckpoint() != nil
}

// told: a checkpoint was answered with a stop.
func (x *execution) told(err error) {
	if x.order == nil {
		x.order = err
	}
	x.say("told at its checkpoint")
	if errors.Is(err, handler.ErrLost) {
		x.obey(handler.StopOrder{Err: err, Force: true})
		return
	}
	x.patient(false)
}

func (x *execution) terminate() {
	x.say("SIGTERM")
	x.child.terminate()
}

// patient starts the time to SIGKILL, or shortens it.
func (x *execution) patient(force bool) {
	if x.kill == nil {
		x.force = force
		x.kill = time.NewTimer(x.patience())
	} else if force && !x.force {
		x.force = true
		x.kill.Reset(x.patience())
	}
}

func (x *execution) patience() time.Duration {
	if x.force {
		return min(x.p.cfg.KillGrace, x.p.cfg.Grace)
	}
	return x.p.cfg.Grace
}

// say notes for the history what was done.
func (x *execution) say(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	for _, h := range x.how {
		if h == s {
			return
		}
	}
	x.how = append(x.how, s)
}

// destroy kills the program and everything it has started, and waits for that.
func (x *execution) destroy() {
	x.speech.end() // no checkpoint is waited for any more
	x.clear()
}

// clear leaves nothing of the program alive.
func (x *execution) clear() {
	if x.cleared {
		return
	}
	x.cleared = true
	var killed int
	killed, x.left = x.p.cfg.Reaper.killTree(x.child)
	switch {
	case killed == 1:
		x.say("killed one more process of it")
	case killed > 1:
		x.say("killed %d more processes of it", killed)
	}
}

// settle takes what the program has printed and said, ends what it left behind, and
// buries it. Unless it was a success the task may run again, perhaps at once: then
// nothing of it is alive any more after settle. After a success what has left the
// program's group is looked for soon afterwards.
func (x *execution) settle(ctx context.Context) {
	again := x.order != nil || !x.child.succeeded()
	if !again && !x.listening && x.allEnded() {
		x.child.signal(sigKill)
		x.speech.end()
		x.p.cfg.Reaper.bury(x.child, nil)
		return
	}
	x.listen()
	if x.order == nil {
		x.linger(ctx)
		// The dead leader still pins the number of its group.
		x.child.signal(sigKill)
	}
	x.lastWords(ctx)
	stopTimer(x.kill)
	if again || x.order != nil {
		x.clear()
	}
	held := []bool{!x.out.cut(), !x.errout.cut(), !x.speech.close()}
	x.p.cfg.Reaper.bury(x.child, held)
}

// allEnded takes what a short program has printed, if that and descriptor 3 have
// come to their end with it.
func (x *execution) allEnded() bool {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	if !x.out.ended(*buf) || !x.errout.ended(*buf) || !x.speech.nothingSaid() {
		return false
	}
	closeAll([3]int{x.out.fd, x.errout.fd, x.speech.fd})
	return true
}

// linger waits for the output to end, within bounds.
func (x *execution) linger(ctx context.Context) {
	var limit *time.Timer
	for _, s := range []*stream{x.out, x.errout} {
		select {
		case <-s.done:
			continue
		default:
		}
		if limit == nil {
			limit = time.NewTimer(outputPatience)
			defer limit.Stop()
		}
		select {
		case <-s.done:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lastWords hears what the program said before its end. A checkpoint among it may
// wait for the disk, until somebody orders the end; it may be answered by a stop.
func (x *execution) lastWords(ctx context.Context) {
	if x.force {
		x.speech.end()
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		x.speech.hush()
	}()
	stop, over := x.t.Stop, ctx.Done()
	for {
		select {
		case <-heard:
			select {
			case err := <-x.speech.told:
				x.told(err)
			default:
			}
			return
		case o, ok := <-stop:
			if !ok {
				stop = nil
			} else if o.Force {
				x.speech.end()
			}
		case <-over:
			over = nil
			x.speech.end()
		}
	}
}
