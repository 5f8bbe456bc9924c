package store

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"nightshift/pkg/task"
)

// stateSQL brings the task 'x' from nothing into a state, along legal changes, as
// a shell would have to.
func stateSQL(s task.Status) string {
	sql := "INSERT INTO tasks(task_id, task_type) VALUES('x', 'a');\n"
	run := "UPDATE tasks SET status='RUNNING', reason='claimed', executor_id='w1', exec_id=ifnull(exec_id, 0)+1, lease_expire_time='2026-12-01T18:00:00.000Z';\n"
	move := func(to task.Status, reason task.Reason) string {
		return fmt.Sprintf("UPDATE tasks SET status='%s', reason='%s';\n", to, reason)
	}
	switch s {
	case task.Running:
		sql += run
	case task.Retrying:
		sql += run + move(task.Retrying, task.RetryableError)
	case task.Paused:
		sql += run + move(task.Paused, task.UserPause)
	case task.Lost:
		sql += run + move(task.Lost, task.WorkerCrash)
	case task.Success:
		sql += run + move(task.Success, task.Done)
	case task.Failed:
		sql += run + move(task.Failed, task.FatalError)
	case task.Dead:
		sql += run + move(task.Lost, task.WorkerOffline) + move(task.Dead, task.CrashesExhausted)
	case task.Cancelled:
		sql += move(task.Cancelled, task.UserCancel)
	}
	return sql
}

// allReasons are those of the table, one that nobody knows, and none.
func allReasons() []task.Reason {
	seen := map[task.Reason]bool{}
	all := []task.Reason{"", "because"}
	for _, t := range task.Transitions() {
		if !seen[t.Reason] {
			seen[t.Reason] = true
			all = append(all, t.Reason)
		}
	}
	return all
}

// attempts are all changes of status, 81 pairs less the nine that change nothing:
// the legal pairs with every reason, the others with some (all with NIGHTSHIFT_LONG).
func attempts() (all []task.Transition) {
	for _, from := range task.Statuses() {
		for _, to := range task.Statuses() {
			if from == to {
				continue
			}
			reasons := allReasons()
			if !legalPair(from, to) && os.Getenv("NIGHTSHIFT_LONG") == "" {
				reasons = []task.Reason{"", "because", task.Claimed, task.UserCancel, task.Takeover}
			}
			for _, r := range reasons {
				all = append(all, task.Transition{From: from, To: to, Reason: r})
			}
		}
	}
	return all
}

func legalPair(from, to task.Status) bool {
	for _, t := range task.Transitions() {
		if t.From == from && t.To == to {
			return true
		}
	}
	return false
}

func attemptSQL(a task.Transition) string {
	return fmt.Sprintf("UPDATE tasks SET status='%s', reason=nullif('%s','') WHERE task_id='x'", a.To, a.Reason)
}

// TestIN13StateMachineOfDriver: the schema's table of transitions equals pkg/task's,
// for every pair and every reason, whether or not the statement sets the time of its
// change itself.
func TestIN13StateMachineOfDriver(t *testing.T) {
	c := rawConn(t, newDB(t))
	for _, a := range attempts() {
		attempt(t, c, a, attemptSQL(a))
		attempt(t, c, a, strings.Replace(attemptSQL(a), " WHERE", ", updated_at='"+task.FormatTime(night)+"' WHERE", 1))
	}
}

// attempt makes one change of status and takes it back.
func attempt(t *testing.T, c *conn, a task.Transition, sql string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s -> %s: %v", a.From, a.To, err)
		}
	}
	must(c.script("BEGIN; " + stateSQL(a.From)))
	err := c.script(sql)
	status, rerr := c.pragma("SELECT status FROM tasks WHERE task_id='x'")
	must(rerr)
	events, rerr := c.pragma("SELECT count(*) FROM task_events WHERE from_status='" + string(a.From) + "' AND to_status='" + string(a.To) + "'")
	must(rerr)
	must(c.script("ROLLBACK"))
	if legal := task.Check(a.From, a.To, a.Reason); legal == nil {
		if err != nil || status != string(a.To) || events == "0" {
			t.Errorf("%s -> %s (%s): %v, status %s, %s events", a.From, a.To, a.Reason, err, status, events)
		}
		return
	}
	if err == nil || status != string(a.From) {
		t.Errorf("%s was let through from %s", sql, a.From)
		return
	}
	wantErr(t, err, string(a.From)+" -> "+string(a.To))
}

// TestIN13StateMachineOfShell is the same through the stock shell.
func TestIN13StateMachineOfShell(t *testing.T) {
	needShell(t)
	var script strings.Builder
	var refused []string
	want := map[string]string{}
	script.WriteString("CREATE TEMP TABLE got(label, status);\n")
	for i, a := range attempts() {
		label := fmt.Sprintf("%d %s>%s %s", i, a.From, a.To, a.Reason)
		fmt.Fprintf(&script, "BEGIN;\n%s%s;\nCREATE TEMP TABLE one AS SELECT status FROM tasks WHERE task_id='x';\n", stateSQL(a.From), attemptSQL(a))
		// The row goes with the ROLLBACK, what was seen of it stays printed.
		fmt.Fprintf(&script, "SELECT '%s|'||status FROM one;\nROLLBACK;\n", label)
		want[label] = string(a.To)
		if task.Check(a.From, a.To, a.Reason) != nil {
			want[label] = string(a.From)
			refused = append(refused, string(a.From)+" -> "+string(a.To))
		}
	}
	cmd := exec.Command("sqlite3", newDB(t))
	cmd.Stdin = strings.NewReader(script.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // without -bail the shell goes on and says 1 at the end
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		label, status, ok := strings.Cut(line, "|")
		if !ok || want[label] != status {
			t.Errorf("%s: the row is %s, want %s", label, status, want[label])
		}
		delete(want, label)
	}
	if len(want) > 0 {
		t.Errorf("%d attempts gave no answer", len(want))
	}
	said := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if len(said) != len(refused) {
		t.Fatalf("%d refusals, want %d: %.300s", len(said), len(refused), errs.String())
	}
	for i, line := range said {
		if !strings.Contains(line, refused[i]) {
			t.Errorf("refusal %q does not name %s", line, refused[i])
		}
	}
}

// TestIN13HintsNameTheWay: what a person tries by hand is answered with what to do.
func TestIN13HintsNameTheWay(t *testing.T) {
	for _, h := range []struct {
		from task.Status
		set  string
		hint string
	}{
		{task.Running, "status='PENDING'", "control = 'cancel' or 'pause'"},
		{task.Running, "status='PAUSED'", "set control = 'pause'"},
		{task.Running, "status='CANCELLED'", "set control = 'cancel'"},
		{task.Pending, "status='PAUSED'", "set control = 'pause'"},
		{task.Lost, "status='CANCELLED', reason='user_cancel'", "set control = 'cancel'"},
		{task.Paused, "status='PENDING'", "set control = 'resume'"},
		{task.Success, "status='PENDING'", "nightshift rerun"},
		{task.Dead, "control='resume'", "nightshift rerun"},
		{task.Pending, "status='DONE'", "it is one of PENDING"},
		{task.Running, "executor_id='me'", "belongs to its executor"},
		{task.Running, "exec_id=exec_id+7, executor_id=NULL", ""},
		{task.Pending, "exec_id=7", "only a worker"},
		{task.Pending, "reason='fun'", "reason belongs to a status change"},
		{task.Pending, "task_id='y'", "never change"},
		{task.Pending, "rowid=rowid+1", "never change"},
		{task.Pending, "control='stop'", "control is one of"},
	} {
		t.Run(string(h.from)+" "+h.set, func(t *testing.T) {
			for i, e := range engines(t, newDB(t)) {
				if i > 0 {
					e = engines(t, newDB(t))[i]
				}
				if err := e.exec(stateSQL(h.from)); err != nil {
					t.Fatal(e.name, err)
				}
				err := e.exec("UPDATE tasks SET " + h.set + " WHERE task_id='x'")
				if h.hint == "" {
					continue
				}
				wantErr(t, err, h.hint)
			}
		})
	}
}
