package logging

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/config"
)

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// TestLO05: rm, mv, truncate, rm -rf and chmod 000 while lines are written. A
// fresh file appears by itself and holds every later line whole.
func TestLO05SomebodyMovedOrDeletedTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	name := filepath.Join(dir, "w1.log")
	for _, tc := range []struct {
		name string
		do   func() error
	}{
		{"deleted", func() error { return os.Remove(name) }},
		{"moved", func() error { return os.Rename(name, filepath.Join(dir, "x")) }},
		{"moved and made anew by logrotate", func() error {
			if err := os.Rename(name, filepath.Join(dir, "w1.log.1")); err != nil {
				return err
			}
			return os.WriteFile(name, nil, 0o640)
		}},
		{"truncated", func() error { return os.Truncate(name, 0) }},
		{"directory deleted", func() error { return os.RemoveAll(dir) }},
		{"rights taken away", func() error { return os.Chmod(name, 0) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := start(t, settings(dir))
			for i := range 100 {
				l.Logger().Info("before", "n", i)
			}
			flush(t, l)
			if err := tc.do(); err != nil {
				t.Fatal(err)
			}
			n := 0
			eventually(t, "lines are in the new file", func() bool {
				n++
				l.Logger().Info("after", "n", n)
				l.Flush(10 * time.Second)
				b, err := os.ReadFile(name)
				return err == nil && bytes.Contains(b, []byte(fmt.Sprintf("after: n=%d\n", n)))
			})
			for line := range strings.Lines(read(t, name)) {
				if !strings.Contains(line, "[INFO]") || strings.Contains(line, "\x00") {
					t.Errorf("not whole: %q", line)
				}
			}
			if l.Dropped() != 0 {
				t.Errorf("%d lines dropped", l.Dropped())
			}
			checkDescriptors(t, dir)
		})
	}
}

// checkDescriptors: after a tick nothing below dir is held open that is gone.
func checkDescriptors(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return
	}
	eventually(t, "no descriptor stays on a deleted file", func() bool {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			to, err := os.Readlink("/proc/self/fd/" + fd.Name())
			if err == nil && strings.HasPrefix(to, dir) && (strings.HasSuffix(to, "(deleted)") || strings.HasSuffix(to, "/x") || strings.HasSuffix(to, ".log.1")) {
				return false
			}
		}
		return true
	})
}

// A gigabyte through the rotation: no line is lost, and at no moment the files
// have more than (max_backups + 1) × max_size. 20 MB with -short and under the race detector.
func TestRotationLosesNoLineAndKeepsItsBound(t *testing.T) {
	total, c := int64(1<<30), config.Log{Level: "info", Dir: t.TempDir(), MaxSize: 50e6, MaxBackups: 10}
	if testing.Short() || raceEnabled {
		total, c.MaxSize, c.MaxBackups = 20e6, 64<<10, 10
	}
	l, err := Open(Options{Worker: "w1", Config: c, tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	seen := &sequence{t: t}
	if !l.main.call(func() { l.main.target.(*file).removing = seen.read }, time.Minute) {
		t.Fatal("the sink does not answer")
	}
	stop, worst := watchSize(c.Dir)
	begin, n := time.Now(), int64(0)
	for written := int64(0); written < total; n++ {
		pad := strings.Repeat("x", int(n*37%7000))
		l.Logger().Info("line", "n", n, "pad", pad, "end", "yes")
		written += int64(len(pad)) + 50
	}
	if !l.Flush(time.Minute) {
		t.Fatal("not written within a minute")
	}
	t.Logf("%d lines, %d MB in %v", n, total/1e6, time.Since(begin).Round(time.Millisecond))
	close(stop)
	if bound := int64(c.MaxBackups+1) * c.MaxSize; <-worst > bound {
		t.Errorf("the files had more than %d bytes", bound)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l.Dropped() != 0 {
		t.Errorf("%d lines dropped", l.Dropped())
	}
	last := l.main.target.(*file)
	backups := last.backups()
	if len(backups) > c.MaxBackups {
		t.Errorf("%d backups", len(backups))
	}
	for i := len(backups) - 1; i >= 0; i-- {
		seen.read(backups[i].name)
	}
	seen.read(last.name)
	if seen.next != n {
		t.Errorf("%d lines read, %d written", seen.next, n)
	}
}

// sequence reads files of numbered lines and fails at the first that is missing,
// doubled or not whole.
type sequence struct {
	t    *testing.T
	next int64
}

func (s *sequence) read(path string) {
	f, err := os.Open(path)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 2*MaxLine), 2*MaxLine)
	for lines.Scan() {
		line := lines.Text()
		_, rest, _ := strings.Cut(line, " n=")
		number, _, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseInt(number, 10, 64); err != nil || n != s.next || !strings.HasSuffix(line, " end=yes") || len(line) >= MaxLine {
			s.t.Errorf("%s: line %d expected, found %.100q", path, s.next, line)
			return
		}
		s.next++
	}
}

// watchSize adds up the files of dir again and again until stop is closed, and
// then sends the most it has seen.
func watchSize(dir string) (stop chan struct{}, worst chan int64) {
	stop, worst = make(chan struct{}), make(chan int64, 1)
	go func() {
		most := int64(0)
		for {
			select {
			case <-stop:
				worst <- most
				return
			case <-time.After(time.Millisecond):
			}
			sum := int64(0)
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			complete := true
			// The live file sorts last and the oldest backup first: looked at from
			// the end, no file is counted under two names.
			for _, e := range slices.Backward(entries) {
				info, err := e.Info()
				if err != nil { // renamed or removed while we look: the sum means nothing
					complete = false
					break
				}
				sum += info.Size()
			}
			if complete {
				most = max(most, sum)
			}
		}
	}()
	return stop, worst
}

func TestFilesStampedInTheFutureGoFirst(t *testing.T) {
	dir := t.TempDir()
	stamp := func(at time.Time) string {
		name := filepath.Join(dir, "w1-"+at.UTC().Format(backupLayout)+".log")
		if err := os.WriteFile(name, []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	wrong := stamp(time.Now().AddDate(5, 0, 0))
	old := stamp(time.Now().Add(-time.Hour))
	newer := stamp(time.Now().Add(-time.Minute))
	stranger := filepath.Join(dir, "w1-notes.log")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := settings(dir)
	c.MaxBackups = 2
	start(t, c)
	for name, want := range map[string]bool{wrong: false, old: true, newer: true, stranger: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
}

func TestALineCutByACrashIsEnded(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "w1.log")
	if err := os.WriteFile(name, []byte("2026-12-01T00:00:00.000Z [INFO]  half a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := start(t, settings(dir))
	l.Logger().Info("next")
	flush(t, l)
	if lines := strings.Split(read(t, name), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], "half a li") || !strings.HasSuffix(lines[1], "next") {
		t.Errorf("%q", lines)
	}
}

// inNamespace is set for the copy of this test that runs in namespaces of its
// own, where it may mount a small disk.
const inNamespace = "NIGHTSHIFT_TEST_NAMESPACE"

// onSmallDisk runs the calling test again in a mount namespace of its own and
// returns false; in there it returns true with a tmpfs mounted at the directory.
func onSmallDisk(t *testing.T, options string) (dir string, inside bool) {
	t.Helper()
	if dir = os.Getenv(inNamespace); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Fatal(err)
		}
		return dir, true
	}
	probe := exec.Command("unshare", "-rm", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	cmd := exec.Command("unshare", "-rm", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return "", false
}

// TestLO07: the log's disk is full while lines come in. Nobody waits, no backup
// is emptied, what was lost is counted and told after the cure.
func TestLO07DiskFull(t *testing.T) {
	dir, inside := onSmallDisk(t, "size=4m")
	if !inside {
		return
	}
	c := config.Log{Level: "info", Dir: filepath.Join(dir, "logs"), MaxSize: 512 << 10, MaxBackups: 3}
	l := start(t, c)
	pad := strings.Repeat("x", 1000)
	for i := range 1700 { // three backups and a part
		l.Logger().Info("before", "n", i, "pad", pad)
	}
	flush(t, l)
	backups := l.main.target.(*file).backups()
	if len(backups) != 3 {
		t.Fatalf("%d backups", len(backups))
	}
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)

	begin := time.Now()
	for i := range 3000 {
		l.Logger().Info("during", "n", i, "pad", pad)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("3000 lines on a full disk took %v", took)
	}
	flush(t, l)
	lost := l.Dropped()
	if lost == 0 {
		t.Fatal("nothing was dropped; the disk was not full")
	}
	for _, b := range backups {
		if info, err := os.Stat(b.name); err == nil && info.Size() < 400<<10 {
			t.Errorf("backup %s was emptied: %d bytes", b.name, info.Size())
		}
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("after")
	flush(t, l)
	got := read(t, filepath.Join(c.Dir, "w1.log"))
	if !strings.Contains(got, fmt.Sprintf("log lines dropped: lines=%d since=", lost)) || !strings.Contains(got, "no space left") {
		t.Errorf("the loss of %d lines is not told: …%s", lost, got[max(0, len(got)-500):])
	}
	for line := range strings.Lines(got) {
		if torn := !strings.HasPrefix(line, "20"); torn {
			t.Errorf("two lines in one: %.80q", line)
		}
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 16, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		err = nil
	}
}

// A disk without inodes is said to be one, and does not keep a worker from starting.
func TestLO08NoInodes(t *testing.T) {
	dir, inside := onSmallDisk(t, "size=4m,nr_inodes=8")
	if !inside {
		return
	}
	var blockers []string
	for i := 0; ; i++ {
		name := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			break
		}
		blockers = append(blockers, name)
	}
	c := settings(filepath.Join(dir, "logs"))
	l, err := Open(Options{Worker: "w1", Config: c, tick: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("during")
	flush(t, l)
	for _, name := range blockers {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	l.Logger().Info("after")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	got := read(t, filepath.Join(c.Dir, "w1.log"))
	if !strings.Contains(got, "lines=1 ") || !strings.Contains(got, "no inodes left") || !strings.Contains(got, "after") {
		t.Errorf("log:\n%s", got)
	}
}
