package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"

	"nightshift/pkg/task"
)

// NewTask is a task to be inserted. The zero values of its optional fields mean
// the schema's defaults.
type NewTask struct {
	ID         string // "": a new time-ordered one
	Type       string
	Payload    string    // JSON text, kept byte for byte; "": {}
	Held       bool      // inserted PAUSED
	Priority   *int64    // nil: 100
	NextRun    time.Time // zero: now
	MaxRetry   *int64    // nil: 5
	Timeout    *int64    // seconds; nil: the type's; 0: none
	RetryCount int64     // failures to count from
	Checkpoint string    // JSON text to start from
	UniqueKey  string    // at most one unfinished task bears it
	Schedule   string    // the schedule that makes it
	RerunOf    string    // the task that it runs again
}

// maxNumber bounds max_retry and timeout_seconds, as the schema does: two
// timeouts from now must stay within the years of four digits.
const maxNumber = 1_000_000_000

// ExistsError says which task is in the way of a new one.
type ExistsError struct {
	Index  int    // in the batch, from 0
	TaskID string // the task that exists
	Key    string // the unique_key that it bears; "": the id itself is taken
}

func (e *ExistsError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("task %s bears the key %q and is not finished", e.TaskID, e.Key)
	}
	return fmt.Sprintf("task %s exists already", e.TaskID)
}

// Is makes it an ErrExists.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// Check refuses what the schema would refuse, and says where and why.
func (n *NewTask) Check() error {
	if n.ID != "" {
		if err := task.CheckID(n.ID); err != nil {
			return err
		}
	}
	if err := checkName("task type", n.Type); err != nil {
		return err
	}
	for what, name := range map[string]string{"unique key": n.UniqueKey, "schedule": n.Schedule} {
		if name != "" {
			if err := checkName(what, name); err != nil {
				return err
			}
		}
	}
	if n.Payload != "" {
		if err := CheckJSON("payload", n.Payload); err != nil {
			return err
		}
	}
	if n.Checkpoint != "" {
		if err := CheckJSON("checkpoint", n.Checkpoint); err != nil {
			return err
		}
	}
	if v := n.MaxRetry; v != nil && (*v < 0 || *v > maxNumber) {
		return fmt.Errorf("max_retry is %d, it must be between 0 (one attempt) and %d", *v, maxNumber)
	}
	if v := n.Timeout; v != nil && (*v < 0 || *v > maxNumber) {
		return fmt.Errorf("timeout is %d s, it must be between 0 (none) and %d", *v, maxNumber)
	}
	if n.RetryCount < 0 {
		return fmt.Errorf("retry_count is %d, it cannot be negative", n.RetryCount)
	}
	if y := n.NextRun.UTC().Year(); !n.NextRun.IsZero() && (y < 0 || y > 9999) {
		return fmt.Errorf("the time %s is out of range", n.NextRun)
	}
	return nil
}

func checkName(what, name string) error {
	if err := task.CheckID(name); err != nil {
		return errors.New(strings.Replace(err.Error(), "task id", what, 1))
	}
	return nil
}

// CheckJSON refuses text that cannot be stored as JSON; what names it.
func CheckJSON(what, text string) error {
	if len(text) > task.MaxJSONBytes {
		return fmt.Errorf("%s has %d bytes, at most %d (1 MiB) are allowed", what, len(text), task.MaxJSONBytes)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%s is not valid JSON: %s at byte %d", what, syntax.Error(), syntax.Offset)
		}
		return fmt.Errorf("%s is not valid JSON: %w", what, err)
	}
	return nil
}

var sqlAdd = define(`INSERT INTO tasks (task_id, task_type, status, priority, next_run_time, retry_count, max_retry,
		created_at, updated_at, timeout_seconds, unique_key, schedule, rerun_of, payload, checkpoint)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`)

// insertTask inserts n, whose ID is set.
func insertTask(c *conn, n *NewTask, st stamp) error {
	status, priority, maxRetry, nextRun, payload := task.Pending, int64(task.DefaultPriority), int64(task.DefaultMaxRetry), st.now, "{}"
	if n.Held {
		status = task.Paused
	}
	if n.Priority != nil {
		priority = *n.Priority
	}
	if n.MaxRetry != nil {
		maxRetry = *n.MaxRetry
	}
	if !n.NextRun.IsZero() {
		nextRun = task.FormatTime(n.NextRun)
	}
	if n.Payload != "" {
		payload = n.Payload
	}
	_, err := c.exec(sqlAdd, n.ID, n.Type, string(status), priority, nextRun, n.RetryCount, maxRetry, st.now,
		n.Timeout, textOrNull(n.UniqueKey), textOrNull(n.Schedule), textOrNull(n.RerunOf), payload, textOrNull(n.Checkpoint))
	return err
}

// smallBatch is how many tasks may share a group with other writes.
const smallBatch = 64

// Add inserts tasks in one transaction, all or nothing, and returns their ids.
// A task that is refused is named by an *InputError or *ExistsError with its index.
func (s *Store) Add(now time.Time, tasks ...NewTask) (ids []string, err error) {
	st := s.stamp(now)
	if len(tasks) == 0 {
		return nil, nil
	}
	ids = newIDs(st.at, len(tasks))
	for i := range tasks {
		n := &tasks[i]
		if err := n.Check(); err != nil {
			return nil, &InputError{Index: i, Why: err.Error()}
		}
		if n.ID != "" {
			ids[i] = n.ID
		}
	}
	o := &op{
		alone: len(tasks) > smallBatch,
		run: func(c *conn) error {
			for i := range tasks {
				n := tasks[i]
				n.ID = ids[i]
				if err := insertTask(c, &n, st); err != nil {
					return refusedInsert(c, i, &n, err)
				}
			}
			return nil
		},
		applied: func(c *conn) (bool, error) {
			t, err := getTask(c, ids[0])
			if errors.Is(err, ErrNotFound) {
				return false, nil
			}
			return err == nil && t.CreatedAt.Equal(st.at), err
		},
	}
	if err := s.write("add", o); err != nil {
		return nil, err
	}
	return ids, nil
}

// refusedInsert says what stood in the way of n.
func refusedInsert(c *conn, i int, n *NewTask, err error) error {
	var se sqlite3.Error
	if !errors.As(err, &se) || se.Code != sqlite3.ErrConstraint {
		return err
	}
	if n.UniqueKey != "" {
		id, kerr := keyHolder(c, n.UniqueKey)
		if kerr != nil {
			return errors.Join(err, kerr)
		}
		if id != "" {
			return &ExistsError{Index: i, TaskID: id, Key: n.UniqueKey}
		}
	}
	switch _, gerr := getTask(c, n.ID); {
	case gerr == nil:
		return &ExistsError{Index: i, TaskID: n.ID}
	case !errors.Is(gerr, ErrNotFound):
		return errors.Join(err, gerr)
	}
	return &InputError{Index: i, Why: se.Error()}
}

var sqlKeyHolder = define(`SELECT task_id
	FROM tasks
	WHERE unique_key = ?1
	  AND (status = 'PENDING' OR status = 'RUNNING' OR status = 'RETRYING' OR status = 'PAUSED' OR status = 'LOST')`)

func keyHolder(c *conn, key string) (id string, err error) {
	_, err = c.one(sqlKeyHolder, func(r row) { id = r.text(0) }, key)
	return id, err
}
