package execlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("EXECLOG_TEST_SMALL_DISK"); dir != "" {
		os.Exit(onSmallDisk(dir))
	}
	goleak.VerifyTestMain(m)
}

func tempDir(t *testing.T, maxBytes int64) *Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "exec"), maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

var markPattern = regexp.MustCompile(`\n\[nightshift: +(\d+) bytes of output dropped here\]\n`)

func TestSilentExecutionMakesNoFile(t *testing.T) {
	d := tempDir(t, 0)
	l := d.Create(7)
	closeLog(t, l)
	if names, err := os.ReadDir(d.path); err != nil || len(names) != 0 {
		t.Errorf("directory holds %v (%v), want nothing", names, err)
	}
	if n, err := Follow(l.Path(), 0).Next(io.Discard); n != 0 || err != nil {
		t.Errorf("following a log without output gave %d, %v", n, err)
	}
}

func TestLO04BytesAreKeptExactly(t *testing.T) {
	d := tempDir(t, 0)
	l := d.Create(1)
	want := make([]byte, 3<<20)
	rand.New(rand.NewSource(1)).Read(want)
	want = append([]byte("\x88\xff\x00"), want...)
	for p := want; len(p) > 0; {
		n := min(len(p), 1+rand.Intn(70000))
		if k, err := l.Write(p[:n]); k != n || err != nil {
			t.Fatalf("Write gave %d, %v", k, err)
		}
		p = p[n:]
	}
	closeLog(t, l)
	if !bytes.Equal(contents(t, l.Path()), want) {
		t.Error("the file is not what was written")
	}
	fi, err := os.Stat(l.Path())
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
	}
	fi, err = os.Stat(filepath.Dir(l.Path()))
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("directory's mode %v, %v; want 0700", fi.Mode(), err)
	}
}

// Output without end: head and tail stay, and the mark between them accounts for
// every byte that is gone.
func TestLO01OutputWithoutEnd(t *testing.T) {
	for _, maxBytes := range []int64{4 << 10, 100_000, 1 << 20} {
		for _, total := range []int64{maxBytes - 1, maxBytes, maxBytes + 1, 3 * maxBytes, 20*maxBytes + 17} {
			t.Run(fmt.Sprintf("max %d, output %d", maxBytes, total), func(t *testing.T) {
				d := tempDir(t, maxBytes)
				l := d.Create(1)
				want := make([]byte, total)
				rand.New(rand.NewSource(total)).Read(want)
				rest := want
				for len(rest) > 0 {
					n := min(len(rest), 1+rand.Intn(9000))
					l.Write(rest[:n])
					rest = rest[n:]
					if fi, err := os.Stat(l.Path()); err != nil || fi.Size() > maxBytes {
						t.Fatalf("the file grew to %d (%v)", fi.Size(), err)
					}
				}
				closeLog(t, l)
				checkHeadTail(t, contents(t, l.Path()), want, maxBytes)
			})
		}
	}
}

func checkHeadTail(t *testing.T, got, want []byte, maxBytes int64) {
	t.Helper()
	if int64(len(want)) <= maxBytes {
		if !bytes.Equal(got, want) {
			t.Error("output within the limit was changed")
		}
		return
	}
	head := int(maxBytes / 2)
	if !bytes.Equal(got[:head], want[:head]) {
		t.Error("the head is not the beginning of the output")
	}
	m := markPattern.FindSubmatch(got[head : head+int(markLen)])
	if m == nil {
		t.Fatalf("no mark after the head, but %q", got[head:head+int(markLen)])
	}
	dropped, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	tail := got[head+int(markLen):]
	if len(tail) < int(maxBytes/4) {
		t.Errorf("the tail has %d bytes, want a quarter of the limit at least", len(tail))
	}
	if !bytes.HasSuffix(want, tail) {
		t.Error("the tail is not the end of the output")
	}
	if head+dropped+len(tail) != len(want) {
		t.Errorf("head %d + dropped %d + tail %d is not %d", head, dropped, len(tail), len(want))
	}
}

func TestGigabyteWithoutNewlineInFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1 GB")
	}
	d := tempDir(t, 0)
	l := d.Create(1)
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	allocs := testing.AllocsPerRun(1, func() {
		for i := 0; i < 1<<30/len(chunk)/2; i++ { // called twice
			l.Write(chunk)
		}
	})
	closeLog(t, l)
	if allocs > 10_000 {
		t.Errorf("%v allocations for half a gigabyte", allocs)
	}
	if fi, err := os.Stat(l.Path()); err != nil || fi.Size() > DefaultMax {
		t.Errorf("the file has %d bytes (%v)", fi.Size(), err)
	}
}

func TestFollowShowsEachByteOnceThroughADrop(t *testing.T) {
	const maxBytes = 64 << 10
	d := tempDir(t, maxBytes)
	l := d.Create(1)
	f := Follow(l.Path(), maxBytes)
	var want, got bytes.Buffer
	for i := 0; want.Len() < 10*maxBytes; i++ {
		line := fmt.Sprintf("line %d of the output\n", i)
		want.WriteString(line)
		l.Write([]byte(line))
		if i%50 == 0 {
			if _, err := f.Next(&got); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeLog(t, l)
	if _, err := f.Next(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("a reader that keeps up saw %d bytes, want %d, without a gap", got.Len(), want.Len())
	}
	late := Follow(l.Path(), maxBytes)
	got.Reset()
	if _, err := late.Next(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), contents(t, l.Path())) {
		t.Error("a reader that comes late does not see the file")
	}
}

func TestLO05DeletedMovedOrEmptied(t *testing.T) {
	cases := map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"moved":   func(t *testing.T, path string) { must(t, os.Rename(path, path+".x")) },
		"emptied": func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"whole directory deleted": func(t *testing.T, path string) {
			must(t, os.RemoveAll(filepath.Dir(filepath.Dir(path))))
		},
	}
	for name, harm := range cases {
		t.Run(name, func(t *testing.T) {
			d := tempDir(t, 0)
			l := d.Create(1)
			now := time.Now()
			l.now = func() time.Time { return now }
			f := Follow(l.Path(), 0)
			l.Write([]byte("before\n"))
			var seen strings.Builder
			_, err := f.Next(&seen)
			must(t, err)
			harm(t, l.Path())
			now = now.Add(recheck + time.Second)
			l.Write([]byte("after\n"))
			if got := string(contents(t, l.Path())); got != "after\n" {
				t.Errorf("the file at the path holds %q", got)
			}
			_, err = f.Next(&seen)
			must(t, err)
			if got := seen.String(); got != "before\nafter\n" {
				t.Errorf("the follower saw %q", got)
			}
			closeLog(t, l)
		})
	}
}

func TestLO05SilentLogHoldsNoDescriptor(t *testing.T) {
	l := tempDir(t, 0).Create(1)
	l.Write([]byte("a"))
	l.rest() // what the timer does
	if l.f != nil {
		t.Error("the descriptor is still open")
	}
	must(t, os.Remove(l.Path()))
	l.Write([]byte("b"))
	closeLog(t, l)
	if got := string(contents(t, l.Path())); got != "b" {
		t.Errorf("the new file holds %q", got)
	}
}

// A link or another file where the log will be: the target stays untouched, the
// task's output has a file of its own.
func TestSE05LinkWhereTheLogWillBe(t *testing.T) {
	d := tempDir(t, 0)
	l := d.Create(1)
	target := filepath.Join(t.TempDir(), "precious")
	must(t, os.WriteFile(target, []byte("mine"), 0o600))
	must(t, os.MkdirAll(filepath.Dir(l.Path()), 0o700))
	must(t, os.Symlink(target, l.Path()))
	if n, err := l.Write([]byte("evil")); n != 4 || err != nil {
		t.Errorf("Write gave %d, %v", n, err)
	}
	closeLog(t, l)
	if got := string(contents(t, target)); got != "mine" {
		t.Errorf("the target holds %q now", got)
	}
	if got := string(contents(t, l.Path())); got != "evil" {
		t.Errorf("the log %s holds %q", l.Path(), got)
	}
}

func TestSE05DirectoryOpenToOthers(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	must(t, os.Mkdir(open, 0o700))
	must(t, os.Chmod(open, 0o777))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(t.TempDir(), link))
	for _, path := range []string{open, link} {
		if _, err := OpenDir(path, 0); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestExecutionNumberUsedBefore(t *testing.T) {
	d := tempDir(t, 0)
	for _, text := range []string{"first", "second", "third"} {
		l := d.Create(1234567)
		l.Write([]byte(text))
		closeLog(t, l)
		if got := string(contents(t, l.Path())); got != text {
			t.Errorf("%s holds %q, want %q", l.Path(), got, text)
		}
	}
}

// A disk without blocks (LO-07) and one without inodes (LO-08): every write
// succeeds, what is missing is told, and after the cure the log goes on.
func TestLO07LO08FullDisk(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare")
	}
	exe, err := os.Executable()
	must(t, err)
	for _, opts := range []string{"size=64k", "nr_inodes=4,size=4m"} {
		dir := t.TempDir()
		cmd := exec.Command(unshare, "-rm", "sh", "-c", `mount -t tmpfs -o "$1" none "$2" && exec "$3"`, "sh", opts, dir, exe)
		cmd.Env = append(os.Environ(), "EXECLOG_TEST_SMALL_DISK="+dir)
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("not permitted")) {
			t.Skipf("no small file system here: %s", out)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", opts, err, out)
		}
	}
}

func onSmallDisk(dir string) int {
	fail := func(args ...any) int { fmt.Println(args...); return 1 }
	d, err := OpenDir(filepath.Join(dir, "exec"), 0)
	if err != nil {
		return fail(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<10), 0o600); err != nil {
		return fail(err)
	}
	logs := []*Log{d.Create(1), d.Create(2), d.Create(1001)}
	now := time.Now()
	for _, l := range logs {
		l.now = func() time.Time { return now }
		for i := 0; i < 100; i++ {
			if n, err := l.Write(make([]byte, 1024)); n != 1024 || err != nil {
				return fail("Write gave", n, err)
			}
		}
	}
	last := logs[2]
	if last.lost == 0 || last.lostErr == nil || !strings.Contains(last.lostErr.Error(), "inodes") {
		return fail("lost", last.lost, "because", last.lostErr)
	}
	for _, l := range logs[:2] { // the cure
		l.rest()
		os.RemoveAll(l.Path())
	}
	os.Remove(ballast)
	os.Remove(filepath.Dir(logs[0].Path()))
	now = now.Add(2 * reopenAfter)
	last.Write([]byte("and on"))
	err = last.Close()
	if err == nil || !strings.Contains(err.Error(), "could not be logged") {
		return fail("Close says", err)
	}
	b, err := os.ReadFile(last.Path())
	if err != nil {
		return fail(err)
	}
	if !bytes.Contains(b, []byte("bytes of output lost here: ")) || !bytes.HasSuffix(b, []byte("and on")) {
		return fail("the log ends in", string(b[max(0, len(b)-200):]))
	}
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
