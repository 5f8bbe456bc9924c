package logging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"
)

// file is a rotating log file. lumberjack opens, writes and renames it; what
// lumberjack leaves open is done here:
//
//   - It counts megabytes: sizes are counted here, in bytes, and Rotate called.
//   - It removes old backups later, in a goroutine of its own, and by the time in
//     their names alone: here it is done before the next line, so that the bound
//     holds at every moment, and files stamped under a wrong clock go first.
//   - It writes on into a file that was deleted or moved (natefinch/lumberjack
//     #121): it is closed every few seconds and opens by name again.
//   - It opens what it finds, and two processes may find one file (#25, #85): the
//     file is locked by a descriptor of our own, and must be a plain file.
//   - A new file is opened without O_APPEND, which leaves a hole when somebody
//     truncates it: it is made here, so that lumberjack finds it and appends.
//
// Only the sink's goroutine uses a file, path excepted.
type file struct {
	mu   sync.Mutex // guards name for path
	name string

	maxSize    int64
	maxBackups int
	out        lumberjack.Logger
	lock       *os.File // the file as we know it, locked; nil: not open
	size       int64
	torn       bool         // the file ends in the middle of a line
	rotated    time.Time    // when the last backup was named
	removing   func(string) // tests look at a backup before it goes
}

// neverMegabytes keeps lumberjack from rotating by itself: a tebibyte.
const neverMegabytes = 1 << 20

// backupLayout is lumberjack's form of the time in a backup's name.
const backupLayout = "2006-01-02T15-04-05.000"

// clockDoubt is how far in the future a backup's name may lie before it is taken
// to be stamped under a wrong clock.
const clockDoubt = time.Minute

// HeldError says that another process writes the log file.
type HeldError struct{ Path string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("log file %s is written by another process; two data directories that share a log directory need a log.dir each", e.Path)
}

// UnsafeError says that a log file's place lets another user choose what is written.
type UnsafeError struct{ Path, Problem string }

func (e *UnsafeError) Error() string { return fmt.Sprintf("log file %s: %s", e.Path, e.Problem) }

func newFile(name string, maxSize int64, maxBackups int) *file {
	return &file{name: name, maxSize: max(maxSize, 2*MaxLine), maxBackups: maxBackups, out: lumberjack.Logger{Filename: name, MaxSize: neverMegabytes}}
}

func (f *file) path() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

// open makes the directory and the file where they are missing, and locks it.
func (f *file) open() error {
	if f.lock != nil {
		return nil
	}
	if err := f.prepare(); err != nil {
		return err
	}
	lock, err := os.OpenFile(f.name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return explain(f.name, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return &HeldError{f.name}
		}
		return fmt.Errorf("lock log file %s: %w", f.name, err)
	}
	info, err := lock.Stat()
	if err != nil {
		lock.Close()
		return fmt.Errorf("log file %s: %w", f.name, err)
	}
	f.lock, f.size, f.torn = lock, info.Size(), endsTorn(lock, info.Size())
	f.prune()
	return nil
}

// prepare makes the directory and looks at what lies where the file will be.
func (f *file) prepare() error {
	dir := filepath.Dir(f.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return explain(dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return explain(dir, err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return &UnsafeError{f.name, fmt.Sprintf("everybody can write to directory %s; chmod o-w it, or set log.dir to another", dir)}
	}
	info, err = os.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return explain(f.name, err)
	case !info.Mode().IsRegular():
		return &UnsafeError{f.name, fmt.Sprintf("it is no plain file but %s; remove it", info.Mode().Type())}
	case info.Mode().Perm()&0o600 != 0o600:
		// Somebody took our own right away. Without it lumberjack would move the
		// file aside at each opening.
		if err := os.Chmod(f.name, info.Mode().Perm()|0o600); err != nil {
			return explain(f.name, err)
		}
	}
	return nil
}

// endsTorn looks for a line that a crash or a full disk cut off.
func endsTorn(f *os.File, size int64) bool {
	if size == 0 {
		return false
	}
	var last [1]byte
	_, err := f.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
}

// write appends lines, no more than the length of one, rotating first when they
// would not fit. It reports how many of their bytes the file took.
func (f *file) write(lines []byte) (written int, err error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	if f.size+1+int64(len(lines)) > f.maxSize {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	mended := 0
	if f.torn {
		mended = 1
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := f.out.Write(lines)
	f.size += int64(n)
	if n > 0 {
		f.torn = lines[n-1] != '\n'
	}
	if err != nil {
		return max(n-mended, 0), explain(f.name, err)
	}
	return n - mended, nil
}

// rotate moves the file aside and begins a new one.
func (f *file) rotate() error {
	f.freshName()
	err := f.out.Rotate()
	f.letGo()
	if err != nil {
		return explain(f.name, err)
	}
	return f.open() // and prunes
}

// freshName waits until lumberjack's name for the backup, a time in
// milliseconds, is one that no other backup bears: it would be overwritten.
func (f *file) freshName() {
	for {
		now := time.Now().UTC()
		stem, ext := f.stem()
		_, err := os.Lstat(stem + now.Format(backupLayout) + ext)
		if now.UnixMilli() != f.rotated.UnixMilli() && errors.Is(err, fs.ErrNotExist) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.rotated = now
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// stem is what stands before and after the time in a backup's name.
func (f *file) stem() (before, after string) {
	ext := filepath.Ext(f.name)
	return strings.TrimSuffix(f.name, ext) + "-", ext
}

type backup struct {
	name  string
	at    time.Time
	bytes int64
}

// prune removes the oldest backups beyond their number, or beyond the bytes that
// number stands for (max_size may have been lowered).
func (f *file) prune() {
	kept, bytes := 0, int64(0)
	for _, b := range f.backups() {
		kept, bytes = kept+1, bytes+b.bytes
		if kept <= f.maxBackups && bytes <= int64(f.maxBackups)*f.maxSize {
			continue
		}
		if f.removing != nil {
			f.removing(b.name)
		}
		if err := os.Remove(b.name); err != nil {
			return // tried again at the next rotation or opening
		}
	}
}

// backups lists the rotated files, newest first, those stamped in the future last.
func (f *file) backups() []backup {
	before, ext := f.stem()
	entries, err := os.ReadDir(filepath.Dir(f.name))
	if err != nil {
		return nil // said by the next write
	}
	var all []backup
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), filepath.Base(before))
		if !ok || !strings.HasSuffix(stamp, ext) {
			continue
		}
		at, err := time.Parse(backupLayout, strings.TrimSuffix(stamp, ext))
		if err != nil {
			continue // not a backup of ours
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, backup{filepath.Join(filepath.Dir(f.name), e.Name()), at, info.Size()})
	}
	doubtful := time.Now().UTC().Add(clockDoubt)
	sort.Slice(all, func(i, j int) bool {
		if a, b := all[i].at.After(doubtful), all[j].at.After(doubtful); a != b {
			return b
		}
		return all[i].at.After(all[j].at)
	})
	return all
}

// tick lets go of a file that is no longer where it was, and sees truncation.
func (f *file) tick() {
	f.out.Close() // an error here was one of a write before, and is told there
	if f.lock == nil {
		return
	}
	there, err := os.Lstat(f.name)
	ours, errOurs := f.lock.Stat()
	if err != nil || errOurs != nil || !os.SameFile(there, ours) {
		f.letGo()
		return
	}
	f.size, f.torn = ours.Size(), endsTorn(f.lock, ours.Size())
}

// letGo closes the file; the next write opens by name.
func (f *file) letGo() {
	f.out.Close() // as in tick
	if f.lock != nil {
		f.lock.Close() // only read and locked: nothing is lost by an error
		f.lock = nil
	}
}

func (f *file) close() { f.letGo() }

// reconfigure moves to a new place or new bounds. On an error all stays as it was.
func (f *file) reconfigure(name string, maxSize int64, maxBackups int) error {
	if name == f.name {
		f.maxSize, f.maxBackups = max(maxSize, 2*MaxLine), maxBackups
		if f.lock != nil {
			f.prune()
		}
		f.tick()
		return nil
	}
	moved := newFile(name, maxSize, maxBackups)
	err := moved.prepare()
	if err == nil && f.lock != nil { // a file that nobody has written to is not made now either
		err = moved.open()
	}
	if err != nil && !passing(err) {
		return err
	}
	f.letGo()
	f.mu.Lock()
	f.name = name
	f.mu.Unlock()
	f.maxSize, f.maxBackups, f.out.Filename = moved.maxSize, moved.maxBackups, name
	f.lock, f.size, f.torn = moved.lock, moved.size, moved.torn
	return nil
}

// passing reports trouble that goes away by itself, or that a worker outlives:
// its tasks matter more than its log.
func passing(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.EIO, unix.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// explain adds what the system's own message leaves out: a disk with gigabytes
// free has "no space left" when its inodes are used up.
func explain(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) {
		var st unix.Statfs_t
		if unix.Statfs(filepath.Dir(path), &st) == nil && st.Files > 0 && st.Ffree == 0 {
			return fmt.Errorf("log file %s: no inodes left on its file system: %w", path, err)
		}
	}
	return fmt.Errorf("log file %s: %w", path, err)
}
