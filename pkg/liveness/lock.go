// Package liveness knows what proof of death is, and how to bring it about.
//
// A worker holds an exclusive flock on run/<worker_id>.lock from before its first
// write to its end, and hands the open descriptor to every child. The kernel frees
// the lock when the worker and every descendant that kept the descriptor are gone,
// so whoever can take it (same inode as recorded, still linked) has proof. Silence
// and expired leases prove nothing: they only ever allow a kill.
//
// The lock alone errs both ways: a descendant can keep the descriptor for ever, and
// one that closed it works on unseen. So a hunt (Sweep) looks for an environment
// mark, for the owner's descriptor and for what hangs below, and kills by pidfd with
// an identity check, never by a bare number.
//
// The owner's open file description carries O_APPEND, which every inheritor shows in
// /proc/PID/fdinfo. A prober never sets it: who merely looks is never taken for a holder.
//
// Never in this room: a database, a task, wall-clock comparison between processes,
// os/exec, cgo. Linux is the real thing; elsewhere locks work and the rest degrades.
package liveness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// proberPatience is how long Acquire waits for a lock that no owner holds: a prober
// has it for microseconds, or for the one transaction of a takeover.
const proberPatience = 500 * time.Millisecond

// Lock is an owned slot lock. The package keeps it reachable until Release: a lock in
// a local *os.File is lost at the next garbage collection (golang/go#16700).
type Lock struct {
	file     *os.File
	path     string
	dev, ino uint64
}

var owned = struct {
	sync.Mutex
	locks map[*Lock]struct{}
}{locks: map[*Lock]struct{}{}}

// HeldError says that a lock is taken, and by whom.
type HeldError struct {
	Path     string
	Dev, Ino uint64
	// Holders have the owner's descriptor open (those that this user may look at).
	Holders []Process
	// Taker took the lock itself and still lives: a worker that no supervisor started.
	// PID 0 when it was handed on, as a supervisor does, or its taker is gone.
	Taker Process
}

// HeldBy looks who holds the owner's lock at path: a *HeldError, or what kept it from
// looking.
func HeldBy(path string, dev, ino uint64) error { return heldError(path, dev, ino) }

// Abandoned reports that the owner is dead and only what it left behind keeps its lock:
// no holder took it, and none is a worker that a supervisor started (its supervisor took
// the lock, holds it until the worker runs, and gave it this id). Who cannot be looked at
// counts as a worker.
func (e *HeldError) Abandoned(workerID string) bool {
	if e.Taker.PID != 0 || len(e.Holders) == 0 {
		return false
	}
	workers, err := Sweep{Env: []string{"NIGHTSHIFT_WORKER_ID=" + workerID}}.Find()
	if err != nil {
		return false
	}
	for _, h := range e.Holders {
		if slices.ContainsFunc(workers, func(w Process) bool { return w.PID == h.PID }) {
			return false
		}
	}
	return true
}

func (e *HeldError) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("the lock %s is held by a process that this user cannot see", e.Path)
	}
	who := make([]string, len(e.Holders))
	for i, p := range e.Holders {
		who[i] = p.String()
	}
	return fmt.Sprintf("the lock %s is held by %s", e.Path, strings.Join(who, ", "))
}

// Acquire takes the lock for the calling process, which is its owner until it ends.
// A lock that somebody only probes is waited for; *HeldError when it has an owner.
func Acquire(path string) (*Lock, error) {
	for deadline := time.Now().Add(proberPatience); ; time.Sleep(5 * time.Millisecond) {
		l, err := Reserve(path)
		var held *HeldError
		switch {
		case errors.As(err, &held) && len(held.Holders) == 0 && time.Now().Before(deadline):
			continue
		case err != nil:
			return nil, err
		}
		if err := l.own(); err != nil {
			l.Release()
			return nil, err
		}
		return l, nil
	}
}

// Reserve takes the lock without becoming its owner: for a supervisor, which hands the
// descriptor to the worker it starts, and must not be found among the holders meanwhile.
// The worker becomes the owner by Inherit. It never waits.
func Reserve(path string) (*Lock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	for range 10 { // the path can change under us as often as somebody replaces it
		// O_NONBLOCK: a fifo somebody put there must not hang us (it is refused below).
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock %s: %w", path, notALink(err))
		}
		l := &Lock{file: os.NewFile(uintptr(fd), path), path: path}
		if l.dev, l.ino, err = regular(fd, path); err != nil {
			l.file.Close()
			return nil, err
		}
		if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			l.file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, heldError(path, l.dev, l.ino)
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if dev, ino, err := inodeOf(path); err != nil || dev != l.dev || ino != l.ino {
			l.file.Close() // unlinked or replaced between open and flock: this lock excludes nobody
			continue
		}
		l.pin()
		return l, nil
	}
	return nil, fmt.Errorf("lock %s: the file is replaced again and again by somebody else", path)
}

// Inherit makes the calling process the owner of a lock that its supervisor took and
// passed as descriptor fd. It fails when fd is another file than path, or not locked.
func Inherit(fd uintptr, path string) (*Lock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	dev, ino, err := regular(int(fd), path)
	if err != nil {
		return nil, fmt.Errorf("inherited descriptor %d: %w", fd, err)
	}
	if d, i, err := inodeOf(path); err != nil {
		return nil, fmt.Errorf("inherited descriptor %d: %w", fd, err)
	} else if d != dev || i != ino {
		return nil, fmt.Errorf("inherited descriptor %d is not %s", fd, path)
	}
	// On the description that holds the lock this changes nothing; on any other it fails.
	if err := flock(int(fd), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, heldError(path, dev, ino)
	}
	unix.CloseOnExec(int(fd))
	l := &Lock{file: os.NewFile(fd, path), path: path, dev: dev, ino: ino}
	if err := l.own(); err != nil {
		return nil, err
	}
	l.pin()
	return l, nil
}

// own sets the owner's flag on the open file description (see the package comment), and
// clears O_NONBLOCK with it.
func (l *Lock) own() error {
	if _, err := unix.FcntlInt(l.file.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
		return fmt.Errorf("mark lock %s as owned: %w", l.path, err)
	}
	return nil
}

func (l *Lock) pin() {
	owned.Lock()
	defer owned.Unlock()
	owned.locks[l] = struct{}{}
}

// File is the descriptor to hand to children. Do not close it; Release does.
func (l *Lock) File() *os.File { return l.file }

// Path is absolute; it is also the mark that children carry in their environment.
func (l *Lock) Path() string { return l.path }

// Inode identifies the lock file: recorded by its owner, compared by those who probe.
func (l *Lock) Inode() (dev, ino uint64) { return l.dev, l.ino }

// Release closes this process's descriptor. The lock is free once every process that
// was handed it has done so too: LOCK_UN would free it under the children's feet.
func (l *Lock) Release() {
	owned.Lock()
	delete(owned.locks, l)
	owned.Unlock()
	l.file.Close()
}

// Outcome is what a probe of a lock found.
type Outcome int

// The outcomes. Only Free is proof of death.
const (
	Held     Outcome = iota // somebody has it: the owner, or a descendant that kept the descriptor
	Free                    // nobody has it, and the Guard keeps it so
	Unproven                // the file is missing, unlinked, or another than the recorded one
)

func (o Outcome) String() string { return [...]string{"held", "free", "unproven"}[o] }

// Proof is the result of ProbeLock. Why is set when the outcome is Unproven.
type Proof struct {
	Outcome Outcome
	Guard   *Guard
	Why     string
}

// Guard keeps the probed lock from being taken by an owner until Close. Several probers
// may guard one lock at a time; what they commit meanwhile has to be conditional anyway.
type Guard struct{ file *os.File }

// Close lets the lock go.
func (g *Guard) Close() {
	if g != nil {
		g.file.Close()
	}
}

// ProbeLock asks the kernel whether the owner of a lock lives. dev and ino are what the
// owner recorded. With Free, commit the takeover and close the Guard after it.
func ProbeLock(path string, dev, ino uint64) (Proof, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Proof{Outcome: Unproven, Why: "the lock file is missing"}, nil
	}
	if err != nil {
		return Proof{}, fmt.Errorf("probe lock %s: %w", path, notALink(err))
	}
	g := &Guard{os.NewFile(uintptr(fd), path)}
	d, i, err := regular(fd, path)
	if err != nil {
		g.Close()
		return Proof{}, err
	}
	if d != dev || i != ino {
		g.Close()
		return Proof{Outcome: Unproven, Why: "the lock file is another one than its owner recorded"}, nil
	}
	// Shared: it fails exactly when an owner has the lock, and probers do not take each
	// other for one.
	if err := flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		g.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return Proof{Outcome: Held}, nil
		}
		return Proof{}, fmt.Errorf("probe lock %s: %w", path, err)
	}
	if d, i, err := inodeOf(path); err != nil || d != dev || i != ino {
		g.Close()
		return Proof{Outcome: Unproven, Why: "the lock file was unlinked or replaced"}, nil
	}
	return Proof{Outcome: Free, Guard: g}, nil
}

// CheckDir makes the directory of locks if it is missing (0700), and refuses one in which
// another user could put a file of his choice under a name of ours.
func CheckDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("look at directory %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if st.Mode&0o002 != 0 {
		return fmt.Errorf("directory %s can be written by everybody; say chmod o-w %s, or choose another: %w", dir, dir, fs.ErrPermission)
	}
	if uid := uint32(os.Geteuid()); st.Uid != uid && st.Uid != 0 && uid != 0 {
		return fmt.Errorf("directory %s belongs to user %d, not to this one (%d): %w", dir, st.Uid, uid, fs.ErrPermission)
	}
	return nil
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

func regular(fd int, path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, fmt.Errorf("look at lock %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, 0, fmt.Errorf("lock %s is not a regular file; remove it", path)
	}
	return uint64(st.Dev), uint64(st.Ino), nil
}

func inodeOf(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, fmt.Errorf("look at lock %s: %w", path, err)
	}
	return uint64(st.Dev), uint64(st.Ino), nil
}

func notALink(err error) error {
	if errors.Is(err, unix.ELOOP) {
		return errors.New("it is a symbolic link; remove it")
	}
	return err
}
