package faults

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

//go:embed testdata/shim.c
var shimSource string

// What the shim can be told to hit.
const (
	onFsync = 1
	onWrite = 2
)

// shim is a library that is preloaded into a worker, and the plan that it obeys.
type shim struct {
	t    testing.TB
	lib  string
	path string
	plan []byte // mapped; the layout of struct plan
}

func newShim(t testing.TB) *shim {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: the shim cannot be built")
	}
	dir := t.TempDir()
	s := &shim{t: t, lib: filepath.Join(dir, "shim.so"), path: filepath.Join(dir, "plan")}
	source := filepath.Join(dir, "shim.c")
	if err := os.WriteFile(source, []byte(shimSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", s.lib, source, "-ldl").CombinedOutput(); err != nil {
		t.Skipf("the shim cannot be built: %v\n%s", err, out)
	}
	const size = 4096
	if err := os.WriteFile(s.path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the mapping stays
	if s.plan, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(s.plan); err != nil {
			t.Error(err)
		}
	})
	return s
}

// env is what a process gets to be under the shim.
func (s *shim) env() []string { return []string{"LD_PRELOAD=" + s.lib, "FAULT_SHIM=" + s.path} }

// fault is one plan.
type fault struct {
	op      int
	suffix  string // of the file: "-wal", ".db"
	nth     int
	err     syscall.Errno
	forever bool
	delay   time.Duration
}

func (s *shim) set(i int, v uint32) { binary.NativeEndian.PutUint32(s.plan[4*i:], v) }
func (s *shim) get(i int) int       { return int(binary.NativeEndian.Uint32(s.plan[4*i:])) }

// arm puts a fault in force; its calls are counted from here.
func (s *shim) arm(f fault) {
	s.disarm()
	s.set(1, uint32(f.err))
	s.set(2, uint32(f.nth))
	if f.forever {
		s.set(3, 1)
	}
	s.set(4, uint32(f.delay.Microseconds()))
	clear(s.plan[28:60])
	copy(s.plan[28:59], f.suffix)
	s.set(0, uint32(f.op))
}

func (s *shim) disarm() {
	for i := range 7 {
		s.set(i, 0)
	}
}

// fired is how many calls were hit.
func (s *shim) fired() int { return s.get(6) }
