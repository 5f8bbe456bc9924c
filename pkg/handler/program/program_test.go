package program

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestPR14ExitStatusMeansWhatTheContractSays(t *testing.T) {
	for status, kind := range map[int]string{
		0: "success", 1: "retry", 2: "retry", 64: "fatal", 65: "fatal", 75: "retry", 77: "fatal", 78: "fatal",
		126: "fatal", 127: "fatal", 128: "retry", 255: "retry",
	} {
		o := sh(t, fmt.Sprintf("exit %d", status)).run()
		if o.kind() != kind || o.ExitCode == nil || *o.ExitCode != status || o.Signal != "" {
			t.Errorf("exit %d: %s, exit code %v, signal %q; want %s", status, o.kind(), o.ExitCode, o.Signal, kind)
		}
	}
}

func TestPR14ListsOfAType(t *testing.T) {
	cases := []struct {
		name             string
		fatal, retryable []int
		status           int
		kind             string
	}{
		{"own fatal status", []int{3}, nil, 3, "fatal"},
		{"own list replaces the default", []int{3}, nil, 64, "retry"},
		{"empty list: nothing is fatal", []int{}, nil, 127, "retry"},
		{"taken out of the default", nil, []int{77}, 77, "retry"},
		{"the rest of the default stays", nil, []int{77}, 78, "fatal"},
	}
	for _, c := range cases {
		tr := sh(t, "exit "+strconv.Itoa(c.status))
		tr.cfg.Fatal, tr.cfg.Retryable = c.fatal, c.retryable
		if got := tr.run().kind(); got != c.kind {
			t.Errorf("%s: %s, want %s", c.name, got, c.kind)
		}
	}
}

func TestPR13KilledByASignal(t *testing.T) {
	cases := []struct{ script, signal, summary string }{
		{"kill -SEGV $$", "SIGSEGV", "signal 11 (SEGV)"},
		{"kill -9 $$", "SIGKILL", "signal 9 (KILL), out of memory?"},
		{"echo last words >&2; kill -9 $$", "SIGKILL", "signal 9 (KILL), out of memory?: last words"},
		{"exit 137", "", "exit 137 (128 + 9: a process in it ended by SIGKILL?)"},
		{"sh -c 'kill -9 $$'; exit $?", "", "exit 137"},
		{"exit 255", "", "exit 255"},
	}
	for _, c := range cases {
		o := sh(t, c.script).run()
		o.want(t, "retry", c.summary)
		if o.Signal != c.signal || (o.ExitCode == nil) != (c.signal != "") {
			t.Errorf("%s: signal %q, exit code %v", c.script, o.Signal, o.ExitCode)
		}
	}
}

func TestLO03LastWordsWithoutANewline(t *testing.T) {
	o := sh(t, `printf 'step 1\nFATAL: no quota' >&2; exit 1`).run()
	o.want(t, "retry", "exit 1: FATAL: no quota")
	if o.log != "step 1\nFATAL: no quota" {
		t.Errorf("the log holds %q", o.log)
	}
	sh(t, `printf ok; exit 0`).run().wantResult(t, `"ok"`)
	o = sh(t, `printf ok; kill -9 $$`).run()
	o.want(t, "retry", "ok")
	if o.log != "ok" {
		t.Errorf("the log holds %q", o.log)
	}
}

func TestResultIsTheLastLineOfStdout(t *testing.T) {
	cases := []struct{ name, script, result string }{
		{"JSON is kept as it is", `echo start; echo '{"id":9007199254740993, "f":1.10,"e":1e400}'`, `{"id":9007199254740993, "f":1.10,"e":1e400}`},
		{"text becomes a JSON string", `echo 'done "200" <&>'`, `"done \"200\" <&>"`},
		{"nothing printed", `:`, ``},
		{"blank lines behind it", `echo result; echo; printf '  \n'`, `"result"`},
		{"CRLF", `printf 'a\r\nb\r\n'`, `"b"`},
		{"stderr is no result", `echo out; echo err >&2`, `"out"`},
		{"a number", `echo 42`, `42`},
		{"a lone surrogate", `printf '"\\ud800"\n'`, `"\ud800"`},
		{"bad UTF-8 in JSON", `printf '{"a":"\377"}\n'`, "{\"a\":\"\uFFFD\"}"},
		{"bad UTF-8 in text", `printf 'a\377b\n'`, "\"a\uFFFDb\""},
		{"NUL", `printf 'a\000b\n'`, "\"a\uFFFDb\""},
		{"an escaped NUL", `printf '"a\\u0000b"\n'`, `"a\u0000b"`},
		{"nested too deep for the database", `head -c 1500 /dev/zero | tr '\0' '['; head -c 1500 /dev/zero | tr '\0' ']'`,
			`"` + strings.Repeat("[", 1500) + strings.Repeat("]", 1500) + `"`},
		{"LO-10: a progress bar", `i=0; while [ $i -lt 500 ]; do printf '\r%d%%' $i; i=$((i+1)); done; echo; echo result`, `"result"`},
		{"LO-10: the last state of a bar", `i=0; while [ $i -lt 500 ]; do printf '\r%d%%' $i; i=$((i+1)); done`, `"499%"`},
		{"LO-10: a bar that ends in a return", `printf '1%%\r2%%\r'`, `"2%"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { sh(t, c.script).run().wantResult(t, c.result) })
	}
}

func TestIN06ResultAtItsLimit(t *testing.T) {
	py := need(t, "python3")
	exact := try(t, py, "-c", `print('"' + 'x' * (1024 * 1024 - 2) + '"')`).run()
	if exact.err != nil || len(exact.Result) != 1<<20 || exact.Summary != "" {
		t.Errorf("exactly 1 MiB: %d bytes, %v, %q", len(exact.Result), exact.err, exact.Summary)
	}
	over := try(t, py, "-c", `print('"' + 'x' * (1024 * 1024 - 1) + '"')`).run()
	if over.err != nil || len(over.Result) > maxText+10 || !strings.Contains(over.Summary, "its beginning is kept") {
		t.Errorf("over 1 MiB: %d bytes, %v, %.900q", len(over.Result), over.err, over.Summary)
	}
}

// The whole environment, as docs/writing-tasks.md lists it; nothing of the
// worker's own comes through (PR-09).
func TestPR09EnvironmentIsTheDocumentedOne(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	t.Setenv("LC_ALL", "C")
	t.Setenv("NIGHTSHIFT_WORKER_ID", "w1")
	tr := try(t, "/usr/bin/env")
	tr.cfg.Env = map[string]string{"COLOUR": "blue", "LANG": "de_DE.UTF-8"}
	tr.row.Payload, tr.row.Checkpoint = `{"a":1}`, `{"n":2}`
	o := tr.run()
	a := self()
	want := []string{
		"COLOUR=blue", "HOME=" + a.home, "LANG=de_DE.UTF-8", "LOGNAME=" + a.name, "PATH=" + defaultPath, "SHELL=" + a.shell, "USER=" + a.name,
		"NIGHTSHIFT_TASK_ID=t/1", "NIGHTSHIFT_TASK_TYPE=test", fmt.Sprintf("NIGHTSHIFT_ATTEMPT=%d", tr.row.ExecID),
		`NIGHTSHIFT_PAYLOAD={"a":1}`, `NIGHTSHIFT_CHECKPOINT={"n":2}`, "NIGHTSHIFT_TASK_DIR=" + tr.dir, "NIGHTSHIFT_FD=3",
		"NIGHTSHIFT_MARK=" + one.opt.Mark,
	}
	if got := strings.TrimSpace(o.log); got != strings.Join(want, "\n") {
		t.Errorf("the environment is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestEnvOfATypeIsChecked(t *testing.T) {
	for _, bad := range []string{"", "A=B", "NIGHTSHIFT_FD", "A\x00"} {
		if _, err := New(Config{Command: []string{"true"}, Reaper: one, Env: map[string]string{bad: "x"}}); err == nil {
			t.Errorf("variable %q was accepted", bad)
		}
	}
}

func TestPR09UTF8(t *testing.T) {
	try(t, need(t, "python3"), "-c", `print("☾ é")`).run().wantResult(t, `"☾ é"`)
}

// Payload and checkpoint of every size arrive, byte for byte: on stdin and in
// files always, in variables up to their limit.
func TestPR05IN05PayloadArrives(t *testing.T) {
	odd := `{"id":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e400, "s":"O'Brien $HOME ` + "`id`" + ` \\ ☾ \u0000 \ud800"}`
	payloads := map[string]string{"odd bytes": odd, "a line break": "{\n\"a\":\n1}\n"}
	for _, n := range []int{100_000, 131_000, 140_000, 1 << 20} {
		payloads[fmt.Sprintf("%d bytes", n)] = `{"a":"` + strings.Repeat("x", n-8) + `"}`
	}
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			tr := sh(t, `cat >stdin.copy
				cp "$NIGHTSHIFT_TASK_DIR/payload.json" "$NIGHTSHIFT_TASK_DIR/checkpoint.json" copies/
				[ "${NIGHTSHIFT_PAYLOAD+set}" ] && printf %s "$NIGHTSHIFT_PAYLOAD" >variable.copy
				[ "${NIGHTSHIFT_CHECKPOINT+set}" ] && echo "with checkpoint" || echo "without checkpoint"`)
			tr.row.Payload, tr.row.Checkpoint = payload, `{"c":"`+strings.Repeat("y", 500_000)+`"}`
			if err := os.Mkdir(filepath.Join(tr.dir, "copies"), 0o700); err != nil {
				t.Fatal(err)
			}
			tr.run().wantResult(t, `"without checkpoint"`)
			for file, want := range map[string]string{"stdin.copy": payload, "copies/payload.json": payload, "copies/checkpoint.json": tr.row.Checkpoint} {
				if got := slurp(t, filepath.Join(tr.dir, file)); got != want {
					t.Errorf("%s: %d bytes, not the %d that were sent", file, len(got), len(want))
				}
			}
			if _, err := os.Stat(filepath.Join(tr.dir, "variable.copy")); (err == nil) != (len(payload) <= maxVariable) {
				t.Errorf("variable set: %v, with %d bytes", err == nil, len(payload))
			}
		})
	}
}

func TestStdinThatNobodyReads(t *testing.T) {
	tr := sh(t, "echo unread")
	tr.row.Payload = `{"a":"` + strings.Repeat("x", 1<<20-8) + `"}`
	tr.run().wantResult(t, `"unread"`)
}

func TestNoCheckpointIsAnEmptyVariableAndNoFile(t *testing.T) {
	sh(t, `set -u; [ -z "$NIGHTSHIFT_CHECKPOINT" ] && [ ! -e checkpoint.json ] && echo none`).run().wantResult(t, `"none"`)
}

// An ignored or blocked signal of the worker's does not reach the program (PR-10).
// The worker here is this test binary, started anew by a shell that ignores them.
func TestPR10IgnoredSignalsAreNotInherited(t *testing.T) {
	const script = `trap "" HUP INT PIPE TERM TSTP TTIN TTOU USR1 USR2 QUIT CHLD; exec "$1"`
	o := try(t, "/bin/sh", "-c", script, "sh", testBinary(t))
	o.cfg.Env = map[string]string{"PROGRAM_TEST_JOB": "dispositions"}
	o.run().wantResult(t, `"got"`)

	py := need(t, "python3")
	// By the kernel's own call: the C library does not change its signals 32 and 33.
	all := try(t, py, "-c", `import ctypes, os, platform, signal, sys
sigaction = {"x86_64": 13, "aarch64": 134}[platform.machine()]
for sig in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP}:
    assert ctypes.CDLL(None).syscall(sigaction, sig, (ctypes.c_ulong * 4)(signal.SIG_IGN), 0, 8) == 0, sig
os.execv(sys.argv[1], sys.argv[1:])`, testBinary(t))
	all.cfg.Env = o.cfg.Env
	all.run().wantResult(t, `"got"`)

	blocked := try(t, py, "-c", `import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD])
os.execv(sys.argv[1], sys.argv[1:])`, testBinary(t))
	blocked.cfg.Env = o.cfg.Env
	blocked.run().wantResult(t, `"got"`)
}

// testJobs are run in place of the tests when this binary is started by one.
var testJobs = map[string]func() int{
	"dispositions": func() int {
		return asWorker([]string{"/bin/sh", "-c", `set -e
			grep -q '^SigIgn:.0000000000000000$' /proc/self/status || { grep Sig /proc/self/status; exit 1; }
			grep -q '^SigBlk:.0000000000000000$' /proc/self/status || { grep Sig /proc/self/status; exit 1; }
			trap 'echo got; exit 0' HUP; kill -HUP $$; echo deaf; exit 3`})
	},
	"few descriptors": fewDescriptors,
	"client":          clientJob,
	"short life": func() int {
		return asWorker([]string{"/bin/sh", "-c", `env -i setsid sh -c 'exec 3>&- 4>&-; echo $$ >"$0"; while :; do sleep 0.1; done' "$PID_FILE" >/dev/null 2>&1 </dev/null &
			while [ ! -s "$PID_FILE" ]; do sleep 0.01; done; echo done`})
	},
	"threads": func() int {
		go func() {
			for {
				done := make(chan struct{})
				go func() { defer close(done); runtime.LockOSThread() }() // the thread ends with it
				<-done
				time.Sleep(time.Millisecond)
			}
		}()
		return asWorker([]string{"/bin/sh", "-c", "echo $$; exec sleep 1000"})
	},
	"umask": func() int { return asWorker([]string{"/bin/sh", "-c", "umask"}) },
}

func testBinary(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func TestUmaskIsTheTypesOwn(t *testing.T) {
	for _, c := range []struct {
		set  int
		want string
	}{{0o077, "0077"}, {0o002, "0002"}, {0o022, "0022"}} {
		tr := sh(t, "umask; umask >&2; ls -l . >/dev/null")
		tr.cfg.Umask = &c.set
		tr.run().wantResult(t, `"`+c.want+`"`)
	}
	sh(t, "umask").run().wantResult(t, `"0022"`)
	// The worker's own files are not affected by any of it.
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "", 0o666)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(t.TempDir(), "g")
	zero := 0
	tr := sh(t, "touch "+loose)
	tr.cfg.Umask = &zero
	tr.run()
	if g, err := os.Stat(loose); err != nil || g.Mode().Perm() != 0o666 {
		t.Errorf("umask 0 of a type gives %v, %v", g.Mode(), err)
	}
	again := filepath.Join(t.TempDir(), "h")
	write(t, again, "", 0o666)
	if h, err := os.Stat(again); err != nil || h.Mode() != fi.Mode() {
		t.Errorf("the worker's umask moved: %v, was %v", h.Mode(), fi.Mode())
	}
}

// Exactly the documented descriptors are open, and the program has a session and
// a group of its own.
func TestDescriptorsAndSession(t *testing.T) {
	o := sh(t, `cd /proc/$$/fd
		for f in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 251 252 253 254 255; do
			[ -L $f ] || continue
			while read -r k v; do [ "$k" = flags: ] && m=$v; done <../fdinfo/$f
			printf '%s %s ' $f $(( (m & 04000) != 0 )); readlink $f
		done
		set -- $(cat ../stat); [ "$5" = $$ ] && [ "$6" = $$ ] && echo leader`).run()
	o.log = regexp.MustCompile(`:\[\d+\]`).ReplaceAllString(o.log, "")
	want := fmt.Sprintf("0 0 %s/payload.json\n1 0 pipe\n2 0 pipe\n3 0 socket\n4 0 %s\nleader\n", o.dir, one.opt.Mark)
	if o.log != want {
		t.Errorf("the program has\n%swant\n%s", o.log, want)
	}
}

func TestPR08WorkingDirectory(t *testing.T) {
	tr := sh(t, "pwd -P")
	real, err := filepath.EvalSymlinks(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	tr.run().wantResult(t, strconv.Quote(real))

	tr = sh(t, "pwd -P")
	tr.cfg.Dir = "/usr"
	tr.run().wantResult(t, `"/usr"`)

	tr.cfg.Dir = filepath.Join(t.TempDir(), "none")
	tr.run().want(t, "retry", "working directory "+tr.cfg.Dir+" does not exist")
}

// The worker may have been started in a directory that is gone.
func TestPR08WorkersOwnDirectoryIsGone(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "x")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	tr := try(t, "/bin/sh", "-c", `cd "$1" && rmdir "$1" && exec "$2"`, "sh", gone, testBinary(t))
	tr.cfg.Env = map[string]string{"PROGRAM_TEST_JOB": "umask"}
	tr.run().wantResult(t, `"0022"`)
}

func TestPR19HistoryNamesProgramAndVersion(t *testing.T) {
	path := script(t, "#!/bin/sh\necho hi\n")
	o := try(t, path).run()
	if !regexp.MustCompile(`^` + regexp.QuoteMeta(path) + ` of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(o.Program) {
		t.Errorf("program is %q", o.Program)
	}
	o = try(t, "sh", path).run()
	if !strings.Contains(o.Program, "/sh of ") || !strings.Contains(o.Program, "; "+path+" of ") {
		t.Errorf("program is %q", o.Program)
	}
}

func TestSE01PayloadNeverBecomesACommand(t *testing.T) {
	pwn := filepath.Join(t.TempDir(), "pwn")
	for _, payload := range []string{
		`{"x":"$(touch ` + pwn + `)"}`, `"; touch ` + pwn + ` #"`, `"-r --exec"`, "\"`touch " + pwn + "`\"",
	} {
		tr := sh(t, "cat")
		tr.row.Payload, tr.row.ID, tr.row.Type = payload, "$(touch "+pwn+")", ";touch "+pwn
		tr.run().wantResult(t, payload)
	}
	if _, err := os.Stat(pwn); err == nil {
		t.Error("a payload was executed")
	}
}

func TestLO04OutputIsKeptByteForByte(t *testing.T) {
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i * 7)
	}
	file := filepath.Join(t.TempDir(), "noise")
	write(t, file, "\x88"+string(want), 0o600)
	o := sh(t, "cat "+file+"; echo; echo end").run()
	o.wantResult(t, `"end"`)
	if o.log != "\x88"+string(want)+"\nend\n" {
		t.Errorf("the log has %d bytes and is not what was printed", len(o.log))
	}
}
