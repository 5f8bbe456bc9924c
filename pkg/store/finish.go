package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"nightshift/pkg/task"
)

// Verdict is what becomes of a RUNNING task when its execution ends.
type Verdict int

// The verdicts. A cancel that was asked for meanwhile wins over Retry, Timeout,
// Pause and Release: such a task takes not one more step.
const (
	Succeed Verdict = iota + 1 // SUCCESS, done
	Fail                       // FAILED, fatal_error
	Retry                      // RETRYING, retryable_error; DEAD beyond max_retry
	Timeout                    // RETRYING, timeout; DEAD beyond max_retry
	Cancel                     // CANCELLED, user_cancel
	Pause                      // PAUSED, user_pause
	Release                    // stays RUNNING for its worker's return; the history row is closed
)

// The values of exec_history.outcome.
const (
	OutcomeSuccess      = "success"
	OutcomeFailed       = "failed"
	OutcomeRetry        = "retry"
	OutcomeTimeout      = "timeout"
	OutcomeCancelled    = "cancelled"
	OutcomePaused       = "paused"
	OutcomeStopped      = "stopped"       // released by a worker that drained
	OutcomeInterrupted  = "interrupted"   // its worker came back and ran it on
	OutcomeLost         = "lost"          // taken over
	OutcomeLeaseExpired = "lease_expired" // overran its lease
)

// Finish ends one execution.
type Finish struct {
	Fence    task.Fence
	Verdict  Verdict
	Result   string // JSON text; "": none
	Summary  string // for people, cut to 4 KiB
	ExitCode *int
	Signal   string
	Program  string
	Outcome  string // "": by the verdict
	LogPath  string
	RetryAt  time.Time // of Retry and Timeout: when the next attempt is due
	Now      time.Time // zero: the store's clock
}

// FinishResult says what a Finish did. Err is ErrNotMine when the fence no
// longer matched; the other finishes of the Turn are not affected.
type FinishResult struct {
	Status task.Status
	Err    error
}

// The common end, without a result and with no wish pending, many at once.
var sqlSucceedAll = defineMulti(2, 3, `UPDATE tasks
	SET status = 'SUCCESS', reason = 'done', lease_expire_time = NULL,
	    updated_at = CASE updated_at WHEN ?1 THEN ?2 ELSE ?1 END
	FROM (VALUES ROWS)
	WHERE task_id = column1 AND executor_id = column2 AND exec_id = column3 AND status = 'RUNNING' AND control IS NULL`)

// The same with a result: it fires one trigger more.
var sqlSucceedAllWith = defineMulti(2, 4, `UPDATE tasks
	SET status = 'SUCCESS', reason = 'done', lease_expire_time = NULL, result = column4,
	    updated_at = CASE updated_at WHEN ?1 THEN ?2 ELSE ?1 END
	FROM (VALUES ROWS)
	WHERE task_id = column1 AND executor_id = column2 AND exec_id = column3 AND status = 'RUNNING' AND control IS NULL`)

var sqlFinish = define(`UPDATE tasks
	SET status = ?4, reason = ?5, result = ?8, control = NULL, lease_expire_time = NULL,
	    updated_at = CASE updated_at WHEN ?6 THEN ?7 ELSE ?6 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'`)

// A task that was put down stays with its worker, and without a lease: nobody runs
// it, so that no crash and no overrun after this is its own.
var sqlRelease = define(`UPDATE tasks
	SET lease_expire_time = NULL, updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'`)

// A task that is not final gives its executor up: it may be claimed.
var sqlFinishRetry = define(`UPDATE tasks
	SET status = 'RETRYING', reason = ?4, retry_count = retry_count + 1, next_run_time = ?5,
	    executor_id = NULL, lease_expire_time = NULL,
	    updated_at = CASE updated_at WHEN ?6 THEN ?7 ELSE ?6 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'`)

var sqlRetriesExhausted = define(`UPDATE tasks
	SET status = 'DEAD', reason = 'retries_exhausted', executor_id = ?2, control = NULL,
	    updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE task_id = ?1 AND status = 'RETRYING' AND retry_count > max_retry`)

var sqlFinishPause = define(`UPDATE tasks
	SET status = 'PAUSED', reason = 'user_pause', control = NULL, executor_id = NULL, lease_expire_time = NULL,
	    next_run_time = min(next_run_time, ?4), updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'`)

var sqlOwned = define(`SELECT status, control
	FROM tasks
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3`)

var sqlWorkerBack = define(`UPDATE tasks
	SET status = 'RUNNING', reason = 'worker_back',
	    updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'LOST'`)

// finishAll ends executions, the common successes together and the others one by one.
func (s *Store) finishAll(c *conn, finishes []Finish, results []FinishResult) error {
	var common []int
	for i := range finishes {
		if finishes[i].Verdict == Succeed {
			common = append(common, i)
			results[i].Err = errPending
		}
	}
	// In the order in which they began, which is that of the rows in the file.
	slices.SortFunc(common, func(a, b int) int { return cmp.Compare(finishes[a].Fence.ExecID, finishes[b].Fence.ExecID) })
	for len(common) > 1 {
		n := min(len(common), multiRows)
		if err := s.succeedSome(c, finishes, common[:n], results); err != nil {
			return err
		}
		common = common[n:]
	}
	for i := range finishes {
		if finishes[i].Verdict == Succeed && results[i].Err == nil {
			continue
		}
		f := &finishes[i]
		status, err := s.finish(c, f, s.stamp(f.Now))
		if err != nil && !own(err) {
			return err
		}
		results[i] = FinishResult{status, err}
	}
	return nil
}

// errPending marks what finishAll has not decided yet.
var errPending = errors.New("pending")

// succeedSome ends successes in one statement. When a fence of theirs no longer
// matches, or a wish is pending, the rows tell which have ended; the others are left
// to finish.
func (s *Store) succeedSome(c *conn, finishes []Finish, some []int, results []FinishResult) error {
	st := s.stamp(finishes[some[0]].Now)
	stmt, with := sqlSucceedAll, false
	for _, i := range some {
		with = with || finishes[i].Result != ""
	}
	if with {
		stmt = sqlSucceedAllWith
	}
	args := make([]any, 0, 2+4*multiRows)
	args = append(args, st.now, st.next)
	for _, i := range some {
		f := &finishes[i]
		args = append(args, f.Fence.TaskID, f.Fence.ExecutorID, f.Fence.ExecID)
		if with {
			args = append(args, textOrNull(f.Result))
		}
	}
	_, n, err := stmt.exec(c, args)
	if err != nil {
		if own(err) {
			return nil // one of them is refused: finish finds out which
		}
		return err
	}
	if int(n) < len(some) {
		if some, err = succeeded(c, finishes, some); err != nil {
			return err
		}
	}
	if err := closeHistories(c, finishes, some, OutcomeSuccess, st); err != nil {
		return err
	}
	for _, i := range some {
		results[i] = FinishResult{Status: task.Success}
		if err := s.fire(c, finishes[i].Fence.TaskID, task.Success, st); err != nil {
			return err
		}
	}
	return nil
}

// succeeded keeps those whose rows are SUCCESS under their own fence.
func succeeded(c *conn, finishes []Finish, some []int) (done []int, err error) {
	for _, i := range some {
		f := &finishes[i].Fence
		ok := false
		if _, err := c.one(sqlOwned, func(r row) { ok = task.Status(r.text(0)) == task.Success }, f.TaskID, f.ExecutorID, f.ExecID); err != nil {
			return nil, err
		}
		if ok {
			done = append(done, i)
		}
	}
	return done, nil
}

// finish ends one execution and returns where its task went.
func (s *Store) finish(c *conn, f *Finish, st stamp) (task.Status, error) {
	control, err := s.regain(c, f.Fence, st)
	if err != nil {
		return "", err
	}
	verdict := f.Verdict
	if control.Cancels() && verdict != Succeed && verdict != Fail {
		verdict = Cancel
	}
	if control == task.Pause && verdict == Release {
		verdict = Pause // it has stopped, and is to stay so
	}
	switch verdict {
	case Succeed:
		return s.end(c, f, task.Success, task.Done, OutcomeSuccess, st)
	case Fail:
		return s.end(c, f, task.Failed, task.FatalError, OutcomeFailed, st)
	case Cancel:
		return s.end(c, f, task.Cancelled, task.UserCancel, OutcomeCancelled, st)
	case Retry:
		return s.retry(c, f, task.RetryableError, OutcomeRetry, st)
	case Timeout:
		return s.retry(c, f, task.TimedOut, OutcomeTimeout, st)
	case Pause:
		return s.pause(c, f, control, st)
	case Release:
		return s.release(c, f, st)
	}
	return "", fmt.Errorf("finish %s: no verdict %d", f.Fence.TaskID, f.Verdict)
}

// regain makes sure that the execution still owns its task, and brings it back
// from LOST when nobody has taken it over. It returns the wish that is pending.
func (s *Store) regain(c *conn, f task.Fence, st stamp) (control task.Control, err error) {
	var status task.Status
	found, err := c.one(sqlOwned, func(r row) { status, control = task.Status(r.text(0)), task.Control(r.text(1)) },
		f.TaskID, f.ExecutorID, f.ExecID)
	if err != nil {
		return "", err
	}
	switch {
	case found && status == task.Running:
		return control, nil
	case found && status == task.Lost:
		return control, mine(c.exec(sqlWorkerBack, f.TaskID, f.ExecutorID, f.ExecID, st.now, st.next))
	}
	return "", ErrNotMine
}

// mine makes ErrNotMine of a fenced write that changed no row.
func mine(changed int64, err error) error {
	if err == nil && changed != 1 {
		return ErrNotMine
	}
	return err
}

func (s *Store) end(c *conn, f *Finish, to task.Status, reason task.Reason, outcome string, st stamp) (task.Status, error) {
	result := f.Result
	if to != task.Success {
		result = ""
	}
	err := mine(c.exec(sqlFinish, f.Fence.TaskID, f.Fence.ExecutorID, f.Fence.ExecID, string(to), string(reason),
		st.now, st.next, textOrNull(result)))
	if err != nil {
		return "", err
	}
	return to, s.finished(c, f, to, outcome, st)
}

func (s *Store) retry(c *conn, f *Finish, reason task.Reason, outcome string, st stamp) (task.Status, error) {
	at := f.RetryAt
	if at.IsZero() {
		at = st.at
	}
	err := mine(c.exec(sqlFinishRetry, f.Fence.TaskID, f.Fence.ExecutorID, f.Fence.ExecID, string(reason),
		task.FormatTime(at), st.now, st.next))
	if err != nil {
		return "", err
	}
	n, err := c.exec(sqlRetriesExhausted, f.Fence.TaskID, f.Fence.ExecutorID, st.now, st.next)
	if err != nil {
		return "", err
	}
	to := task.Retrying
	if n == 1 {
		to = task.Dead
	}
	return to, s.finished(c, f, to, outcome, st)
}

// release puts the task down for its worker's return.
func (s *Store) release(c *conn, f *Finish, st stamp) (task.Status, error) {
	if err := mine(c.exec(sqlRelease, f.Fence.TaskID, f.Fence.ExecutorID, f.Fence.ExecID, st.now, st.next)); err != nil {
		return "", err
	}
	return task.Running, closeHistory(c, f, OutcomeStopped, st)
}

// pause holds the task. When the pause was taken back while the executor was
// coming to its stop, the task is to go on: it is resumed at once.
func (s *Store) pause(c *conn, f *Finish, control task.Control, st stamp) (task.Status, error) {
	err := mine(c.exec(sqlFinishPause, f.Fence.TaskID, f.Fence.ExecutorID, f.Fence.ExecID, st.now, st.next))
	if err != nil {
		return "", err
	}
	if control == task.NoControl {
		if _, err := c.exec(sqlSetControl, f.Fence.TaskID, string(task.Resume), st.now, st.next); err != nil {
			return "", err
		}
	}
	return task.Paused, s.finished(c, f, task.Paused, OutcomePaused, st)
}

// finished does what every end has in common: the history and the hook.
func (s *Store) finished(c *conn, f *Finish, to task.Status, outcome string, st stamp) error {
	if err := closeHistory(c, f, outcome, st); err != nil {
		return err
	}
	return s.fire(c, f.Fence.TaskID, to, st)
}

var sqlCloseHistory = defineMulti(1, 7, `UPDATE exec_history
	SET end_time = ?1, outcome = column2, exit_code = column3, signal = column4, program = column5,
	    log_path = ifnull(column6, log_path), result = column7
	FROM (VALUES ROWS)
	WHERE exec_id = column1 AND end_time IS NULL`)

func closeHistory(c *conn, f *Finish, outcome string, st stamp) error {
	_, _, err := sqlCloseHistory.exec(c, historyEnd(make([]any, 0, 8), f, outcome, st))
	return err
}

// closeHistories closes the history rows of some finishes, at most multiRows.
func closeHistories(c *conn, finishes []Finish, some []int, outcome string, st stamp) error {
	if len(some) == 0 {
		return nil
	}
	args := make([]any, 0, 1+7*multiRows)
	for _, i := range some {
		args = historyEnd(args, &finishes[i], outcome, st)
	}
	_, _, err := sqlCloseHistory.exec(c, args)
	return err
}

// historyEnd appends the parameters of one row to those of the rows before.
func historyEnd(args []any, f *Finish, outcome string, st stamp) []any {
	if len(args) == 0 {
		args = append(args, st.now)
	}
	if f.Outcome != "" {
		outcome = f.Outcome
	}
	return append(args, f.Fence.ExecID, outcome, f.ExitCode, textOrNull(f.Signal),
		textOrNull(f.Program), textOrNull(f.LogPath), textOrNull(cutSummary(f.Summary)))
}

// cutSummary shortens s to what the history keeps, at a whole character.
func cutSummary(s string) string {
	if len(s) <= task.MaxSummaryBytes {
		return s
	}
	end := task.MaxSummaryBytes - len("…")
	for end > 0 && s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
