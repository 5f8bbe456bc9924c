package store

import (
	"cmp"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// TakeOverRequest moves the tasks of executors that are proven dead. The caller
// holds the proof (the dead worker's lock, say) until TakeOver has returned.
type TakeOverRequest struct {
	Executors []string // exactly these ("" is a RUNNING row without an executor)
	Worker    string   // and all of this worker, if not empty
	// BootID: only executors whose heartbeat row bears this boot; "": any. It makes a
	// takeover by boot id harmless when the worker has registered anew meanwhile.
	BootID string
	// PID and StartTicks, with BootID, name the incarnation that was proven dead, and
	// ThisBoot the boot that runs now: when a heartbeat row of Worker names a later
	// incarnation, the worker is back, and TakeOver does nothing but return
	// ErrNotMine. PID 0: not asked.
	PID        int
	StartTicks uint64
	ThisBoot   string
	Graceful   bool // a good-bye or a reboot: no crash is counted
	// Overran: it was killed because a lease of its ran out. Its tasks whose lease is
	// expired go to RETRYING as their own failure (DESIGN §4).
	Overran bool
	Now     time.Time

	Backoff       func(taskType string) task.Backoff // of Overran
	Rand          func(n int64) int64
	MaxCrashes    int64
	MaxExecutions int64
}

// TakenOver is what a takeover did.
type TakenOver struct {
	Requeued  []string
	Expired   []string // RETRYING, lease_expired, or DEAD for that
	Dead      []string
	Cancelled []string
	LetGo     int
}

var sqlExecutorRows = define(`SELECT ` + fullRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST') AND executor_id = ?1`)

var sqlLose = define(`UPDATE tasks
	SET status = 'LOST', reason = ?4, updated_at = CASE updated_at WHEN ?5 THEN ?6 ELSE ?5 END
	WHERE task_id = ?1 AND executor_id IS ?2 AND exec_id IS ?3 AND status = 'RUNNING'`)

// What was due stays due, also when the clock has been set back since.
var sqlTakeOver = define(`UPDATE tasks
	SET status = 'PENDING', reason = 'takeover', crash_count = ?2, executor_id = NULL, lease_expire_time = NULL,
	    next_run_time = min(next_run_time, ?3), updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE task_id = ?1 AND status = 'LOST'`)

var sqlCrashesExhausted = define(`UPDATE tasks
	SET status = 'DEAD', reason = 'crashes_exhausted', crash_count = ?2, control = NULL, lease_expire_time = NULL,
	    updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE task_id = ?1 AND status = 'LOST'`)

var sqlCloseLost = define(`UPDATE exec_history
	SET end_time = ?2, outcome = ?3, result = ?4
	WHERE exec_id = ?1 AND end_time IS NULL`)

// closeLost closes a history row that its execution could not close itself.
func closeLost(c *conn, execID int64, outcome, why string, st stamp) error {
	_, err := c.exec(sqlCloseLost, execID, st.now, outcome, why)
	return err
}

// giveUp brings a row of a dead executor from RUNNING or LOST to where it belongs:
// CANCELLED when that was asked for, DEAD when its crashes or executions are used
// up, else PENDING, to go on from its checkpoint.
func (s *Store) giveUp(c *conn, t *task.Task, crashed bool, maxCrashes, maxExecutions int64, st stamp) (task.Status, error) {
	if t.Status == task.Running {
		var execID any = t.ExecID
		if t.ExecID == 0 {
			execID = nil
		}
		n, err := c.exec(sqlLose, t.ID, textOrNull(t.ExecutorID), execID, string(task.WorkerCrash), st.now, st.next)
		if err != nil || n == 0 {
			return "", err
		}
		if err := s.fire(c, t.ID, task.Lost, st); err != nil {
			return "", err
		}
	}
	if err := closeLost(c, t.ExecID, OutcomeLost, "its worker was gone", st); err != nil {
		return "", err
	}
	crashes := t.CrashCount
	if crashed {
		crashes++
	}
	if !t.Control.Cancels() && exhausted(t, crashed, maxCrashes, maxExecutions) {
		if _, err := c.exec(sqlCrashesExhausted, t.ID, crashes, st.now, st.next); err != nil {
			return "", err
		}
		return task.Dead, s.fire(c, t.ID, task.Dead, st)
	}
	if _, err := c.exec(sqlTakeOver, t.ID, crashes, st.now, st.next); err != nil {
		return "", err
	}
	if !t.Control.Cancels() {
		return task.Pending, nil
	}
	if _, err := c.exec(sqlCancelIdle, t.ID, st.now, st.next); err != nil {
		return "", err
	}
	return task.Cancelled, s.fire(c, t.ID, task.Cancelled, st)
}

// TakeOver moves the RUNNING and LOST rows of dead executors on, in one
// transaction. It is conditional: doing it twice, or two at once, is harmless.
func (s *Store) TakeOver(r TakeOverRequest) (TakenOver, error) {
	st := s.stamp(r.Now)
	var out TakenOver
	err := s.write("take over", &op{points: []string{"takeover"}, run: func(c *conn) error {
		out = TakenOver{}
		if back, err := r.isBack(c); err != nil || back {
			return cmp.Or(err, ErrNotMine)
		}
		rows, err := r.rows(c)
		if err != nil {
			return err
		}
		for i := range rows {
			t := &rows[i]
			if r.Overran && t.Status == task.Running && !t.LeaseUntil.After(st.at) && !t.LeaseUntil.IsZero() {
				retryAt := st.at.Add(r.Backoff(t.Type).Delay(t.RetryCount+1, r.Rand))
				if _, err := s.expire(c, t.Fence(), retryAt, st); err != nil {
					return err
				}
				out.Expired = append(out.Expired, t.ID)
				continue
			}
			to, err := s.giveUp(c, t, !r.Graceful && t.ExecutorID != "" && underWay(t), r.MaxCrashes, r.MaxExecutions, st)
			if err != nil {
				return err
			}
			switch to {
			case task.Pending:
				out.Requeued = append(out.Requeued, t.ID)
			case task.Dead:
				out.Dead = append(out.Dead, t.ID)
			case task.Cancelled:
				out.Cancelled = append(out.Cancelled, t.ID)
			}
		}
		return r.letGo(c, &out, st)
	}})
	if err != nil {
		return TakenOver{}, err
	}
	return out, nil
}

// isBack reports that another incarnation of the worker has registered meanwhile.
func (r *TakeOverRequest) isBack(c *conn) (bool, error) {
	if r.PID == 0 {
		return false, nil
	}
	beats, err := heartbeats(c)
	if err != nil {
		return false, err
	}
	for _, h := range beats {
		id, _, _ := strings.Cut(h.WorkerID, ".")
		later := h.BootID == r.ThisBoot && (h.BootID != r.BootID || h.StartTicks > r.StartTicks)
		if id == r.Worker && later {
			return true, nil
		}
	}
	return false, nil
}

// rows reads what the request covers.
func (r *TakeOverRequest) rows(c *conn) ([]task.Task, error) {
	var rows []task.Task
	for _, x := range r.Executors {
		q, args := sqlExecutorRows, []any{x}
		if x == "" {
			q, args = sqlOwnerless, nil
		}
		found, err := tasksOf(c, q, args...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	if r.Worker != "" {
		found, err := tasksOf(c, sqlOwnRows, r.Worker, slotsOf(r.Worker))
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	if r.BootID == "" {
		return rows, nil
	}
	boots := map[string]string{}
	beats, err := heartbeats(c)
	if err != nil {
		return nil, err
	}
	for _, h := range beats {
		boots[h.WorkerID] = h.BootID
	}
	kept := rows[:0]
	for _, t := range rows {
		if boots[t.ExecutorID] == r.BootID {
			kept = append(kept, t)
		}
	}
	return kept, nil
}

func (r *TakeOverRequest) letGo(c *conn, out *TakenOver, st stamp) error {
	if r.BootID != "" && r.PID == 0 {
		return nil // not known to be dead, unless its row says so
	}
	for _, x := range r.Executors {
		n, err := letGo(c, x, "", st)
		if err != nil {
			return err
		}
		out.LetGo += int(n)
	}
	if r.Worker == "" {
		return nil
	}
	n, err := letGo(c, r.Worker, slotsOf(r.Worker), st)
	out.LetGo += int(n)
	return err
}

// MarkOffline marks the RUNNING rows of a silent executor LOST and returns how
// many. It allows nothing else: the executor may come back (LOST → RUNNING).
func (s *Store) MarkOffline(executor string, now time.Time) (marked int, err error) {
	st := s.stamp(now)
	err = s.write("mark "+executor+" offline", &op{run: func(c *conn) error {
		marked = 0
		rows, err := tasksOf(c, sqlExecutorRows, executor)
		if err != nil {
			return err
		}
		for _, t := range rows {
			if t.Status != task.Running {
				continue
			}
			if _, err := c.exec(sqlLose, t.ID, t.ExecutorID, t.ExecID, string(task.WorkerOffline), st.now, st.next); err != nil {
				return err
			}
			marked++
			if err := s.fire(c, t.ID, task.Lost, st); err != nil {
				return err
			}
		}
		return nil
	}})
	return marked, err
}

// ExpireLease ends an execution that overran its lease, after its end was proven:
// the task's own failure. It returns RETRYING, DEAD or CANCELLED.
func (s *Store) ExpireLease(f task.Fence, retryAt, now time.Time) (to task.Status, err error) {
	st := s.stamp(now)
	err = s.write("lease of "+f.TaskID, &op{run: func(c *conn) (err error) {
		to, err = s.expire(c, f, retryAt, st)
		return err
	}})
	return to, err
}

func (s *Store) expire(c *conn, f task.Fence, retryAt time.Time, st stamp) (task.Status, error) {
	fin := &Finish{Fence: f, RetryAt: retryAt, Summary: "the lease ran out", Outcome: OutcomeLeaseExpired}
	control, err := s.regain(c, f, st)
	if err != nil {
		return "", err
	}
	if control.Cancels() {
		fin.Outcome = ""
		return s.end(c, fin, task.Cancelled, task.UserCancel, OutcomeCancelled, st)
	}
	return s.retry(c, fin, task.LeaseExpired, OutcomeLeaseExpired, st)
}

var sqlLetGoAll = define(`UPDATE tasks INDEXED BY idx_tasks_held
	SET executor_id = NULL, lease_expire_time = NULL, updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE executor_id IS NOT NULL AND (status = 'PENDING' OR status = 'RETRYING' OR status = 'PAUSED')
	  AND (executor_id = ?1 OR executor_id GLOB +?2)`)

// letGo frees what strangers moved while a dead executor ran it (see LetGo). Such
// rows are few: idx_tasks_held holds nothing else.
func letGo(c *conn, executor, slots string, st stamp) (int64, error) {
	return c.exec(sqlLetGoAll, executor, slots, st.now, st.next)
}

// sqlFarRetries reads only what lies beyond the time: idx_tasks_status_next_run.
var sqlFarRetries = define(`SELECT task_id, task_type, next_run_time, retry_count
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = 'RETRYING' AND next_run_time > ?1
	LIMIT 500`)

var sqlPullIn = define(`UPDATE tasks
	SET next_run_time = ?2, updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND status = 'RETRYING' AND next_run_time = ?3`)

// The newest time that a worker has written, as far as it is cheap to know.
var sqlNewestStamp = define(`SELECT max(ifnull((SELECT max(last_heartbeat) FROM worker_heartbeats), ''),
	  ifnull((SELECT max(max(start_time, ifnull(end_time, '')))
	    FROM (SELECT start_time, end_time FROM exec_history ORDER BY exec_id DESC LIMIT 100)), ''))`)

// A task that was claimed was due. Where the clock stood ahead then, and is right
// again, the task would wait until that time comes a second time.
var sqlStampedAhead = define(`UPDATE tasks INDEXED BY idx_tasks_status_next_run
	SET next_run_time = ?1, updated_at = CASE updated_at WHEN ?1 THEN ?2 ELSE ?1 END
	WHERE status IN ('PENDING', 'PAUSED') AND next_run_time > ?1 AND next_run_time <= ?3 AND executions > 0`)

// PullIn brings back what was stamped under a clock that stood ahead: RETRYING rows
// that lie further away than their type's backoff reaches, and interrupted tasks
// whose time that clock had reached; they are due at once. Call it at start and
// when the wall clock steps. was is what the clock said before; zero: not known.
func (s *Store) PullIn(now, was time.Time, backoff func(taskType string) task.Backoff, rnd func(n int64) int64) (drawn int, err error) {
	st := s.stamp(now)
	err = s.write("pull in interrupted tasks", &op{run: func(c *conn) error {
		drawn = 0
		reached := ""
		if err := c.query(sqlNewestStamp, func(r row) error { reached = r.text(0); return nil }); err != nil {
			return err
		}
		if !was.IsZero() {
			reached = max(reached, task.FormatTime(was))
		}
		if reached <= st.now {
			return nil
		}
		n, err := c.exec(sqlStampedAhead, st.now, st.next, reached)
		drawn = int(n)
		return err
	}})
	if err != nil {
		return 0, err
	}
	retries, err := s.pullInRetries(st, backoff, rnd)
	return drawn + retries, err
}

func (s *Store) pullInRetries(st stamp, backoff func(taskType string) task.Backoff, rnd func(n int64) int64) (drawn int, err error) {
	from := st.now
	for {
		n, last, changed := 0, "", 0
		err := s.write("pull in retries", &op{run: func(c *conn) error {
			n, changed = 0, 0
			var far []task.Task
			if err := c.query(sqlFarRetries, func(r row) error {
				n++
				last = r.text(2)
				far = append(far, task.Task{ID: r.text(0), Type: r.text(1), NextRun: readTime(r.text(2)), RetryCount: r.int(3)})
				return nil
			}, from); err != nil {
				return err
			}
			for _, t := range far {
				b := backoff(t.Type)
				if !t.NextRun.After(st.at.Add(b.Limit())) {
					continue
				}
				k, err := c.exec(sqlPullIn, t.ID, task.FormatTime(st.at.Add(b.Delay(t.RetryCount, rnd))), task.FormatTime(t.NextRun), st.now, st.next)
				if err != nil {
					return err
				}
				changed += int(k)
			}
			return nil
		}})
		drawn += changed
		if err != nil || n < 500 {
			return drawn, err
		}
		from = last
	}
}
