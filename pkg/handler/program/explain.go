package program

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nightshift/pkg/handler"
)

// spawnFailure says in one sentence why a program could not be started, and whose
// trouble that is: the worker's (no descriptors, no processes, no memory, somebody
// writes to the file), the program's (fatal: no retry can cure it), or unclear.
func spawnFailure(err error, path, dir, searchPath string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch err {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return handler.WorkerTrouble(fmt.Errorf("start %s: %w", path, withLimit(err)))
	case syscall.ETXTBSY:
		return handler.WorkerTrouble(fmt.Errorf("start %s: somebody holds it open for writing; put a new version in place with mv, not cp", path))
	case syscall.E2BIG:
		return handler.Fatal(fmt.Errorf("start %s: arguments and environment are too long for this system; shorten the type's command or env", path))
	}
	if dirErr := checkDir(dir); dirErr != nil {
		return handler.Retryable(dirErr)
	}
	switch err {
	case syscall.ENOENT, syscall.ENOEXEC, syscall.EACCES, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL:
		if why := inspect(path, searchPath); why != nil {
			return handler.Fatal(why)
		}
		if err == syscall.EACCES {
			return handler.Fatal(fmt.Errorf("%s may not be executed by this user (a folder above it is closed, or its file system is mounted noexec)", path))
		}
		return handler.Fatal(fmt.Errorf("%s can't be executed: %w", path, err))
	}
	return handler.Retryable(fmt.Errorf("start %s: %w", path, err))
}

// withLimit names the limit that an errno speaks of.
func withLimit(err error) error {
	var what string
	var limit syscall.Rlimit
	switch {
	case errors.Is(err, syscall.EMFILE):
		what = "this worker may have no more files open (ulimit -n, LimitNOFILE=)"
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			what = fmt.Sprintf("this worker may have %d files open (ulimit -n, LimitNOFILE=)", limit.Cur)
		}
	case errors.Is(err, syscall.ENFILE):
		what = "the system has no more files to open (fs.file-max)"
	case errors.Is(err, syscall.EAGAIN):
		what = "no more processes are allowed (ulimit -u, LimitNPROC=, TasksMax=, pids.max)"
	case errors.Is(err, syscall.ENOMEM):
		what = "no memory for another process"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, what)
}

// Check looks at a type's program as `config check` does, without running it: the
// error is the one that every execution would end with. (It can't see that a
// command inside a script is missing.)
func Check(cfg Config) error {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return errors.New("the command is empty")
	}
	environ, err := baseEnviron(cfg.Env, "")
	if err != nil {
		return err
	}
	if cfg.Dir != "" {
		if err := checkDir(cfg.Dir); err != nil {
			return err
		}
	}
	path := lookup(environ, "PATH")
	file, err := resolve(cfg.Command[0], cfg.Dir, path)
	if err != nil {
		return err
	}
	return inspect(file, path)
}

func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("working directory %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("working directory: %w", err)
	case !fi.IsDir():
		return fmt.Errorf("working directory %s is not a directory", dir)
	}
	return nil
}

// headBytes is what the kernel reads of a file to tell what it is (BINPRM_BUF_SIZE).
const headBytes = 256

// inspect says what keeps a file from being executed; nil: nothing that shows.
func inspect(path, searchPath string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("program %s does not exist", path)
	case err != nil:
		return fmt.Errorf("program: %w", err)
	case fi.IsDir():
		return fmt.Errorf("program %s is a directory", path)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("program %s is not a regular file", path)
	case fi.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x %s", path, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // executable and not readable: the kernel alone knows
	}
	defer f.Close() // opened for reading
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("program %s can't be read: %w", path, err)
	}
	head = head[:n]
	switch {
	case n == 0:
		return fmt.Errorf("%s is empty", path)
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return fmt.Errorf("%s begins with a byte order mark, so its #! line is not seen: save it as UTF-8 without BOM", path)
	case bytes.HasPrefix(head, []byte("#!")):
		return inspectScript(path, head, searchPath)
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return inspectELF(path, f)
	case text(head):
		return fmt.Errorf("%s has no #! line, so the system does not know what runs it: begin it with #!/bin/sh or the like", path)
	default:
		return nil // a format that somebody may have registered (binfmt_misc)
	}
}

// text: no format of programs, as far as one can see.
func text(head []byte) bool { return !bytes.ContainsRune(head, 0) }

// inspectScript reads a #! line as the kernel does.
func inspectScript(path string, head []byte, searchPath string) error {
	line, _, whole := bytes.Cut(head[2:], []byte("\n"))
	if !whole && len(head) == headBytes {
		return fmt.Errorf("the #! line of %s is longer than %d bytes, more than the system reads", path, headBytes)
	}
	if bytes.HasSuffix(line, []byte("\r")) {
		return fmt.Errorf("the #! line of %s ends in CR, as Windows writes it: sed -i 's/\\r$//' %s", path, path)
	}
	fields := strings.Fields(string(line))
	if len(fields) == 0 {
		return fmt.Errorf("the #! line of %s names no interpreter", path)
	}
	fi, err := os.Stat(fields[0])
	switch {
	case err != nil:
		return fmt.Errorf("interpreter %s of %s was not found", fields[0], path)
	case fi.IsDir() || fi.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("interpreter %s of %s is not executable", fields[0], path)
	}
	if filepath.Base(fields[0]) != "env" {
		return nil
	}
	for _, word := range fields[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		if _, err := resolve(word, "/", searchPath); err != nil {
			return fmt.Errorf("interpreter of %s: %w", path, err)
		}
		break
	}
	return nil
}

// inspectELF looks for the loader that a program names.
func inspectELF(path string, r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return fmt.Errorf("%s is a damaged program file: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		name, err := io.ReadAll(p.Open())
		if err != nil {
			return fmt.Errorf("%s is a damaged program file: %w", path, err)
		}
		loader := strings.TrimRight(string(name), "\x00")
		if _, err := os.Stat(loader); err != nil {
			return fmt.Errorf("%s needs the loader %s, which was not found: it was built for another system", path, loader)
		}
	}
	return nil
}
