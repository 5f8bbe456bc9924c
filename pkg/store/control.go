package store

import (
	"fmt"
	"time"

	"nightshift/pkg/task"
)

// ControlResult says what setting a control did.
type ControlResult struct {
	ID      string
	Before  task.Status
	After   task.Status
	Control task.Control // what now stands in the row; NoControl when it acted at once
}

// The triggers of schema.sql do the rest: on a task that does not run the wish
// acts in this very statement, on a final one it is refused.
var sqlSetControl = define(`UPDATE tasks
	SET control = ?2, updated_at = CASE updated_at WHEN ?3 THEN ?4 ELSE ?3 END
	WHERE task_id = ?1`)

// SetControl records a person's wish. It is the same as a shell's UPDATE of the
// column. A task that is final refuses with an *InputError.
func (s *Store) SetControl(id string, want task.Control, now time.Time) (res ControlResult, err error) {
	st := s.stamp(now)
	err = s.write("control of "+id, &op{run: func(c *conn) (err error) {
		res, err = s.setControl(c, id, want, st)
		return err
	}})
	return res, err
}

func (s *Store) setControl(c *conn, id string, want task.Control, st stamp) (ControlResult, error) {
	before, err := getTask(c, id)
	if err != nil {
		return ControlResult{}, err
	}
	if before.Status.Final() {
		return ControlResult{}, &InputError{Why: fmt.Sprintf("task %s is %s: there is nothing to %s; `nightshift rerun` makes a new task from it", id, before.Status, want)}
	}
	if _, err := c.exec(sqlSetControl, id, string(want), st.now, st.next); err != nil {
		if own(err) {
			err = &InputError{Why: fmt.Sprintf("task %s: %s", id, err)}
		}
		return ControlResult{}, err
	}
	after, err := getTask(c, id)
	if err != nil {
		return ControlResult{}, err
	}
	if after.Status != before.Status {
		err = s.fire(c, id, after.Status, st)
	}
	return ControlResult{ID: id, Before: before.Status, After: after.Status, Control: after.Control}, err
}

// SetControlWhere sets a control on all unfinished tasks that the filter selects,
// in groups, so that other writers get their turns. each is told of every task;
// an error of one does not stop the others.
func (s *Store) SetControlWhere(f Filter, want task.Control, now time.Time, each func(ControlResult, error)) error {
	if len(f.Statuses) == 0 {
		f.Statuses = []task.Status{task.Pending, task.Running, task.Retrying, task.Paused, task.Lost}
	}
	var ids []string
	if err := s.List(f, func(_ int64, t *task.Task) error {
		ids = append(ids, t.ID)
		return nil
	}); err != nil {
		return err
	}
	st := s.stamp(now)
	for len(ids) > 0 {
		n := min(groupOps, len(ids))
		results := make([]ControlResult, n)
		errs := make([]error, n)
		err := s.write("control", &op{run: func(c *conn) error {
			for i, id := range ids[:n] {
				results[i], errs[i] = s.setControl(c, id, want, st)
				if errs[i] != nil && !own(errs[i]) {
					return errs[i]
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
		for i := range results {
			results[i].ID = ids[i]
			each(results[i], errs[i])
		}
		ids = ids[n:]
	}
	return nil
}

// Rerun makes a new task from a finished one. It starts from the old one's
// checkpoint unless fresh, and names it in rerun_of.
func (s *Store) Rerun(id string, fresh bool, now time.Time) (newID string, err error) {
	st := s.stamp(now)
	err = s.write("rerun of "+id, &op{run: func(c *conn) error {
		old, err := getTask(c, id)
		if err != nil {
			return err
		}
		if !old.Status.Final() {
			return &InputError{Why: fmt.Sprintf("task %s is %s and not finished: only a finished task can be run again", id, old.Status)}
		}
		n := NewTask{
			ID: task.NewID(st.at), Type: old.Type, Payload: old.Payload, Priority: &old.Priority, MaxRetry: &old.MaxRetry,
			Timeout: old.Timeout, Checkpoint: old.Checkpoint, UniqueKey: old.UniqueKey, Schedule: old.Schedule, RerunOf: old.ID,
		}
		if fresh {
			n.Checkpoint = ""
		}
		newID = n.ID
		if err := insertTask(c, &n, st); err != nil {
			return refusedInsert(c, 0, &n, err)
		}
		return nil
	}})
	if err != nil {
		return "", err
	}
	return newID, nil
}

// Slow marks an execution whose progress stands still and inserts the hook's task
// with it, if there is one.
func (s *Store) Slow(f task.Fence, now time.Time, hook *NewTask) error {
	st := s.stamp(now)
	return s.write("slow mark of "+f.TaskID, &op{run: func(c *conn) error {
		if _, err := s.regain(c, f, st); err != nil {
			return err
		}
		if _, err := c.exec(sqlSlow, f.ExecutorID, f.TaskID, st.now); err != nil {
			return err
		}
		if hook == nil {
			return nil
		}
		return s.insertHook(c, *hook, st)
	}})
}

var sqlSlow = define(`UPDATE worker_heartbeats
	SET slow_since = ifnull(slow_since, ?3)
	WHERE worker_id = ?1 AND current_task_id = ?2`)

var sqlLetGo = define(`UPDATE tasks
	SET executor_id = NULL, lease_expire_time = NULL, updated_at = CASE updated_at WHEN ?4 THEN ?5 ELSE ?4 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3
	  AND (status = 'PENDING' OR status = 'RETRYING' OR status = 'PAUSED')`)

// LetGo frees a task that somebody moved by hand while it ran (RUNNING → RETRYING
// in a shell, say). Such a row keeps its executor_id, and no claim touches it, until
// its executor has stopped what it ran and says so here. Otherwise it does nothing.
func (s *Store) LetGo(f task.Fence, now time.Time) error {
	st := s.stamp(now)
	return s.write("let go of "+f.TaskID, &op{run: func(c *conn) error {
		_, err := c.exec(sqlLetGo, f.TaskID, f.ExecutorID, f.ExecID, st.now, st.next)
		return err
	}})
}
