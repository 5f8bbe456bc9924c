package store

import (
	"time"

	"nightshift/pkg/task"
)

// A checkpoint that moves proves that the task makes progress: its crashes so far
// are forgiven.
var sqlCheckpoint = define(`UPDATE tasks
	SET checkpoint = ?4, progress = ifnull(?5, progress), crash_count = CASE WHEN checkpoint IS ?4 THEN crash_count ELSE 0 END,
	    updated_at = CASE updated_at WHEN ?6 THEN ?7 ELSE ?6 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'
	RETURNING control`)

var sqlProgress = define(`UPDATE tasks
	SET progress = ?4, updated_at = CASE updated_at WHEN ?5 THEN ?6 ELSE ?5 END
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING'
	RETURNING control`)

// Checkpoint stores where an execution stands and returns the wish that is
// pending for it. An empty state or progress leaves the stored one. A task that was
// marked LOST in the meantime comes back with it. The state must be JSON text.
func (s *Store) Checkpoint(f task.Fence, state, progress string, now time.Time) (control task.Control, err error) {
	if state != "" {
		if err := CheckJSON("checkpoint", state); err != nil {
			return "", &InputError{Why: err.Error()}
		}
	}
	st := s.stamp(now)
	progress = cutSummary(progress)
	save := func(c *conn) (found bool, err error) {
		scan := func(r row) { control = task.Control(r.text(0)) }
		if state == "" {
			return c.one(sqlProgress, scan, f.TaskID, f.ExecutorID, f.ExecID, textOrNull(progress), st.now, st.next)
		}
		return c.one(sqlCheckpoint, scan, f.TaskID, f.ExecutorID, f.ExecID, state, textOrNull(progress), st.now, st.next)
	}
	err = s.write("checkpoint of "+f.TaskID, &op{points: []string{"checkpoint"}, run: func(c *conn) error {
		found, err := save(c)
		if found || err != nil {
			return err
		}
		if _, err := s.regain(c, f, st); err != nil {
			return err
		}
		if found, err = save(c); err == nil && !found {
			err = ErrNotMine
		}
		return err
	}})
	return control, err
}
