package liveness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Program finds the file of a program at this moment, so that an upgrade by rename is
// seen. A bare word is looked for beside the running binary (a supervisor and its worker are
// installed together), then in PATH. What is not found comes back as it is: exec says why.
func Program(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return name
}

// Fingerprint changes when the program, or a file that one of the arguments names (as such
// or as --flag=file), is replaced, edited, made or removed.
func Fingerprint(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		if i == 0 {
			arg = Program(arg)
		} else if _, file, ok := strings.Cut(arg, "="); ok {
			arg = file
		}
		if st, err := os.Stat(arg); err == nil && st.Mode().IsRegular() {
			fmt.Fprintf(&b, "%d:%s:%d:%v:%d ", i, arg, st.Size(), st.Mode(), st.ModTime().UnixNano())
		}
	}
	return b.String()
}
