package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobody is a user that owns nothing.
const nobody = 65534

// DB-07: root leaves no file that the service can't open: it becomes the owner of
// the database first.
func TestDB07RootBecomesTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newShop(t)
	open(t, s.dir, nobody)
	secret := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(secret, []byte(`{"only": "root reads this"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "count", "--id", "job", "--payload", "@" + secret}, {"list"}, {"status"}, {"doctor"}, {"db", "check"}} {
		cmd := exec.Command(binary, args...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code > 3 {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	ownedBy(t, filepath.Join(s.dir, "data"), nobody)
	if out := s.okProcess("show", "job"); !strings.Contains(out, "only") {
		t.Errorf("the payload that root alone can read did not arrive:\n%s", out)
	}
}

// okProcess runs the real binary.
func (s *shop) okProcess(args ...string) string {
	s.t.Helper()
	var errOut bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%q: %v, %s", args, err, errOut.String())
	}
	return string(out)
}

// open gives everything below dir to a user, who can also get there.
func open(t *testing.T, dir string, uid int) {
	t.Helper()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(filepath.Join(dir, "data"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, uid, uid)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ownedBy(t *testing.T, dir string, uid int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid {
			t.Errorf("%s belongs to user %d", path, st.Uid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// SE-03: what the command line makes is for its user alone, whatever the umask.
func TestSE03ModesOfWhatIsMade(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s := newShop(t)
	s.ok("add", "count", "--quiet")
	err := filepath.WalkDir(filepath.Join(s.dir, "data"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// terminal is a pseudo-terminal: the master end, and the slave for a program.
func terminal(t *testing.T, width, height uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() }) // the test is over
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() }) // the test is over
	size := unix.Winsize{Row: height, Col: width}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, slave.Fd(), unix.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
	return master, slave
}

// status --watch redraws, and leaves the terminal as it was: by q, by Ctrl-C and
// by a signal.
func TestWatchLeavesTheTerminalClean(t *testing.T) {
	for name, end := range map[string]func(master *os.File, p *os.Process) error{
		"q":       func(m *os.File, _ *os.Process) error { _, err := m.WriteString("q"); return err },
		"Ctrl-C":  func(m *os.File, _ *os.Process) error { _, err := m.WriteString("\x03"); return err },
		"SIGTERM": func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			master, slave := terminal(t, 80, 24)
			before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, "status", "--watch")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			screen := &reader{from: master}
			go screen.run()
			screen.until(t, "the first picture", "PENDING 0")
			s.ok("add", "count", "--quiet")
			screen.until(t, "a changed count", "PENDING 0", "1")
			if err := end(master, cmd.Process); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill() // it is the test that fails
				t.Fatal("it does not end")
			}
			screen.until(t, "the terminal is given back", "\x1b[?1049h", "\x1b[?25h\x1b[?1049l")
			after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal's settings differ: %+v, %v", after, err)
			}
		})
	}
}

func TestTerminalGetsColoursAndItsWidth(t *testing.T) {
	newShop(t)
	master, slave := terminal(t, 40, 24)
	run := func(env ...string) string {
		t.Helper()
		cmd := exec.Command(binary, "status")
		cmd.Stdout = slave
		cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), env...)
		_ = cmd.Run() // it ends with 3: no worker is alive
		screen := &reader{from: master}
		go screen.run()
		screen.until(t, "the picture", "Disk")
		return screen.text()
	}
	if out := run(); !strings.Contains(out, "\x1b[1m") {
		t.Errorf("no colours at a terminal: %q", out)
	}
	master, slave = terminal(t, 40, 24)
	if out := run("NO_COLOR=1"); strings.Contains(out, "\x1b") {
		t.Errorf("colours with NO_COLOR: %q", out)
	}
}

// reader collects what a terminal shows.
type reader struct {
	from *os.File
	buf  syncBuffer
}

func (r *reader) run() {
	var part [4096]byte
	for {
		n, err := r.from.Read(part[:])
		r.buf.write(part[:n])
		if err != nil {
			return
		}
	}
}

func (r *reader) text() string { return r.buf.string() }

// until waits until the pieces have come, in their order.
func (r *reader) until(t *testing.T, what string, pieces ...string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rest, found := r.text(), true
		for _, p := range pieces {
			_, after, ok := strings.Cut(rest, p)
			rest, found = after, found && ok
		}
		if found {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s; there is %q", what, r.text())
		}
	}
}

func TestCompletionInRealShells(t *testing.T) {
	s := newShop(t)
	s.ok("add", "count", "--id", "job:1@x", "--quiet")
	for _, c := range []struct {
		name  string
		words []string
		want  string
	}{
		{"verbs", []string{"stat"}, "status\tone screen: workers, counts, what waits, what failed, what comes\n"},
		{"types of the configuration", []string{"add", "c"}, "count\n"},
		{"states", []string{"list", "--status", "DE"}, "DEAD\n"},
		{"schedules", []string{"schedules", "next", ""}, "nightly\n"},
		{"ids", []string{"show", "job:"}, "job:1@x\tPENDING count now\n"},
		{"files", []string{"db", "backup", "x"}, ":files\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := s.ok(append([]string{"complete", "--"}, c.words...)...); out != c.want {
				t.Errorf("got %q, want %q", out, c.want)
			}
		})
	}
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "nightshift")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for shell, script := range map[string]string{
		"bash": `source <(nightshift completion bash)
			COMP_LINE='nightshift show job:'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(nightshift show job :); COMP_CWORD=3
			COMP_WORDS[3]=''; _nightshift; echo "${COMPREPLY[*]}"
			COMP_LINE='nightshift stat'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(nightshift stat); COMP_CWORD=1; _nightshift; echo "${COMPREPLY[*]}"`,
		"fish": `nightshift completion fish | source; complete -C 'nightshift show job:'; complete -C 'nightshift stat'`,
		"zsh":  `autoload -U compinit; compinit -u -D; source <(nightshift completion zsh); whence -w _nightshift; echo job:1@x status`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("no ", shell)
			}
			cmd := exec.Command(path, "-c", script)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "1@x") || !strings.Contains(string(out), "status") {
				t.Errorf("%v\n%s", err, out)
			}
			if strings.Contains(string(out), "rror") {
				t.Errorf("an error:\n%s", out)
			}
		})
	}
}

func TestManualPageIsClean(t *testing.T) {
	newShop(t)
	page, _, code := call("", "man")
	if code != 0 || !strings.HasPrefix(page, `.TH NIGHTSHIFT 1`) {
		t.Fatalf("status %d, %.100q", code, page)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	var warnings bytes.Buffer
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin, cmd.Stderr = strings.NewReader(page), &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("%v\n%s", err, warnings.String())
	}
}
