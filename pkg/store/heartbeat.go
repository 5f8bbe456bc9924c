package store

import (
	"strconv"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// Heartbeat is a row of worker_heartbeats: one executor. Times that are zero are NULL.
type Heartbeat struct {
	WorkerID      string // the executor's id: w1, or w1.2 with several slots
	PID           int
	Hostname      string
	LastHeartbeat time.Time // zero: now
	CurrentTaskID string
	Progress      string
	Version       string
	BootID        string
	StartedAt     time.Time
	StartTicks    uint64
	Beat          int64 // counts up with each Register and Beat
	StoppedAt     time.Time
	LockPath      string
	LockDev       uint64
	LockIno       uint64
	Draining      bool
	SlowSince     time.Time
}

var sqlRegister = define(`INSERT INTO worker_heartbeats (worker_id, pid, hostname, last_heartbeat, current_task_id, progress,
		version, boot_id, started_at, start_ticks, beat, lock_path, lock_dev, lock_ino, draining, slow_since)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, ?11, ?12, ?13, ?14, ?15)
	ON CONFLICT (worker_id) DO UPDATE
	SET pid = ?2, hostname = ?3, last_heartbeat = ?4, current_task_id = ?5, progress = ?6, version = ?7, boot_id = ?8,
	    started_at = ?9, start_ticks = ?10, beat = beat + 1, stopped_at = NULL, lock_path = ?11, lock_dev = ?12,
	    lock_ino = ?13, draining = ?14, slow_since = ?15`)

// Register writes the rows of a worker's executors at its start, before its first claim.
func (s *Store) Register(rows []Heartbeat) error {
	st := s.stamp(time.Time{})
	return s.write("register", &op{run: func(c *conn) error { return register(c, rows, st) }})
}

func register(c *conn, rows []Heartbeat, st stamp) error {
	if len(rows) == 0 {
		return nil
	}
	if err := beatAll(c, rows, st); err != nil {
		return err
	}
	worker := workerOf(rows[0].WorkerID)
	keep := map[string]bool{}
	for _, h := range rows {
		keep[h.WorkerID] = true
	}
	var gone []string
	if err := c.query(sqlSlotRows, func(r row) error {
		if id := r.text(0); !keep[id] {
			gone = append(gone, id)
		}
		return nil
	}, worker, slotsOf(worker)); err != nil {
		return err
	}
	for _, id := range gone {
		if _, err := c.exec(sqlForgetSlot, id); err != nil {
			return err
		}
	}
	return nil
}

// A worker with fewer slots than yesterday leaves no rows behind, unless one still
// owns a task: whoever looks for that owner needs its row.
var sqlSlotRows = define(`SELECT worker_id
	FROM worker_heartbeats
	WHERE worker_id = ?1 OR worker_id GLOB +?2`)

var sqlForgetSlot = define(`DELETE FROM worker_heartbeats
	WHERE worker_id = ?1
	  AND worker_id NOT IN (SELECT executor_id FROM tasks WHERE status IN ('RUNNING', 'LOST') AND executor_id IS NOT NULL)`)

// workerOf is the worker that an executor belongs to: w1 for w1 and for w1.2.
func workerOf(executor string) string {
	i := strings.LastIndexByte(executor, '.')
	if i < 0 || i == len(executor)-1 || strings.Trim(executor[i+1:], "0123456789") != "" {
		return executor
	}
	return executor[:i]
}

// Beat renews the rows of a worker's executors. A row that somebody deleted is
// written anew.
func (s *Store) Beat(rows []Heartbeat) error {
	st := s.stamp(time.Time{})
	return s.write("heartbeat", &op{points: []string{"beat"}, run: func(c *conn) error { return beatAll(c, rows, st) }})
}

func beatAll(c *conn, rows []Heartbeat, st stamp) error {
	for i := range rows {
		h := &rows[i]
		last := st.now
		if !h.LastHeartbeat.IsZero() {
			last = task.FormatTime(h.LastHeartbeat)
		}
		_, err := c.exec(sqlRegister, h.WorkerID, h.PID, h.Hostname, last, textOrNull(h.CurrentTaskID), textOrNull(cutSummary(h.Progress)),
			textOrNull(h.Version), textOrNull(h.BootID), timeText(h.StartedAt), int64(h.StartTicks),
			textOrNull(h.LockPath), int64(h.LockDev), int64(h.LockIno), h.Draining, timeText(h.SlowSince))
		if err != nil {
			return err
		}
	}
	return nil
}

var sqlStopped = define(`UPDATE worker_heartbeats
	SET stopped_at = ?3, last_heartbeat = ?3, current_task_id = NULL, beat = beat + 1, draining = 0, slow_since = NULL
	WHERE worker_id = ?1 OR worker_id GLOB +?2`)

// Stopped records a worker's clean end: it is shown as stopped, not offline, and
// its end costs its tasks nothing.
func (s *Store) Stopped(workerID string, now time.Time) error {
	st := s.stamp(now)
	return s.write("good-bye of "+workerID, &op{points: []string{"stopped"}, run: func(c *conn) error {
		_, err := c.exec(sqlStopped, workerID, slotsOf(workerID), st.now)
		return err
	}})
}

const heartbeatColumns = `h.worker_id, h.pid, h.hostname, h.last_heartbeat, h.current_task_id, h.progress, h.version, h.boot_id,
	h.started_at, h.start_ticks, h.beat, h.stopped_at, h.lock_path, h.lock_dev, h.lock_ino, h.draining, h.slow_since`

func scanHeartbeat(r row) Heartbeat {
	return Heartbeat{
		WorkerID: r.text(0), PID: int(r.int(1)), Hostname: r.text(2), LastHeartbeat: readTime(r.text(3)),
		CurrentTaskID: r.text(4), Progress: r.text(5), Version: r.text(6), BootID: r.text(7),
		StartedAt: readTime(r.text(8)), StartTicks: uint64(r.int(9)), Beat: r.int(10), StoppedAt: readTime(r.text(11)),
		LockPath: r.text(12), LockDev: uint64(r.int(13)), LockIno: uint64(r.int(14)), Draining: r.int(15) != 0,
		SlowSince: readTime(r.text(16)),
	}
}

var sqlHeartbeats = define(`SELECT ` + heartbeatColumns + `
	FROM worker_heartbeats AS h
	ORDER BY h.worker_id`)

func heartbeats(c *conn) (all []Heartbeat, err error) {
	err = c.query(sqlHeartbeats, func(r row) error {
		all = append(all, scanHeartbeat(r))
		return nil
	})
	return all, err
}

// Heartbeats reads all executors' rows.
func (s *Store) Heartbeats() (all []Heartbeat, err error) {
	err = s.read("heartbeats", func(c *conn) (err error) {
		all, err = heartbeats(c)
		return err
	})
	return all, err
}

var sqlForgetWorker = define(`DELETE FROM worker_heartbeats
	WHERE (worker_id = ?1 OR worker_id GLOB +?2)
	  AND worker_id NOT IN (SELECT executor_id FROM tasks WHERE status IN ('RUNNING', 'LOST') AND executor_id IS NOT NULL)`)

// Forget removes the rows of a worker that will not come back; rows that own
// tasks stay.
func (s *Store) Forget(workerID string) error {
	return s.write("forget "+workerID, &op{run: func(c *conn) error {
		_, err := c.exec(sqlForgetWorker, workerID, slotsOf(workerID))
		return err
	}})
}

// OwnedTask is a RUNNING or LOST row of a worker.
type OwnedTask struct {
	ID         string
	Type       string
	ExecutorID string
	ExecID     int64
	Status     task.Status
	Control    task.Control
	LeaseUntil time.Time
	CrashCount int64
}

// Fence returns the fence of the row's current execution.
func (o OwnedTask) Fence() task.Fence {
	return task.Fence{TaskID: o.ID, ExecutorID: o.ExecutorID, ExecID: o.ExecID}
}

var sqlControls = define(`SELECT task_id, task_type, executor_id, exec_id, status, control, lease_expire_time, crash_count
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST') AND (executor_id = ?1 OR executor_id GLOB +?2)`)

// Controls reads the RUNNING and LOST rows of a worker, with the wishes pending
// for them. What is not in it is no longer the worker's.
func (s *Store) Controls(workerID string) (all []OwnedTask, err error) {
	err = s.read("controls of "+workerID, func(c *conn) error {
		all = all[:0]
		return c.query(sqlControls, func(r row) error {
			all = append(all, OwnedTask{
				ID: r.text(0), Type: r.text(1), ExecutorID: r.text(2), ExecID: r.int(3), Status: task.Status(r.text(4)),
				Control: task.Control(r.text(5)), LeaseUntil: readTime(r.text(6)), CrashCount: r.int(7),
			})
			return nil
		}, workerID, slotsOf(workerID))
	})
	return all, err
}

// Owner is an executor that owns RUNNING or LOST rows, with its heartbeat row
// (WorkerID "" in it when there is none).
type Owner struct {
	ExecutorID string // "": a row set RUNNING by hand without one; TakeOver with Executors {""} frees it
	Tasks      int
	ExecIDs    []int64 // of these rows
	MinLease   time.Time
	Heartbeat  Heartbeat
}

var sqlOwners = define(`SELECT ` + heartbeatColumns + `, t.executor_id, count(*), min(t.lease_expire_time), group_concat(t.exec_id)
	FROM tasks AS t INDEXED BY idx_tasks_status_next_run
	LEFT JOIN worker_heartbeats AS h ON h.worker_id = t.executor_id
	WHERE t.status IN ('RUNNING', 'LOST') AND (t.executor_id IS NULL OR (t.executor_id <> ?1 AND t.executor_id NOT GLOB +?2))
	GROUP BY t.executor_id`)

// Foreign reads the executors of other workers that own RUNNING or LOST rows: whose
// locks are to be probed.
func (s *Store) Foreign(workerID string) (all []Owner, err error) {
	err = s.read("owners", func(c *conn) error {
		all = all[:0]
		return c.query(sqlOwners, func(r row) error {
			all = append(all, Owner{Heartbeat: scanHeartbeat(r), ExecutorID: r.text(17), Tasks: int(r.int(18)), MinLease: readTime(r.text(19)), ExecIDs: numbers(r.text(20))})
			return nil
		}, workerID, slotsOf(workerID))
	})
	return all, err
}

// numbers reads what group_concat made of integers.
func numbers(text string) []int64 {
	var all []int64
	for _, word := range strings.Split(text, ",") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// Renewal gives an execution a new lease.
type Renewal struct {
	Fence task.Fence
	Lease time.Time
}

// updated_at stays: it tells when the task last spoke. Without a lease the execution
// has ended meanwhile.
var sqlRenew = define(`UPDATE tasks
	SET lease_expire_time = ?4
	WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3 AND status = 'RUNNING' AND lease_expire_time <> ?4`)

// RenewLeases gives executions new leases. One that no longer owns its task is
// left out; Controls tells which.
func (s *Store) RenewLeases(_ time.Time, renewals []Renewal) error {
	if len(renewals) == 0 {
		return nil
	}
	return s.write("renew leases", &op{run: func(c *conn) error {
		for _, r := range renewals {
			if _, err := c.exec(sqlRenew, r.Fence.TaskID, r.Fence.ExecutorID, r.Fence.ExecID, task.FormatTime(r.Lease)); err != nil {
				return err
			}
		}
		return nil
	}})
}
