package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ended waits for the first verdict on a task: an end, or a retry.
func ended(status string) bool {
	switch status {
	case "", "PENDING", "RUNNING":
		return false
	}
	return true
}

// TestCA07TimeoutReachesEveryShape: the deadline killed the direct child, a forked
// one kept the pipe open, and the wait never returned.
func TestCA07TimeoutReachesEveryShape(t *testing.T) {
	shapes := []string{"sleep 1000", "sleep 1000; true", "sleep 1000 & wait", "(sleep 1000)", "sleep 1000 | cat"}
	var types strings.Builder
	for i, shape := range shapes {
		fmt.Fprintf(&types, "  sh%d: {command: [sh, -c, %q], timeout: 2s}\n  bash%d: {command: [bash, -c, %q], timeout: 2s}\n", i, shape, i, shape)
	}
	s := newSteps(t, 10, types.String())
	for i := range shapes {
		for _, shell := range []string{"sh", "bash"} {
			name := fmt.Sprintf("%s%d", shell, i)
			s.MustSQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('%s','%s',0)", name, name))
		}
	}
	s.Start(1)
	s.Until("all ten end", patience, func() bool { return s.Text("SELECT count(*) FROM tasks WHERE status='DEAD'") == "10" })
	if n := s.Text("SELECT count(*) FROM task_events WHERE to_status='RETRYING' AND reason='timeout'"); n != "10" {
		t.Errorf("%s of 10 have the reason timeout", n)
	}
	s.Until("nothing is left", patience, func() bool { return len(s.Marked()) <= 1 })
}

// TestCA09CancelOneOccurrence: a cancel of one run, or a run out of turn, and the
// recurring rule got in each other's way.
func TestCA09CancelOneOccurrence(t *testing.T) {
	s := newSystem(t, fmt.Sprintf(quick, 1)+`
tasks:
  tick: {command: [sleep, '0.1']}
schedules:
  beat: {every: 1s, task: tick, overlap: allow}
`)
	s.Start(1)
	occurrence := "SELECT count(*) FROM tasks WHERE schedule='beat'"
	s.Until("a first occurrence", patience, func() bool { return s.Text(occurrence) != "0" })
	id := s.Text("SELECT max(task_id) FROM tasks WHERE schedule='beat'")
	if out, code := s.CLI("cancel", "--wait", id); code > 1 { // 1: it had already ended
		t.Errorf("cancel: exit %d, %s", code, out)
	}
	again, code := s.CLI("rerun", id)
	if code != 0 {
		t.Fatalf("rerun: exit %d, %s", code, again)
	}
	was := s.Text(occurrence)
	s.Until("the schedule goes on", patience, func() bool {
		return s.Text(occurrence) > was && s.Text("SELECT count(*) FROM tasks WHERE schedule='beat' AND status='SUCCESS' AND task_id>?", id) != "0"
	})
	s.Until("the second run ends", patience, func() bool {
		return s.Text("SELECT status FROM tasks WHERE rerun_of=?", id) == "SUCCESS"
	})
}

// TestPR14PR13PR04VerdictsOfAWholeSystem: what can never work was retried for ever, and
// death by a signal (PR13) or a program that can't be executed (PR04) was a riddle.
func TestPR14PR13PR04VerdictsOfAWholeSystem(t *testing.T) {
	s := newSystem(t, `
worker: {slots: 4, poll_interval: 500ms}
retry:  {base: 100s, cap: 1h}
tasks:
  e0: {command: [sh, -c, 'exit 0']}
  e1: {command: [sh, -c, 'exit 1']}
  e64: {command: [sh, -c, 'exit 64']}
  e75: {command: [sh, -c, 'exit 75']}
  e78: {command: [sh, -c, 'exit 78']}
  e127: {command: [sh, -c, 'exit 127']}
  e137: {command: [sh, -c, 'exit 137']}
  segv: {command: [sh, -c, 'kill -SEGV $$']}
  crlf: {command: ['@DIR@/crlf.sh']}
  mode: {command: ['@DIR@/mode.sh']}
`)
	s.Write("crlf.sh", "#!/bin/sh\r\necho\r\n", 0o755)
	s.Write("mode.sh", "#!/bin/sh\necho\n", 0o644)
	want := []struct{ name, status, words string }{
		{"e0", "SUCCESS", ""}, {"e1", "RETRYING", "1"}, {"e64", "FAILED", "64"}, {"e75", "RETRYING", "75"}, {"e78", "FAILED", "78"},
		{"e127", "FAILED", "127"}, {"e137", "RETRYING", "137"}, {"segv", "RETRYING", "SEGV"}, {"crlf", "FAILED", "CR"}, {"mode", "FAILED", "chmod"},
	}
	for _, w := range want {
		s.Add(w.name, w.name, "{}")
	}
	s.Start(1)
	for _, w := range want {
		s.Until("a verdict on "+w.name, patience, func() bool { return ended(s.Status(w.name)) })
		if got := s.Status(w.name); got != w.status {
			t.Errorf("%s is %s, want %s", w.name, got, w.status)
		}
		if out, _ := s.CLI("show", w.name); !strings.Contains(out, w.words) {
			t.Errorf("show %s does not name %q:\n%s", w.name, w.words, out)
		}
	}
	if out, code := s.CLI("config", "check"); code != 1 || !strings.Contains(out, "chmod") {
		t.Errorf("config check: exit %d\n%s", code, out)
	}
}

// TestSE01SE04IN01PayloadsOfAWholeSystem: arguments were pasted into a shell, secrets
// showed in process lists, apostrophes broke the statement (IN01).
func TestSE01SE04IN01PayloadsOfAWholeSystem(t *testing.T) {
	s := newSystem(t, `
worker: {slots: 1, poll_interval: 500ms}
log: {level: debug}
tasks:
  keep: {command: ['@DIR@/keep.sh']}
`)
	s.Script("keep.sh", `cat >"`+s.Dir+`/got.$NIGHTSHIFT_TASK_ID"
grep -la s3cr3t-xyz /proc/[0-9]*/cmdline 2>/dev/null; true`)
	pwned := s.Path("pwned")
	payloads := map[string]string{
		"a": `{"x":"$(touch ` + pwned + `)"}`,
		"b": `{"x":"; touch ` + pwned + ` #"}`,
		"c": "{\"x\":\"`touch " + pwned + "` O'Brien $HOME \\\" \\\\ ☾\"}",
		"d": `{"token":"s3cr3t-xyz"}`,
	}
	for id, p := range payloads {
		if out, code := s.CLIIn(p, "add", "keep", "--id", id, "--payload", "-"); code != 0 {
			t.Fatalf("add %s: exit %d, %s", id, code, out)
		}
	}
	for i, kind := range []string{"/bin/sh", "../../bin/sh", "keep;touch " + pwned, "keep "} {
		s.SQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type) VALUES('evil%d','%s')", i, kind)) // refused, or it waits for its type
	}
	s.Start(1)
	for id, p := range payloads {
		s.UntilStatus(id, "SUCCESS", patience)
		got, err := os.ReadFile(s.Path("got." + id))
		if err != nil || strings.TrimSuffix(string(got), "\n") != p {
			t.Errorf("%s arrived as %q (%v), want %q", id, got, err, p)
		}
		if r := s.Text("SELECT result FROM tasks WHERE task_id=?", id); strings.Contains(r, "/proc/") {
			t.Errorf("the secret shows in a command line: %s", r)
		}
	}
	if _, err := os.Stat(pwned); err == nil {
		t.Error("a payload or type became a command")
	}
	if n := s.Text("SELECT count(*) FROM tasks WHERE task_id LIKE 'evil%' AND status NOT IN ('PENDING','FAILED')"); n != "0" {
		t.Errorf("%s tasks of a type that is none ran", n)
	}
	logs, err := filepath.Glob(s.Path("data/logs/*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	for _, l := range logs {
		if b, err := os.ReadFile(l); err != nil || strings.Contains(string(b), "s3cr3t-xyz") {
			t.Errorf("%s holds the secret (%v)", l, err)
		}
	}
	for _, verb := range []string{"status", "metrics", "list"} {
		if out, _ := s.CLI(verb); strings.Contains(out, "s3cr3t-xyz") {
			t.Errorf("%s shows the secret", verb)
		}
	}
}
