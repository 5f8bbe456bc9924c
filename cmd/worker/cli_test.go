package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
)

// binary is the program, built once for the tests that need a process of its own.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nightshift-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Local = time.UTC
	binary = filepath.Join(dir, "nightshift")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// shop is a directory with a configuration and a database.
type shop struct {
	t   *testing.T
	dir string
}

const shopConfig = `data_dir: ./data
tasks:
  count: {command: [./count.sh], timeout: 1h}
schedules:
  nightly: {cron: "0 2 * * *", zone: Asia/Shanghai, task: count}
`

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t, t.TempDir()}
	s.write("nightshift.yaml", shopConfig)
	s.write("count.sh", "#!/bin/sh\necho 1\n")
	if err := os.Chmod(filepath.Join(s.dir, "count.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NIGHTSHIFT_CONFIG", filepath.Join(s.dir, "nightshift.yaml"))
	t.Setenv("NIGHTSHIFT_DATA", "")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("COLUMNS", "")
	s.ok("db", "init")
	return s
}

func (s *shop) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) database() string { return filepath.Join(s.dir, "data", "nightshift.db") }

// call runs the program in this process.
func call(stdin string, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	code = run(append([]string{"nightshift"}, args...), strings.NewReader(stdin), &o, &e)
	return o.String(), e.String(), code
}

// ok runs a command that must succeed and gives its output.
func (s *shop) ok(args ...string) string {
	s.t.Helper()
	out, errOut, code := call("", args...)
	if code != 0 {
		s.t.Fatalf("%q: status %d, %s", args, code, errOut)
	}
	return out
}

// verbs lists all commands with the path to each.
func verbs(commands []*cli.Command, path []string) map[string]*cli.Command {
	all := map[string]*cli.Command{}
	for _, c := range commands {
		p := append(append([]string(nil), path...), c.Name)
		all[strings.Join(p, " ")] = c
		for name, sub := range verbs(c.Subcommands, p) {
			all[name] = sub
		}
	}
	return all
}

// Every verb has help with an example, every example is a command line that is
// understood, and every flag stands in one of them.
func TestEveryVerbAndFlagHasHelpAndAnExample(t *testing.T) {
	app := newApp("nightshift", nil, nil, nil)
	common := map[string]bool{}
	for _, f := range commonFlags() {
		common[f.Names()[0]] = true
	}
	for path, c := range verbs(app.Commands, nil) {
		if c.Hidden {
			continue
		}
		t.Run(path, func(t *testing.T) {
			if c.Usage == "" {
				t.Error("no usage")
			}
			examples := cmdline.Examples(c)
			if len(examples) == 0 {
				t.Fatal("no example")
			}
			shown := map[string]bool{}
			for _, e := range examples {
				words := shellWords(t, e)
				call, err := cmdline.Parse(newApp("nightshift", nil, nil, nil), commonFlags(), append([]string{"nightshift"}, words...))
				if err != nil {
					t.Errorf("example %q: %v", e, err)
					continue
				}
				if got := strings.Join(call.Path, " "); got != path && !strings.HasPrefix(got, path+" ") {
					t.Errorf("example %q is of %q", e, got)
				}
				for _, w := range call.Argv {
					name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
					shown[name] = true
				}
			}
			for _, f := range c.Flags {
				name := f.Names()[0]
				if cmdline.Usage(f) == "" {
					t.Errorf("--%s has no usage", name)
				}
				if !common[name] && !shown[name] {
					t.Errorf("--%s is in no example", name)
				}
				if cmdline.TakesValue(f) && cmdline.Placeholder(f) == "VALUE" {
					t.Errorf("--%s does not name its value", name)
				}
			}
			out, errOut, code := call("", append(strings.Fields(path), "--help")...)
			if code != 0 || errOut != "" || !strings.HasPrefix(out, "nightshift "+path+": ") {
				t.Errorf("help: status %d, %q, %q", code, errOut, out)
			}
		})
	}
}

// shellWords splits an example as a shell does; what stands before a pipe is
// another program's.
func shellWords(t *testing.T, example string) []string {
	t.Helper()
	if _, right, found := strings.Cut(example, "| "); found {
		example = right
	}
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(example, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

// The common flags stood in the help twice, and long titles ran over the edge.
// Examples may be wider: they are for copying.
func TestHelpFitsItsTerminalAndRepeatsNothing(t *testing.T) {
	app := newApp("nightshift", nil, nil, nil)
	for path, c := range verbs(app.Commands, nil) {
		var out strings.Builder
		if err := cmdline.Help(&out, app, commonFlags(), &cmdline.Call{Path: strings.Fields(path), Verb: c}, 80); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(out.String(), "\nExamples\n")
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); screen.Width(line) > 80 {
				t.Errorf("%s: %d columns: %q", path, screen.Width(line), line)
			}
		}
		for _, f := range commonFlags() {
			if n := strings.Count(text, "\n  --"+f.Names()[0]+" "); n != 1 {
				t.Errorf("%s: --%s is listed %d times", path, f.Names()[0], n)
			}
		}
	}
}

func TestEveryReadingVerbHasJSON(t *testing.T) {
	all := verbs(newApp("nightshift", nil, nil, nil).Commands, nil)
	for _, path := range []string{"list", "show", "logs", "wait", "why", "status", "workers", "report", "metrics", "doctor", "schedules",
		"schedules next", "schedules simulate", "db check", "config check", "drain", "version"} {
		if all[path] == nil {
			t.Errorf("no verb %q", path)
			continue
		}
		found := false
		for _, f := range all[path].Flags {
			found = found || f.Names()[0] == "json"
		}
		if !found {
			t.Errorf("%s has no --json", path)
		}
	}
}

// Every way to go wrong: what is said, and the exit status.
func TestErrorPaths(t *testing.T) {
	s := newShop(t)
	id := strings.TrimSpace(s.ok("add", "count", "--quiet"))
	s.write("broken.json", "{\n  'a': 1}")
	s.write("bad.yaml", "worker:\n  solts: 2\n")
	s.write("text.db", "this is no database, though it is long enough to look at its first hundred bytes, or is it? yes, now.")
	for _, c := range []struct {
		args []string
		code int
		want string // the error stream, or its beginning
	}{
		{nil, 64, "nightshift: the night-shift attendant"},
		{[]string{"lsit"}, 64, `unknown verb "lsit" of nightshift; did you mean "list"?`},
		{[]string{"list", "--stauts", "DEAD"}, 64, `unknown flag "--stauts" of nightshift list; did you mean --status?`},
		{[]string{"list", "extra"}, 64, `nightshift list takes no arguments, but was given "extra"`},
		{[]string{"list", "--status", "DAED"}, 64, `"DAED" is no status; did you mean DEAD?`},
		{[]string{"list", "--status", "x"}, 64, `"x" is no status; there are: PENDING, RUNNING,`},
		{[]string{"list", "--sort", "prioriy"}, 64, `there is no order "prioriy"; did you mean priority?`},
		{[]string{"list", "--limit", "-1"}, 64, "--limit -1 is too small; the least is 0"},
		{[]string{"list", "--page", "0"}, 64, "--page 0 is too small; the least is 1"},
		{[]string{"list", "--since", "yesterday"}, 64, `--since "yesterday" is neither a time nor a duration; write it like 24h,`},
		{[]string{"add"}, 64, "nightshift add needs a TYPE; for example: nightshift add clean_csv --payload"},
		{[]string{"add", "count", "extra", "args"}, 64, `nightshift add takes a TYPE, but was given "extra" as well`},
		{[]string{"add", ""}, 64, "nightshift add was given an empty TYPE"},
		{[]string{"add", "count", "--payload="}, 64, "--payload was given an empty value"},
		{[]string{"add", "count", "--payload", "{'a':1}"}, 65, `the payload is not valid JSON at line 1, column 2: invalid character '\''`},
		{[]string{"add", "count", "--payload", "@" + filepath.Join(s.dir, "broken.json")}, 65, "the payload in " + s.dir + "/broken.json is not valid JSON at line 2, column 3"},
		{[]string{"add", "count", "--payload", "@/nonexistent"}, 66, "read the payload: open /nonexistent: no such file or directory"},
		{[]string{"add", "count", "--payload", "@" + s.dir}, 74, "read the payload from " + s.dir + ": "},
		{[]string{"add", "count", "--payload", "-"}, 65, "the payload on standard input: it is empty"},
		{[]string{"add", "count", "--priority", "high"}, 64, `--priority "high" is no whole number`},
		{[]string{"add", "count", "--priority", "9223372036854775808"}, 64, `--priority "9223372036854775808" is no whole number between`},
		{[]string{"add", "count", "--at", "2026-02-30"}, 64, `"2026-02-30" is no time; write it like`},
		{[]string{"add", "count", "--in", "soon"}, 64, `--in "soon" is no duration; write it like`},
		{[]string{"add", "count", "--in", "30"}, 64, `--in "30" is no duration; it has no unit: 30s for seconds, 30m for minutes`},
		{[]string{"add", "count", "--at", "10:00", "--in", "1h"}, 64, "--at and --in exclude each other; give one of them"},
		{[]string{"add", "count", "--max-retry", "-1"}, 64, "--max-retry -1 is too small; the least is 0"},
		{[]string{"add", "count", "--timeout", "-5s"}, 64, `--timeout "-5s" is no duration`},
		{[]string{"add", "count", "--id", id}, 73, "a task \"" + id + "\" exists already; choose another id"},
		{[]string{"add", "count", "--id", "a\nb"}, 65, `task id "a\nb" holds a control character`},
		{[]string{"add", "count", "--id", strings.Repeat("x", 256)}, 65, "task id has 256 bytes, at most 255 are allowed"},
		{[]string{"add", "count", "--batch", "x"}, 64, `nightshift add takes no arguments, but was given "count"`},
		{[]string{"add", "--batch", "x", "--priority", "1"}, 64, "--batch and --priority exclude each other"},
		{[]string{"add", "--batch", "/nonexistent"}, 66, "read the batch: open /nonexistent: no such file or directory"},
		{[]string{"show"}, 64, "nightshift show needs an ID; for example: nightshift show 2026"},
		{[]string{"show", "nobody"}, 66, `there is no task "nobody"; list shows those that exist`},
		{[]string{"show", "\x1b[2J"}, 66, `there is no task "\x1b[2J"`},
		{[]string{"show", "a", "b"}, 64, `nightshift show takes an ID, but was given "b" as well`},
		{[]string{"logs", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"logs", id, "-f", "--json"}, 64, "--follow and --json exclude each other"},
		{[]string{"logs", id, "--attempt", "1", "--all"}, 64, "--attempt and --all exclude each other"},
		{[]string{"logs", id, "--tail", "0"}, 64, "--tail 0 is too small; the least is 1"},
		{[]string{"wait"}, 64, "nightshift wait needs an ID"},
		{[]string{"wait", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"wait", "a", "b", "--program-status"}, 64, "--program-status is for one task, but 2 ids were given"},
		{[]string{"wait", id, "--timeout", "soon"}, 64, `--timeout "soon" is no duration`},
		{[]string{"why", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"cancel"}, 64, "cancel needs an ID or a selection; for example: nightshift cancel --type clean_csv"},
		{[]string{"cancel", "-rf"}, 64, `unknown flag "-rf" of nightshift cancel; if it is meant as an argument, write nightshift cancel -- -rf`},
		{[]string{"cancel", "--", "-rf"}, 66, `there is no task "-rf"`},
		{[]string{"cancel", "a", "--type", "b"}, 64, "cancel takes ids or a selection (--type, --status …), not both"},
		{[]string{"cancel", "--type", "count"}, 64, "this would cancel 1 task: 1 PENDING; nothing was done; add --yes to do it"},
		{[]string{"cancel", "a", "--timeout", "1s"}, 64, "--timeout goes with --wait"},
		{[]string{"pause", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"resume", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"rerun", id}, 65, "task " + id + " is PENDING and not finished: only a finished task can be run again"},
		{[]string{"rerun", "--status", "RUNNING"}, 64, "rerun is for finished tasks; --status RUNNING is not a finished state"},
		{[]string{"rerun", "nobody"}, 66, `there is no task "nobody"`},
		{[]string{"takeover", "nobody"}, 66, `there is neither a worker nor a task "nobody"`},
		{[]string{"drain", "of"}, 64, `unknown verb "of" of nightshift drain; did you mean "on"?`},
		{[]string{"status", "--watch"}, 64, "--watch needs a terminal"},
		{[]string{"status", "--watch", "--json"}, 64, "--watch and --json exclude each other"},
		{[]string{"report", "--since", "soon"}, 64, "--since: "},
		{[]string{"report", "--zone", "Mars/Base"}, 64, `--zone: "Mars/Base" is no time zone`},
		{[]string{"report", "-o", "/nonexistent/x.html"}, 73, "write the report: open /nonexistent/x.html"},
		{[]string{"metrics", "--textfile", "x", "--json"}, 64, "--textfile and --json exclude each other"},
		{[]string{"schedules", "nxet"}, 64, `unknown verb "nxet" of nightshift schedules; did you mean "next"?`},
		{[]string{"schedules", "next", "nihgtly"}, 66, `there is no schedule "nihgtly"; did you mean "nightly"?`},
		{[]string{"schedules", "next", "-n", "many"}, 64, `-n "many" is no whole number`},
		{[]string{"schedules", "enable"}, 64, "nightshift schedules enable needs a NAME"},
		{[]string{"schedules", "disable", "nightly"}, 75, `no worker has taken schedule "nightly" from the configuration yet`},
		{[]string{"schedules", "simulate", "--from", "soon"}, 64, `--from "soon" is neither a time nor a duration`},
		{[]string{"db"}, 64, "nightshift db needs one of init|check|backup|prune|migrate"},
		{[]string{"db", "init"}, 73, s.database() + " exists already; it was left as it is; with --if-missing that is no error"},
		{[]string{"db", "backup"}, 64, "nightshift db backup needs a FILE"},
		{[]string{"db", "backup", "/nonexistent/x.db"}, 73, "there is no directory /nonexistent; make it first, or choose another"},
		{[]string{"db", "prune", "--keep", "soon"}, 64, `--keep "soon" is no duration`},
		{[]string{"config"}, 64, "nightshift config needs one of check"},
		{[]string{"list", "--config", "/nonexistent.yaml"}, 66, `configuration file "/nonexistent.yaml", named by --config, does not exist`},
		{[]string{"config", "check", "--config", filepath.Join(s.dir, "bad.yaml")}, 78, filepath.Join(s.dir, "bad.yaml") + ":2:3: "},
		{[]string{"list", "--data", filepath.Join(s.dir, "empty")}, 66, "there is no database at " + s.dir + "/empty/nightshift.db: make one with"},
		{[]string{"checkpoint"}, 64, "nightshift checkpoint needs one of put|get"},
		{[]string{"checkpoint", "put"}, 64, "nightshift checkpoint put needs a checkpoint, a --progress, or both"},
		{[]string{"checkpoint", "put", "{"}, 65, "the checkpoint is not valid JSON at line 1, column 2: the text ends too early"},
		{[]string{"checkpoint", "put", "{}"}, 66, "not inside a task: NIGHTSHIFT_FD is not set"},
		{[]string{"checkpoint", "get"}, 66, "not inside a task: NIGHTSHIFT_FD is not set"},
		{[]string{"still-mine"}, 66, "not inside a task: NIGHTSHIFT_FD is not set"},
		{[]string{"completion", "bsah"}, 64, `no completion for the shell "bsah"; did you mean "bash"?`},
		{[]string{"man", "x"}, 64, `nightshift man takes no arguments, but was given "x"`},
		{[]string{"run", "--slots", "0"}, 64, "--slots 0 is too small; the least is 1"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			out, errOut, code := call("", c.args...)
			got := strings.TrimPrefix(errOut, "nightshift: ")
			if c.args == nil {
				got = errOut
			}
			if code != c.code || !strings.HasPrefix(got, c.want) {
				t.Errorf("status %d, %q\nwant   %d, %q", code, got, c.code, c.want)
			}
			if out != "" {
				t.Errorf("something is on standard output: %q", out)
			}
			if strings.Contains(errOut, "goroutine ") || strings.ContainsAny(errOut, "\x1b\r") {
				t.Errorf("a stack or a control character: %q", errOut)
			}
		})
	}
	if got, _, _ := call("", "list", "--json"); strings.Count(got, "task_id") != 1 {
		t.Errorf("an error has left something behind:\n%s", got)
	}
}

// A database of another kind is refused, and left as it is.
func TestForeignDatabases(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
		code int
		want string
	}{
		{"a text file", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no database\n", 200)), 0o600) }, 78, "is not a Nightshift database"},
		{"an empty file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, 78, ""},
		{"of a newer version", func(p string) error {
			if err := store.Init(p); err != nil {
				return err
			}
			return exec.Command("sqlite3", p, "PRAGMA user_version=99").Run()
		}, 78, "has schema version 99, this program knows versions up to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t)
			if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(s.database()); err != nil {
				t.Skip(err)
			}
			before, err := os.ReadFile(s.database())
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"list"}, {"add", "count"}} {
				if _, errOut, code := call("", args...); code != c.code || !strings.Contains(errOut, c.want) {
					t.Errorf("%q: status %d, %q", args, code, errOut)
				}
			}
			if after, err := os.ReadFile(s.database()); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}
