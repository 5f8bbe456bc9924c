package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// resolve finds the file that a command names: one with a slash is relative to dir,
// any other is looked for in path. That the file can be executed is seen by trying.
func resolve(command, dir, path string) (string, error) {
	if filepath.IsAbs(command) {
		return command, nil
	}
	if strings.Contains(command, "/") {
		if dir == "" {
			return "", fmt.Errorf("program %s: a relative path needs the type's dir", command)
		}
		return filepath.Join(dir, command), nil
	}
	var unusable string
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			continue // the current directory, to a shell: never what is meant here
		}
		file := filepath.Join(d, command)
		fi, err := os.Stat(file)
		if err != nil || fi.IsDir() {
			continue
		}
		if fi.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
		unusable = file
	}
	if unusable != "" {
		return "", fmt.Errorf("program %s is not executable: chmod +x %s", command, unusable)
	}
	return "", fmt.Errorf("program %s was not found in PATH (%s)", command, path)
}

// describe names what is run so that one can tell later which version it was: the
// program, and the script when the first argument is one.
func describe(path string, command []string, dir string) string {
	text := stamp(path)
	if len(command) < 2 || strings.HasPrefix(command[1], "-") {
		return text
	}
	script := command[1]
	if !filepath.IsAbs(script) {
		script = filepath.Join(dir, script)
	}
	if s := stamp(script); s != "" {
		text = strings.TrimPrefix(text+"; "+s, "; ")
	}
	return text
}

// stamp is a file's path and time of change; "" when it is no regular file.
func stamp(path string) string {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	return path + " of " + fi.ModTime().UTC().Format(time.RFC3339)
}
