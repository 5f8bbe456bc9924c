package liveness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func acquire(t *testing.T, path string) *Lock {
	t.Helper()
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

func TestAcquireExcludesTheSecondAndNamesTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.lock")
	acquire(t, path)
	_, err := Acquire(path)
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("second Acquire: %v, want *HeldError", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if len(held.Holders) != 1 || held.Holders[0].PID != os.Getpid() || held.Taker.PID != os.Getpid() {
		t.Errorf("holders %v, taker %v: want this process", held.Holders, held.Taker)
	}
	if !strings.Contains(err.Error(), held.Holders[0].String()) {
		t.Errorf("message %q does not name the holder", err)
	}
}

func TestLockSurvivesTheGarbageCollector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.lock")
	func() {
		if _, err := Acquire(path); err != nil { // a careless caller drops the lock
			t.Fatal(err)
		}
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run in a goroutine of their own
	}
	if _, err := Reserve(path); err == nil {
		t.Fatal("the lock was lost to the garbage collector")
	}
}

func TestReserveIsNoOwnerUntilInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.lock")
	r, err := Reserve(path)
	if err != nil {
		t.Fatal(err)
	}
	dev, ino := r.Inode()
	if p, err := ProbeLock(path, dev, ino); err != nil || p.Outcome != Held {
		t.Errorf("probe of a reserved lock: %v, %v; want held", p.Outcome, err)
	}
	if got, err := Holders(path, dev, ino); err != nil || len(got) != 0 {
		t.Errorf("holders of a reserved lock: %v, %v; want none", got, err)
	}
	fd, err := syscall.Dup(int(r.File().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := Inherit(uintptr(fd), path)
	if err != nil {
		t.Fatal(err)
	}
	r.Release() // the supervisor's copy: the worker keeps the lock
	if p, err := ProbeLock(path, dev, ino); err != nil || p.Outcome != Held {
		t.Errorf("probe of an inherited lock: %v, %v; want held", p.Outcome, err)
	}
	if runtime.GOOS == "linux" {
		if got, err := Holders(path, dev, ino); err != nil || len(got) != 1 {
			t.Errorf("holders of an inherited lock: %v, %v; want this process", got, err)
		}
	}
	l.Release()
	p, err := ProbeLock(path, dev, ino)
	if err != nil || p.Outcome != Free {
		t.Fatalf("probe after the end: %v, %v; want free", p.Outcome, err)
	}
	p.Guard.Close()
}

func TestInheritRefusesWhatIsNotTheLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w1.lock")
	acquire(t, path)
	other, err := os.Create(filepath.Join(dir, "w2.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := Inherit(other.Fd(), path); err == nil {
		t.Error("another file passed as the lock")
	}
	again, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var held *HeldError
	if _, err := Inherit(again.Fd(), path); !errors.As(err, &held) {
		t.Errorf("a descriptor without the lock: %v, want *HeldError", err)
	}
	if _, err := Inherit(99, path); err == nil {
		t.Error("a closed descriptor passed as the lock")
	}
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name string
		prep func(t *testing.T, path string, l *Lock)
		want Outcome
	}{
		{"owner lives", func(*testing.T, string, *Lock) {}, Held},
		{"owner gone", func(_ *testing.T, _ string, l *Lock) { l.Release() }, Free},
		{"file missing", func(t *testing.T, path string, l *Lock) { l.Release(); remove(t, path) }, Unproven},
		{"file unlinked while held", func(t *testing.T, path string, _ *Lock) { remove(t, path) }, Unproven},
		{"another file in its place", func(t *testing.T, path string, _ *Lock) { replace(t, path) }, Unproven},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w1.lock")
			l := acquire(t, path)
			dev, ino := l.Inode()
			tt.prep(t, path, l)
			p, err := ProbeLock(path, dev, ino)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Guard.Close()
			if p.Outcome != tt.want {
				t.Errorf("outcome %s, want %s", p.Outcome, tt.want)
			}
			if (p.Why != "") != (tt.want == Unproven) {
				t.Errorf("why %q with outcome %s", p.Why, p.Outcome)
			}
		})
	}
}

func TestGuardKeepsOwnersOutAndLetsProbersIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.lock")
	l := acquire(t, path)
	dev, ino := l.Inode()
	l.Release()
	first, err := ProbeLock(path, dev, ino)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ProbeLock(path, dev, ino)
	if err != nil {
		t.Fatal(err)
	}
	if first.Outcome != Free || second.Outcome != Free {
		t.Fatalf("probes %s and %s, want both free", first.Outcome, second.Outcome)
	}
	second.Guard.Close()
	if _, err := Reserve(path); err == nil {
		t.Fatal("a guarded lock was taken")
	}
	time.AfterFunc(20*time.Millisecond, first.Guard.Close)
	acquire(t, path) // waits for the prober
}

func TestAcquireRefusesWhatIsNotAPlainFile(t *testing.T) {
	tests := []struct {
		name string
		make func(path string) error
		want string
	}{
		{"fifo", func(p string) error { return syscall.Mkfifo(p, 0o600) }, "not a regular file"},
		{"symbolic link", func(p string) error { return os.Symlink(p+".target", p) }, "symbolic link"},
		{"directory", func(p string) error { return os.Mkdir(p, 0o700) }, "directory"},
	}
	for _, tt := range tests {
		t.Run("TestSE05 "+tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w1.lock")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := Acquire(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if _, err := os.Lstat(path + ".target"); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

func TestCheckDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "run")
	if err := CheckDir(dir); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", st.Mode(), err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := CheckDir(dir); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory that everybody writes: %v, want a refusal", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
