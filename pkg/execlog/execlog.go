// Package execlog keeps what one execution of a task prints: one file an
// execution, of bounded size.
//
// Invariants: the bytes of the file are the bytes that were printed, in their
// order, never taken for lines or text; head and tail are kept, and one mark line
// between them says how many bytes were dropped; memory does not grow with the
// output. A log never stops its task: what the disk would not take is counted,
// told in the file once it takes bytes again, and by Close.
//
// Files are 0600 in directories of 0700 and are made only when the first byte is
// printed. They are opened with O_NOFOLLOW and, when new, with O_EXCL, so that a
// link laid in their place is refused.
package execlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// DefaultMax is the size of a log file (the seed, §5.3: 50 MB).
const DefaultMax = 50 << 20

// minMax keeps head, mark and tail sensible whatever the configuration says.
const minMax = 4 << 10

// filesPerDir bounds a directory: a listing of 1,000 names stays quick, and a
// file an execution must not make one directory of a million entries.
const filesPerDir = 1000

// Dir is the folder of all execution logs of one data directory.
type Dir struct {
	path string
	max  int64
}

// OpenDir makes path if it is missing and checks that nobody else can put a file
// or a link into it. maxBytes is the size of one log; 0 is DefaultMax.
func OpenDir(path string, maxBytes int64) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("directory of execution logs: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("directory of execution logs: %w", err)
	}
	if err := checkDir(abs); err != nil {
		return nil, fmt.Errorf("directory of execution logs: %w", err)
	}
	return &Dir{path: abs, max: bound(maxBytes)}, nil
}

// bound is the size in force for a configured one.
func bound(maxBytes int64) int64 {
	if maxBytes <= 0 {
		return DefaultMax
	}
	return max(maxBytes, minMax)
}

// Create returns the log of execution execID. No file is made before the first
// byte; an execution number that was used before (a database restored from a
// backup) gets a name of its own.
func (d *Dir) Create(execID int64) *Log {
	l := newLog(d.Path(execID), d.max)
	l.another = true
	return l
}

// Path is where the log of an execution is, should it have printed anything.
func (d *Dir) Path(execID int64) string { return PathIn(d.path, execID) }

// PathIn is the same for a reader: nothing is made or checked.
func PathIn(dir string, execID int64) string {
	return filepath.Join(dir, strconv.FormatInt(execID/filesPerDir, 10), strconv.FormatInt(execID, 10)+".log")
}

// checkDir refuses a directory that is a link, another user's, or open for
// others to write: predictable names in it could be taken beforehand.
func checkDir(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory (a link is refused, too)", path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written by others (mode %04o); chmod go-w %s", path, fi.Mode().Perm(), path)
	}
	if owner, ok := ownerOf(fi); ok && owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d, not to this user (uid %d)", path, owner, os.Geteuid())
	}
	return nil
}
