package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch signals on s.changes whenever anyone has committed. The kernel tells of
// writes to the WAL; without a WAL, and where inotify is not to be had, data_version
// is polled.
func (s *Store) watch() {
	events, err := s.inotify()
	if err != nil {
		s.log.Warn("no inotify: changes are polled", "path", s.path, "err", err)
		s.poll()
		return
	}
	defer func() {
		if err := events.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			s.log.Debug("close inotify", "err", err)
		}
	}()
	woken := make(chan struct{}, 1)
	s.wg.Go(func() { s.readEvents(events, woken) })
	s.follow(woken)
}

// inotify watches the database and its directory (the WAL comes and goes).
func (s *Store) inotify() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	_, err = unix.InotifyAddWatch(fd, filepath.Dir(s.path), unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readEvents turns the kernel's events into signals until the file is closed.
func (s *Store) readEvents(events *os.File, woken chan<- struct{}) {
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		if _, err := events.Read(buf); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				s.log.Warn("inotify ended", "err", err)
			}
			return
		}
		select {
		case woken <- struct{}{}:
		default: // one pending signal is enough
		}
	}
}
