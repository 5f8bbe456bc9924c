//go:build linux

package supervision

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/liveness"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ownBinary gives the rig a copy of the worker's program that a test may spoil.
func (r *rig) ownBinary() string {
	r.t.Helper()
	own := filepath.Join(r.dir, "worker")
	copyFile(r.t, workerBin, own)
	r.command[0] = own
	return own
}

// copyFile writes through another process: a descriptor for writing that a concurrent fork
// of this one inherits would make the copy "text file busy" (golang/go#22315).
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// untilHUP waits, and has the supervisor try again what it has put off.
func (r *rig) untilHUP(what string, is func() bool) {
	r.t.Helper()
	last := time.Now()
	r.until(what, func() bool {
		if time.Since(last) > 200*time.Millisecond {
			r.signal(syscall.SIGHUP)
			last = time.Now()
		}
		return is()
	})
}

func lastPID(t *testing.T, lines []string) int {
	t.Helper()
	first, _, _ := strings.Cut(lines[len(lines)-1], " ")
	pid, err := strconv.Atoi(first)
	check(t, err)
	return pid
}

func zombiesOf(t *testing.T, pid int) (n int) {
	t.Helper()
	children, err := liveness.Children(pid)
	check(t, err)
	for _, c := range children {
		if c.State == 'Z' {
			n++
		}
	}
	return n
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	check(t, err)
	return len(fds)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

var _ io.Reader = zeros{}

// loopFS is a small file system that can be frozen.
type loopFS struct {
	dir    string
	frozen bool
}

func loopMount(t *testing.T, dir string) *loopFS {
	t.Helper()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	check(t, os.Mkdir(at, 0o700))
	f, err := os.Create(image)
	check(t, err)
	check(t, f.Truncate(16<<20))
	f.Close()
	for _, args := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
	}
	m := &loopFS{dir: at}
	t.Cleanup(func() {
		if m.frozen {
			m.thaw(t)
		}
		within(t, 10*time.Second, "the file system is unmounted", func() bool {
			return exec.Command("umount", at).Run() == nil
		})
	})
	return m
}

func (m *loopFS) freeze(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("fsfreeze", "-f", m.dir).CombinedOutput(); err != nil {
		t.Skipf("fsfreeze: %v: %s", err, out)
	}
	m.frozen = true
}

func (m *loopFS) thaw(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("fsfreeze", "-u", m.dir).CombinedOutput(); err != nil {
		t.Fatalf("fsfreeze: %v: %s", err, out)
	}
	m.frozen = false
}
