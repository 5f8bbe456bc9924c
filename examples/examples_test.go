// Package examples_test holds the examples to what they claim: killed at each of
// their checkpoints in turn they come to the same end, byte for byte.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nightshift/pkg/handler"
	"nightshift/pkg/handler/handlertest"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/task"
)

// reaper is the one of this process.
var reaper *program.Reaper

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "examples-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if reaper, err = program.NewReaper(program.ReaperOptions{Mark: filepath.Join(dir, "mark")}); err != nil {
			panic(err)
		}
		defer reaper.Close()
		return m.Run()
	}())
}

// example runs a command with OUT naming a file beside the task's directory.
type example struct {
	t       *testing.T
	command []string
	dir     string // working directory; "": the task's own
}

func (e example) StopsItself() {}

func (e example) Run(ctx context.Context, t *handler.Task) (any, error) {
	taskDir, err := t.Dir()
	if err != nil {
		return nil, err
	}
	p, err := program.New(program.Config{
		Command: e.command, Dir: e.dir, Reaper: reaper,
		Env: map[string]string{"OUT": out(filepath.Dir(taskDir)), "PYTHONDONTWRITEBYTECODE": "1"},
	})
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, t)
}

func out(scratch string) string { return filepath.Join(scratch, "out") }

func readOut(t *testing.T) func(scratch string) string {
	return func(scratch string) string {
		b, err := os.ReadFile(out(scratch))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

func here(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// system finds a command as a program would: what a version manager puts before
// the system's own in a terminal is not seen there.
func system(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if path := filepath.Join(dir, name); exec.Command(path, "-c", "").Run() == nil || name == "node" && exec.Command(path, "-v").Run() == nil {
			return path
		}
	}
	t.Skipf("no %s here", name)
	return ""
}

func squares() string {
	var b strings.Builder
	for n := 1; n <= 1000; n++ {
		fmt.Fprintln(&b, n*n)
	}
	return b.String()
}

// The same resumable job in four languages; the fifth, Go, is tested beside its source.
func TestSquaresResumeInEveryLanguage(t *testing.T) {
	for name, script := range map[string]string{
		"sh": "squares.sh", "bash": "squares.bash", "python3": "squares.py", "node": "squares.js",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harms := []handlertest.Harm{handlertest.KilledBefore} // the hardest; all of them take minutes
			if os.Getenv("NIGHTSHIFT_LONG") != "" {
				harms = nil
			}
			e := example{t: t, command: []string{system(t, name), here(t, filepath.Join("resumable", script))}}
			handlertest.Resumable(t, handlertest.Job{
				Handler: e, Harms: harms,
				Outcome: func(scratch string) string {
					got := readOut(t)(scratch)
					if got != squares() {
						t.Errorf("%d bytes, and not the squares of 1 … 1000", len(got))
					}
					return got
				},
			})
		})
	}
}

// The CSV job, killed at each checkpoint: a loop, not a sample.
func TestCleanCSVResumesAtEveryCheckpoint(t *testing.T) {
	rows := 6000
	if os.Getenv("NIGHTSHIFT_LONG") != "" {
		rows = 100_000
	}
	python := system(t, "python3")
	input := filepath.Join(t.TempDir(), "input.csv")
	generate(t, python, input, rows)
	handlertest.Resumable(t, handlertest.Job{
		Handler: example{t: t, command: []string{python, here(t, "clean_csv.py")}, dir: t.TempDir()},
		Payload: func(scratch string) string { return object(t, map[string]any{"input": input, "output": out(scratch)}) },
		Outcome: readOut(t),
		Result:  func(result, scratch string) string { return strings.ReplaceAll(result, scratch, "") },
	})
}

// {} is enough of a payload: the input is made from the fixed seed, and the output
// lies below data.
func TestCleanCSVWithAnEmptyPayload(t *testing.T) {
	python := system(t, "python3")
	work := t.TempDir()
	var results []string
	for range 2 {
		results = append(results, run(t, example{t: t, command: []string{python, here(t, "clean_csv.py")}, dir: work}, `{"rows":3000}`))
	}
	var r struct {
		Output     string
		Read, Kept int
	}
	if err := json.Unmarshal([]byte(results[0]), &r); err != nil {
		t.Fatalf("%v: %s", err, results[0])
	}
	if r.Read != 3000 || r.Kept == 0 || r.Kept > 3000 || results[0] != results[1] {
		t.Errorf("results %s", results)
	}
	if _, err := os.Stat(filepath.Join(work, r.Output)); err != nil {
		t.Error(err)
	}
}

func TestInputIsTheSameForTheSameSeed(t *testing.T) {
	python := system(t, "python3")
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	generate(t, python, a, 2000)
	generate(t, python, b, 2000)
	first, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) || bytes.Count(first, []byte("\n")) < 2000 {
		t.Errorf("%d and %d bytes", len(first), len(second))
	}
}

// The inspection looks at this machine and writes one JSON object a line.
func TestInspectWritesJSONLines(t *testing.T) {
	system(t, "sh")
	for _, tool := range []string{"sqlite3", "df"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	work := t.TempDir()
	result := run(t, example{t: t, command: []string{here(t, "inspect.sh")}, dir: work}, "{}")
	if !json.Valid([]byte(result)) {
		t.Errorf("result %s", result)
	}
	found := 0
	err := filepath.WalkDir(work, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		b, err := os.ReadFile(path)
		for line := range strings.Lines(string(b)) {
			found++
			if !json.Valid([]byte(line)) {
				t.Errorf("%s holds the line %q", path, line)
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d lines, %v", found, err)
	}
}

// run executes a program once, undisturbed.
func run(t *testing.T, e example, payload string) string {
	t.Helper()
	var log bytes.Buffer
	row := &task.Task{ID: "once", Type: "example", Payload: payload, ExecID: 1}
	dir := filepath.Join(t.TempDir(), "task-dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	result, err := e.Run(context.Background(), handler.NewTask(row, dir, &log, agreeable{}, nil))
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return string(result.(handler.Report).Result)
}

// agreeable is a recorder that stores nothing.
type agreeable struct{}

func (agreeable) Checkpoint(context.Context, json.RawMessage, string) error { return nil }
func (agreeable) StillMine(context.Context) error                           { return nil }

func generate(t *testing.T, python, path string, rows int) {
	t.Helper()
	cmd := exec.Command(python, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import make_csv; make_csv.write(sys.argv[2], int(sys.argv[3]), 1)",
		here(t, "."), path, fmt.Sprint(rows))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func object(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
