package store

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// turnLock makes the writers of several processes take turns. SQLite's busy
// handler alone starves: of 8 busy processes 5 got one commit in 6 s, behind a
// blocking flock all got the same, and the longest wait was 27 ms. It is a matter
// of fairness only; the database's own lock keeps writers apart.
//
// Only the writer's goroutine uses it.
type turnLock struct {
	f  *os.File
	fd int // f's
	// A wait that was given up goes on in its goroutine, since flock(2) cannot be
	// called off; the next lock takes over what it gets.
	pending chan error
}

func openTurnLock(path string) (*turnLock, error) {
	// O_NONBLOCK: a fifo in its place must not hang the start.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, &PermissionError{path, err.Error()}
		}
		return nil, fmt.Errorf("open the turn lock: %w", err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("turn lock %s: %w", path, err), f.Close())
	}
	return &turnLock{f: f, fd: int(f.Fd())}, nil
}

// errGaveUp says that the turn did not come in time.
var errGaveUp = errors.New("gave up waiting for the turn")

// lock waits for the turn; complain is called each complainEvery. It gives up at
// the deadline (zero: never) or when stop closes.
func (t *turnLock) lock(deadline time.Time, stop <-chan struct{}, complain func(waited time.Duration)) error {
	if t.pending == nil {
		switch err := flock(t.fd, unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("turn lock: %w", err)
		}
		if err := t.await(); err != nil {
			return fmt.Errorf("turn lock: %w", err)
		}
	}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	began := time.Now()
	minute := time.NewTicker(complainEvery)
	defer minute.Stop()
	for {
		select {
		case err := <-t.pending:
			t.pending = nil
			if err != nil {
				return fmt.Errorf("turn lock: %w", err)
			}
			return nil
		case <-expired:
			return errGaveUp
		case <-stop:
			return errGaveUp
		case <-minute.C:
			complain(time.Since(began))
		}
	}
}

// await waits for the lock in a goroutine. It waits on a descriptor of its own: the
// lock belongs to the open file behind both, and when the store has been closed by
// the time it comes, closing this last one frees it.
func (t *turnLock) await() error {
	fd, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		err := flock(fd, unix.LOCK_EX)
		if cerr := unix.Close(fd); err == nil {
			err = cerr
		}
		got <- err
	}()
	t.pending = got
	return nil
}

func (t *turnLock) unlock() error {
	if err := flock(t.fd, unix.LOCK_UN); err != nil {
		return fmt.Errorf("turn unlock: %w", err)
	}
	return nil
}

func (t *turnLock) close() error { return t.f.Close() }

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
