package store

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// night is when most tests take place.
var night = time.Date(2026, 12, 1, 16, 4, 5, 123e6, time.UTC)

// newDB makes an empty database and returns its path.
func newDB(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nightshift.db")
	if err := Init(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// newStore opens a database, one of the test's own when o.Path is empty.
func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = newDB(t)
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return night }
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// rawConn is a connection beside the store, as a stranger has one.
func rawConn(t testing.TB, path string) *conn {
	t.Helper()
	c, err := openConn(path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// engine runs SQL as one of the two that the schema must serve alike.
type engine struct {
	name string
	exec func(sql string) error
	read func(sql string) (string, error) // columns joined with |, rows with newlines
}

// engines are this program's SQLite and the stock shell's.
func engines(t *testing.T, path string) []engine {
	t.Helper()
	c := rawConn(t, path)
	all := []engine{{"driver", c.script, func(sql string) (string, error) {
		lines, err := c.texts(sql)
		return strings.Join(lines, "\n"), err
	}}}
	if haveShell(t) {
		all = append(all, engine{"shell", func(sql string) error {
			_, err := shell(path, sql)
			return err
		}, func(sql string) (string, error) { return shell(path, sql) }})
	}
	return all
}

func haveShell(t *testing.T) bool {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Log("without the stock shell: sqlite3 is not installed")
		return false
	}
	return true
}

func needShell(t *testing.T) {
	t.Helper()
	if !haveShell(t) {
		t.Skip("sqlite3 is not installed")
	}
}

// shell feeds SQL to the stock shell on its standard input.
func shell(path, sql string, args ...string) (string, error) {
	cmd := exec.Command("sqlite3", append([]string{"-bail", "-cmd", ".timeout 5000", "-cmd", "PRAGMA wal_autocheckpoint=0", path}, args...)...)
	cmd.Stdin = strings.NewReader(sql)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	text := strings.TrimPrefix(out.String(), "0\n") // the answer of the pragma
	return strings.TrimSuffix(text, "\n"), err
}

// eventually waits for a condition, with a deadline far beyond what it takes.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func executors(worker string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%d", worker, i+1)
	}
	return names
}

// anyType lets a claim take the types of these tests.
var anyType = map[string]TypeRule{"a": {Timeout: time.Hour}, "b": {Timeout: time.Hour}}

func claimFor(executors ...string) *ClaimRequest {
	return &ClaimRequest{Executors: executors, Worker: workerOf(executors[0]), Types: anyType, Now: night, NoTimeoutLease: 10 * time.Minute}
}

func mustAdd(t testing.TB, s *Store, tasks ...NewTask) []string {
	t.Helper()
	for i := range tasks {
		if tasks[i].Type == "" {
			tasks[i].Type = "a"
		}
	}
	ids, err := s.Add(night, tasks...)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// mustClaim claims exactly one task.
func mustClaim(t testing.TB, s *Store, executor string) task.Task {
	t.Helper()
	r, err := s.Turn(nil, claimFor(executor))
	if err != nil || len(r.Claimed) != 1 {
		t.Fatalf("claimed %+v, %v", r.Claimed, err)
	}
	return r.Claimed[0]
}

func mustFinish(t testing.TB, s *Store, f Finish) task.Status {
	t.Helper()
	if f.Now.IsZero() {
		f.Now = night
	}
	r, err := s.Turn([]Finish{f}, nil)
	if err != nil || r.Finished[0].Err != nil {
		t.Fatalf("finish %+v: %v, %v", f, r, err)
	}
	return r.Finished[0].Status
}

func mustGet(t testing.TB, s *Store, id string) task.Task {
	t.Helper()
	got, err := s.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantStatus(t testing.TB, s *Store, id string, want task.Status, reason task.Reason) task.Task {
	t.Helper()
	got := mustGet(t, s, id)
	if got.Status != want || got.Reason != reason {
		t.Fatalf("task %s is %s (%s), want %s (%s)", id, got.Status, got.Reason, want, reason)
	}
	return got
}

func wantErr(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q does not say %q", err, p)
		}
	}
}

// tmpfs mounts a small file system of the test's own.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "nightshift-test", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// finishMany carries n tasks to SUCCESS.
func finishMany(t testing.TB, s *Store, n int) {
	t.Helper()
	mustAdd(t, s, make([]NewTask, n)...)
	var done []Finish
	for left := n; left > 0; {
		r, err := s.Turn(done, claimFor(executors("w1", 32)...))
		if err != nil {
			t.Fatal(err)
		}
		left -= len(done)
		done = done[:0]
		for _, c := range r.Claimed {
			done = append(done, Finish{Fence: c.Fence(), Verdict: Succeed, Now: night})
		}
	}
}
