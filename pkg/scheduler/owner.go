package scheduler

import (
	"strings"
	"time"

	"nightshift/pkg/store"
)

// Owner is another worker process that owns RUNNING or LOST tasks: all its slots
// together, because they live and die with one process and one lock.
type Owner struct {
	WorkerID   string
	Executors  []string
	PID        int
	StartTicks uint64
	BootID     string
	LockPath   string
	LockDev    uint64
	LockIno    uint64
	Beat       int64     // the sum over its slots: it moves when any of them does
	LeaseUntil time.Time // the earliest lease of its tasks; zero: none
	ExecIDs    []int64   // its executions
	Tasks      int
}

// workerOf gives the worker of an executor: w1 of w1 and of w1.2.
func workerOf(executor string) string {
	id, _, _ := strings.Cut(executor, ".")
	return id
}

// group joins the rows of one worker's slots.
func group(rows []store.Owner) []*Owner {
	var owners []*Owner
	index := map[string]*Owner{}
	for i := range rows {
		r := &rows[i]
		id := workerOf(r.ExecutorID)
		o := index[id]
		if o == nil {
			h := &r.Heartbeat
			o = &Owner{WorkerID: id, PID: h.PID, StartTicks: h.StartTicks, BootID: h.BootID,
				LockPath: h.LockPath, LockDev: h.LockDev, LockIno: h.LockIno}
			index[id] = o
			owners = append(owners, o)
		}
		o.Executors = append(o.Executors, r.ExecutorID)
		o.Beat += r.Heartbeat.Beat
		o.Tasks += r.Tasks
		o.ExecIDs = append(o.ExecIDs, r.ExecIDs...)
		if !r.MinLease.IsZero() && (o.LeaseUntil.IsZero() || r.MinLease.Before(o.LeaseUntil)) {
			o.LeaseUntil = r.MinLease
		}
	}
	return owners
}
