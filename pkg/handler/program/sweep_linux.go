package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"nightshift/pkg/liveness"
	"nightshift/pkg/task"
)

// Pace of the search for strays.
const (
	routinePace = time.Second           // without evidence that there are any
	burialPace  = time.Second / 4       // adopted children that died by themselves
	idlePace    = 2 * time.Second       // the same, where there was no child at all at the last look
	longestRest = 3 * time.Second       // whatever it took: a busy machine makes it look long
	roundPause  = 10 * time.Millisecond // between two rounds while some still die
	maxRounds   = 100                   // of one search; the next goes on
	dutyFactor  = 100                   // a routine search may take one part in so many of the time
)

// watch buries unknown children as they die and looks for strays when asked to.
func (r *Reaper) watch() {
	defer close(r.stopped)
	// A timer, not SIGCHLD: that comes with every program that ends, and costs a
	// short one more than all of this.
	burial := time.NewTimer(burialPace)
	defer burial.Stop()
	search := newAlarm()
	defer search.stop()
	var rest time.Time // no search before
	for {
		select {
		case <-r.stop:
			return
		case <-burial.C:
			done, childless := r.buryUnknown()
			if !done {
				search.in(routinePace) // somebody else's dead child hides the others
			}
			if childless {
				burial.Reset(task.OnSecond(time.Now(), idlePace))
			} else {
				burial.Reset(burialPace)
			}
		case certain := <-r.wake:
			if certain {
				search.in(certainPace)
			} else {
				search.in(max(time.Until(rest), routinePace))
			}
		case <-search.C:
			search.rang()
			began := time.Now()
			if !r.sweep() {
				search.in(routinePace)
			}
			rest = time.Now().Add(min(dutyFactor*time.Since(began), longestRest))
		}
	}
}

// alarm is a timer that remembers the earliest time asked for.
type alarm struct {
	*time.Timer
	at time.Time
}

func newAlarm() *alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &alarm{Timer: t}
}

func (a *alarm) in(d time.Duration) {
	at := time.Now().Add(d)
	if a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.Reset(max(d, 0))
	}
}

func (a *alarm) rang() { a.at = time.Time{} }
func (a *alarm) stop() { a.Stop() }

// buryUnknown collects dead children that nobody else waits for. It looks before it
// takes, and stops at the first that is another's: false then, because that one may
// hide others for long. (A program of ours is buried at once, and a search follows.)
func (r *Reaper) buryUnknown() (done, childless bool) {
	for {
		r.mu.Lock()
		pid, childless := nextDead()
		known := r.live[pid] != nil
		if pid == 0 || known || !r.unclaimed(pid) {
			r.mu.Unlock()
			return pid == 0 || known, childless
		}
		burySurely(pid)
		r.mu.Unlock()
	}
}

// nextDead returns some dead child and leaves it unburied; 0: there is none. childless:
// there is no living one either.
func nextDead() (pid int, childless bool) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if err != nil || info.Signo == 0 {
		return 0, errors.Is(err, unix.ECHILD) // EINTR can't be without waiting
	}
	pid, _ = death(&info)
	return pid, false
}

// death reads si_pid and si_status, which unix.Siginfo keeps to itself: they stand
// behind its three ints, aligned like a pointer, with si_uid between them.
func death(info *unix.Siginfo) (pid, status int) {
	const align = unsafe.Sizeof(uintptr(0))
	const offset = (3*4 + align - 1) / align * align
	at := func(n uintptr) int { return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset+n))) }
	return at(0), at(8)
}

// unclaimed reports that nobody in this process will wait for the child.
func (r *Reaper) unclaimed(pid int) bool {
	owners, ok := pidfdOwners()
	if ok {
		return !owners[pid]
	}
	// Without pidfds: what os/exec starts is of our own session, what a program
	// has left is not.
	p, err := liveness.ReadProcess(pid)
	return err == nil && p.SID != ownSession()
}

func burySurely(pid int) {
	var status syscall.WaitStatus
	// ECHILD can't be, with r.mu held; a process still alive is left alone.
	_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
}

func ownSession() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return sid
}

// sweep kills strays, in rounds, because what a stray has started becomes visible
// when it dies. It reports that nothing is left to be looked at again.
func (r *Reaper) sweep() (clean bool) {
	for range maxRounds {
		killed, waiting := r.sweepOnce()
		if killed == 0 {
			return !waiting
		}
		time.Sleep(roundPause)
	}
	return false
}

// sweepOnce looks at every child of this process that is no program of ours.
// waiting: some may still belong to a program that runs.
func (r *Reaper) sweepOnce() (killed int, waiting bool) {
	all, err := processes()
	if err != nil {
		return 0, false // no /proc: nothing can be told
	}
	// In this order: who was seen above and is somebody's has its pidfd by now.
	owners, haveOwners := pidfdOwners()
	session := ownSession()
	r.mu.Lock()
	defer r.mu.Unlock()
	var known knownLife
	for _, p := range all {
		switch {
		case p.PPID != os.Getpid() || r.live[p.PID] != nil || owners[p.PID]:
			continue
		case !p.Alive():
			if haveOwners || p.SID != session {
				burySurely(p.PID)
			}
			continue
		case p.SID == session:
			continue // a Go handler's own child: programs have sessions of their own
		}
		if !known.read {
			known = r.life(all)
		}
		switch known.belongs(r, p) {
		case yes:
		case perhaps:
			waiting = true
		case no:
			if r.killStray(p) {
				killed++
			}
		}
	}
	return killed, waiting
}

func (r *Reaper) killStray(p liveness.Process) bool {
	err := liveness.Kill(p, syscall.SIGKILL)
	switch {
	case err == nil:
		r.opt.Log.Info("killed what a program left behind", "pid", p.PID, "name", p.Comm)
		return true
	case errors.Is(err, liveness.ErrGone):
		return true // its own children come to us now
	default:
		r.opt.Log.Warn("a program left a process behind that can't be killed", "pid", p.PID, "name", p.Comm, "err", err)
		return false
	}
}

// knownLife is what is known of the programs that run, for one round.
type knownLife struct {
	read     bool
	children []*child
	leaders  map[int]bool
	oldest   uint64 // when the oldest of them began
}

// life is called with r.mu held.
func (r *Reaper) life(all []liveness.Process) knownLife {
	k := knownLife{read: true, leaders: map[int]bool{}, oldest: ^uint64(0)}
	for _, c := range r.live {
		k.children = append(k.children, c)
		k.leaders[c.pid] = true
	}
	for _, p := range all {
		if k.leaders[p.PID] {
			k.oldest = min(k.oldest, p.StartTicks)
		}
	}
	return k
}

type belief int

const (
	no belief = iota
	perhaps
	yes
)

// belongs says whether an adopted process is part of a program that still runs: by
// what its environment says, by its session or group, by a descriptor it holds (of a
// living program, or one that a dead program has left). One that shows nothing can
// still be told by its age: a descendant is not older than its program.
func (k *knownLife) belongs(r *Reaper, p liveness.Process) belief {
	mark := ownPrefix + "MARK=" + r.opt.Mark
	marked := carries(p.PID, mark)
	for _, c := range k.children {
		if marked && carries(p.PID, attemptVariable(c.attempt)) {
			return yes
		}
	}
	if marked {
		return no
	}
	if k.leaders[p.SID] || k.leaders[p.PGID] {
		return yes
	}
	for _, c := range k.children {
		if holds(p.PID, c.endNames()) {
			return yes
		}
	}
	if holds(p.PID, r.left) {
		return no
	}
	if p.StartTicks >= k.oldest {
		return perhaps
	}
	return no
}

// Pace of the killing of a tree.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 100 * time.Millisecond
	tellAfter    = 5 * time.Second // something does not die: say so, and wait on
)

// killTree kills everything that a program has started, and its leader, and returns
// when nothing of it runs any more: whoever runs the task next must not meet it.
// A process in the kernel's uninterruptible sleep is waited for. left is what this
// user may not kill.
func (r *Reaper) killTree(c *child) (killed int, left []liveness.Process) {
	c.signal(syscall.SIGKILL)
	began, pause, told := time.Now(), firstPause, false
	seen, denied := map[int]uint64{}, map[int]liveness.Process{}
	for {
		victims, err := r.members(c)
		if err != nil {
			return 0, nil // no /proc: the group is all that can be reached
		}
		alive := 0
		for _, p := range victims {
			if _, ok := denied[p.PID]; ok {
				continue
			}
			alive++
			switch err := liveness.Kill(p, syscall.SIGKILL); {
			case errors.Is(err, fs.ErrPermission):
				denied[p.PID] = p
			case p.PID != c.pid:
				seen[p.PID] = p.StartTicks
			}
		}
		if alive == 0 && c.dead() {
			break
		}
		if !told && time.Since(began) > tellAfter {
			told = true
			r.opt.Log.Warn("a program does not die", "pid", c.pid, "attempt", c.attempt, "alive", fmt.Sprint(victims))
		}
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
	for _, p := range denied {
		left = append(left, p)
	}
	sort.Slice(left, func(i, j int) bool { return left[i].PID < left[j].PID })
	return len(seen), left
}

// members are the living processes of a program: its leader's descendants, its
// session and group, whatever carries its mark and number, and what was adopted
// from it.
func (r *Reaper) members(c *child) ([]liveness.Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	owners, _ := pidfdOwners()
	byPID := make(map[int]liveness.Process, len(all))
	for _, p := range all {
		byPID[p.PID] = p
	}
	begin := byPID[c.pid].StartTicks // 0 once the leader is buried
	mark, attempt := ownPrefix+"MARK="+r.opt.Mark, attemptVariable(c.attempt)
	session, me := ownSession(), os.Getpid()

	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.life(all)
	var list []liveness.Process
	for _, p := range all {
		if !p.Alive() || p.PID == me || p.StartTicks < begin || (owners[p.PID] && p.PID != c.pid) || (r.live[p.PID] != nil && p.PID != c.pid) {
			continue
		}
		if p.SID == c.pid || p.PGID == c.pid || descends(byPID, p, c.pid) || carries(p.PID, mark, attempt) {
			list = append(list, p)
			continue
		}
		if p.PPID == me && p.SID != session && (holds(p.PID, c.endNames()) || known.belongs(r, p) == no) {
			list = append(list, p)
		}
	}
	return list, nil
}

// descends follows parents up to the leader.
func descends(byPID map[int]liveness.Process, p liveness.Process, leader int) bool {
	for range len(byPID) {
		if p.PID == leader {
			return true
		}
		parent, ok := byPID[p.PPID]
		if !ok || p.PPID == p.PID {
			return false
		}
		p = parent
	}
	return false
}
