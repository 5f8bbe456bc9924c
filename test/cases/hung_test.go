package cases

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// TestPR02OneHungCall: a call without a timeout held its slot for ever, without a
// line in any log. (A timeout of 6 s stands for the default of an hour.)
func TestPR02OneHungCall(t *testing.T) {
	t.Parallel()
	s := newSystem(t, fmt.Sprintf(quick, 1)+`
timeout: 6s
hooks: {on: [slow], task: notify}
tasks:
  hang:   {command: [sleep, infinity], slow_after: 1s}
  notify: {command: ['true']}
  normal: {command: ['true']}
`)
	s.MustSQL("INSERT INTO tasks(task_id,task_type,max_retry) VALUES('h','hang',0)")
	s.Start(1)
	s.UntilStatus("h", "RUNNING", patience)
	s.Add("n", "normal", "{}")
	s.Until("the mark of a slow task in status", patience, func() bool {
		out, _ := s.CLI("status")
		return strings.Contains(out, "slow") || s.Status("h") == "DEAD"
	})
	if st := s.Status("h"); st == "DEAD" {
		t.Log("the machine is slower than the test: the timeout came before the look at status")
	}
	s.UntilStatus("h", "DEAD", patience)
	s.UntilStatus("n", "SUCCESS", patience)
	s.Until("the hook", patience, func() bool {
		return s.Text("SELECT count(*) FROM tasks WHERE task_type='notify' AND status='SUCCESS'") == "1"
	})
	if why := s.Text("SELECT reason FROM task_events WHERE task_id='h' AND to_status='RETRYING'"); why != "timeout" {
		t.Errorf("reason %q", why)
	}
	b, err := os.ReadFile(s.Path("data/logs/w1.log"))
	if err != nil {
		t.Fatal(err)
	}
	warned := 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "[WARN]") && strings.Contains(line, "slow") {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings of a slow task, want 1:\n%s", warned, b)
	}
}

// TestTI15RetriesAreSpread: an outage failed many in the same second, and they
// came back in the same second.
func TestTI15RetriesAreSpread(t *testing.T) {
	s := newSystem(t, `
worker: {slots: 8, poll_interval: 500ms}
retry:  {base: 100s, cap: 1h}
tasks:
  fail: {command: ['false']}
`)
	const n = 200
	s.MustSQL(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) INSERT INTO tasks(task_id,task_type) SELECT 'f'||i,'fail' FROM n", n))
	s.Start(1)
	s.Until("all have failed once", 2*patience, func() bool {
		return s.Text("SELECT count(*) FROM tasks WHERE status='RETRYING'") == strconv.Itoa(n)
	})
	// Each waits 200 to 300 s from its own failure: cells of 10 s hold a tenth each.
	full := s.Text(`SELECT max(c) FROM (SELECT count(*) c FROM (
		SELECT CAST((julianday(t.next_run_time)-julianday(e.at))*8640 AS INTEGER) cell FROM
		(SELECT task_id, max(at) at FROM task_events WHERE to_status='RETRYING' GROUP BY 1) e JOIN tasks t USING(task_id)) GROUP BY cell)`)
	if most, err := strconv.Atoi(full); err != nil || most > 3*n/10 {
		t.Errorf("%s of %d come back within the same ten seconds", full, n)
	}
	b := task.Backoff{Base: 100 * time.Second, Cap: time.Hour}
	if lowest, highest := b.Delay(1, func(int64) int64 { return 0 }), b.Delay(1, func(n int64) int64 { return n - 1 }); lowest < 200*time.Second || highest > 300*time.Second || highest-lowest < 99*time.Second {
		t.Errorf("the first retry waits %v to %v", lowest, highest)
	}
}

// TestLO09WatchingATaskThatRuns: the log of a running task was an error, or empty
// until its end.
func TestLO09WatchingATaskThatRuns(t *testing.T) {
	t.Parallel()
	s := newSystem(t, fmt.Sprintf(quick, 1)+"tasks:\n  talk: {command: ['@DIR@/talk.sh']}\n")
	s.Script("talk.sh", `echo "first word $NIGHTSHIFT_ATTEMPT"; while [ ! -e "`+s.Dir+`/go" ]; do sleep .05; done
if [ ! -e "`+s.Dir+`/again" ]; then touch "`+s.Dir+`/again"; exit 1; fi; echo "last word"`)
	s.Add("a", "talk", "{}")
	if out, code := s.CLI("logs", "a"); code != 0 || !strings.Contains(out, "no output") && !strings.Contains(out, "not") {
		t.Errorf("before the start: exit %d, %q", code, out)
	}
	s.Start(1)
	s.Until("its first words", patience, func() bool {
		out, code := s.CLI("logs", "a")
		return code == 0 && strings.Contains(out, "first word")
	})
	done := make(chan string, 1)
	go func() {
		out, code := s.CLI("logs", "-f", "a")
		done <- fmt.Sprintf("exit %d: %s", code, out)
	}()
	s.Write("go", "", 0o600)
	select {
	case out := <-done:
		if strings.Count(out, "first word") != 2 || !strings.Contains(out, "last word") {
			t.Errorf("logs -f through a retry: %s", out)
		}
		if st := s.Status("a"); st != "SUCCESS" {
			t.Errorf("logs -f ended while the task is %s", st)
		}
	case <-time.After(patience):
		t.Fatal("logs -f does not end with the task")
	}
}

// TestLO10CarriageReturns: a progress bar made one endless line.
func TestLO10CarriageReturns(t *testing.T) {
	s := newSystem(t, fmt.Sprintf(quick, 1)+"tasks:\n  bar: {command: ['@DIR@/bar.sh']}\n")
	s.Script("bar.sh", `i=0; while [ $i -lt 5000 ]; do i=$((i+1)); printf '\r%d%%' $i; done; echo; echo result`)
	s.Add("b", "bar", "{}")
	s.Start(1)
	s.UntilStatus("b", "SUCCESS", patience)
	if got := s.Text("SELECT result FROM tasks WHERE task_id='b'"); got != `"result"` {
		t.Errorf("result %s", got)
	}
	out, code := s.CLI("logs", "b")
	if code != 0 || !regexp.MustCompile(`5000%\s+result`).MatchString(out) {
		t.Errorf("logs: exit %d, …%q", code, out[max(0, len(out)-60):])
	}
	shown, _ := s.CLI("show", "b")
	if strings.Contains(shown, "\r") {
		t.Error("show lets a carriage return through to the terminal")
	}
}
