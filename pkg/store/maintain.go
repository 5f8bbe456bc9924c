package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nightshift/pkg/task"
)

// maintain looks after the file while the store is open: is it still there, does
// the WAL stay small, is there ballast.
func (s *Store) maintain() {
	m := maintenance{warnFrom: walWarn}
	for {
		select {
		case <-s.closing:
			return
		case <-time.After(task.OnSecond(time.Now(), maintainEvery)):
			m.round(s)
		}
	}
}

// maintenance remembers what the last rounds found.
type maintenance struct {
	passiveAt   time.Time
	warnedAt    time.Time
	checkpoints int // failed ones in a row
	warnFrom    int64
}

func (m *maintenance) round(s *Store) {
	if s.Err() != nil || s.outdated() != nil {
		return
	}
	if err := s.keepBallast(); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Debug("no ballast", "path", s.opts.Ballast, "err", err)
	}
	if s.wal {
		m.tendWAL(s)
	}
}

// outdated fails the store when its file is no longer the one it was opened as.
func (s *Store) outdated() error {
	if s.replaced() {
		return s.fail(&ReplacedError{s.path})
	}
	err := s.read("version", s.current)
	var newer *NewerSchemaError
	if errors.As(err, &newer) {
		return s.fail(newer)
	}
	return nil // other errors: the writes will say what is wrong
}

// tendWAL checkpoints what the writer's own checkpoints leave. They are passive and
// SQLite swallows their errors: an explicit one once a minute is also the alarm of a
// disk that fails (P27). A WAL that has grown large is cut off.
func (m *maintenance) tendWAL(s *Store) {
	size := fileSize(s.path + "-wal")
	mode := "PASSIVE"
	switch {
	case size > walLimit:
		mode = "TRUNCATE"
	case size == 0 || time.Since(m.passiveAt) < time.Minute:
		return
	}
	m.passiveAt = time.Now()
	pinned, err := s.checkpoint(mode)
	switch {
	case errors.Is(err, ErrClosed):
		return
	case err != nil:
		m.checkpoints++
		if m.checkpoints == 1 || m.checkpoints%12 == 0 {
			s.log.Error("a checkpoint of the WAL fails: the disk may be failing", "path", s.path, "err", err, "times", m.checkpoints)
		}
		return
	}
	m.checkpoints = 0
	if pinned && size > m.warnFrom && time.Since(m.warnedAt) > complainEvery {
		m.warnedAt = time.Now()
		s.log.Warn("the WAL grows because somebody reads for a long time", "path", s.path, "bytes", size, "readers", s.readersText())
	}
}

// checkpoint moves the WAL into the database. pinned says that readers kept a part
// of it in place.
func (s *Store) checkpoint(mode string) (pinned bool, err error) {
	err = s.write("checkpoint", &op{outside: true, run: func(c *conn) error {
		busy, err := c.pragma("PRAGMA wal_checkpoint(" + mode + ")")
		pinned = busy != "0"
		return err
	}})
	return pinned, err
}

// fileSize is 0 for a file that is not there.
func fileSize(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// Size is the room that the database takes.
type Size struct {
	Database, WAL int64 // bytes on disk
	Used          int64 // bytes of pages in use
	FreeDisk      int64 // bytes free for this user on the file system
}

// Sizes measures the database.
func (s *Store) Sizes() (Size, error) {
	z := Size{Database: fileSize(s.path), WAL: fileSize(s.path + "-wal")}
	err := s.read("sizes", func(c *conn) (err error) {
		z.Used, err = usedBytes(c)
		return err
	})
	if err != nil {
		return z, err
	}
	if z.FreeDisk, err = freeBytes(filepath.Dir(s.path)); err != nil {
		return z, fmt.Errorf("sizes: %w", err)
	}
	return z, nil
}

var sqlUsedPages = define(`SELECT (p.page_count - f.freelist_count) * s.page_size
	FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s`)

func usedBytes(c *conn) (n int64, err error) {
	_, err = c.one(sqlUsedPages, func(r row) { n = r.int(0) })
	return n, err
}
