package store

import (
	"strings"

	"nightshift/pkg/task"
)

// taskColumns are the columns of tasks in the order that scanTask reads them.
var taskColumns = []string{
	"task_id", "task_type", "status", "priority", "next_run_time", "retry_count", "max_retry",
	"executor_id", "lease_expire_time", "created_at", "updated_at", "reason", "control", "exec_id",
	"timeout_seconds", "crash_count", "executions", "unique_key", "schedule", "rerun_of", "progress",
	"payload", "checkpoint", "result",
}

// fullRow selects all of a task, leanRow leaves its three large columns out.
var (
	fullRow = strings.Join(taskColumns, ", ")
	leanRow = strings.Join(taskColumns[:21], ", ") + ", NULL, NULL, NULL"
)

func scanTask(r row) task.Task {
	return task.Task{
		ID: r.text(0), Type: r.text(1), Status: task.Status(r.text(2)), Priority: r.int(3),
		NextRun: readTime(r.text(4)), RetryCount: r.int(5), MaxRetry: r.int(6),
		ExecutorID: r.text(7), LeaseUntil: readTime(r.text(8)),
		CreatedAt: readTime(r.text(9)), UpdatedAt: readTime(r.text(10)),
		Reason: task.Reason(r.text(11)), Control: task.Control(r.text(12)), ExecID: r.int(13),
		Timeout: r.intPtr(14), CrashCount: r.int(15), Executions: r.int(16),
		UniqueKey: r.text(17), Schedule: r.text(18), RerunOf: r.text(19), Progress: r.text(20),
		Payload: r.text(21), Checkpoint: r.text(22), Result: r.text(23),
	}
}

var sqlGet = define(`SELECT ` + fullRow + `
	FROM tasks
	WHERE task_id = ?1`)

// getTask reads one task on any connection, inside a transaction or not.
func getTask(c *conn, id string) (t task.Task, err error) {
	found, err := c.one(sqlGet, func(r row) { t = scanTask(r) }, id)
	if err == nil && !found {
		err = ErrNotFound
	}
	return t, err
}
