package execlog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Follower reads a log that is still being written, each byte once, through the
// dropping of its middle and the making of a new file under its name.
type Follower struct {
	path string
	head int64 // where the mark stands once there is one
	id   os.FileInfo
	pos  int64 // bytes of output passed so far, dropped ones included
}

// Follow starts at the beginning of the log at path. maxBytes is the configured
// size of a log; with another one than the writer's a passage may be shown twice
// or not at all when the middle is dropped.
func Follow(path string, maxBytes int64) *Follower {
	return &Follower{path: path, head: bound(maxBytes) / 2}
}

// Next copies to w what was printed since the last call and returns how much
// that was. A log that does not exist (yet) has no output, which is no error.
func (f *Follower) Next(w io.Writer) (int64, error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() // opened for reading
	fi, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if f.id == nil || !os.SameFile(fi, f.id) {
		f.id, f.pos = fi, 0
	}
	return f.copy(w, file)
}

func (f *Follower) copy(w io.Writer, file *os.File) (written int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		dropped := f.dropped(file)
		part, at, next := buf, f.pos, int64(0)
		switch {
		case dropped == 0:
		case f.pos < f.head: // up to the mark, then the mark
			part = buf[:min(int64(len(buf)), f.head-f.pos)]
		case f.pos < f.head+dropped:
			part, at, next = buf[:markLen], f.head, f.head+dropped
		default:
			at = f.pos - dropped + markLen
		}
		n, err := file.ReadAt(part, at)
		fi, serr := file.Stat()
		if serr != nil {
			return written, serr
		}
		if f.dropped(file) != dropped {
			continue // the middle was dropped meanwhile: what was read may be a mixture
		}
		if at > fi.Size() {
			f.pos = 0 // somebody emptied the file
			continue
		}
		if n > 0 {
			if _, werr := w.Write(part[:n]); werr != nil {
				return written, werr
			}
			written += int64(n)
			f.pos += int64(n)
			if next > 0 {
				f.pos = next
			}
		}
		if err == io.EOF || n == 0 {
			return written, nil
		}
		if err != nil {
			return written, err
		}
	}
}

// dropped reads the mark; 0 when there is none.
func (f *Follower) dropped(file *os.File) int64 {
	buf := make([]byte, markLen)
	if _, err := file.ReadAt(buf, f.head); err != nil {
		return 0
	}
	digits, ok := strings.CutPrefix(string(buf), markHead)
	if !ok {
		return 0
	}
	digits, ok = strings.CutSuffix(digits, markTail)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
