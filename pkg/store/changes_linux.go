package store

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

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

// inotify watches the database's directory: the WAL comes and goes.
func (s *Store) inotify() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	const events = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_OPEN | unix.IN_CLOSE
	if _, err = unix.InotifyAddWatch(fd, filepath.Dir(s.path), events); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.guests.watched.Store(true)
	return f, nil
}

// readEvents turns the kernel's events into signals until the file is closed.
func (s *Store) readEvents(events *os.File, woken chan<- struct{}) {
	defer s.guests.watched.Store(false) // nobody is told any more
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := events.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				s.log.Warn("inotify ended", "err", err)
			}
			return
		}
		if !s.sort(buf[:n]) {
			continue
		}
		select {
		case woken <- struct{}{}:
		default: // one pending signal is enough
		}
		// What is written meanwhile stays in the kernel's queue, as one event.
		if s.w != nil && s.w.lately(ownRest) {
			time.Sleep(ownRest)
		}
	}
}

// sort looks through a bunch of events (inotify(7)): who opens and closes the
// database is a guest; it reports whether there was anything else.
func (s *Store) sort(buf []byte) (written bool) {
	base := filepath.Base(s.path)
	for len(buf) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(buf[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		if end > len(buf) {
			return true
		}
		name, _, _ := strings.Cut(string(buf[unix.SizeofInotifyEvent:end]), "\x00")
		buf = buf[end:]
		switch {
		case mask&(unix.IN_OPEN|unix.IN_CLOSE) == 0:
			written = true
		case name == base && mask&unix.IN_OPEN != 0:
			s.guests.came(time.Now())
		case name == base:
			s.guests.left()
		}
	}
	return written
}
