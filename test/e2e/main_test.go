// Package e2e runs Nightshift under what people run it under: systemd as PID 1 (in
// a container), Debian's supervisord, and as PID 1 of a PID namespace. What cannot
// run on a machine is skipped with the reason.
package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightshift/test/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rig.Cleanup()
	os.Exit(code)
}

const patience = 2 * time.Minute

// needRoot skips where namespaces, mounts or another user's processes are needed.
func needRoot(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// steps counts to 100 with a checkpoint each 10, as a task.
const steps = `#!/bin/sh
n=$(printf %s "$NIGHTSHIFT_CHECKPOINT" | sed -n 's/.*"n":\([0-9]*\).*/\1/p'); n=${n:-0}
while [ $n -lt 100 ]; do
  n=$((n+1)); sleep .05
  if [ $((n % 10)) = 0 ]; then
    printf '{"checkpoint":{"n":%d},"progress":"%d/100"}\n' $n $n >&3; read -r a <&3
    case $a in *stop*) exit 0;; esac
  fi
done; echo "done 100"
`

// children lists the child processes of pid.
func children(pid int) []int {
	var pids []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for _, w := range bytes.Fields(b) {
			if n, err := strconv.Atoi(string(w)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
