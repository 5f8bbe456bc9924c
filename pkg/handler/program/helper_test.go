package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// one is the Reaper of the test process, as a worker has one.
var one *Reaper

var testLock *os.File

func TestMain(m *testing.M) {
	if job := os.Getenv("PROGRAM_TEST_JOB"); job != "" {
		os.Exit(testJobs[job]())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "program-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if testLock, err = os.Create(filepath.Join(dir, "w1.lock")); err != nil {
		panic(err)
	}
	one, err = NewReaper(ReaperOptions{WorkerID: "w1", Mark: testLock.Name(), Lock: testLock, Log: testLogger{}})
	if err != nil {
		panic(err)
	}
	defer one.Close()
	return m.Run()
}

type testLogger struct{}

func (testLogger) Info(string, ...any) {}
func (testLogger) Warn(msg string, args ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"WARN", msg}, args...)...)
}

// recorder is a store in memory.
type recorder struct {
	mu       sync.Mutex
	states   []string
	progress []string
	asked    int
	// answer gives the n-th checkpoint's error, n from 1; nil: none.
	answer func(ctx context.Context, n int) error
}

func (r *recorder) Checkpoint(ctx context.Context, state json.RawMessage, progress string) error {
	r.mu.Lock()
	if len(state) > 0 {
		r.states = append(r.states, string(state))
	}
	r.progress = append(r.progress, progress)
	n, answer := len(r.progress), r.answer
	r.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx, n)
}

func (r *recorder) StillMine(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.answer == nil {
		return nil
	}
	return r.answer(ctx, 0)
}

func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) == 0 {
		return ""
	}
	return r.states[len(r.states)-1]
}

// logBuffer is a log that tests can read at any time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// trial is one execution in a test.
type trial struct {
	t    testing.TB
	cfg  Config
	row  task.Task
	rec  *recorder
	log  *logBuffer
	dir  string
	stop chan handler.StopOrder
}

var attempts atomic.Int64

// try prepares the execution of a command with the payload {}.
func try(t testing.TB, command ...string) *trial {
	t.Helper()
	attempts.CompareAndSwap(0, time.Now().Unix()<<16)
	return &trial{
		t:   t,
		cfg: Config{Command: command, Reaper: one, Grace: 20 * time.Second, KillGrace: 10 * time.Second},
		row: task.Task{ID: "t/1", Type: "test", Payload: "{}", ExecID: attempts.Add(1)},
		rec: &recorder{}, log: &logBuffer{}, dir: t.TempDir(), stop: make(chan handler.StopOrder, 8),
	}
}

// sh tries a script of dash's.
func sh(t testing.TB, script string) *trial {
	t.Helper()
	return try(t, "/bin/sh", "-c", script)
}

// outcome is what an execution came to.
type outcome struct {
	handler.Report
	err error
	log string
	dir string
}

func (tr *trial) run() outcome {
	tr.t.Helper()
	return tr.runIn(context.Background())
}

func (tr *trial) runIn(ctx context.Context) outcome {
	tr.t.Helper()
	p, err := New(tr.cfg)
	if err != nil {
		tr.t.Fatal(err)
	}
	result, err := p.Run(ctx, handler.NewTask(&tr.row, tr.dir, tr.log, tr.rec, tr.stop))
	report, ok := result.(handler.Report)
	if !ok {
		tr.t.Fatalf("the result is a %T", result)
	}
	return outcome{report, err, tr.log.String(), tr.dir}
}

// start runs it in the background.
func (tr *trial) start() <-chan outcome {
	c := make(chan outcome, 1)
	go func() { c <- tr.run() }()
	return c
}

func await(t testing.TB, c <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(40 * time.Second):
		t.Fatal("the program did not end")
		return outcome{}
	}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (tr *trial) untilLogged(text string) {
	tr.t.Helper()
	until(tr.t, "the program prints "+text, func() bool { return strings.Contains(tr.log.String(), text) })
}

// kind is what the executor does with the error.
func (o outcome) kind() string {
	var f *handler.Failure
	switch {
	case o.err == nil:
		return "success"
	case handler.IsStop(o.err):
		return reason(o.err)
	case errors.Is(o.err, handler.ErrTimeout):
		return "timeout"
	case errors.As(o.err, &f) && f.Worker:
		return "worker trouble"
	case errors.As(o.err, &f) && f.Fatal:
		return "fatal"
	default:
		return "retry"
	}
}

func (o outcome) want(t testing.TB, kind, summary string) {
	t.Helper()
	if o.kind() != kind || !strings.Contains(o.Summary, summary) {
		t.Errorf("got %s, summary %q (error %v); want %s, %q in the summary\nlog: %s", o.kind(), o.Summary, o.err, kind, summary, o.log)
	}
}

func (o outcome) wantResult(t testing.TB, result string) {
	t.Helper()
	if o.err != nil || string(o.Result) != result {
		t.Errorf("got result %s, error %v; want result %s\nlog: %s", o.Result, o.err, result, o.log)
	}
}

// script writes an executable file.
func script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	write(t, path, text, 0o755)
	return path
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func need(t testing.TB, command string) string {
	t.Helper()
	// The system's own first: what a version manager puts before it takes a second to start.
	if path := "/usr/bin/" + command; exec.Command(path, "--version").Run() == nil {
		return path
	}
	path, err := exec.LookPath(command)
	if err != nil {
		t.Skipf("no %s here", command)
	}
	return path
}

func slurp(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gone waits until a process has ended (a zombie has).
func gone(t testing.TB, pid string) {
	t.Helper()
	until(t, "process "+pid+" ends", func() bool {
		b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}
