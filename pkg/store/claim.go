package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"nightshift/pkg/task"
)

// TypeRule is what a claim must know of a task type.
type TypeRule struct {
	Limit   int           // how many may run at once over all workers; 0: no limit
	Timeout time.Duration // for rows without timeout_seconds; 0: none
}

// ClaimRequest asks for as many due tasks as there are idle executors.
type ClaimRequest struct {
	Executors []string            // idle slots, one task each
	Worker    string              // the worker they belong to
	Types     map[string]TypeRule // what this worker can run; others are never claimed
	Now       time.Time           // zero: the store's clock

	NoTimeoutLease time.Duration // lease of a task without a timeout: 2 × offline_after
	SuspectAt      int64         // from this crash_count on a task runs alone among its like in a worker; 0: off
	MaxExecutions  int64         // 0: no limit
}

// Here and below, +?1 keeps the planner from looking at the value: otherwise SQLite
// prepares the statement anew each time that one is bound.

// claimable is the WHERE of idx_tasks_claim, word for word: only so does SQLite
// take that index.
const claimable = `executor_id IS NULL
	  AND (control IS NULL OR control <> 'pause')
	  AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'))`

// The first priority of a type that holds anything, due or not, and the next one
// after a priority: one seek in idx_tasks_claim each.
var sqlFirstPriority = define(`SELECT priority, next_run_time
	FROM tasks INDEXED BY idx_tasks_claim
	WHERE ` + claimable + ` AND task_type = +?1
	ORDER BY priority, next_run_time
	LIMIT 1`)

var sqlNextPriority = define(`SELECT priority, next_run_time
	FROM tasks INDEXED BY idx_tasks_claim
	WHERE ` + claimable + ` AND task_type = +?1 AND priority > ?2
	ORDER BY priority, next_run_time
	LIMIT 1`)

// The candidates of one type and priority in the order of idx_tasks_claim; read
// only as far as they are due and slots are free.
var sqlCandidates = define(`SELECT ` + fullRow + `, rowid
	FROM tasks INDEXED BY idx_tasks_claim
	WHERE ` + claimable + ` AND task_type = +?1 AND priority = +?2
	ORDER BY next_run_time, rowid`)

// RUNNING and LOST rows are as few as there are slots: idx_tasks_status_next_run.
var sqlActiveTypes = define(`SELECT task_type, count(*)
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST')
	GROUP BY task_type`)

// The numbers of one statement's executions follow one another.
var sqlStart = defineMulti(1, 2, `INSERT INTO exec_history (task_id, executor_id, start_time)
	SELECT column1, column2, ?1
	FROM (VALUES ROWS)
	WHERE column1 IS NOT NULL`)

// status in the WHERE is the barrier between two claimers (the seed, §4.3).
var sqlClaim = defineMulti(2, 4, `UPDATE tasks
	SET status = 'RUNNING', reason = 'claimed', executor_id = column2, exec_id = column3, executions = executions + 1,
	    lease_expire_time = column4, updated_at = CASE updated_at WHEN ?1 THEN ?2 ELSE ?1 END
	FROM (VALUES ROWS)
	WHERE tasks.rowid = column1 AND executor_id IS NULL AND (status = 'PENDING' OR status = 'RETRYING')`)

var sqlClaimPaused = define(`UPDATE tasks
	SET status = 'RUNNING', reason = 'user_resume', control = NULL, executor_id = ?4, exec_id = ?5, executions = executions + 1,
	    lease_expire_time = ?6, updated_at = CASE updated_at WHEN ?1 THEN ?2 ELSE ?1 END
	WHERE rowid = ?3 AND executor_id IS NULL AND status = 'PAUSED' AND control = 'resume'`)

var sqlCancelIdle = define(`UPDATE tasks
	SET status = 'CANCELLED', reason = 'user_cancel', control = NULL,
	    updated_at = CASE updated_at WHEN ?2 THEN ?3 ELSE ?2 END
	WHERE task_id = ?1 AND (status = 'PENDING' OR status = 'RETRYING' OR status = 'PAUSED')`)

// candidate is a row that a claim may take.
type candidate struct {
	task  task.Task
	rowid int64

	// Once it is chosen:
	executor string
	execID   int64
	lease    time.Time
}

// head is where the walk stands within one type.
type head struct {
	typ      string
	priority int64
	due      string
	room     int // how many more of the type may run; -1: no limit
}

// claimer is one claim at work.
type claimer struct {
	s    *Store
	c    *conn
	req  *ClaimRequest
	st   stamp
	free []string // executors without a task yet
	next string   // earliest due time seen of what is not due yet

	chosen []*candidate
	out    []task.Task

	suspects      int64 // suspects that this worker runs already
	suspectsKnown bool
}

// claim takes due tasks in the order priority, next_run_time, insertion. It walks
// idx_tasks_claim one priority at a time over all types, one seek each, so that
// neither rows in the future nor a type at its limit cost anything.
func (s *Store) claim(c *conn, req *ClaimRequest, st stamp) ([]task.Task, time.Time, error) {
	k := &claimer{s: s, c: c, req: req, st: st, free: req.Executors}
	heads, err := k.heads()
	if err != nil {
		return nil, time.Time{}, err
	}
	for len(heads) > 0 && len(k.free) > 0 {
		top := heads[0].priority
		for _, h := range heads {
			top = min(top, h.priority)
		}
		if err := k.level(heads, top); err != nil {
			return nil, time.Time{}, err
		}
		if heads, err = k.advance(heads, top); err != nil {
			return nil, time.Time{}, err
		}
	}
	full := len(k.free) == 0
	k.out = make([]task.Task, 0, len(k.chosen))
	if err := k.startAll(); err != nil {
		return nil, time.Time{}, err
	}
	if full {
		return k.out, st.at, nil // there may be more, due now
	}
	return k.out, readTime(k.next), nil
}

// heads finds where each type that has room begins.
func (k *claimer) heads() ([]head, error) {
	room, err := roomOf(k.c, k.req.Types)
	if err != nil {
		return nil, err
	}
	heads := make([]head, 0, len(room))
	for typ, n := range room {
		if n == 0 {
			continue
		}
		h := head{typ: typ, room: n}
		found, err := k.c.one(sqlFirstPriority, h.set, typ)
		if err != nil {
			return nil, err
		}
		if found {
			heads = append(heads, h)
		}
	}
	return heads, nil
}

func (h *head) set(r row) { h.priority, h.due = r.int(0), r.text(1) }

// roomOf says how many more tasks of each type may run, over all workers; -1: any number.
func roomOf(c *conn, types map[string]TypeRule) (map[string]int, error) {
	room := make(map[string]int, len(types))
	limited := false
	for typ, rule := range types {
		room[typ] = -1
		if rule.Limit > 0 {
			room[typ], limited = rule.Limit, true
		}
	}
	if !limited {
		return room, nil
	}
	err := c.query(sqlActiveTypes, func(r row) error {
		typ := r.text(0)
		if n, ok := room[typ]; ok && n >= 0 {
			room[typ] = max(0, n-int(r.int(1)))
		}
		return nil
	})
	return room, err
}

// level claims what is due at one priority, of all types that stand there.
func (k *claimer) level(heads []head, priority int64) error {
	var due []candidate // chosen points into it once it is whole
	types := 0
	for i := range heads {
		h := &heads[i]
		if h.priority != priority || h.room == 0 {
			continue
		}
		if h.due > k.st.now {
			k.later(h.due)
			continue
		}
		var err error
		if due, err = k.due(h, due); err != nil {
			return err
		}
		types++
	}
	if types > 1 {
		slices.SortFunc(due, func(a, b candidate) int {
			return cmp.Or(a.task.NextRun.Compare(b.task.NextRun), cmp.Compare(a.rowid, b.rowid))
		})
	}
	for i := range due {
		if len(k.free) == 0 {
			return nil
		}
		chosen, err := k.choose(&due[i])
		if err != nil {
			return err
		}
		if !chosen {
			continue
		}
		for j := range heads {
			if h := &heads[j]; h.typ == due[i].task.Type && h.room > 0 {
				h.room--
			}
		}
	}
	return nil
}

func (k *claimer) later(due string) {
	if k.next == "" || due < k.next {
		k.next = due
	}
}

// due adds a type's due rows at its priority to found: as many as could be taken. Of the
// suspects among them only the first counts, and none while this worker runs one.
func (k *claimer) due(h *head, found []candidate) ([]candidate, error) {
	want := len(k.free)
	if h.room > 0 {
		want = min(want, h.room)
	}
	suspects, err := k.suspectRoom()
	if err != nil {
		return nil, err
	}
	found = slices.Grow(found, min(want, multiRows))
	full := len(found) + want
	err = k.c.query(sqlCandidates, func(r row) error {
		if due := r.text(4); due > k.st.now {
			k.later(due)
			return errStop
		}
		if len(found) == full {
			return errStop
		}
		t := scanTask(r)
		if k.suspect(&t) {
			if suspects == 0 {
				return nil
			}
			suspects--
		}
		found = append(found, candidate{task: t, rowid: r.int(len(taskColumns))})
		return nil
	}, h.typ, h.priority)
	return found, err
}

// suspect reports a task whose executor crashed so often that its next crash may
// be its own doing: when a worker with two of them dies, neither could be blamed.
func (k *claimer) suspect(t *task.Task) bool {
	return k.req.SuspectAt > 0 && t.CrashCount >= k.req.SuspectAt
}

var sqlSuspects = define(`SELECT count(*)
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status = 'RUNNING' AND crash_count >= ?1 AND (executor_id = ?2 OR executor_id GLOB +?3)`)

// suspectRoom is how many suspects this worker may still take: one, or none.
func (k *claimer) suspectRoom() (int, error) {
	if k.req.SuspectAt <= 0 {
		return 0, nil
	}
	if !k.suspectsKnown {
		_, err := k.c.one(sqlSuspects, func(r row) { k.suspects += r.int(0) }, k.req.SuspectAt, k.req.Worker, slotsOf(k.req.Worker))
		if err != nil {
			return 0, err
		}
		k.suspectsKnown = true
	}
	return int(max(0, 1-k.suspects)), nil
}

// advance moves the heads that stood at a priority to their next one; a type that
// has nothing more, or no room, leaves.
func (k *claimer) advance(heads []head, priority int64) ([]head, error) {
	kept := heads[:0]
	for _, h := range heads {
		if h.room == 0 {
			continue
		}
		if h.priority == priority {
			found, err := k.c.one(sqlNextPriority, h.set, h.typ, priority)
			if err != nil {
				return nil, err
			}
			if !found {
				continue
			}
		}
		kept = append(kept, h)
	}
	return kept, nil
}

// choose gives a candidate the next free executor. It reports false for a row that
// ends here instead: a cancel that was asked for, or retries that are used up.
func (k *claimer) choose(d *candidate) (chosen bool, err error) {
	t := &d.task
	if k.suspect(t) {
		if k.suspects > 0 {
			return false, nil
		}
		k.suspects++
	}
	if ended, err := k.overdue(t); ended || err != nil {
		k.later(k.st.now) // its slot is still free
		return false, err
	}
	d.executor = k.free[0]
	d.lease = k.st.at.Add(leaseOf(t, k.req.Types[t.Type], k.req.NoTimeoutLease)).Truncate(time.Millisecond)
	k.free = k.free[1:]
	k.chosen = append(k.chosen, d)
	return true, nil
}

// startAll makes the chosen rows RUNNING, many in a statement.
func (k *claimer) startAll() error {
	for len(k.chosen) > 0 {
		n := min(len(k.chosen), multiRows)
		if err := k.startSome(k.chosen[:n]); err != nil {
			return err
		}
		k.chosen = k.chosen[n:]
	}
	return nil
}

func (k *claimer) startSome(chosen []*candidate) error {
	args := make([]any, 0, 2+4*multiRows)
	args = append(args, k.st.now)
	for i := range chosen {
		args = append(args, chosen[i].task.ID, chosen[i].executor)
	}
	last, n, err := sqlStart.exec(k.c, args)
	if err != nil {
		return err
	}
	if int(n) != len(chosen) {
		return fmt.Errorf("%d of %d executions were recorded", n, len(chosen))
	}
	args = append(args[:0], k.st.now, k.st.next)
	plain := true
	for i := range chosen {
		d := chosen[i]
		d.execID = last - int64(len(chosen)-1-i) // one statement, one writer: they follow one another
		plain = plain && d.task.Status != task.Paused && sane(&d.task) == nil
		args = append(args, d.rowid, d.executor, d.execID, task.FormatTime(d.lease))
	}
	if plain {
		switch _, n, err = sqlClaim.exec(k.c, args); {
		case err == nil && int(n) == len(chosen):
			for i := range chosen {
				k.started(chosen[i])
			}
			return nil
		case err == nil:
			return fmt.Errorf("%d of %d rows let themselves be claimed", n, len(chosen))
		case !own(err):
			return err
		}
	}
	return k.startEach(chosen)
}

// startEach is startSome for rows among which one needs another statement, or is
// wrong in a way nobody foresaw: that one must not stop the queue.
func (k *claimer) startEach(chosen []*candidate) error {
	for i := range chosen {
		d := chosen[i]
		wrong := sane(&d.task)
		if wrong == nil {
			wrong = k.start(d)
		}
		switch {
		case wrong == nil:
			k.started(d)
		case own(wrong):
			k.later(k.st.now)
			if err := k.condemn(d, wrong); err != nil {
				return err
			}
		default:
			return wrong
		}
	}
	return nil
}

// sane finds in a row what the schema cannot see.
func sane(t *task.Task) error {
	switch {
	case !utf8.ValidString(t.Payload):
		return fmt.Errorf("payload is not valid UTF-8")
	case !utf8.ValidString(t.Checkpoint):
		return fmt.Errorf("checkpoint is not valid UTF-8")
	case t.Timeout != nil && (*t.Timeout < 0 || *t.Timeout > maxNumber):
		return fmt.Errorf("timeout_seconds is %d", *t.Timeout)
	}
	return task.CheckID(t.ID)
}

// start makes one row RUNNING.
func (k *claimer) start(d *candidate) error {
	var n int64
	var err error
	lease := task.FormatTime(d.lease)
	if d.task.Status == task.Paused {
		n, err = k.c.exec(sqlClaimPaused, k.st.now, k.st.next, d.rowid, d.executor, d.execID, lease)
	} else {
		_, n, err = sqlClaim.exec(k.c, []any{k.st.now, k.st.next, d.rowid, d.executor, d.execID, lease})
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("the row did not let itself be claimed")
	}
	return err
}

// started makes the task what its row now is.
func (k *claimer) started(d *candidate) {
	t := &d.task
	t.Reason = task.Claimed
	if t.Status == task.Paused {
		t.Reason = task.UserResume
	}
	t.Status, t.Control, t.ExecutorID, t.ExecID = task.Running, task.NoControl, d.executor, d.execID
	t.LeaseUntil, t.UpdatedAt = d.lease, k.st.at
	t.Executions++
	k.out = append(k.out, *t)
}

// leaseOf is the seed's lease: two timeouts; a task without one is renewed by heartbeats.
func leaseOf(t *task.Task, rule TypeRule, noTimeout time.Duration) time.Duration {
	timeout := rule.Timeout
	if t.Timeout != nil {
		timeout = time.Duration(*t.Timeout) * time.Second
	}
	if timeout <= 0 {
		return noTimeout
	}
	return 2 * timeout
}

var sqlTooManyRuns = define(`UPDATE tasks
	SET status = 'DEAD', reason = 'retries_exhausted', control = NULL,
	    updated_at = CASE updated_at WHEN ?2 THEN ?3 ELSE ?2 END
	WHERE task_id = ?1 AND status = 'RETRYING'`)

// overdue ends what should not run any more.
func (k *claimer) overdue(t *task.Task) (ended bool, err error) {
	var n int64
	to := task.Dead
	switch {
	case t.Control.Cancels():
		to = task.Cancelled
		n, err = k.c.exec(sqlCancelIdle, t.ID, k.st.now, k.st.next)
	case t.Status == task.Retrying && (t.RetryCount > t.MaxRetry || k.req.MaxExecutions > 0 && t.Executions >= k.req.MaxExecutions):
		n, err = k.c.exec(sqlTooManyRuns, t.ID, k.st.now, k.st.next)
	}
	if err != nil || n == 0 {
		return false, err
	}
	return true, k.s.fire(k.c, t.ID, to, k.st)
}

var sqlCondemnStart = define(`UPDATE tasks
	SET status = 'RUNNING', reason = CASE status WHEN 'PAUSED' THEN 'user_resume' ELSE 'claimed' END,
	    executor_id = ?2, exec_id = ?3, updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE rowid = ?1`)

var sqlCondemnEnd = define(`UPDATE tasks
	SET status = 'FAILED', reason = 'fatal_error', control = NULL, updated_at = CASE updated_at WHEN ?2 THEN ?3 ELSE ?2 END
	WHERE rowid = ?1`)

// condemn ends a row that cannot run: it alone is FAILED, with the reason in its history.
func (k *claimer) condemn(d *candidate, wrong error) error {
	k.s.log.Error("a task that cannot be run is FAILED", "task", d.task.ID, "err", wrong)
	if _, err := k.c.exec(sqlCondemnStart, d.rowid, d.executor, d.execID, k.st.now, k.st.next); err != nil {
		return err
	}
	if _, err := k.c.exec(sqlCondemnEnd, d.rowid, k.st.now, k.st.next); err != nil {
		return err
	}
	f := &Finish{Fence: task.Fence{TaskID: d.task.ID, ExecID: d.execID}, Summary: wrong.Error()}
	return k.s.finished(k.c, f, task.Failed, OutcomeFailed, k.st)
}

// NextDue looks, without a write lock, when the next of these types is due. A type
// at its limit is left out: the end of one of its tasks will wake whoever waits.
func (s *Store) NextDue(types map[string]TypeRule) (due time.Time, ok bool, err error) {
	next := ""
	err = s.read("next due", func(c *conn) error {
		k := &claimer{s: s, c: c, req: &ClaimRequest{Types: types}}
		heads, err := k.heads()
		if err != nil {
			return err
		}
		for _, h := range heads {
			for found := true; found; {
				k.later(h.due)
				if found, err = c.one(sqlNextPriority, h.set, h.typ, h.priority); err != nil {
					return err
				}
			}
		}
		next = k.next
		return nil
	})
	if err != nil || next == "" {
		return time.Time{}, false, err
	}
	return readTime(next), true, nil
}
