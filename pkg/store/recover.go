package store

import (
	"fmt"
	"slices"
	"time"

	"nightshift/pkg/task"
)

// RecoverRequest is a worker's own recovery before its first claim (DESIGN §5).
// The caller holds the worker's lock, and its old tree is dead.
type RecoverRequest struct {
	Worker    string
	Executors []string // the slots that exist now
	BootID    string
	Now       time.Time
	// Graceful: no crash is counted. It is also found out from the old heartbeat rows:
	// a good-bye (stopped_at) or another boot.
	Graceful bool
	Types    map[string]TypeRule // what this worker can run; nil: everything
	Backoff  func(taskType string) task.Backoff
	Rand     func(n int64) int64
	// Register, if not empty, is written in the same transaction, after the old rows
	// were looked at: from then on the executors bear this boot and this process.
	Register []Heartbeat

	NoTimeoutLease time.Duration
	MaxCrashes     int64
	SuspectAt      int64 // 0: max(MaxCrashes-1, 1)
	MaxExecutions  int64 // 0: no limit
}

// Recovered is what a recovery did.
type Recovered struct {
	Resume    []task.Task // RUNNING under a new exec_id: run them on at once
	Requeued  int         // LOST, or more than there are slots: PENDING again
	Expired   int         // RETRYING, lease_expired
	Dead      int         // retries, crashes or executions exhausted
	Cancelled int         // a cancel had been asked for
	Paused    int         // a pause had been asked for
	LetGo     int         // moved by hand while it ran: claimable again
}

// RUNNING and LOST rows of a worker, its slots of today and of yesterday included.
var sqlOwnRows = define(`SELECT ` + fullRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST') AND (executor_id = ?1 OR executor_id GLOB +?2)
	ORDER BY priority, next_run_time, rowid`)

// Set RUNNING by a shell without an executor: nobody runs it, nobody ever did.
var sqlOwnerless = define(`SELECT ` + fullRow + `
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST') AND executor_id IS NULL`)

var sqlReadopt = define(`UPDATE tasks
	SET executor_id = ?4, exec_id = ?5, lease_expire_time = ?6, crash_count = ?7, executions = executions + 1,
	    updated_at = CASE updated_at WHEN ?8 THEN ?9 ELSE ?8 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id IS ?3 AND status = 'RUNNING'`)

var sqlRetryingBeyond = define(`SELECT task_id
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = 'RETRYING' AND retry_count > max_retry`)

// recovery is one Recover at work, in its transaction.
type recovery struct {
	s         *Store
	c         *conn
	r         *RecoverRequest
	st        stamp
	beats     map[string]Heartbeat
	free      []string
	suspectAt int64
	suspects  int
	out       Recovered
}

// Recover clears up what the worker's earlier incarnation left, in one
// transaction. All of it is conditional: doing it twice is harmless.
func (s *Store) Recover(r RecoverRequest) (Recovered, error) {
	st := s.stamp(r.Now)
	v := &recovery{s: s, r: &r, st: st, suspectAt: r.SuspectAt}
	if v.suspectAt <= 0 {
		v.suspectAt = max(r.MaxCrashes-1, 1)
	}
	err := s.write("recover "+r.Worker, &op{
		points: []string{"recover"},
		run: func(c *conn) error {
			v.c, v.out, v.suspects, v.free = c, Recovered{}, 0, slices.Clone(r.Executors)
			return v.run()
		},
		applied: func(c *conn) (bool, error) {
			for _, t := range v.out.Resume {
				now, err := getTask(c, t.ID)
				return err == nil && now.ExecID == t.ExecID, err
			}
			return false, nil // the rest is conditional: again does no harm
		},
	})
	if err != nil {
		return Recovered{}, err
	}
	return v.out, nil
}

func (v *recovery) run() error {
	beats, err := heartbeats(v.c)
	if err != nil {
		return err
	}
	v.beats = make(map[string]Heartbeat, len(beats))
	for _, h := range beats {
		v.beats[h.WorkerID] = h
	}
	rows, err := tasksOf(v.c, sqlOwnRows, v.r.Worker, slotsOf(v.r.Worker))
	if err != nil {
		return err
	}
	// A row keeps its old slot where that still exists; the others take what is left.
	for i := range rows {
		if err := v.row(&rows[i]); err != nil {
			return err
		}
	}
	if err := v.resumeAll(); err != nil {
		return err
	}
	ownerless, err := tasksOf(v.c, sqlOwnerless)
	if err != nil {
		return err
	}
	for i := range ownerless {
		if err := v.requeue(&ownerless[i], false); err != nil {
			return err
		}
	}
	if err := v.exhausted(); err != nil {
		return err
	}
	n, err := letGo(v.c, v.r.Worker, slotsOf(v.r.Worker), v.st)
	if err != nil {
		return err
	}
	v.out.LetGo = int(n)
	return register(v.c, v.r.Register, v.st)
}

func tasksOf(c *conn, q *query, args ...any) (all []task.Task, err error) {
	err = c.query(q, func(r row) error {
		all = append(all, scanTask(r))
		return nil
	}, args...)
	return all, err
}

// row decides about one row of the worker. What can run on is put into out.Resume
// for resumeAll.
func (v *recovery) row(t *task.Task) error {
	crashed := underWay(t) && !v.graceful(t.ExecutorID)
	if t.Status == task.Lost {
		return v.requeue(t, crashed)
	}
	switch {
	case t.Control.Cancels():
		v.out.Cancelled++
		return v.finish(t, Cancel)
	case t.Control == task.Pause:
		v.out.Paused++
		return v.finish(t, Pause)
	case !t.LeaseUntil.IsZero() && t.LeaseUntil.Before(v.st.at):
		return v.expired(t)
	}
	if v.poison(t, crashed) {
		return v.requeue(t, crashed)
	}
	if crashed {
		t.CrashCount++
	}
	v.out.Resume = append(v.out.Resume, *t)
	return nil
}

// underWay reports that an execution of the row had not ended when its worker did:
// a task that was put down before (Release) has no part in the crash.
func underWay(t *task.Task) bool { return !t.LeaseUntil.IsZero() }

// graceful reports that the executor's end was no crash of its own: it said
// good-bye, or the machine went down under it.
func (v *recovery) graceful(executor string) bool {
	h, known := v.beats[executor]
	return v.r.Graceful || known && (!h.StoppedAt.IsZero() || h.BootID != "" && v.r.BootID != "" && h.BootID != v.r.BootID)
}

// poison reports a task that has had its last execution.
func (v *recovery) poison(t *task.Task, crashed bool) bool {
	return exhausted(t, crashed, v.r.MaxCrashes, v.r.MaxExecutions)
}

func exhausted(t *task.Task, crashed bool, maxCrashes, maxExecutions int64) bool {
	return crashed && maxCrashes > 0 && t.CrashCount+1 >= maxCrashes || maxExecutions > 0 && t.Executions >= maxExecutions
}

func (v *recovery) finish(t *task.Task, verdict Verdict) error {
	f := Finish{Fence: t.Fence(), Verdict: verdict, Summary: "its worker was gone; ended at recovery"}
	_, err := v.s.finish(v.c, &f, v.st)
	return err
}

// expired ends an execution whose lease ran out. When its executor still beat
// after that, the task overran: its own failure. When it was dead by then, the
// machine was away: that costs nothing.
func (v *recovery) expired(t *task.Task) error {
	v.out.Expired++
	h := v.beats[t.ExecutorID]
	if h.LastHeartbeat.After(t.LeaseUntil) {
		at := v.st.at
		if v.r.Backoff != nil && v.r.Rand != nil {
			at = at.Add(v.r.Backoff(t.Type).Delay(t.RetryCount+1, v.r.Rand))
		}
		to, err := v.s.expire(v.c, t.Fence(), at, v.st)
		if to == task.Dead {
			v.out.Dead++
		}
		return err
	}
	_, err := v.c.exec(sqlExpireFree, t.ID, t.ExecutorID, t.ExecID, v.st.now, v.st.next)
	if err != nil {
		return err
	}
	return closeLost(v.c, t.ExecID, OutcomeLeaseExpired, "the lease ran out while nothing ran", v.st)
}

// Dead by the time the lease ran out: due at once, retry_count untouched.
var sqlExpireFree = define(`UPDATE tasks
	SET status = 'RETRYING', reason = 'lease_expired', next_run_time = ?4, executor_id = NULL, lease_expire_time = NULL,
	    updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id IS ?3 AND status = 'RUNNING'`)

// requeue brings a row through LOST to where it belongs.
func (v *recovery) requeue(t *task.Task, crashed bool) error {
	to, err := v.s.giveUp(v.c, t, crashed, v.r.MaxCrashes, v.r.MaxExecutions, v.st)
	switch to {
	case task.Pending:
		v.out.Requeued++
	case task.Dead:
		v.out.Dead++
	case task.Cancelled:
		v.out.Cancelled++
	}
	return err
}

// resumeAll gives the resumable rows their slots: the old one where it exists and
// is free, then any. Of suspects one runs at a time, so that the next crash tells
// whose it is.
func (v *recovery) resumeAll() error {
	rows := v.out.Resume
	v.out.Resume = nil
	var homeless []task.Task
	for i := range rows {
		t := &rows[i]
		if !v.mayResume(t) {
			if err := v.requeueResumed(t); err != nil {
				return err
			}
			continue
		}
		if at := slices.Index(v.free, t.ExecutorID); at >= 0 {
			v.free = slices.Delete(v.free, at, at+1)
			if err := v.resume(t, t.ExecutorID); err != nil {
				return err
			}
			continue
		}
		homeless = append(homeless, *t)
	}
	for i := range homeless {
		t := &homeless[i]
		if len(v.free) == 0 {
			if err := v.requeueResumed(t); err != nil {
				return err
			}
			continue
		}
		slot := v.free[0]
		v.free = v.free[1:]
		if err := v.resume(t, slot); err != nil {
			return err
		}
	}
	return nil
}

func (v *recovery) mayResume(t *task.Task) bool {
	if _, known := v.r.Types[t.Type]; v.r.Types != nil && !known {
		return false
	}
	if t.CrashCount < v.suspectAt {
		return true
	}
	v.suspects++
	return v.suspects == 1
}

// requeueResumed is requeue for a row whose crash row has counted already.
func (v *recovery) requeueResumed(t *task.Task) error {
	if _, err := v.c.exec(sqlCountCrash, t.ID, t.CrashCount, v.st.now, v.st.next); err != nil {
		return err
	}
	return v.requeue(t, false)
}

var sqlCountCrash = define(`UPDATE tasks
	SET crash_count = ?2, updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE task_id = ?1`)

func (v *recovery) resume(t *task.Task, slot string) error {
	if err := closeLost(v.c, t.ExecID, OutcomeInterrupted, "its worker ended; resumed by "+slot, v.st); err != nil {
		return err
	}
	execID, _, err := sqlStart.exec(v.c, []any{v.st.now, t.ID, slot})
	if err != nil {
		return err
	}
	lease := v.st.at.Add(leaseOf(t, v.r.Types[t.Type], v.r.NoTimeoutLease))
	var old any = t.ExecID
	if t.ExecID == 0 {
		old = nil
	}
	n, err := v.c.exec(sqlReadopt, t.ID, t.ExecutorID, old, slot, execID, task.FormatTime(lease), t.CrashCount, v.st.now, v.st.next)
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("resume %s: the row changed under its transaction", t.ID)
	}
	t.ExecutorID, t.ExecID, t.LeaseUntil, t.UpdatedAt = slot, execID, lease.Truncate(time.Millisecond), v.st.at
	t.Executions++
	v.out.Resume = append(v.out.Resume, *t)
	return nil
}

// exhausted ends what waits for a retry that it may not have (seed, §4.4).
func (v *recovery) exhausted() error {
	var ids []string
	if err := v.c.query(sqlRetryingBeyond, func(r row) error {
		ids = append(ids, r.text(0))
		return nil
	}); err != nil {
		return err
	}
	for _, id := range ids {
		n, err := v.c.exec(sqlRetriesExhausted, id, nil, v.st.now, v.st.next)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		v.out.Dead++
		if err := v.s.fire(v.c, id, task.Dead, v.st); err != nil {
			return err
		}
	}
	return nil
}
