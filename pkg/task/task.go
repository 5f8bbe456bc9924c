// Package task is the domain: what a task is, the states it may pass through,
// how long a retry waits and how a time is written. It does no I/O, reads no
// clock and imports nothing else of ours, so that every other room can share it.
package task

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits of what a row may hold. The schema enforces the same numbers.
const (
	MaxIDBytes      = 255     // DESIGN §10: an id is text of 1 to 255 bytes
	MaxJSONBytes    = 1 << 20 // payload, checkpoint, result: 1 MiB each
	MaxSummaryBytes = 4 << 10 // exec_history.result
)

// DefaultPriority is the seed's; a smaller number runs first.
const DefaultPriority = 100

// DefaultMaxRetry is the seed's default of max_retry.
const DefaultMaxRetry = 5

// Task is one row of tasks. JSON columns are kept as the text that was stored,
// byte for byte: nothing re-encodes them (64-bit ids would lose their digits).
type Task struct {
	ID         string
	Type       string
	Payload    string
	Status     Status
	Priority   int64
	NextRun    time.Time
	RetryCount int64
	MaxRetry   int64
	Checkpoint string // "" is NULL
	ExecutorID string
	LeaseUntil time.Time // zero is NULL
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Reason     Reason
	Control    Control
	ExecID     int64  // the current (or last) execution: the fencing token; 0 before the first
	Timeout    *int64 // seconds; nil: the type's default; 0: none
	CrashCount int64
	Executions int64 // how many executions this task has had
	Progress   string
	Result     string
	UniqueKey  string
	Schedule   string // the schedule that made it
	RerunOf    string // the task that this one runs again
}

// Fence names one execution. Every write of an executor carries it in its
// WHERE and must change one row; otherwise the task is no longer the executor's.
type Fence struct {
	TaskID     string
	ExecutorID string
	ExecID     int64
}

// Fence returns the fence of the task's current execution.
func (t *Task) Fence() Fence {
	return Fence{TaskID: t.ID, ExecutorID: t.ExecutorID, ExecID: t.ExecID}
}

// NewID returns a time-ordered unique id of the same form as the schema's
// default: UTC to the millisecond, then 64 random bits. A shell's INSERT … SELECT of a
// million rows has one millisecond for them all, and 40 bits collided there.
func NewID(now time.Time) string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("task: no randomness: " + err.Error()) // crypto/rand never fails on Linux ≥ 3.17
	}
	return now.UTC().Format("20060102T150405.000") + "-" + hex.EncodeToString(b[:])
}

// CheckID refuses what the database would refuse as a task id: it must be UTF-8
// of 1 to 255 bytes without control characters.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("task id is empty")
	case len(id) > MaxIDBytes:
		return fmt.Errorf("task id has %d bytes, at most %d are allowed", len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("task id %q is not valid UTF-8", id)
	}
	for _, r := range id {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return fmt.Errorf("task id %q holds a control character", id)
		}
	}
	return nil
}
