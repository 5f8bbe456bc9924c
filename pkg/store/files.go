package store

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID is what stat says of a file.
type fileID struct {
	dev, ino uint64
	links    uint64
	size     int64
	uid      uint32
	mode     os.FileMode
	regular  bool
}

func (a fileID) same(b fileID) bool { return a.dev == b.dev && a.ino == b.ino }

func identify(path string) (fileID, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, errors.New("this system does not tell a file's inode")
	}
	return fileID{
		dev: uint64(st.Dev), ino: uint64(st.Ino), links: uint64(st.Nlink), size: fi.Size(),
		uid: st.Uid, mode: fi.Mode(), regular: fi.Mode().IsRegular(),
	}, nil
}

// replaced reports that the path no longer leads to the file that was opened.
func (s *Store) replaced() bool {
	var st unix.Stat_t
	err := unix.Stat(s.path, &st)
	if err != nil {
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
	}
	return uint64(st.Dev) != s.file.dev || uint64(st.Ino) != s.file.ino
}

// whyDenied names the first file that this user cannot use as SQLite needs it.
func whyDenied(path string, readOnly bool) string {
	dir := filepath.Dir(path)
	need := uint32(unix.R_OK | unix.W_OK)
	if readOnly {
		need = unix.R_OK
	}
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		id, err := identify(p)
		if errors.Is(err, os.ErrNotExist) {
			// SQLite makes -wal and -shm when they are absent, for reading, too.
			if p != path && unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
				return fmt.Sprintf("%s does not exist and cannot be made in a directory without write permission", p)
			}
			continue
		}
		if err != nil {
			return err.Error()
		}
		if unix.Access(p, need) != nil {
			return fmt.Sprintf("%s belongs to %s and has mode %04o: make it usable for user %s (chown), or run as its owner",
				p, userName(id.uid), id.mode.Perm(), userName(uint32(os.Geteuid())))
		}
	}
	if !readOnly && unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return fmt.Sprintf("the directory %s is not writable for user %s", dir, userName(uint32(os.Geteuid())))
	}
	return ""
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}

// syncDir makes a directory's entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
