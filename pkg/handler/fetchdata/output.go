package fetchdata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"nightshift/pkg/handler"
)

// partSuffix marks a file that is not complete.
const partSuffix = ".part"

// Modes of what is made: the owner's, readable for the group.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// tailBytes of the file before the offset are fingerprinted: enough to see that
// it is not the file that was left.
const tailBytes = 4096

// output is the file that grows. Everything is opened through os.Root: neither
// ".." nor a link leads out of the output directory.
type output struct {
	root   *os.Root
	dir    string // for people
	name   string // relative, the final one
	file   *os.File
	offset int64
	done   bool // the file bears its final name already
}

// openOutput opens the file of s at its offset, alone: whoever else writes it
// holds its lock.
func openOutput(dir string, s *state) (*output, error) {
	if !filepath.IsLocal(s.File) {
		return nil, handler.Fatal(fmt.Errorf("checkpoint: file %q lies outside of the output directory", s.File))
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, outputTrouble(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, outputTrouble(err)
	}
	o := &output{root: root, dir: dir, name: s.File, offset: s.Offset}
	if err := o.open(s); err != nil {
		o.close()
		return nil, outputTrouble(err)
	}
	return o, nil
}

func (o *output) open(s *state) error {
	if err := o.root.MkdirAll(path.Dir(o.name), dirMode); err != nil {
		return err
	}
	fresh := s.Offset == 0 && s.Pages == 0
	if s.Done && o.published(s) {
		o.done = true
		return nil
	}
	if err := o.lock(); err != nil {
		return err
	}
	if fresh {
		if err := o.file.Truncate(0); err != nil {
			return err
		}
		return o.syncDir() // the name must survive a power cut, as the checkpoint does
	}
	return o.cutBack(s)
}

// lock opens the part file and takes its lock. Between the two another task may
// have published it under its final name: then it is no longer ours to write.
func (o *output) lock() error {
	const tries = 10 // each needs another task to finish in between
	for range tries {
		f, err := o.root.OpenFile(o.name+partSuffix, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, fileMode)
		if err != nil {
			return err
		}
		mine, err := o.claim(f)
		if mine {
			o.file = f
			return nil
		}
		closeErr := f.Close()
		if err != nil {
			return err
		}
		if closeErr != nil {
			return closeErr
		}
	}
	return fmt.Errorf("%s%s is replaced again and again by another task", o.name, partSuffix)
}

func (o *output) claim(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, handler.Fatal(fmt.Errorf("%s%s is not a regular file", o.name, partSuffix))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, handler.Retryable(fmt.Errorf("another task is writing %s", o.name))
		}
		return false, fmt.Errorf("lock %s: %w", o.name, err)
	}
	named, err := o.root.Stat(o.name + partSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, named), err
}

// cutBack makes the file what the checkpoint says it is.
func (o *output) cutBack(s *state) error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	tail, err := o.tail(o.file, s.Offset)
	if info.Size() < s.Offset || (err == nil && tail != s.Tail) {
		return handler.Fatal(fmt.Errorf(
			"%s%s is not the file that was left: it has %d bytes, the checkpoint says %d with another ending; it was moved, changed or written by another task (nightshift rerun --fresh begins anew)",
			o.name, partSuffix, info.Size(), s.Offset))
	}
	if err != nil {
		return err
	}
	return o.file.Truncate(s.Offset)
}

// tail fingerprints the bytes before offset.
func (o *output) tail(f io.ReaderAt, offset int64) (string, error) {
	if offset == 0 {
		return "", nil
	}
	b := make([]byte, min(offset, tailBytes))
	if _, err := f.ReadAt(b, offset-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return fingerprint(b), nil
}

// append writes the lines of one page and returns when they are on the disk. On
// an error the file is cut back: the step may be repeated.
func (o *output) append(lines []byte, next *state) error {
	if len(lines) > 0 {
		_, err := o.file.WriteAt(lines, o.offset)
		if err == nil {
			err = o.file.Sync()
		}
		if err != nil {
			// If this fails, too, the next execution does it.
			_ = o.file.Truncate(o.offset)
			return err
		}
		o.offset += int64(len(lines))
	}
	tail, err := o.tail(o.file, o.offset)
	if err != nil {
		return err
	}
	next.Offset, next.Tail = o.offset, tail
	return nil
}

// published reports that the final name is borne by the finished file already:
// the worker died between the rename and the end of the task. A part file may
// still be there, another task's.
func (o *output) published(s *state) bool {
	return !o.holds(o.name+partSuffix, s) && o.holds(o.name, s)
}

// holds reports that the file of that name is the complete one of s.
func (o *output) holds(name string, s *state) bool {
	f, err := o.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // opened for reading: nothing can be lost
	info, err := f.Stat()
	if err != nil || info.Size() != s.Offset || !info.Mode().IsRegular() {
		return false
	}
	tail, err := o.tail(f, s.Offset)
	return err == nil && tail == s.Tail
}

// publish gives the complete file its name and returns its path.
func (o *output) publish(s *state) (string, error) {
	full := filepath.Join(o.dir, filepath.FromSlash(o.name))
	if o.done {
		return full, nil
	}
	// The last page may have been empty, so that nothing was synced for this length.
	if err := o.file.Sync(); err != nil {
		return "", err
	}
	if err := o.root.Rename(o.name+partSuffix, o.name); err != nil {
		return "", err
	}
	o.done = true
	return full, o.syncDir()
}

// discard removes the part file, which is locked and empty.
func (o *output) discard() {
	// What can't be removed is overwritten by the next task of that name.
	_ = o.root.Remove(o.name + partSuffix)
}

func (o *output) syncDir() error {
	d, err := o.root.Open(path.Dir(o.name))
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

func (o *output) close() {
	// Everything that counts was synced; nothing is lost by an error here.
	if o.file != nil {
		_ = o.file.Close()
	}
	_ = o.root.Close()
}

// outputTrouble says whose trouble an error of the file system is: a full disk
// is the machine's and costs the task nothing, a path that can't be is the
// payload's, the rest may pass.
func outputTrouble(err error) error {
	var f *handler.Failure
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return handler.WorkerTrouble(fmt.Errorf("output: %w", err))
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.EEXIST), escapes(err):
		return handler.Fatal(fmt.Errorf("output: %w", err))
	}
	return handler.Retryable(fmt.Errorf("output: %w", err))
}

// escapes recognises os.Root's refusal; the error has no name of its own.
func escapes(err error) bool {
	return strings.HasSuffix(err.Error(), "path escapes from parent")
}
