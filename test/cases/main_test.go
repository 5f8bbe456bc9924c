// Package cases holds the bug reports of others as tests of whole processes: each
// test bears its case's name and one line about what went wrong there.
package cases

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rig.Cleanup()
	os.Exit(code)
}

// quick makes failures show within a test's patience: short backoff, short grace.
const quick = `
worker: {slots: %d, poll_interval: 500ms, heartbeat_interval: 1s, drain_timeout: 5s, grace: 2s}
retry:  {base: 200ms, cap: 1s}
`

func config(slots int, tasks string) string {
	return fmt.Sprintf(quick, slots) + "tasks:\n" + tasks
}

// stepsBody is the work-horse: 200 steps, a checkpoint each 10, every step
// written to the ledger with its process.
const stepsBody = `
n=$(printf %s "$NIGHTSHIFT_CHECKPOINT" | sed -n 's/.*"n":\([0-9]*\).*/\1/p'); n=${n:-0}
while [ $n -lt 200 ]; do
  n=$((n+1)); echo "$NIGHTSHIFT_TASK_ID $n $$ $(date +%s%N)" >>"$LEDGER"; sleep .02
  if [ $((n % 10)) = 0 ]; then
    printf '{"checkpoint":{"n":%d},"progress":"%d/200"}\n' $n $n >&3; read -r a <&3
    case $a in *stop*) exit 75;; esac
  fi
done; echo "done 200"
`

// newSteps is a system with the type steps and whatever else the test needs.
func newSteps(t *testing.T, slots int, more string) *rig.System {
	t.Helper()
	s := rig.New(t, "")
	s.Script("steps.sh", stepsBody)
	s.Write("nightshift.yaml", "data_dir: ./data\n"+config(slots, typeLine(s, "steps", "steps.sh")+strings.ReplaceAll(more, "@DIR@", s.Dir)), 0o600)
	return s
}

// typeLine declares a type that runs a script of the system's directory.
func typeLine(s *rig.System, name, script string, more ...string) string {
	return fmt.Sprintf("  %s: {command: [%q], env: {LEDGER: %q}%s}\n", name, s.Path(script), s.Path("ledger"), strings.Join(append([]string{""}, more...), ", "))
}

type step struct {
	task string
	n    int
	pid  int
	at   int64
}

func ledger(t *testing.T, s *rig.System) []step {
	t.Helper()
	f, err := os.Open(s.Path("ledger"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var steps []step
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		if len(w) != 4 {
			continue // a line cut short by a kill
		}
		n, err1 := strconv.Atoi(w[1])
		pid, err2 := strconv.Atoi(w[2])
		at, err3 := strconv.ParseInt(w[3], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			steps = append(steps, step{w[0], n, pid, at})
		}
	}
	return steps
}

func stepsOf(t *testing.T, s *rig.System, id string) int {
	t.Helper()
	most := 0
	for _, st := range ledger(t, s) {
		if st.task == id {
			most = max(most, st.n)
		}
	}
	return most
}

// clean asserts the ledger invariants: every step is there, none repeats but
// those after the last acknowledged checkpoint, no two processes interleave.
func clean(t *testing.T, s *rig.System, ids ...string) {
	t.Helper()
	byTask := map[string][]step{}
	for _, st := range ledger(t, s) {
		byTask[st.task] = append(byTask[st.task], st)
	}
	for _, id := range ids {
		steps := byTask[id]
		sort.SliceStable(steps, func(i, j int) bool { return steps[i].at < steps[j].at })
		seen := map[int]bool{}
		gone := map[int]bool{}
		last := step{}
		for i, st := range steps {
			seen[st.n] = true
			if i > 0 && st.pid != last.pid {
				if gone[st.pid] {
					t.Errorf("task %s: processes %d and %d interleave at step %d", id, last.pid, st.pid, st.n)
				}
				gone[last.pid] = true
				if st.n <= last.n-10-1 || st.n%10 != 1 {
					t.Errorf("task %s: went on at step %d after step %d; checkpoints are each 10", id, st.n, last.n)
				}
			} else if i > 0 && st.n != last.n+1 {
				t.Errorf("task %s: step %d after %d in one process", id, st.n, last.n)
			}
			last = st
		}
		for n := 1; n <= 200; n++ {
			if !seen[n] {
				t.Errorf("task %s: step %d is missing", id, n)
				break
			}
		}
	}
}

// killAll kills -9 the supervisor, the worker and the scripts; what these started
// while they were looked up is killed, too, and then everything is gone.
func killAll(t *testing.T, s *rig.System) {
	t.Helper()
	s.Signal(s.Supervisor(), syscall.SIGKILL)
	s.Until("everything is killed", patience, func() bool {
		pids := s.Marked()
		for _, pid := range pids {
			s.Signal(pid, syscall.SIGKILL)
		}
		return len(pids) == 0 && !locked(t, s)
	})
	s.Kill()
}

// locked reports that a lock of a worker is held: until the last thread of a killed
// process is gone, long after its memory.
func locked(t *testing.T, s *rig.System) bool {
	t.Helper()
	paths, err := filepath.Glob(s.Path("data/run/w*.lock"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no locks: %v", err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		f.Close() // opened for reading
		if err != nil {
			return true
		}
	}
	return false
}

const patience = 60 * time.Second
