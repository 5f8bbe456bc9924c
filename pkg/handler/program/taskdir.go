package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The files that every task directory holds while its program runs.
const (
	payloadFile    = "payload.json"
	checkpointFile = "checkpoint.json"
)

// maxDirName leaves room below the 255 bytes of a file name.
const maxDirName = 200

// DirName turns a task id into a file name: one name for each id, that can be no
// path, no hidden file and no option. Other characters than letters, digits and
// _ - . : @ + = , become %XX; a name that would be too long ends in a hash.
func DirName(taskID string) string {
	var b strings.Builder
	for i := 0; i < len(taskID); i++ {
		if c := taskID[i]; plain(c) && (i > 0 || (c != '.' && c != '-')) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxDirName {
		return name
	}
	sum := sha256.Sum256([]byte(taskID))
	// "%~" is in no name made above, so a hashed name equals no other.
	return name[:maxDirName/2] + "%~" + hex.EncodeToString(sum[:16])
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.:@+=,", c) >= 0
}

// TaskDir makes the directory of a task below root, 0700, or finds the one that an
// earlier execution made. A link or another user's directory there is refused.
func TaskDir(root, taskID string) (string, error) {
	dir := filepath.Join(root, DirName(taskID))
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(root, 0o700); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if err == nil {
		return dir, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("directory of task %q: %w", taskID, err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("directory of task %q: %w", taskID, err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.IsDir():
		return "", fmt.Errorf("directory of task %q: %s is there already and is no directory (a link is refused); move it away", taskID, dir)
	case ok && int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("directory of task %q: %s belongs to uid %d; move it away", taskID, dir, st.Uid)
	}
	return dir, nil
}

// RemoveTaskDir removes the directory of a task that has ended, whatever its
// program left in it; links are removed, not followed. One that is not there is
// no error.
func RemoveTaskDir(root, taskID string) error {
	dir := filepath.Join(root, DirName(taskID))
	// What most tasks leave is one file: three calls instead of a walk. Any error
	// shows again in the walk.
	_ = os.Remove(filepath.Join(dir, payloadFile))
	if err := syscall.Rmdir(dir); err == nil || err == syscall.ENOENT {
		return nil
	}
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		unlock(dir)
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("directory of task %q: %w", taskID, err)
	}
	return nil
}

// unlock makes directories writable that a program has closed for itself.
func unlock(dir string) {
	// Errors are left to the removal that follows.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
}

// writeFile puts data into a fresh file of a task directory and returns it opened
// at its beginning. What a program of an earlier attempt left under the name (a
// file, a link, a fifo, a directory) is removed, not followed.
func writeFile(dir, name string, data []byte) (*os.File, error) {
	path := filepath.Join(dir, name)
	f, err := createFile(path)
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the directory
		if err = os.MkdirAll(dir, 0o700); err == nil {
			f, err = createFile(path)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if err = os.RemoveAll(path); err == nil {
			f, err = createFile(path)
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close() // the write's error is the one to tell
		return nil, err
	}
	return f, nil
}

func createFile(path string) (*os.File, error) {
	// Not os.OpenFile, which asks the poller for every file.
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
