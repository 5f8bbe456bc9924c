package faults

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

// lateScript makes checkpoints until it is told to stop, and notes what it was
// told. It takes no lock: here a takeover is made by hand while it lives.
const lateScript = `
say() { printf '%s %s %s\n' "$NIGHTSHIFT_TASK_ID" "$NIGHTSHIFT_ATTEMPT" "$1" >>"$0.log"; }
say start
n=0
while [ $n -lt 5 ]; do
  n=$((n + 1)); sleep .05
  printf '{"checkpoint":{"by":%s,"n":%d}}\n' "$NIGHTSHIFT_ATTEMPT" $n >&3
  read -r answer <&3 || { say gone; exit 1; }
  case $answer in *'"stop"'*) say "stop $answer"; exit 0 ;; esac
done
say end
`

// TestStoppedThroughATakeover stops the owner of a running task, gives the task to
// another worker by hand, as nobody should, and lets the owner go on: whatever it
// writes then is refused and logged, and the record is the second worker's alone.
func TestStoppedThroughATakeover(t *testing.T) {
	rounds, width := 50, 4
	if testing.Short() {
		rounds = 3
	}
	script := t.TempDir() + "/late.sh"
	if err := os.WriteFile(script, []byte(lateScript), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := 0
	play(t, night.Options{
		Workers: -1, Free: 2 * width, Slots: 1, Still: true, NoLoop: true,
		Config: func(c string) string {
			c = strings.Replace(c, "suspect_after: 2s, offline_after: 4s", "suspect_after: 20s, offline_after: 40s", 1)
			return c + "  late: {command: [sh, " + script + "]}\n"
		},
		Script: func(st *night.Stage) error {
			for round := range rounds {
				n, err := stopAndSteal(st, script+".log", round, width)
				if err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
				refused += n
			}
			return logged(st, refused)
		},
	})
	if refused != rounds*width {
		t.Errorf("%d late writers were refused, of %d", refused, rounds*width)
	}
	t.Logf("%d SIGSTOPs through a takeover: %d late writers refused", rounds*width, refused)
}

// stopAndSteal is one round with several tasks at once.
func stopAndSteal(st *night.Stage, log string, round, width int) (refused int, err error) {
	ids := make([]string, width)
	list := make([]string, width)
	for i := range ids {
		ids[i] = fmt.Sprintf("late-%d-%d", round, i)
		list[i] = "'" + ids[i] + "'"
	}
	in := strings.Join(list, ",")
	if _, err := st.SQL(fmt.Sprintf("INSERT INTO tasks(task_id,task_type) VALUES %s", strings.Join(each(list, "(%s,'late')"), ","))); err != nil {
		return 0, err
	}
	spoken := "SELECT count(*) FROM tasks WHERE status='RUNNING' AND checkpoint IS NOT NULL AND task_id IN (" + in + ")"
	if err := st.Wait("all run", 20*time.Second, func() bool { return st.Int(spoken) == int64(width) }); err != nil {
		return 0, err
	}
	first := st.Int("SELECT max(exec_id) FROM tasks WHERE task_id IN (" + in + ")")
	var stopped []int
	defer func() {
		for _, pid := range stopped {
			st.Signal(pid, syscall.SIGCONT)
		}
	}()
	for _, id := range ids {
		pid := st.PID(st.Text("SELECT executor_id FROM tasks WHERE task_id=?", id))
		if pid > 0 && stopIdle(st, pid) {
			stopped = append(stopped, pid)
		}
	}
	if out, err := st.SQL("BEGIN IMMEDIATE; UPDATE tasks SET status='LOST', reason='worker_offline' WHERE status='RUNNING' AND task_id IN (" + in + ");" +
		"UPDATE tasks SET status='PENDING', reason='takeover', executor_id=NULL, lease_expire_time=NULL WHERE status='LOST' AND task_id IN (" + in + "); COMMIT"); err != nil {
		return 0, fmt.Errorf("takeover by hand: %w: %s", err, out)
	}
	stolen := fmt.Sprintf("SELECT count(*) FROM tasks WHERE status='RUNNING' AND exec_id>%d AND checkpoint LIKE '%%\"by\":'||exec_id||',%%' AND task_id IN (%s)", first, in)
	if err := st.Wait("others run them", 20*time.Second, func() bool { return st.Int(stolen) == int64(width) }); err != nil {
		return 0, err
	}
	for _, pid := range stopped {
		st.Signal(pid, syscall.SIGCONT)
	}
	ended := "SELECT count(*) FROM tasks WHERE status='SUCCESS' AND task_id IN (" + in + ")"
	if err := st.Wait("all end", 30*time.Second, func() bool { return st.Int(ended) == int64(width) }); err != nil {
		return 0, err
	}
	return judgeLate(st, log, ids, in)
}

// stopIdle stops a worker at a moment at which it does not hold the write lock:
// that it is another case (TestStoppedWriterIsFoundAndEnded).
func stopIdle(st *night.Stage, pid int) bool {
	for range 100 {
		if !st.Signal(pid, syscall.SIGSTOP) {
			return false
		}
		if st.Stopped(pid, 10*time.Second) && !st.HoldsDatabase(pid) {
			return true
		}
		st.Signal(pid, syscall.SIGCONT)
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

// judgeLate: the record is the second execution's, and the first was told so.
func judgeLate(st *night.Stage, log string, ids []string, in string) (refused int, err error) {
	if n := st.Int("SELECT count(*) FROM tasks WHERE checkpoint NOT LIKE '%\"by\":'||exec_id||',\"n\":5%' AND task_id IN (" + in + ")"); n != 0 {
		return 0, fmt.Errorf("%d checkpoints are not the second execution's last", n)
	}
	if n := st.Int("SELECT count(*) FROM exec_history WHERE outcome='success' AND task_id IN (" + in + ")"); n != int64(len(ids)) {
		return 0, fmt.Errorf("%d executions of %d tasks ended in success", n, len(ids))
	}
	for _, id := range ids {
		told := func() bool {
			b, err := os.ReadFile(log)
			return err == nil && (lateAnswer(string(b), id, `stop {"stop":"lost"`) || lateAnswer(string(b), id, "gone")) || killedLate(st, id)
		}
		if err := st.Wait(id+": the late writer was told", 15*time.Second, told); err != nil {
			b, _ := os.ReadFile(log) // for the message
			return refused, fmt.Errorf("%w; its log: %s", err, tail(string(b), 600))
		}
		refused++
	}
	return refused, nil
}

func lateAnswer(log, id, what string) bool {
	for _, line := range strings.Split(log, "\n") {
		if strings.HasPrefix(line, id+" ") && strings.Contains(line, what) {
			return true
		}
	}
	return false
}

// killedLate: its worker ended it before it could ask again.
func killedLate(st *night.Stage, id string) bool {
	for _, b := range workerLogs(st) {
		for _, line := range strings.Split(b, "\n") {
			if strings.Contains(line, "no longer ours") && strings.Contains(line, "task="+id) {
				return true
			}
		}
	}
	return false
}

func workerLogs(st *night.Stage) []string {
	var logs []string
	for i := 1; i < 20; i++ {
		if b, err := os.ReadFile(fmt.Sprintf("%s/logs/h%d.log", st.Data(), i)); err == nil {
			logs = append(logs, string(b))
		}
	}
	return logs
}

// logged: each refusal is in a worker's log.
func logged(st *night.Stage, want int) error {
	return st.Wait(fmt.Sprintf("%d refusals in the logs", want), 10*time.Second, func() bool {
		n := 0
		for _, b := range workerLogs(st) {
			n += strings.Count(b, "task is no longer ours")
		}
		return n >= want
	})
}

func each(list []string, format string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf(format, s)
	}
	return out
}
