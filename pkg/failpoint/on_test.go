//go:build failpoint

package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain is the process that dies, too.
func TestMain(m *testing.M) {
	if os.Getenv(envDir) == "" {
		os.Exit(m.Run())
	}
	for range 5 {
		Hit("demo/point")
		_, _ = os.Stdout.WriteString("passed\n") // the parent reads it; without a parent nobody does
	}
}

func run(t *testing.T, dir string) (passed int, sig syscall.Signal) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+dir)
	out, err := cmd.Output()
	if err != nil {
		sig = cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
	}
	return strings.Count(string(out), "passed"), sig
}

func TestKillsAtTheNthHitAndOnlyOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "demo_point"), []byte("kill 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, sig := run(t, dir); n != 2 || sig != syscall.SIGKILL {
		t.Errorf("first run: passed %d times and ended by %v, want 2 and SIGKILL", n, sig)
	}
	if n, sig := run(t, dir); n != 5 || sig > 0 {
		t.Errorf("second run: passed %d times and ended by %v, want 5 and no signal", n, sig)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "passed")); err != nil || strings.Count(string(b), "demo/point ") != 2 {
		t.Errorf("passed: %q, %v; want one line of each process", b, err)
	}
}
