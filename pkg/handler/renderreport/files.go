package renderreport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"nightshift/pkg/handler"
)

// taskDir is a task's own directory, which stays until the task ends.
type taskDir string

// save writes a file so that it is whole or not there, and returns its
// fingerprint.
func (d taskDir) save(name string, content []byte) (string, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return "", err
	}
	err = replace(root, name, content, 0o600)
	return fingerprint(content), errors.Join(err, root.Close())
}

// load reads a saved file, if it still is the one that was saved.
func (d taskDir) load(name, mark string) ([]byte, error) {
	if mark == "" {
		return nil, fs.ErrNotExist
	}
	b, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		return nil, err
	}
	if fingerprint(b) != mark {
		return nil, fmt.Errorf("%s is not what was saved", name)
	}
	return b, nil
}

func fingerprint(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:12])
}

// writeOutput puts the page below dir and returns its path. os.Root keeps ".."
// and links from leading out.
func writeOutput(dir, name string, page []byte) (string, error) {
	if err := checkOutput(name); err != nil {
		return "", handler.Fatal(fmt.Errorf("checkpoint: %w", err))
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	if err = root.MkdirAll(path.Dir(name), 0o750); err == nil {
		err = replace(root, name, page, 0o640)
	}
	return filepath.Join(dir, filepath.FromSlash(name)), errors.Join(err, root.Close())
}

// replace writes a file beside its final name, fsyncs it and renames it: a
// reader sees the old one or the new one, never a part.
func replace(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	part := name + ".part"
	// What a killed execution left, or a trap, is not written into.
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(part, name); err != nil {
		return err
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// trouble says whose trouble an error of the file system is: a full disk is the
// machine's and costs the task nothing, a path that can't be is the payload's.
func trouble(err error) error {
	var f *handler.Failure
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return handler.WorkerTrouble(err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTEMPTY), strings.HasSuffix(err.Error(), "path escapes from parent"):
		return handler.Fatal(fmt.Errorf("output: %w", err))
	}
	return handler.Retryable(err)
}
