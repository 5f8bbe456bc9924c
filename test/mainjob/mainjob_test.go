// Package mainjob holds the chain that everything stands on: a shell's INSERT, a
// task that survives killed workers, an output that is that of an undisturbed run.
package mainjob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

const patience = 2 * time.Minute

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

// TestATaskSurvivesThreeKilledWorkers is the README's promise: the output is byte
// for byte that of an undisturbed run, and the history shows each interruption.
func TestATaskSurvivesThreeKilledWorkers(t *testing.T) {
	need(t, "python3")
	s := rig.New(t, fmt.Sprintf("tasks:\n  clean_csv: {command: [python3, %q], dir: .}\n", root(t)+"/examples/clean_csv.py"))
	s.Start(2)
	s.MustSQL(`INSERT INTO tasks(task_id,task_type,payload) VALUES('calm','clean_csv','{"rows":100000,"seed":7,"output":"calm.csv"}')`)
	s.UntilStatus("calm", "SUCCESS", patience)
	s.MustSQL(`INSERT INTO tasks(task_id,task_type,payload) VALUES('wild','clean_csv','{"rows":100000,"seed":7,"output":"wild.csv"}')`)
	for kill, last, lastExec := 0, "", ""; kill < 3; kill++ {
		progress, exec := "", ""
		s.Until("progress of a new execution", patience, func() bool { // the one before may still write one while it dies
			row := s.Text("SELECT exec_id || ' ' || ifnull(progress, '') FROM tasks WHERE task_id='wild' AND status='RUNNING'")
			exec, progress, _ = strings.Cut(row, " ")
			return progress != "" && progress != last && exec != lastExec || s.Status("wild") == "SUCCESS"
		})
		if s.Status("wild") == "SUCCESS" {
			t.Skip("the machine was too fast for three kills") // 100,000 rows take a second and more
		}
		last, lastExec = progress, exec
		s.Signal(s.WorkerPID(s.Text("SELECT executor_id FROM tasks WHERE task_id='wild'")), syscall.SIGKILL)
	}
	s.UntilStatus("wild", "SUCCESS", patience)
	if !bytes.Equal(read(t, s.Path("calm.csv")), read(t, s.Path("wild.csv"))) {
		t.Error("the outputs differ")
	}
	outcomes := s.Text("SELECT group_concat(outcome, ' ') FROM (SELECT outcome FROM exec_history WHERE task_id='wild' ORDER BY exec_id)")
	if got := strings.Fields(outcomes); len(got) != 4 || got[3] != "success" {
		t.Errorf("the history shows %q, three interruptions and a success are wanted", outcomes)
	}
	if n := s.Text("SELECT retry_count FROM tasks WHERE task_id='wild'"); n != "0" {
		t.Errorf("retry count %s", n)
	}
}

// TestTheSameJobInEveryLanguage runs examples/resumable with a kill on the way.
func TestTheSameJobInEveryLanguage(t *testing.T) {
	own := filepath.Join(t.TempDir(), "ownworker")
	if out, err := exec.Command("go", "build", "-o", own, "nightshift/examples/ownworker").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want bytes.Buffer
	for n := 1; n <= 1000; n++ {
		fmt.Fprintln(&want, n*n)
	}
	dir := root(t) + "/examples/resumable/"
	for name, command := range map[string][]string{
		"squares_sh": {"sh", dir + "squares.sh"}, "squares_bash": {"bash", dir + "squares.bash"},
		"squares_py": {"python3", dir + "squares.py"}, "squares_js": {"node", dir + "squares.js"}, "squares_go": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := rig.New(t, "")
			config := "data_dir: ./data\n"
			if command != nil {
				need(t, command[0])
				config += fmt.Sprintf("tasks:\n  %s: {command: [%s, %q], env: {OUT: %q}}\n", name, command[0], command[1], s.Path("out"))
			}
			s.Write("nightshift.yaml", config, 0o600)
			t.Setenv("OUT", s.Path("out"))
			s.Worker = own
			s.Start(1)
			s.Add("a", name, "{}")
			s.Until("progress", patience, func() bool { return s.Text("SELECT progress FROM tasks") != "" })
			if s.Status("a") != "SUCCESS" {
				s.Signal(s.WorkerPID("w1"), syscall.SIGKILL)
			}
			s.UntilStatus("a", "SUCCESS", patience)
			if got := read(t, s.Path("out")); !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes of output, %d wanted", len(got), want.Len())
			}
			if got := s.Text("SELECT result FROM tasks"); got != `"1000 squares"` {
				t.Errorf("result %s", got)
			}
		})
	}
}

func TestInspectWritesJSONLines(t *testing.T) {
	need(t, "sqlite3")
	s := rig.New(t, fmt.Sprintf("tasks:\n  inspect: {command: [%q], dir: ., env: {INSPECT_OUTPUT: look/it's \"here\".jsonl}}\n", root(t)+"/examples/inspect.sh"))
	s.Start(1)
	s.Add("i'1\"", "inspect", "{}")
	s.UntilStatus("i'1\"", "SUCCESS", patience)
	lines := strings.Split(strings.TrimSpace(string(read(t, s.Path(`look/it's "here".jsonl`)))), "\n")
	if len(lines) < 4 {
		t.Fatalf("%d findings", len(lines))
	}
	for _, l := range lines {
		var f struct {
			Task  string
			Check string
			Value *float64
			Bad   *bool
		}
		if err := json.Unmarshal([]byte(l), &f); err != nil || f.Task != `i'1"` || f.Check == "" || f.Value == nil || f.Bad == nil {
			t.Errorf("%v in %s", err, l)
		}
	}
}
