package liveness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoDelegation says that this process has no cgroup v2 of its own to divide.
var ErrNoDelegation = errors.New("no delegated cgroup v2 here")

// Group is a cgroup v2 below the caller's own: what a worker and its tasks cannot leave
// without privilege. A nil *Group stands for "there is none": its methods do nothing.
type Group struct {
	path string
	dir  *os.File
}

// NewGroup makes the group, or takes over the one an earlier supervisor left. Only below a
// cgroup that the service manager has delegated (systemd's Delegate=yes marks it with an
// attribute): any other belongs to somebody else, writable or not.
func NewGroup(name string) (*Group, error) {
	parent, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make cgroup %s: %w", path, err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", path, err)
	}
	return &Group{path: path, dir: dir}, nil
}

// ownCgroup finds the caller's cgroup v2 directory, if it was delegated.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", ErrNoDelegation
	}
	for line := range strings.Lines(string(b)) {
		rel, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		// The second is where systemd mounts it beside the v1 hierarchies.
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if dir := filepath.Join(root, rel); delegated(dir) {
				return dir, nil
			}
		}
	}
	return "", ErrNoDelegation
}

func delegated(dir string) bool {
	if unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	for _, attr := range []string{"trusted.delegate", "user.delegate"} {
		v := make([]byte, 8)
		if n, err := unix.Getxattr(dir, attr, v); err == nil && string(v[:n]) == "1" {
			return true
		}
	}
	return false
}

// Kill sends SIGKILL to all members, those being forked included.
func (g *Group) Kill() error {
	if g == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g.path, err) // before Linux 5.14 there is no such file
	}
	return nil
}

// Populated says whether a member lives; an error proves nothing.
func (g *Group) Populated() (bool, error) {
	if g == nil {
		return false, nil
	}
	b, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	if err != nil {
		return true, fmt.Errorf("look at cgroup %s: %w", g.path, err)
	}
	return !bytes.Contains(b, []byte("populated 0")), nil
}

// KillAll kills until nobody is left or the time is up, and says whether nobody is left.
func (g *Group) KillAll(limit time.Duration) (empty bool, err error) {
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		populated, err := g.Populated()
		if !populated || err != nil {
			return !populated, err
		}
		if err := g.Kill(); err != nil {
			return false, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}

// Remove takes the group away; it must be empty.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	g.dir.Close()
	return os.Remove(g.path)
}
