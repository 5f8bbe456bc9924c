package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/rig"
)

// fiveMinutes is what the README promises. Most of what it takes is compiling
// SQLite.
const fiveMinutes = 5 * time.Minute

// newcomer is the user of the machine who has read the README and nothing else.
// A number that no account of this machine is likely to have.
const newcomer, newcomerID = "newcomer", 54321

// TestANewUserNeedsOnlyTheReadme gives an ordinary user of a fresh container a
// clone, and types what the README says, in its order: the first two commands, then
// the tour that leads to a resumable task of one's own.
func TestANewUserNeedsOnlyTheReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a container")
	}
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		t.Run(name, func(t *testing.T) {
			if name != "README.md" && os.Getenv("NIGHTSHIFT_LONG") == "" {
				t.Skip("its commands are the same, which a test of docs/ asserts; NIGHTSHIFT_LONG=1 types them, too")
			}
			text, err := os.ReadFile(filepath.Join("../..", name))
			if err != nil {
				t.Fatal(err)
			}
			u := moveIn(t)
			u.types(typescript(t, name, string(text)))
			u.finishedTheirTask()
		})
	}
}

// user is the newcomer at work in a container.
type user struct {
	t     *testing.T
	root  string   // of the container, as this machine sees it
	binds []string // what it is lent of this machine
	path  string
}

// moveIn makes the container: the programs of this machine and the caches of Go,
// so that no network is needed; a home with nothing in it; and no trace of any
// Nightshift.
func moveIn(t *testing.T) *user {
	t.Helper()
	needRoot(t, "systemd-nspawn", "git", "make", "gcc", "sqlite3", "python3", "go")
	if old, err := filepath.Glob("/usr/local/bin/nightshift*"); err != nil || len(old) > 0 {
		t.Skipf("Nightshift is installed on this machine: %v %v", old, err)
	}
	base := t.TempDir()
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, "size=2g,mode=755"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(base, syscall.MNT_DETACH) }) // a scratch mount of this test
	u := &user{t: t, root: filepath.Join(base, "root")}
	u.lendPrograms()
	u.lendGo(filepath.Join(base, "compiled"))
	u.publish()
	u.own(u.home())
	if out, err := u.in("true").CombinedOutput(); err != nil {
		t.Skipf("no container can be started: %v: %s", err, out)
	}
	return u
}

func (u *user) home() string { return filepath.Join(u.root, "home", newcomer) }

func (u *user) own(dir string) {
	u.t.Helper()
	must(u.t, "chown", "-R", fmt.Sprint(newcomerID, ":", newcomerID), dir)
}

// lendPrograms gives the container this machine's programs and a copy of /etc.
func (u *user) lendPrograms() {
	u.t.Helper()
	must(u.t, "mkdir", "-p", u.root+"/usr")
	u.binds = append(u.binds, "--bind-ro=/usr")
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		info, err := os.Lstat("/" + d)
		switch {
		case err != nil: // not every architecture has all of them
		case info.Mode()&os.ModeSymlink != 0:
			must(u.t, "cp", "-P", "/"+d, filepath.Join(u.root, d))
		default:
			u.binds = append(u.binds, "--bind-ro=/"+d)
		}
	}
	must(u.t, "cp", "-a", "/etc", u.root)
	must(u.t, "rm", "-rf", u.root+"/etc/nightshift")
	must(u.t, "sh", "-c", `printf '%s:x:%d:%d::/home/%s:/bin/sh\n' "$2" "$3" "$3" "$2" >>"$1/passwd"
		printf '%s:x:%d:\n' "$2" "$3" >>"$1/group"`, "sh", u.root+"/etc", newcomer, strconv.Itoa(newcomerID))
}

// lendGo gives the toolchain, the modules and what this machine has compiled. Go
// adds to the latter, so it lies under an overlay whose directories are the
// newcomer's.
func (u *user) lendGo(compiled string) {
	u.t.Helper()
	env := strings.Fields(must(u.t, "go", "env", "GOROOT", "GOMODCACHE", "GOCACHE"))
	if len(env) != 3 {
		u.t.Fatalf("go env: %q", env)
	}
	for i := range 256 {
		if err := os.MkdirAll(fmt.Sprintf("%s/%02x", compiled, i), 0o755); err != nil {
			u.t.Fatal(err)
		}
	}
	u.own(compiled)
	must(u.t, "mkdir", "-p", u.home()+"/go/pkg/mod", u.home()+"/.cache/go-build")
	u.path = env[0] + "/bin:/usr/local/bin:/usr/bin:/bin"
	u.binds = append(u.binds, "--bind-ro="+env[0], "--bind-ro="+env[1]+":/home/"+newcomer+"/go/pkg/mod",
		"--overlay="+env[2]+":"+compiled+":/home/"+newcomer+"/.cache/go-build")
}

// publish puts the checkout as it stands, committed or not, where one can clone
// it from.
func (u *user) publish() {
	u.t.Helper()
	must(u.t, "mkdir", "-p", u.root+"/srv")
	must(u.t, "sh", "-euc", `git init -q --bare -b main "$1"
		git --git-dir="$1" --work-tree=../.. -c core.bare=false add -A ../..
		git --git-dir="$1" -c user.name=e2e -c user.email=e2e@localhost commit-tree -m "as it stands" "$(git --git-dir="$1" write-tree)" |
			xargs git --git-dir="$1" update-ref refs/heads/main`, "sh", u.root+"/srv/nightshift.git")
	u.own(u.root + "/srv/nightshift.git")
}

// in prepares a program that runs in the container as the newcomer, without a
// network.
func (u *user) in(program ...string) *exec.Cmd {
	args := append([]string{"--quiet", "--register=no", "--keep-unit", "--console=pipe", "--as-pid2", "--private-network",
		"--directory=" + u.root, "--machine=nightshift-newcomer", "--user=" + newcomer, "--chdir=/home/" + newcomer,
		"--setenv=LANG=C.UTF-8", "--setenv=PATH=" + u.path}, u.binds...)
	return exec.Command("systemd-nspawn", append(args, program...)...)
}

// typescript is what the newcomer types at a page's blocks, as one script. After
// each block it notes the time. Only the waiting is ours: a person sees when a
// terminal is ready.
func typescript(t *testing.T, name, page string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`jobs=
trap 'for job in $jobs; do kill "$job" || true; wait "$job" || true; done' EXIT
note() { echo "$(date +%s%3N) $*" >>~/diary; }
ready() {
  until [ "$(sqlite3 -cmd '.timeout 5000' data/nightshift.db 'SELECT count(*) FROM worker_heartbeats WHERE stopped_at IS NULL' 2>/dev/null)" = "$1" ]; do
    kill -0 "${jobs##* }"; sleep 0.1
  done
}
note begin
git clone -q /srv/nightshift.git nightshift
cd nightshift
`)
	seen := map[string]bool{}
	for _, block := range rig.Blocks(page) {
		commands := block.Commands()
		if commands == "" {
			continue
		}
		fmt.Fprintf(&b, "echo '== %s:%d' >&2\n", name, block.Line)
		switch {
		case block.Kind == "console" && block.Info == "background": // a terminal of its own
			fmt.Fprintf(&b, "(exec %s) >~/terminal 2>&1 &\njobs=\"$jobs $!\"\nready 4\n", strings.TrimSpace(commands))
		case block.Info == "background":
			b.WriteString(commands + "jobs=\"$jobs $!\"\nready 2\n")
		default:
			b.WriteString(commands)
		}
		what := "typed"
		if strings.Contains(commands, "nightshift wait") {
			what = "finished"
		}
		seen[what] = true
		fmt.Fprintf(&b, "note %s %s:%d\n", what, name, block.Line)
	}
	if !seen["finished"] {
		t.Fatalf("%s waits for no task", name)
	}
	// What the first commands have started goes on in its own terminal meanwhile.
	b.WriteString(`nightshift show "$id" --json >~/own.json
cd ~/nightshift
first=$(sqlite3 -cmd '.timeout 5000' data/nightshift.db "SELECT task_id FROM tasks WHERE task_type='clean_csv'")
nightshift --config examples/nightshift.yaml wait "$first"
for job in $jobs; do kill "$job"; wait "$job" || true; done
jobs=
git status --porcelain >~/dirt
ps -o pid=,args= -u "$(id -u)" | grep -E '[b]in/(supervisor|worker)|[w]orker run' >~/left || true
`)
	return b.String()
}

// types has the newcomer run a script.
func (u *user) types(script string) {
	u.t.Helper()
	cmd := u.in("sh", "-eu")
	cmd.Stdin = strings.NewReader(script)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	tooLong := time.AfterFunc(fiveMinutes, func() {
		for _, pid := range children(cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // PID 1 of the container: everything in it ends
		}
	})
	defer tooLong.Stop()
	if err := cmd.Wait(); err != nil {
		terminal, _ := os.ReadFile(u.home() + "/terminal") // it may not have come so far
		u.t.Fatalf("%v\n%s\nin the first terminal:\n%s", err, said.String(), terminal)
	}
}

// finishedTheirTask checks what the newcomer has at the end: a task that lost its
// worker, went on and succeeded, with the output of a calm run; and a clean place.
func (u *user) finishedTheirTask() {
	u.t.Helper()
	var own struct {
		Status, Result string
		RetryCount     int `json:"retry_count"`
		Executions     int
	}
	if err := json.Unmarshal(u.read("own.json"), &own); err != nil {
		u.t.Fatal(err)
	}
	if own.Status != "SUCCESS" || own.Result != "counted to 200" || own.RetryCount != 0 || own.Executions != 2 {
		u.t.Errorf("the task of their own: %+v", own)
	}
	var want bytes.Buffer
	for n := range 200 {
		fmt.Fprintln(&want, n+1)
	}
	if got := u.read("count/numbers.txt"); !bytes.Equal(got, want.Bytes()) {
		u.t.Errorf("its output is not that of a calm run:\n%s", got)
	}
	for file, what := range map[string]string{"dirt": "git status is not clean", "left": "left behind"} {
		if text := u.read(file); len(text) > 0 {
			u.t.Errorf("%s:\n%s", what, text)
		}
	}
	took := u.story()
	u.t.Logf("from the clone to their own finished task: %v", took)
	if took > fiveMinutes {
		u.t.Errorf("it took %v", took)
	}
}

func (u *user) read(name string) []byte {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.home(), name))
	if err != nil {
		u.t.Fatal(err)
	}
	return text
}

// story tells the diary, and returns how long it took from its first line to the
// task's end.
func (u *user) story() (took time.Duration) {
	u.t.Helper()
	var began int64
	for line := range strings.Lines(string(u.read("diary"))) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			u.t.Fatal(err)
		}
		if began == 0 {
			began = ms
		}
		since := time.Duration(ms-began) * time.Millisecond
		u.t.Logf("%8v  %s", since, what)
		if strings.HasPrefix(what, "finished") {
			took = since
		}
	}
	return took
}
