// Package scripts_test runs the shell scripts as a person would.
package scripts_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/config"
)

// result is what a script has done.
type result struct {
	stdout, stderr string
	status         int
}

// script runs scripts/<name> in dir.
func script(t *testing.T, dir, stdin, name string, args ...string) result {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// database makes a directory with data/nightshift.db in it.
func database(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("no sqlite3 shell here")
	}
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	query(t, dir, "PRAGMA journal_mode=WAL;\n"+string(schema))
	return dir
}

// query runs SQL on data/nightshift.db by the stock shell.
func query(t *testing.T, dir, sql string) string {
	t.Helper()
	return queryFile(t, filepath.Join(dir, "data", "nightshift.db"), sql)
}

func queryFile(t *testing.T, path, sql string) string {
	t.Helper()
	cmd := exec.Command("sqlite3", "-init", "/dev/null", "-batch", "-bail", "-noheader", "-list", "-cmd", ".timeout 5000", path)
	cmd.Stdin = strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

var all = []string{"add-task.sh", "backup.sh", "restore.sh", "prune.sh", "cron-to-nightshift", "demo.sh"}

func TestUsage(t *testing.T) {
	for _, name := range all {
		got := script(t, t.TempDir(), "", name, "-h")
		if got.status != 0 || !strings.HasPrefix(got.stdout, "usage: "+name) || !strings.Contains(got.stdout, "Example: ") || got.stderr != "" {
			t.Errorf("%s -h: %+v", name, got)
		}
		if got := script(t, t.TempDir(), "", name, "-Z"); got.status != 64 || !strings.Contains(got.stderr, "usage: "+name) {
			t.Errorf("%s -Z: %+v", name, got)
		}
	}
}

func TestShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck here")
	}
	if out, err := exec.Command("shellcheck", all...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestIN01: whatever stands in a value, it arrives as it is, by each of the ways.
func TestIN01AddTaskDeliversAnyBytes(t *testing.T) {
	dir := database(t)
	for name, payload := range map[string]string{
		"quotes and dollars": `{"name":"O'Brien $HOME $0123 ` + "`id` $(id)" + ` \"x\" \\ ☾"}`,
		"newlines":           "{\n\"a\":\n1}",
		"trailing newline":   "{\"a\":1}\n\n",
		"emoji":              `{"x":"👩‍👩‍👧‍👦 日报 \u0000 \ud800"}`,
		"injection":          `{"x":"'); DROP TABLE tasks; --"}`,
		"dot commands":       "{\"a\":\"\n.quit\n.shell id\n\"}",
		"begins with a dash": `-1`,
		"64-bit id":          `{"id":9007199254740993,"f":1.10}`,
		"large":              `{"x":"` + strings.Repeat("'", 500_000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "it's a file.json")
			if err := os.WriteFile(file, []byte(payload), 0o600); err != nil {
				t.Fatal(err)
			}
			ways := map[string]result{
				"stdin": script(t, dir, payload, "add-task.sh", "t", "-"),
				"@file": script(t, dir, "", "add-task.sh", "t", "@"+file),
			}
			if len(payload) < 100_000 { // one argument of exec(2) has at most 128 KiB
				ways["argument"] = script(t, dir, "", "add-task.sh", "--", "t", payload)
			}
			for way, got := range ways {
				if strings.Contains(payload, "\n.quit") {
					if got.status != 65 || !strings.Contains(got.stderr, "payload is not valid JSON") {
						t.Errorf("%s: %+v", way, got) // a raw newline in a JSON string
					}
					continue
				}
				id := strings.TrimSuffix(got.stdout, "\n")
				if got.status != 0 || got.stderr != "" || id == "" || strings.ContainsAny(id, " \n|") {
					t.Fatalf("%s: %+v", way, got)
				}
				stored := filepath.Join(t.TempDir(), "stored")
				query(t, dir, "SELECT writefile('"+stored+"', payload) IS NULL FROM tasks WHERE task_id = '"+id+"';")
				if b, err := os.ReadFile(stored); err != nil || string(b) != payload {
					t.Errorf("%s: stored %.200q, %v", way, b, err)
				}
			}
		})
	}
	if got := query(t, dir, "SELECT count(*) > 10 FROM tasks;"); got != "1" {
		t.Errorf("tasks: %s", got)
	}
}

func TestAddTaskOptions(t *testing.T) {
	dir := database(t)
	got := script(t, dir, "", "add-task.sh", "-p", "-5", "-t", "2026-12-01T16:04:05+08:00", "-k", "it's; $x", "-i", "a 'b' ☾", "-r", "0", "-H", "clean", `[]`)
	if got.status != 0 || got.stdout != "a 'b' ☾\n" {
		t.Fatalf("%+v", got)
	}
	want := "a 'b' ☾|clean|[]|PAUSED|-5|2026-12-01T08:04:05.000Z|it's; $x|0|text"
	if row := query(t, dir, "SELECT task_id, task_type, payload, status, priority, next_run_time, unique_key, max_retry, typeof(payload) FROM tasks;"); row != want {
		t.Errorf("row = %s", row)
	}
	if got := script(t, dir, "", "add-task.sh", "other"); got.status != 0 {
		t.Errorf("without a payload: %+v", got)
	}
	if row := query(t, dir, "SELECT payload, priority, max_retry, status FROM tasks WHERE task_type = 'other';"); row != "{}|100|5|PENDING" {
		t.Errorf("defaults = %s", row)
	}
}

func TestAddTaskRefusals(t *testing.T) {
	dir := database(t)
	if got := script(t, dir, "", "add-task.sh", "-k", "k", "t"); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, tc := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"broken JSON", []string{"t", `{"a":`}, 65, "add-task.sh: payload is not valid JSON\n"},
		{"a time that is none", []string{"-t", "tomorrow", "t"}, 65, "next_run_time is not a time"},
		{"key in use", []string{"-k", "k", "t"}, 65, "is not finished"},
		{"control character in the id", []string{"-i", "a\nb", "t"}, 65, "without control characters"},
		{"priority that is no number", []string{"-p", "high", "t"}, 64, "-p takes a whole number, not 'high'"},
		{"priority with an injection", []string{"-p", "1);DELETE FROM tasks;--", "t"}, 64, "-p takes a whole number"},
		{"no type", nil, 64, "usage: add-task.sh"},
		{"too many arguments", []string{"t", "{}", "x"}, 64, "usage: add-task.sh"},
		{"no such file", []string{"t", "@absent"}, 66, "no file absent"},
		{"no database", []string{"-d", "absent.db", "t"}, 66, "nightshift db init"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := script(t, dir, "", "add-task.sh", tc.args...)
			if got.status != tc.status || got.stdout != "" || !strings.Contains(got.stderr, tc.stderr) {
				t.Errorf("%+v", got)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "absent.db")); err == nil {
		t.Error("a database was made")
	}
	if got := query(t, dir, "SELECT count(*) FROM tasks;"); got != "1" {
		t.Errorf("%s tasks", got)
	}
}

func TestBackupAndRestore(t *testing.T) {
	dir := database(t)
	for range 3 {
		script(t, dir, "", "add-task.sh", "t")
	}
	got := script(t, dir, "", "backup.sh", "it's a copy.db")
	copied := filepath.Join(dir, "it's a copy.db")
	if got.status != 0 || strings.TrimSpace(got.stdout) != copied || got.stderr != "" {
		t.Fatalf("backup: %+v", got)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("copy: %v %v", info, err)
	}
	if got := script(t, dir, "", "backup.sh", "it's a copy.db"); got.status != 73 || !strings.Contains(got.stderr, "exists") {
		t.Errorf("backup over a file: %+v", got)
	}
	if got := script(t, dir, "", "backup.sh", "-f", "it's a copy.db"); got.status != 0 {
		t.Errorf("backup -f: %+v", got)
	}
	rows := query(t, dir, "SELECT * FROM tasks ORDER BY task_id;")
	script(t, dir, "", "add-task.sh", "later")

	got = script(t, dir, "", "restore.sh", "it's a copy.db")
	if got.status != 0 {
		t.Fatalf("restore: %+v", got)
	}
	if now := query(t, dir, "SELECT * FROM tasks ORDER BY task_id;"); now != rows {
		t.Errorf("restored:\n%s\nwant:\n%s", now, rows)
	}
	old := filepath.Join(strings.TrimSpace(got.stdout), "nightshift.db")
	if n := queryFile(t, old, "SELECT count(*) FROM tasks;"); n != "4" {
		t.Errorf("the database that was there has %s tasks", n)
	}
	if got := query(t, dir, "PRAGMA user_version; PRAGMA integrity_check;"); !strings.HasSuffix(got, "\nok") || strings.HasPrefix(got, "0") {
		t.Errorf("restored: %s", got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "data", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRestoreRefusals(t *testing.T) {
	dir := database(t)
	if got := script(t, dir, "", "backup.sh", "b.db"); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for name, content := range map[string]string{"text.db": "hello", "empty.db": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := script(t, dir, "", "restore.sh", name); got.status != 65 || !strings.Contains(got.stderr, "not a sound database") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := script(t, dir, "", "restore.sh", "absent.db"); got.status != 66 {
		t.Errorf("absent: %+v", got)
	}
	if got := script(t, dir, "", "restore.sh", "data/nightshift.db"); got.status == 0 && query(t, dir, "SELECT count(*) FROM sqlite_schema;") == "0" {
		t.Errorf("the live database as its own backup: %+v", got)
	}
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("no flock here")
	}
	lock, err := os.OpenFile(filepath.Join(dir, "data", "run", "w1.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if got := script(t, dir, "", "restore.sh", "b.db"); got.status != 75 || !strings.Contains(got.stderr, "w1 still runs") {
		t.Errorf("with a worker alive: %+v", got)
	}
}

func TestBackupWhileWritersWrite(t *testing.T) {
	dir := database(t)
	writer := exec.Command("sh", "-c", `i=0; while [ $i -lt 400 ]; do echo "INSERT INTO tasks(task_type) VALUES('t');"; i=$((i+1)); done | sqlite3 -cmd '.timeout 5000' data/nightshift.db`)
	writer.Dir = dir
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		name := fmt.Sprintf("b%d.db", i)
		if got := script(t, dir, "", "backup.sh", name); got.status != 0 {
			t.Errorf("%+v", got)
			continue
		}
		if got := queryFile(t, filepath.Join(dir, name), "PRAGMA integrity_check;"); got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if err := writer.Wait(); err != nil {
		t.Error(err)
	}
	if got := query(t, dir, "SELECT count(*) FROM tasks;"); got != "400" {
		t.Errorf("%s tasks", got)
	}
}

func TestPruneRemovesOnlyWhatIsOldAndDone(t *testing.T) {
	dir := database(t)
	insert := func(id, extra string) {
		query(t, dir, "INSERT INTO tasks(task_id,task_type,schedule,rerun_of) VALUES('"+id+"','t',"+extra+");")
	}
	end := func(id string, days int) {
		query(t, dir, fmt.Sprintf("UPDATE tasks SET control='cancel' WHERE task_id='%s';"+
			"UPDATE tasks SET updated_at=datetime('now','-%d days') WHERE task_id='%s';"+
			"INSERT INTO exec_history(task_id,executor_id,start_time) VALUES('%s','w1','x');", id, days, id, id))
	}
	for _, id := range []string{"old", "young", "waiting", "rerun-source"} {
		insert(id, "NULL,NULL")
	}
	insert("nightly@1", "'nightly',NULL")
	insert("nightly@0", "'nightly',NULL")
	insert("rerun", "NULL,'rerun-source'")
	end("old", 40)
	end("young", 5)
	end("rerun-source", 40)
	end("nightly@1", 1)
	end("nightly@0", 40)
	query(t, dir, "UPDATE tasks SET updated_at=datetime('now','-40 days') WHERE task_id='waiting';")

	if got := script(t, dir, "", "prune.sh", "-n"); got.status != 0 || got.stdout != "2\n" {
		t.Errorf("dry run: %+v", got)
	}
	if got := script(t, dir, "", "prune.sh"); got.status != 0 || got.stdout != "2\n" {
		t.Errorf("prune: %+v", got)
	}
	if got := query(t, dir, "SELECT group_concat(task_id, ' ') FROM (SELECT task_id FROM tasks ORDER BY task_id);"); got != "nightly@1 rerun rerun-source waiting young" {
		t.Errorf("left: %s", got)
	}
	if got := query(t, dir, "SELECT count(*) FROM exec_history WHERE task_id IN ('old','nightly@0'); SELECT count(*) FROM task_events WHERE task_id IN ('old','nightly@0'); SELECT count(*) FROM exec_history;"); got != "0\n0\n3" {
		t.Errorf("history: %s", got)
	}
	if got := script(t, dir, "", "prune.sh", "-k", "0"); got.stdout != "1\n" { // not nightly@1: younger than two days
		t.Errorf("prune -k 0: %+v", got)
	}
	if got := script(t, dir, "", "prune.sh", "-k", "week"); got.status != 64 {
		t.Errorf("prune -k week: %+v", got)
	}
}

func TestPruneOfManyRowsGoesInSmallTransactions(t *testing.T) {
	dir := database(t)
	query(t, dir, "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 1750) INSERT INTO tasks(task_type) SELECT 't' FROM c;"+
		"UPDATE tasks SET control='cancel'; UPDATE tasks SET updated_at='2020-01-01';")
	if got := script(t, dir, "", "prune.sh"); got.stdout != "1750\n" || got.status != 0 {
		t.Errorf("%+v", got)
	}
	if got := query(t, dir, "SELECT count(*) FROM tasks; SELECT count(*) FROM task_events;"); got != "0\n0" {
		t.Errorf("left: %s", got)
	}
}

func TestALockedDatabaseIsSaidToBe(t *testing.T) {
	if os.Getenv("NIGHTSHIFT_LONG") == "" {
		t.Skip("waits out the scripts' patience of 30 s; set NIGHTSHIFT_LONG=1")
	}
	dir := database(t)
	holder := exec.Command("sqlite3", filepath.Join(dir, "data", "nightshift.db"))
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer stdin.Close()
	if _, err := stdin.Write([]byte("BEGIN IMMEDIATE;\n.print held\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if got := script(t, dir, "", "add-task.sh", "t"); got.status != 75 || !strings.Contains(got.stderr, "locked") {
		t.Errorf("%+v", got)
	}
}

// TestDemo is the demonstration itself: three kills, the same bytes.
func TestDemo(t *testing.T) {
	for _, need := range []string{"../bin/supervisor", "../bin/nightshift", "../examples/clean_csv.py"} {
		if _, err := os.Stat(need); err != nil {
			t.Skipf("no %s; make build", need)
		}
	}
	if testing.Short() {
		t.Skip("runs the whole system")
	}
	got := script(t, t.TempDir(), "", "demo.sh")
	if got.status != 0 || !strings.Contains(got.stdout, "\nverdict: ok kills=3 interruptions=3 status=SUCCESS") {
		t.Errorf("%+v", got)
	}
}

const crontab = `# minute hour
SHELL=/bin/bash
PATH="/usr/local/bin:/usr/bin:/bin"
GREETING = 'hello "world" \ $x'
MAILTO=root@example.org
CRON_TZ=Europe/Berlin

*/5 * * * *   /opt/check.sh --fast >/dev/null 2>&1
0 2 * * 1-5	cd /srv && FOO=1 python3 clean.py "a b" 'c'
@daily echo "$GREETING" $((6 * 7)) 50\% ; cat
30 3 1 jan *  sed 's/^/> /'%line one%it's 'two'
@reboot /opt/boot.sh
not a crontab line
`

func TestCronToNightshiftGivesAConfiguration(t *testing.T) {
	got := script(t, t.TempDir(), crontab, "cron-to-nightshift", "-z", "Asia/Shanghai", "-")
	if got.status != 65 || got.stderr != "" {
		t.Fatalf("status %d, stderr %s", got.status, got.stderr)
	}
	for _, want := range []string{"# line 12: nothing here runs at a boot", "# line 13: no crontab line: not a crontab line", "# line 5: no mail is sent"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	c, err := config.Parse("cron.yaml", "/", []byte(got.stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, got.stdout)
	}
	check := c.Tasks["cron_check_sh"]
	if !slices.Equal(check.Command, []string{"/bin/bash", "-c", "exec </dev/null\n/opt/check.sh --fast >/dev/null 2>&1"}) || check.Timeout != 0 || check.MaxRetry != 0 ||
		check.Env["GREETING"] != `hello "world" \ $x` || check.Env["PATH"] != "/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("check = %+v", check)
	}
	if s := c.Schedules["cron_check_sh"]; s.Cron != "*/5 * * * *" || s.Zone != "Europe/Berlin" || s.Missed != "skip" || s.Overlap != "allow" || s.Task != "cron_check_sh" {
		t.Errorf("schedule = %+v", s)
	}
	for name, want := range map[string]string{
		"cron_echo": "hello \"world\" \\ $x 42 50%\n",
		"cron_sed":  "> line one\n> it's 'two'\n",
	} {
		if out := runCommand(t, c.Tasks[name]); out != want {
			t.Errorf("%s prints %q, want %q", name, out, want)
		}
	}
	if len(c.Schedules) != 4 || len(c.Tasks) != 4+len(config.Builtins()) {
		t.Errorf("%d schedules, %d tasks", len(c.Schedules), len(c.Tasks))
	}
}

func runCommand(t *testing.T, typ config.TaskType) string {
	t.Helper()
	if len(typ.Command) == 0 {
		t.Fatal("no command")
	}
	cmd := exec.Command(typ.Command[0], typ.Command[1:]...)
	for k, v := range typ.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdin = strings.NewReader("{}") // the payload, which cron would not give
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", typ.Command, err, out)
	}
	return string(out)
}

func TestCronToNightshiftTakesTheLinesOfOneUser(t *testing.T) {
	text := "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n@weekly alice /home/alice/x.sh\nRANDOM_DELAY=10\n5 4 * * * alice y\n"
	got := script(t, t.TempDir(), text, "cron-to-nightshift", "-s", "-u", "alice", "-z", "UTC", "-")
	if got.status != 0 || !strings.Contains(got.stdout, "# line 1: runs as root, not as alice") {
		t.Errorf("%+v", got)
	}
	c, err := config.Parse("cron.yaml", "/", []byte(got.stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, got.stdout)
	}
	if c.Schedules["cron_x_sh"].Cron != "@weekly" || c.Schedules["cron_y"].Jitter != 10*time.Minute || len(c.Schedules) != 2 || c.Tasks["cron_y"].Env["LOGNAME"] != "alice" {
		t.Errorf("schedules = %+v", c.Schedules)
	}
}

func TestCronToNightshiftOfAnEmptyCrontab(t *testing.T) {
	got := script(t, t.TempDir(), "# nothing\n", "cron-to-nightshift", "-z", "UTC", "-")
	if _, err := config.Parse("cron.yaml", "/", []byte(got.stdout)); got.status != 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got := script(t, t.TempDir(), "", "cron-to-nightshift", "absent"); got.status != 66 {
		t.Errorf("absent file: %+v", got)
	}
}
