package execlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The mark has one width, so that it can be rewritten in place as the number of
// dropped bytes grows. markLen is the length of what mark returns.
const (
	markHead = "\n[nightshift: "
	markTail = " bytes of output dropped here]\n"
	markLen  = int64(len(markHead) + 19 + len(markTail)) // 19: digits of the largest int64
)

func mark(dropped int64) []byte {
	return []byte(fmt.Sprintf(markHead+"%19d"+markTail, dropped))
}

// Timings of the file behind a Log.
const (
	// idleClose: a silent task holds no descriptor, and none stays on a file that
	// somebody has deleted (its disk space would not come back).
	idleClose = 30 * time.Second
	// recheck: how often a busy log looks whether its file is still at its path.
	recheck = 5 * time.Second
	// reopenAfter: after an error, how long writes are only counted.
	reopenAfter = time.Second
)

// copyChunk is the memory that moving the tail takes.
const copyChunk = 256 << 10

// Log is an execution's log. Write never fails and is safe for concurrent use.
//
// The file fills up to max; then everything between its head (the first half) and
// its last quarter is dropped, a mark takes its place, the last quarter is moved
// down behind it, and writing goes on. So at every moment, also after a kill, the
// file reads in order, and each byte is copied at most twice.
type Log struct {
	first   string // where the file is, unless
	moved   atomic.Pointer[string]
	printed atomic.Bool
	another bool // a file is in the way at the first byte: then it takes another name
	max     int64

	mu      sync.Mutex
	f       *os.File
	id      os.FileInfo // identity of the file that size and dropped speak of
	size    int64       // of the file
	dropped int64       // bytes taken out of the middle; > 0: the mark is there
	closed  bool

	lostNow int64 // bytes the disk refused since the last note in the file
	lost    int64 // the same, all in all
	lostErr error // the first reason
	retryAt time.Time
	checked time.Time
	idle    *time.Timer
	now     func() time.Time
}

func newLog(path string, maxBytes int64) *Log {
	return &Log{first: path, max: maxBytes, now: time.Now}
}

// Open returns a log at exactly path, whose directory is made when it is needed.
func Open(path string, maxBytes int64) *Log {
	return newLog(path, bound(maxBytes))
}

// Path is where the file is, or would be had anything been printed.
// It never waits for a Write.
func (l *Log) Path() string {
	if p := l.moved.Load(); p != nil {
		return *p
	}
	return l.first
}

// Printed reports whether a byte was written, kept or lost. It never waits for a Write.
func (l *Log) Printed() bool { return l.printed.Load() }

// head is the length of the part that is never dropped.
func (l *Log) head() int64 { return l.max / 2 }

// Write keeps p. It always reports success: a log that can't be written is no
// reason to stop the work it tells of.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) > 0 {
		l.printed.Store(true)
	}
	rest := p
	for len(rest) > 0 {
		n := l.write(rest)
		rest = rest[n:]
	}
	return len(p), nil
}

// write takes care of at least one byte of p, kept or counted as lost.
func (l *Log) write(p []byte) int {
	if l.closed || l.now().Before(l.retryAt) {
		return l.lose(p, nil)
	}
	if err := l.ready(); err != nil {
		return l.lose(p, err)
	}
	if l.lostNow > 0 {
		if err := l.noteLoss(); err != nil {
			return l.lose(p, err)
		}
	}
	if l.size >= l.max {
		if err := l.compact(); err != nil {
			return l.lose(p, err)
		}
	}
	n, err := l.f.WriteAt(p[:min(int64(len(p)), l.max-l.size)], l.size)
	l.size += int64(n)
	if err != nil {
		return n + l.lose(p[n:], err)
	}
	return n
}

// lose counts what could not be kept. err nil: the reason is known already.
func (l *Log) lose(p []byte, err error) int {
	if err != nil {
		if l.lostErr == nil {
			l.lostErr = explain(err)
		}
		l.retryAt = l.now().Add(reopenAfter)
		l.drop()
	}
	l.lost += int64(len(p))
	l.lostNow += int64(len(p))
	return len(p)
}

// noteLoss says in the file, where it happened, that bytes are missing.
func (l *Log) noteLoss() error {
	note := fmt.Sprintf("\n[nightshift: %d bytes of output lost here: %v]\n", l.lostNow, l.lostErr)
	n, err := l.f.WriteAt([]byte(note), l.size)
	l.size += int64(n) // it may go past max by its own length
	if err == nil {
		l.lostNow = 0
	}
	return err
}

// explain adds to an errno what df does not show.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w (no free blocks or no free inodes: df, df -i)", err)
	}
	return err
}

// ready makes sure that l.f is the file at its path.
func (l *Log) ready() error {
	now := l.now()
	if l.f != nil && now.Sub(l.checked) > recheck {
		fi, err := os.Lstat(l.Path())
		switch {
		case err != nil || !os.SameFile(fi, l.id):
			l.drop() // deleted or moved away: a fresh file takes its place
		case fi.Size() < l.size:
			l.truncated(fi.Size())
		}
		l.checked = now
	}
	if l.f == nil {
		if err := l.open(); err != nil {
			return err
		}
		l.checked = now
	}
	if l.idle == nil {
		l.idle = time.AfterFunc(idleClose, l.rest)
	} else {
		l.idle.Reset(idleClose)
	}
	return nil
}

// truncated goes on behind what a person left of the file.
func (l *Log) truncated(size int64) {
	l.size = size
	if size < l.head()+markLen {
		l.dropped = 0
	}
}

// open opens the file anew or for the first time.
func (l *Log) open() error {
	if l.id != nil {
		f, err := os.OpenFile(l.Path(), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err == nil {
			fi, serr := f.Stat()
			if serr == nil && os.SameFile(fi, l.id) {
				l.f = f
				if fi.Size() < l.size {
					l.truncated(fi.Size())
				}
				return nil
			}
			f.Close() // somebody else's file: nothing of ours was written to it
			return fmt.Errorf("%s was replaced by another file", l.Path())
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := l.create()
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close() // empty yet
		return err
	}
	l.f, l.id, l.size, l.dropped = f, fi, 0, 0
	return nil
}

// create makes the file, under another name where the first one is not free.
func (l *Log) create() (*os.File, error) {
	f, err := createIn(l.Path())
	if l.id != nil || !l.another {
		return f, err
	}
	base := strings.TrimSuffix(l.first, ".log")
	for n := 1; n < maxNames && errors.Is(err, fs.ErrExist); n++ {
		path := fmt.Sprintf("%s.%d.log", base, n)
		if f, err = createIn(path); err == nil {
			l.moved.Store(&path)
		}
	}
	return f, err
}

// maxNames bounds the search for a name that is free.
const maxNames = 1000

// createIn makes the file, and its directory when that is missing.
func createIn(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	err := checkDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = checkDir(dir)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
}

// rest gives the descriptor back while nothing is printed.
func (l *Log) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop closes the file; a later write opens it again.
func (l *Log) drop() {
	if l.f == nil {
		return
	}
	if err := l.f.Close(); err != nil && l.lostErr == nil {
		l.lostErr = explain(err) // a network file system reports a refused write here
	}
	l.f = nil
}

// compact drops the middle of a full file: head, mark, and the last quarter of
// max stay.
func (l *Log) compact() error {
	keep := l.max / 4
	from, to := l.size-keep, l.head()+markLen
	total := from - l.head()
	if l.dropped > 0 {
		total += l.dropped - markLen
	}
	if _, err := l.f.WriteAt(mark(total), l.head()); err != nil {
		return err
	}
	l.dropped = total
	if err := move(l.f, from, to, keep); err != nil {
		return err
	}
	if err := l.f.Truncate(to + keep); err != nil {
		return err
	}
	l.size = to + keep
	return nil
}

// move copies n bytes within f, downwards: the ranges may overlap.
func move(f *os.File, from, to, n int64) error {
	buf := make([]byte, min(n, copyChunk))
	for n > 0 {
		part := buf[:min(n, int64(len(buf)))]
		if _, err := f.ReadAt(part, from); err != nil && err != io.EOF {
			return err
		}
		if _, err := f.WriteAt(part, to); err != nil {
			return err
		}
		from, to, n = from+int64(len(part)), to+int64(len(part)), n-int64(len(part))
	}
	return nil
}

// Close ends the log and tells what is missing in it, if anything is.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.lostNow > 0 {
		l.retryAt = time.Time{}
		if err := l.ready(); err == nil {
			// A disk still full is told by what Close returns.
			if err := l.noteLoss(); err != nil {
				l.drop()
			}
		}
	}
	l.closed = true
	if l.idle != nil {
		l.idle.Stop()
	}
	l.drop()
	if l.lostErr != nil {
		return fmt.Errorf("%d bytes of output could not be logged: %w", l.lost, l.lostErr)
	}
	return nil
}
