package renderreport

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the look at the directories: what is beyond is said to be more.
const (
	maxFiles    = 200_000
	maxWalkTime = 3 * time.Second
)

// disk measures what Nightshift takes, and what is left.
func (s *fromStore) disk(ctx context.Context) (Disk, error) {
	d := Disk{DataDir: s.DataDir, Budget: s.Budget}
	if s.DataDir == "" {
		return d, nil
	}
	sizes, err := s.Store.Sizes()
	if err != nil {
		return d, err
	}
	d.Known, d.Database, d.WAL, d.Free = true, sizes.Database, sizes.WAL, sizes.FreeDisk
	var fsStat unix.Statfs_t
	if err := unix.Statfs(s.DataDir, &fsStat); err == nil {
		d.Total = int64(fsStat.Blocks) * int64(fsStat.Bsize) //nolint:unconvert // other widths on other systems
	}
	walk := walker{left: maxFiles, until: time.Now().Add(maxWalkTime)}
	for dir, into := range map[string]*int64{s.LogDir: &d.Logs, s.TasksDir: &d.TaskDirs, s.OutputDir: &d.Outputs} {
		if dir == "" {
			continue
		}
		if *into, err = walk.size(ctx, dir); err != nil {
			return d, err
		}
	}
	d.Partial = walk.gaveUp
	return d, nil
}

// walker sums up files, up to a number and a time.
type walker struct {
	left   int
	until  time.Time
	gaveUp bool
}

// size is what the files below dir take on the disk. A directory that is not
// there holds nothing; one that may not be read is passed over.
func (w *walker) size(ctx context.Context, dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(filepath.Clean(dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			w.gaveUp = w.gaveUp || !errors.Is(err, fs.ErrNotExist)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.left--; w.left < 0 || w.left%1000 == 0 && time.Now().After(w.until) {
			w.gaveUp = true
			return fs.SkipAll
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
