package operator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/store"
)

// logged makes a task with executions that have printed something.
func logged(t *testing.T, n *night, dir string, texts ...string) (string, []string) {
	t.Helper()
	n.at(time.Hour)
	id := n.add(store.NewTask{ID: "t", Type: "clean_csv"})
	var paths []string
	for i, text := range texts {
		x := n.run(id, "w1")
		path := filepath.Join(dir, fmt.Sprintf("%d.log", i+1))
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, path)
		n.end(x, store.Finish{Verdict: store.Retry, Summary: "again", LogPath: path, RetryAt: n.now})
	}
	return id, paths
}

func TestLogs(t *testing.T) {
	n := newNight(t)
	id, _ := logged(t, n, t.TempDir(), "one\ntwo\n", "", "a\x1b[2Jb\r\nlast words without a line end")
	for _, c := range []struct {
		name     string
		o        LogsOptions
		terminal bool
		out, err string
	}{
		{"the last execution, byte for byte", LogsOptions{}, false, "a\x1b[2Jb\r\nlast words without a line end", ""},
		{"on a terminal nothing is obeyed", LogsOptions{}, true, `a\x1b[2Jb` + "\nlast words without a line end", ""},
		{"by number", LogsOptions{Attempt: "1"}, false, "one\ntwo\n", ""},
		{"from the end", LogsOptions{Attempt: "-3"}, false, "one\ntwo\n", ""},
		{"the last line", LogsOptions{Attempt: "1", Tail: "1"}, false, "two\n", ""},
		{"more lines than there are", LogsOptions{Attempt: "1", Tail: "10"}, false, "one\ntwo\n", ""},
		{"a last line without an end", LogsOptions{Tail: "1"}, false, "last words without a line end", ""},
		{"one that printed nothing", LogsOptions{Attempt: "2"}, false, "", "execution 2 has printed nothing, or its log has gone with age"},
		{"all of them", LogsOptions{All: true}, false, "one\ntwo\na\x1b[2Jb\r\nlast words without a line end", "==> execution 3 on w1, 2026-12-01 23:04:05 CST <=="},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, out, errOut := n.desk(0, 0)
			d.Style.Terminal = c.terminal
			c.o.ID = id
			if err := d.Logs(t.Context(), c.o); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.out || !strings.Contains(errOut.String(), c.err) {
				t.Errorf("out %q, err %q", out.String(), errOut.String())
			}
		})
	}
	t.Run("no such execution", func(t *testing.T) {
		d, _, _ := n.desk(0, 0)
		err := d.Logs(t.Context(), LogsOptions{ID: id, Attempt: "9"})
		if want := `task "t" has no execution 9; its executions are 1, 2, 3; -1 is the last`; ExitCode(err) != ExitNoInput || err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not run yet", func(t *testing.T) {
		n.add(store.NewTask{ID: "new", Type: "clean_csv", Held: true})
		d, out, errOut := n.desk(0, 0)
		if err := d.Logs(t.Context(), LogsOptions{ID: "new"}); err != nil || out.Len() > 0 || errOut.String() != "task new has not run yet; it is PAUSED\n" {
			t.Errorf("%v, out %q, err %q", err, out.String(), errOut.String())
		}
	})
}

// SE-05: a fifo laid where the log will be does not hang the reader.
func TestSE05NoFifoAsLog(t *testing.T) {
	n := newNight(t)
	dir := t.TempDir()
	id, paths := logged(t, n, dir, "x")
	if err := os.Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(paths[0], 0o600); err != nil {
		t.Skip("no fifo here: ", err)
	}
	d, _, _ := n.desk(0, 0)
	if err := d.Logs(t.Context(), LogsOptions{ID: id}); err == nil || !strings.Contains(err.Error(), "is not a plain file") {
		t.Errorf("got %v", err)
	}
}

// safeBuffer is written by a verb that runs while the test reads.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
	}
}

// logs -f goes on with the next execution, and ends when the task does.
func TestLogsFollowAcrossExecutions(t *testing.T) {
	n := newNight(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "exec", "0"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.conf.Log.Dir = dir
	n.at(0)
	id := n.add(store.NewTask{ID: "t", Type: "clean_csv"})
	d, _, _ := n.desk(0, 0)
	out, errOut := &safeBuffer{}, &safeBuffer{}
	d.Out, d.Err = out, errOut
	d.Style.Terminal = true // so that a character that comes in two parts is seen whole
	done := make(chan error, 1)
	go func() { done <- d.Logs(t.Context(), LogsOptions{ID: id, Follow: true}) }()

	until(t, "it says that the task waits", func() bool { return strings.Contains(errOut.String(), "==> t is PENDING, now <==") })
	first := n.run(id, "w1")
	path := filepath.Join(dir, "exec", "0", "1.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n☾"[:5])
	until(t, "the first line", func() bool { return strings.Contains(out.String(), "one\n") })
	write("☾"[1:] + "\n")
	until(t, "a character in two parts", func() bool { return strings.Contains(out.String(), "☾\n") })
	n.end(first, store.Finish{Verdict: store.Retry, LogPath: path, RetryAt: n.now})

	path = filepath.Join(dir, "exec", "0", "2.log")
	second := n.run(id, "w2")
	write("two\n")
	until(t, "the second execution", func() bool { return strings.Contains(out.String(), "two\n") })
	write("last words")
	n.end(second, store.Finish{Verdict: store.Succeed, LogPath: path})
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it follows for ever")
	}
	if want := "one\n☾\ntwo\nlast words"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if !strings.Contains(errOut.String(), fmt.Sprintf("==> execution %d on w2", second.ExecID)) {
		t.Errorf("the second execution is not announced: %q", errOut.String())
	}
}
