package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rig.Cleanup()
	os.Exit(code)
}

// settings are what the commands of a page find: the types that the pages name.
const settings = `
tasks:
  count: {command: [/bin/sh, -c, "sleep 0.2; echo counted"], max_retry: 0}
  clean_csv: {command: [/bin/sh, -c, "echo cleaned"], max_retry: 0}
  notify: {command: [/bin/true]}
schedules:
  nightly: {cron: "0 2 * * *", zone: Asia/Shanghai, task: count}
`

// own are the pages that begin with nothing and make all they need.
var own = map[string]bool{"README.md": true, "README.zh-CN.md": true}

// TestCommandsOfTheDocuments runs the blocks marked sh of each page, in order, in
// one shell and a scratch directory. Blocks that cannot be run (they need root,
// another machine, a person) are marked text or console. A block marked
// `sh background` starts the system; for a page without one it runs already.
func TestCommandsOfTheDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole system")
	}
	bin := rig.Binaries(t)
	for name, text := range pages(t) {
		script := commands(name, text)
		if script == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if !own[name] {
				prepare(t, bin, dir)
			}
			runPage(t, bin, dir, script)
		})
	}
}

// commands makes one script of a page's blocks.
func commands(name, text string) string {
	var b strings.Builder
	started := false
	for _, block := range rig.Blocks(text) {
		if block.Kind != "sh" {
			continue
		}
		fmt.Fprintf(&b, "echo '== %s:%d' >&2\n%s", name, block.Line, block.Text)
		if block.Info == "background" {
			started = true
			b.WriteString("supervisor_pid=$!\n" + ready)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	head := "supervisor_pid=\n" + `trap 'code=$?; [ -z "$supervisor_pid" ] || { kill "$supervisor_pid"; wait "$supervisor_pid" || true; }; exit $code' EXIT` + "\n"
	if !started && !own[name] {
		head += "supervisor --workers 2 --run-dir data/run -- worker run >supervisor.out 2>&1 &\nsupervisor_pid=$!\n" + ready +
			"id=$(nightshift add count)\nnightshift wait \"$id\" >/dev/null\n"
	}
	return head + b.String()
}

// pidFile is where a script says which supervisor it has started.
const pidFile = ".supervisor.pid"

// ready notes the supervisor and waits for the first heartbeats. The note is in
// HOME, which is where the page began: it may have gone elsewhere since.
const ready = `echo "$supervisor_pid" >~/` + pidFile + `
n=0
until [ "$(sqlite3 -cmd '.timeout 5000' data/nightshift.db 'SELECT count(*) FROM worker_heartbeats')" -ge 2 ]; do
  n=$((n + 1)); [ "$n" -lt 200 ] || exit 99; sleep 0.1
done
`

func prepare(t *testing.T, bin, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "nightshift.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "nightshift"), "db", "init")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("db init: %v\n%s", err, out)
	}
}

// pageLimit is far more than any page takes.
const pageLimit = 3 * time.Minute

func runPage(t *testing.T, bin, dir, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pageLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // its trap ends the supervisor
	cmd.WaitDelay = time.Minute
	defer endSupervisor(t, filepath.Join(dir, pidFile))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// endSupervisor ends what a script that was cut off has left running.
func endSupervisor(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return // none was started
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); syscall.Kill(pid, syscall.SIGTERM) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("supervisor %d does not end", pid)
			return
		}
	}
}

var (
	span     = regexp.MustCompile("`nightshift ([^`\n]+)`")
	fenced   = regexp.MustCompile(`(?m)^(?:\$ |id=\$\()?nightshift (.+?)(?:\)|\s+#.*|\s*\|\|.*|\s*>.*)?$`)
	verbWord = regexp.MustCompile(`^[a-z-]+$`)
)

// TestVerbsInTheTextExist: each `nightshift VERB --flag` that a page mentions is
// one that the program has.
func TestVerbsInTheTextExist(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries")
	}
	program := filepath.Join(rig.Binaries(t), "nightshift")
	helps := map[string]string{}
	help := func(verb string) string {
		if _, asked := helps[verb]; !asked {
			out, err := exec.Command(program, append(strings.Fields(verb), "--help")...).Output()
			if err != nil {
				out = nil
			}
			helps[verb] = string(out)
		}
		return helps[verb]
	}
	for name, text := range pages(t) {
		for _, m := range append(span.FindAllStringSubmatch(text, -1), fenced.FindAllStringSubmatch(text, -1)...) {
			words := strings.Fields(m[1])
			verb := words[0]
			if !verbWord.MatchString(verb) {
				continue // a flag, or a word in capitals that stands for a verb
			}
			if len(words) > 1 && verbWord.MatchString(words[1]) && strings.Contains(help(verb), "\n  "+words[1]+" ") {
				verb += " " + words[1]
			}
			if help(verb) == "" {
				t.Errorf("%s: `nightshift %s`: there is no verb %s", name, m[1], verb)
				continue
			}
			for _, word := range words[1:] {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(flag, "-") && flag != "--" && !regexp.MustCompile(`(^|[\s,])`+regexp.QuoteMeta(flag)+`\b`).MatchString(help(verb)) && flag != "--help" {
					t.Errorf("%s: `nightshift %s`: %s has no flag %s", name, m[1], verb, flag)
				}
			}
		}
	}
	if len(helps) < 15 {
		t.Errorf("only %d verbs were found in the pages", len(helps))
	}
}
