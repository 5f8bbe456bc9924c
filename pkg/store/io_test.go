package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// faults arms the shim that is preloaded into a child (test/faults/testdata/shim.c
// has the layout of its plan).
type faults struct{ path string }

func newFaults(t *testing.T) (f *faults, preload string) {
	t.Helper()
	dir := t.TempDir()
	preload = filepath.Join(dir, "shim.so")
	src := filepath.Join("..", "..", "test", "faults", "testdata", "shim.c")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", preload, src, "-ldl").CombinedOutput(); err != nil {
		t.Skipf("no shim: %v: %s", err, out)
	}
	f = &faults{filepath.Join(dir, "plan")}
	writeFile(t, f.path, string(make([]byte, 64)))
	return f, preload
}

// fail makes the next n fsyncs of files with a suffix fail with EIO; n < 0: all.
func (f *faults) fail(suffix string, n int) error {
	p := make([]byte, 64)
	word := func(i, v int) { binary.NativeEndian.PutUint32(p[4*i:], uint32(v)) }
	word(0, 1)
	word(1, int(unix.EIO))
	word(2, 1)
	if n < 0 {
		word(3, 1)
	}
	copy(p[28:], suffix)
	return os.WriteFile(f.path, p, 0o600)
}

func (f *faults) heal() error { return os.WriteFile(f.path, make([]byte, 64), 0o600) }

func init() {
	roles["ghost"] = ghostCommit
	roles["unknown"] = unknownCommit
	roles["checkpoint"] = failingCheckpoint
}

const envPlan = "FAULT_SHIM"

// TestP18GhostCommit: a COMMIT whose fsync failed may come back when the last
// process has died. A barrier settles it, and the write is there exactly once.
func TestP18GhostCommit(t *testing.T) {
	f, preload := newFaults(t)
	path := newDB(t)
	c := startChild(t, "ghost", path, "LD_PRELOAD="+preload, envPlan+"="+f.path)
	c.says("settled")
	c.end()
	s := newStore(t, Options{Path: path})
	if counts, err := s.Count(); err != nil || counts["PENDING"] != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}

func ghostCommit(path string) error {
	f := &faults{os.Getenv(envPlan)}
	log := &logged{}
	s, err := Open(Options{Path: path, Logger: log.logger()})
	if err != nil {
		return err
	}
	if _, err := s.Add(night, NewTask{ID: "before", Type: "a"}); err != nil {
		return err
	}
	if err := f.fail("-wal", 1); err != nil {
		return err
	}
	if _, err := s.Add(night, NewTask{ID: "ghost", Type: "a"}); err != nil {
		return fmt.Errorf("a worker's write must be settled, not fail: %w", err)
	}
	if !strings.Contains(log.String(), "outcome is unknown") || !strings.Contains(log.String(), "writing works again") {
		return fmt.Errorf("the log says %s", log)
	}
	if _, err := s.Add(night, NewTask{ID: "ghost", Type: "a"}); !errors.Is(err, ErrExists) {
		return fmt.Errorf("the write is not there: %w", err)
	}
	fmt.Println("settled")
	untilTold()
	return s.Close()
}

// TestP18UnknownWithinMaxWait: a caller that waits a bounded time is told that it is
// not known, and nothing is claimed meanwhile.
func TestP18UnknownWithinMaxWait(t *testing.T) {
	f, preload := newFaults(t)
	c := startChild(t, "unknown", newDB(t), "LD_PRELOAD="+preload, envPlan+"="+f.path)
	c.says("told")
	c.end()
}

func unknownCommit(path string) error {
	f := &faults{os.Getenv(envPlan)}
	s, err := Open(Options{Path: path, MaxWait: 300 * time.Millisecond})
	if err != nil {
		return err
	}
	if err := f.fail("-wal", -1); err != nil {
		return err
	}
	_, err = s.Add(night, NewTask{ID: "x", Type: "a"})
	if !errors.Is(err, ErrUnknown) || !Transient(err) || ExitCode(err) != exitIO {
		return fmt.Errorf("want ErrUnknown: %w", err)
	}
	if err := f.heal(); err != nil {
		return err
	}
	if _, err := s.Add(night, NewTask{ID: "y", Type: "a"}); err != nil {
		return fmt.Errorf("after the cure: %w", err)
	}
	if _, err := s.Get("x"); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("the failed write has come back: %w", err)
	}
	fmt.Println("told")
	untilTold()
	return s.Close()
}

// TestP27CheckpointErrorsAreSeen: SQLite swallows the errors of automatic
// checkpoints; the explicit one reports a disk that fails, once.
func TestP27CheckpointErrorsAreSeen(t *testing.T) {
	f, preload := newFaults(t)
	c := startChild(t, "checkpoint", newDB(t), "LD_PRELOAD="+preload, envPlan+"="+f.path)
	c.says("seen")
	c.end()
}

func failingCheckpoint(path string) error {
	f := &faults{os.Getenv(envPlan)}
	log := &logged{}
	s, err := Open(Options{Path: path, Logger: log.logger()})
	if err != nil {
		return err
	}
	if err := f.fail(".db", -1); err != nil {
		return err
	}
	if _, err := s.Add(night, NewTask{ID: "x", Type: "a"}); err != nil {
		return err
	}
	var m maintenance
	for range 3 {
		m.passiveAt = time.Time{}
		m.tendWAL(s)
	}
	if n := strings.Count(log.String(), "a checkpoint of the WAL fails"); n != 1 {
		return fmt.Errorf("said %d times: %s", n, log)
	}
	if err := f.heal(); err != nil {
		return err
	}
	m.passiveAt = time.Time{}
	m.tendWAL(s)
	if m.checkpoints != 0 {
		return errors.New("the cure was not noticed")
	}
	if _, err := s.Get("x"); err != nil {
		return err
	}
	fmt.Println("seen")
	untilTold()
	return s.Close()
}
