package program

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"nightshift/pkg/failpoint"
	"nightshift/pkg/liveness"
)

// Logger is what the worker's log must offer (an hclog.Logger does).
type Logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
}

// ReaperOptions describe the worker to its programs.
type ReaperOptions struct {
	WorkerID string
	Mark     string   // NIGHTSHIFT_MARK: the absolute path of the worker's lock file
	Lock     *os.File // the slot lock, handed down as descriptor 4; nil: none
	BinDir   string   // appended to PATH, for `nightshift checkpoint` in scripts; "": nothing
	Log      Logger   // nil: silent
}

// certainPace is the pause before a search for strays that are known to exist:
// several are taken together.
const certainPace = 50 * time.Millisecond

// maxLeft bounds what is remembered of programs that left something behind. An
// older stray is recognised by its mark or by its age.
const maxLeft = 1000

// Reaper starts a worker's programs and buries them, and everything that they
// leave behind. There is one in a worker process: starting and burying belong into
// one hand, because a process that waits for any child steals the exit status
// which another part of it waits for.
//
// The worker is a child subreaper: a descendant whose parent dies becomes the
// worker's own child, wherever it has hidden. Of those, the Reaper buries the dead
// and kills the strays, that is, the ones that no living program can have started.
type Reaper struct {
	opt    ReaperOptions
	orders chan func()

	// mu guards live, and the time from a fork to the entry in live: whoever looks
	// for unknown children must not find a program that is just being started.
	mu   sync.Mutex
	live map[int]*child
	left []string // descriptors that outlived their program, the newest last

	wake    chan bool // look for strays; true: there are some for certain
	stop    chan struct{}
	stopped chan struct{}
}

// NewReaper makes this process the subreaper of its descendants and starts the
// Reaper's goroutines. The one that forks never ends, by design.
func NewReaper(o ReaperOptions) (*Reaper, error) {
	if o.Mark == "" {
		return nil, errors.New("a Reaper needs the worker's mark")
	}
	// Where there is none, an orphan goes to process 1, and what has left its group
	// is not found.
	if err := liveness.SetSubreaper(); err != nil && runtime.GOOS == "linux" {
		return nil, err
	}
	liveness.UnignoreSignals()
	keepDescriptors()
	if o.Log == nil {
		o.Log = silent{}
	}
	r := &Reaper{
		opt: o, orders: make(chan func()), live: map[int]*child{},
		wake: make(chan bool, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go r.fork()
	go r.watch()
	return r, nil
}

// closeLimit bounds the last search: what has not died by then hangs in the kernel.
const closeLimit = 5 * time.Second

// Close searches for strays a last time, to its end: with the worker gone nobody
// would look any more. Programs that still run are not touched.
func (r *Reaper) Close() {
	close(r.stop)
	<-r.stopped
	for end := time.Now().Add(closeLimit); !r.sweep() && time.Now().Before(end); {
		time.Sleep(certainPace)
	}
}

type silent struct{}

func (silent) Info(string, ...any) {}
func (silent) Warn(string, ...any) {}

// fork lives as long as the process, on a thread of its own: PDEATHSIG follows the
// thread that forked, and a thread that ends would kill its programs (Go issue
// 27505). The thread has a umask of its own and no blocked signals, both of which
// programs inherit.
func (r *Reaper) fork() {
	runtime.LockOSThread()
	prepareThread()
	for order := range r.orders {
		order()
	}
}

// spawnOrder is what a program is started with.
type spawnOrder struct {
	path     string
	argv     []string
	dir      string
	env      []string
	umask    int
	attempt  int64
	stdin    uintptr
	channels *channels
}

// busyWaits are the pauses between the tries of a program that somebody holds open
// for writing: a concurrent fork does so for microseconds (Go issue 22315), a `cp`
// over it for as long as it copies.
var busyWaits = []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second}

// spawn starts a program; its error is the bare errno of fork, chdir or exec.
func (r *Reaper) spawn(ctx context.Context, o spawnOrder) (*child, error) {
	for try := 0; ; try++ {
		c, err := r.spawnOnce(o)
		if err != syscall.ETXTBSY || try == len(busyWaits) {
			return c, err
		}
		select {
		case <-time.After(busyWaits[try]):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (r *Reaper) spawnOnce(o spawnOrder) (*child, error) {
	files := make([]uintptr, 0, 5)
	files = append(files, o.stdin)
	for _, fd := range o.channels.theirs {
		files = append(files, uintptr(fd))
	}
	if r.opt.Lock != nil {
		files = append(files, r.opt.Lock.Fd())
	}
	pidfd := -1
	attr := &syscall.ProcAttr{Dir: o.dir, Env: o.env, Files: files, Sys: sysProcAttr(&pidfd)}
	var pid int
	var err error
	done := make(chan struct{})
	var c *child
	r.orders <- func() {
		defer close(done)
		r.mu.Lock()
		defer r.mu.Unlock()
		restore := setUmask(o.umask)
		pid, err = syscall.ForkExec(o.path, o.argv, attr)
		restore()
		if err == nil {
			c = newChild(pid, pidfd, o)
			r.live[pid] = c
		}
	}
	<-done
	runtime.KeepAlive(r.opt.Lock)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("program/forked")
	return c, nil
}

// bury collects the status of a program that has exited and forgets it. Until
// then its pid, which names its group too, can belong to nobody else. held says
// which of stdout, stderr and descriptor 3 somebody still holds (its strays); nil:
// none.
func (r *Reaper) bury(c *child, held []bool) {
	r.mu.Lock()
	c.reap()
	delete(r.live, c.pid)
	certain := false
	for i, h := range held {
		if h {
			certain = true
			r.left = append(r.left, c.endNames()[i])
		}
	}
	if n := len(r.left) - maxLeft; n > 0 {
		r.left = append([]string(nil), r.left[n:]...)
	}
	r.mu.Unlock()
	failpoint.Hit("program/reaped")
	r.look(certain)
}

// look asks for a search for strays; certain: something is still there.
func (r *Reaper) look(certain bool) {
	for {
		select {
		case r.wake <- certain:
			return
		default:
		}
		if !certain {
			return // one is asked for already
		}
		select {
		case <-r.wake: // replace a search that can wait by one that can't
		default:
		}
	}
}

// attemptVariable is what everything that a program starts has in its environment.
func attemptVariable(attempt int64) string {
	return ownPrefix + "ATTEMPT=" + strconv.FormatInt(attempt, 10)
}
