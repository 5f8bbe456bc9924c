package store

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A test that needs another process runs this binary again in one of these roles.
// The child speaks on its standard output and ends when its standard input does.
var roles = map[string]func(path string) error{
	"hold":   holdWriteLock,
	"reader": holdReadLock,
	"commit": commitBackToBack,
	"crash":  crashInTransaction,
	"open":   openOnce,
}

const (
	envRole = "NIGHTSHIFT_STORE_TEST_ROLE"
	envPath = "NIGHTSHIFT_STORE_TEST_PATH"
)

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(envRole)]; role != nil {
		if err := role(os.Getenv(envPath)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("NIGHTSHIFT_LONG") == "" {
		if err := flag.Set("rapid.checks", "25"); err != nil { // -rapid.checks on the command line still wins
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// child is another process of this test.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t *testing.T, role, path string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envRole+"="+role, envPath+"="+path), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // of a signal
		}
	})
	return c
}

// says waits for a line of the child that begins with word and returns its rest.
func (c *child) says(word string) string {
	c.t.Helper()
	for c.out.Scan() {
		if rest, ok := strings.CutPrefix(c.out.Text(), word); ok {
			return strings.TrimSpace(rest)
		}
	}
	c.t.Fatalf("the child ended without saying %q", word)
	return ""
}

// end lets the child come to its end and waits for it.
func (c *child) end() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	for c.out.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("child: %v", err)
	}
}

// untilTold waits for the end of standard input.
func untilTold() { _, _ = io.Copy(io.Discard, os.Stdin) }

func holdWriteLock(path string) error {
	c, err := openConn(path, false)
	if err != nil {
		return err
	}
	if err := c.script("BEGIN IMMEDIATE; INSERT INTO tasks(task_id, task_type) VALUES('held','a')"); err != nil {
		return err
	}
	fmt.Println("held")
	untilTold()
	return c.script("ROLLBACK")
}

func holdReadLock(path string) error {
	c, err := openConn(path, true)
	if err != nil {
		return err
	}
	if err := c.script("BEGIN; SELECT count(*) FROM tasks"); err != nil {
		return err
	}
	fmt.Println("reading")
	untilTold()
	return c.script("COMMIT")
}

func commitBackToBack(path string) error {
	s, err := Open(Options{Path: path})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	n, worst := 0, time.Duration(0)
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; n++ {
		one := time.Now()
		if _, err := s.Add(time.Time{}, NewTask{Type: "a"}); err != nil {
			return err
		}
		worst = max(worst, time.Since(one))
	}
	fmt.Println("commits", n, worst)
	return s.Close()
}

func crashInTransaction(path string) error {
	s, err := Open(Options{Path: path})
	if err != nil {
		return err
	}
	for range 20 {
		if _, err := s.Add(time.Time{}, NewTask{Type: "a"}); err != nil {
			return err
		}
	}
	return s.write("crash", &op{run: func(c *conn) error {
		if err := insertTask(c, &NewTask{ID: "never", Type: "a"}, newStamp(time.Now())); err != nil {
			return err
		}
		fmt.Println("crashing")
		select {} // until it is killed
	}})
}

func openOnce(path string) error {
	s, err := Open(Options{Path: path})
	if err != nil {
		return err
	}
	if _, err := s.Add(time.Time{}, NewTask{Type: "a"}); err != nil {
		return err
	}
	fmt.Println("opened")
	return s.Close()
}
