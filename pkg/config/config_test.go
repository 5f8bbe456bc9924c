package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, text string, handlers ...string) *Config {
	t.Helper()
	c, err := Parse("nightshift.yaml", "/etc/ns", []byte(text), handlers...)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c
}

func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	c := parse(t, "")
	want := Worker{Slots: 1, PollInterval: 5 * time.Second, HeartbeatInterval: 30 * time.Second, SuspectAfter: 90 * time.Second,
		OfflineAfter: 5 * time.Minute, DrainTimeout: 30 * time.Second, Grace: 30 * time.Second}
	if c.Worker != want {
		t.Errorf("worker = %+v, want %+v", c.Worker, want)
	}
	if want := (Retry{Base: 30 * time.Second, Cap: time.Hour, MaxRetry: 5, MaxCrashes: 3, MaxExecutions: 1000}); c.Retry != want {
		t.Errorf("retry = %+v, want %+v", c.Retry, want)
	}
	if want := (Log{Level: "info", Dir: "/etc/ns/data/logs", MaxSize: 50e6, MaxBackups: 10, ExecMaxSize: 50e6}); c.Log != want {
		t.Errorf("log = %+v, want %+v", c.Log, want)
	}
	if want := (Retention{Final: 720 * time.Hour, Logs: 720 * time.Hour, DiskBudget: 10e9}); c.Retention != want {
		t.Errorf("retention = %+v, want %+v", c.Retention, want)
	}
	if c.Timeout != time.Hour || c.DataDir != "/etc/ns/data" || c.Hooks.Task != "" {
		t.Errorf("timeout %v, data dir %q, hooks %+v", c.Timeout, c.DataDir, c.Hooks)
	}
	for _, typ := range Builtins() {
		if got := c.Tasks[typ]; got.Builtin != typ || got.Timeout != time.Hour || got.SlowAfter != 30*time.Minute || got.MaxRetry != 5 {
			t.Errorf("built-in %s = %+v", typ, got)
		}
	}
}

func TestWholeFile(t *testing.T) {
	c := parse(t, `
data_dir: /var/lib/nightshift
worker: {slots: 4, poll_interval: 1s, heartbeat_interval: 10s, suspect_after: 30s, offline_after: 2m, drain_timeout: 1m, grace: 5s}
retry: {base: 10s, cap: 30m, max_retry: 3, max_crashes: 2, max_executions: 0}
timeout: 0
log: {level: debug, dir: logs, max_size: 1MiB, max_backups: 3, exec_max_size: 10MB}
retention: {final: 7d, logs: 0, disk_budget: 1GB}
tasks:
  clean_csv:
    command: [bin/clean, --fast, 3]
    timeout: 2h
    concurrency: 1
    slow_after: 10m
    env: {LANG: C.UTF-8, N: 0777, EMPTY: ""}
    dir: work
    max_retry: 0
    retry: {base: 1s}
    grace: 1m
    retryable: [65]
    umask: 077
  orders: {builtin: fetch_data, options: {headers: {Accept: text/plain}, pages: 3, deep: [1, true, x, null, 1.5]}}
  日报: {command: [python3, report.py]}
schedules:
  nightly: {cron: "0 2 * * *", zone: Asia/Shanghai, task: render_report, payload: {since: 24h}, missed: all, overlap: allow, jitter: 1m, enabled: false, priority: -5}
  often: {every: 15m, task: clean_csv}
hooks: {on: [DEAD, lost], task: clean_csv}
`)
	clean := c.Tasks["clean_csv"]
	want := TaskType{
		Command: []string{"/etc/ns/work/bin/clean", "--fast", "3"}, Timeout: 2 * time.Hour, Concurrency: 1, SlowAfter: 10 * time.Minute,
		Env: map[string]string{"LANG": "C.UTF-8", "N": "0777", "EMPTY": ""}, Dir: "/etc/ns/work", MaxRetry: 0,
		Retry: Backoff{Base: time.Second, Cap: 30 * time.Minute}, Grace: time.Minute,
		Fatal: []int{64, 77, 78, 126, 127}, Retryable: []int{65}, Umask: 0o77,
	}
	if !reflect.DeepEqual(clean, want) {
		t.Errorf("clean_csv = %+v\nwant %+v", clean, want)
	}
	orders := c.Tasks["orders"]
	if orders.Builtin != "fetch_data" || orders.Timeout != 0 || orders.SlowAfter != 30*time.Minute {
		t.Errorf("orders = %+v", orders)
	}
	wantOptions := map[string]any{"headers": map[string]any{"Accept": "text/plain"}, "pages": int64(3), "deep": []any{int64(1), true, "x", nil, 1.5}}
	if !reflect.DeepEqual(orders.Options, wantOptions) {
		t.Errorf("options = %#v", orders.Options)
	}
	if c.Tasks["日报"].Command[0] != "python3" || c.Tasks["日报"].Dir != "/etc/ns" {
		t.Errorf("日报 = %+v", c.Tasks["日报"])
	}
	nightly := Schedule{Cron: "0 2 * * *", Zone: "Asia/Shanghai", Task: "render_report", Payload: `{"since":"24h"}`,
		Priority: -5, Missed: "all", MissedLimit: 10080, Overlap: "allow", Jitter: time.Minute}
	if c.Schedules["nightly"] != nightly {
		t.Errorf("nightly = %+v\nwant %+v", c.Schedules["nightly"], nightly)
	}
	if often := c.Schedules["often"]; often.Every != 15*time.Minute || !often.Enabled || often.Payload != "{}" || often.Missed != "once" || often.Overlap != "skip" {
		t.Errorf("often = %+v", often)
	}
	if c.Log.Dir != "/etc/ns/logs" || c.Log.Level != "debug" || c.Log.MaxSize != 1<<20 {
		t.Errorf("log = %+v", c.Log)
	}
	if c.Timeout != 0 || c.Retry.MaxExecutions != 0 || c.Retention.Logs != 0 {
		t.Errorf("zeros: %v %v %v", c.Timeout, c.Retry.MaxExecutions, c.Retention.Logs)
	}
	if got := c.Type("undeclared"); got.Builtin != "undeclared" || got.MaxRetry != 3 || got.Grace != 5*time.Second {
		t.Errorf("undeclared = %+v", got)
	}
}

func TestEmptySectionsAreDefaults(t *testing.T) {
	if c := parse(t, "worker:\nlog: {}\ntasks:\nschedules:\nhooks:\n# nothing else\n"); c.Worker.Slots != 1 {
		t.Errorf("slots = %d", c.Worker.Slots)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := parse(t, `
tasks:
  a: &base {command: [/bin/a], timeout: 2h, env: {A: x}}
  b: {<<: *base, command: [/bin/b]}
  c: {<<: [*base], timeout: 3h}
`)
	if b := c.Tasks["b"]; b.Command[0] != "/bin/b" || b.Timeout != 2*time.Hour || b.Env["A"] != "x" {
		t.Errorf("b = %+v", b)
	}
	if got := c.Tasks["c"]; got.Command[0] != "/bin/a" || got.Timeout != 3*time.Hour {
		t.Errorf("c = %+v", got)
	}
}

func TestPayloadKeepsDigitsAndOrder(t *testing.T) {
	for _, tc := range []struct{ name, yaml, want string }{
		{"64-bit ids and floats", `{id: 9007199254740993, u: 18446744073709551615, f: 1.10, e: 1e400}`, `{"id":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e400}`},
		{"order of keys", `{z: 1, a: 2, m: [true, null, ~, "x"]}`, `{"z":1,"a":2,"m":[true,null,null,"x"]}`},
		{"no HTML escapes", `{q: "<&> ☾ \"x\" \\ \n"}`, `{"q":"<&> ☾ \"x\" \\ \n"}`},
		{"JSON text is kept byte for byte", `'{"id": 1.10,  "a":[ ]}'`, `{"id": 1.10,  "a":[ ]}`},
		{"other texts are JSON strings", `hello`, `"hello"`},
		{"forms that JSON lacks", `{h: 0x1f, o: 0o17, u: 1_000}`, `{"h":31,"o":15,"u":1000}`},
		{"null", `null`, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parse(t, "schedules:\n  s: {every: 1h, task: fetch_data, payload: "+tc.yaml+"}\n")
			if got := c.Schedules["s"].Payload; got != tc.want {
				t.Errorf("payload = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPathsStartAtTheFileAndFlagsWin(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf", "nightshift.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("data_dir: ../var\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvData, "")
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "var"); c.DataDir != want || c.Log.Dir != want+"/logs" || c.Database() != want+"/nightshift.db" || c.RunDir() != want+"/run" {
		t.Errorf("data dir %s, logs %s, want below %s", c.DataDir, c.Log.Dir, want)
	}
	if c.Path != file {
		t.Errorf("path = %s, want %s", c.Path, file)
	}
	t.Chdir(dir)
	t.Setenv(EnvData, "elsewhere")
	if c, err = Load("conf/nightshift.yaml"); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "elsewhere"); c.DataDir != want || c.Log.Dir != want+"/logs" {
		t.Errorf("with $%s: data dir %s, logs %s", EnvData, c.DataDir, c.Log.Dir)
	}
	if err := c.UseData("flag"); err != nil || c.DataDir != filepath.Join(dir, "flag") || c.TasksDir() != filepath.Join(dir, "flag", "tasks") {
		t.Errorf("with --data: %s, %v", c.DataDir, err)
	}
}

func TestLogDirOfTheFileStaysWhenDataMoves(t *testing.T) {
	c := parse(t, "log: {dir: /var/log/ns}\n")
	if err := c.UseData("/x"); err != nil || c.Log.Dir != "/var/log/ns" || c.ExecLogDir() != "/var/log/ns/exec" {
		t.Errorf("log dir = %s, %v", c.Log.Dir, err)
	}
}

func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv(EnvConfig, "")
	if _, err := os.Stat(SystemFile); err == nil {
		t.Skip(SystemFile + " exists on this machine")
	}
	if got, err := Find(""); got != "" || err != nil {
		t.Errorf("nothing there: %q, %v", got, err)
	}
	for _, name := range []string{"nightshift.yaml", "env.yaml", "flag.yaml"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := Find(""); got != "nightshift.yaml" {
		t.Errorf("local file: %q", got)
	}
	t.Setenv(EnvConfig, "env.yaml")
	if got, _ := Find(""); got != "env.yaml" {
		t.Errorf("environment: %q", got)
	}
	if got, _ := Find("flag.yaml"); got != "flag.yaml" {
		t.Errorf("flag: %q", got)
	}
	t.Setenv(EnvConfig, "absent.yaml")
	var missing *MissingError
	if _, err := Find(""); !errors.As(err, &missing) || !strings.Contains(err.Error(), "$NIGHTSHIFT_CONFIG") {
		t.Errorf("a named file that is missing: %v", err)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: %v", err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("too large: %v", err)
	}
}
