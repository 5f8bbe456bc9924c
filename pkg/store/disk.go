package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// keepBallast makes the ballast file if there is room for it: a full disk refuses
// even a DELETE and a checkpoint, so something must be there to give up.
func (s *Store) keepBallast() error {
	if s.opts.Ballast == "" {
		return nil
	}
	if fi, err := os.Stat(s.opts.Ballast); err == nil && fi.Size() >= ballastBytes {
		s.full.Store(false)
		return nil
	}
	free, err := freeBytes(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	if free < 3*ballastBytes {
		return nil // not before there is room for the work itself
	}
	f, err := os.OpenFile(s.opts.Ballast, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = allocate(f, ballastBytes)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(err, os.Remove(s.opts.Ballast))
	}
	if s.full.Swap(false) {
		s.log.Info("the disk has room again", "path", s.path)
	}
	return nil
}

// spendBallast gives the ballast up and reports whether there was any.
func (s *Store) spendBallast() bool {
	s.full.Store(s.opts.Ballast != "")
	if s.opts.Ballast == "" {
		return false
	}
	if err := os.Remove(s.opts.Ballast); err != nil {
		return false
	}
	s.log.Error("the disk is full: claims pause, and the ballast is given up for what must still be written", "path", s.path)
	return true
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func writeZeros(f *os.File, n int64) error {
	zeros := make([]byte, 1<<16)
	for ; n > 0; n -= int64(len(zeros)) {
		if _, err := f.Write(zeros[:min(int64(len(zeros)), n)]); err != nil {
			return err
		}
	}
	return nil
}
