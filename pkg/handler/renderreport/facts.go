package renderreport

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"nightshift/pkg/task"
)

// Source tells what happened in a window of time and how things stand now. Its
// answer is bounded by the limits below, however many tasks there are: counts
// are exact, lists are cut and say how much there is.
type Source interface {
	Facts(ctx context.Context, w Window) (*Facts, error)
}

// Limits of the lists in Facts, and with them of the page.
const (
	MaxTypes     = 30 // the rest is one line
	MaxGroups    = 12 // causes of failure
	MaxGroupIDs  = 3  // tasks named for one cause
	MaxActive    = 20
	MaxWaiting   = 8
	MaxRetried   = 10
	MaxMarks     = 20
	MaxSchedules = 40
	MaxWorkers   = 64
	MaxLanes     = 32
	MaxBars      = 600 // executions drawn one by one; beyond it the lanes show load
	Buckets      = 240 // columns of such a lane
	MaxCauseText = 600 // bytes of a cause
)

// Window is the shift: from Since (included) to Until (not included).
type Window struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Length is the window's duration.
func (w Window) Length() time.Duration { return w.Until.Sub(w.Since) }

// Span is a duration, in JSON a number of seconds.
type Span time.Duration

// MarshalJSON writes seconds, exact to the millisecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(time.Duration(s).Seconds()*1000) / 1000)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Span) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil {
		return err
	}
	*s = Span(math.Round(seconds*1000)) * Span(time.Millisecond)
	return nil
}

// Facts is all that a report shows. It is plain data: a report that is resumed
// is drawn from the Facts that were saved, so that it comes out the same.
type Facts struct {
	Window  Window    `json:"window"`
	At      time.Time `json:"at"` // when it was looked
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Took    Span      `json:"took_seconds"` // how long the look took

	Now       map[task.Status]int64 `json:"now"`  // all tasks, as they stand
	Runs      Runs                  `json:"runs"` // executions of the window
	Types     []TypeRuns            `json:"types"`
	MoreTypes int                   `json:"more_types"` // summed up in the last of Types

	Failures    Failures   `json:"failures"`
	Active      []Active   `json:"active"` // LOST, then slow, then the longest
	ActiveTotal int64      `json:"active_total"`
	SlowTotal   int64      `json:"slow_total"`
	Waiting     Waiting    `json:"waiting"`
	Retried     []Retried  `json:"retried"`   // tasks with most failed attempts in the window
	Incidents   []Incident `json:"incidents"` // crashes, lost tasks, expired leases: by reason
	Breaks      []Mark     `json:"breaks"`    // when workers ended under their tasks; the latest MaxMarks
	Workers     []Worker   `json:"workers"`
	MoreWorkers int        `json:"more_workers"`
	Timeline    Timeline   `json:"timeline"`
	Schedules   []Schedule `json:"schedules"`
	SkipsTotal  int64      `json:"skips_total"`
	Disk        Disk       `json:"disk"`
}

// Runs counts the executions that ended in the window, by how they ended.
type Runs struct {
	Started     int64 `json:"started"` // began in the window
	Succeeded   int64 `json:"succeeded"`
	Failed      int64 `json:"failed"`    // ended badly, and no retry could help
	Retried     int64 `json:"retried"`   // ended badly, and the task is tried again unless it has no retry left
	TimedOut    int64 `json:"timed_out"` // of Failed and Retried
	Cancelled   int64 `json:"cancelled"`
	Paused      int64 `json:"paused"`
	Interrupted int64 `json:"interrupted"` // a crash, a takeover, an expired lease
	Stopped     int64 `json:"stopped"`     // a worker's orderly end
	Busy        Span  `json:"busy_seconds"`
}

// Ended is how many executions ended.
func (r Runs) Ended() int64 {
	return r.Succeeded + r.Failed + r.Retried + r.Cancelled + r.Paused + r.Interrupted + r.Stopped
}

// Bad is how many ended badly.
func (r Runs) Bad() int64 { return r.Failed + r.Retried }

// TypeRuns is what one task type did, the longest at work first.
type TypeRuns struct {
	Type    string `json:"type"`
	Runs    Runs   `json:"runs"`
	Running int64  `json:"running"` // not ended yet
	Failed  int64  `json:"failed"`  // tasks that ended FAILED or DEAD
	Median  Span   `json:"median_seconds"`
	P95     Span   `json:"p95_seconds"` // within 10 %, like Median, of those that succeeded
	Longest Span   `json:"longest_seconds"`
}

// Failures are the tasks that ended FAILED or DEAD in the window.
type Failures struct {
	Total  int64     `json:"total"`
	Groups []Failure `json:"groups"` // by cause, the most frequent first
	Others int64     `json:"others"` // tasks of further causes
}

// Failure is one cause and the tasks that died of it.
type Failure struct {
	Type   string       `json:"type"`
	Status task.Status  `json:"status"` // FAILED or DEAD
	Reason task.Reason  `json:"reason"`
	Cause  string       `json:"cause"` // what the last execution said
	Count  int64        `json:"count"`
	First  time.Time    `json:"first"`
	Last   time.Time    `json:"last"`
	Tasks  []FailedTask `json:"tasks"` // the latest ones
}

// FailedTask is one of them.
type FailedTask struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Attempts int64     `json:"attempts"`
	ExitCode *int      `json:"exit_code"`
	Signal   string    `json:"signal"`
	LogPath  string    `json:"log_path"`
}

// Active is a task in somebody's hands.
type Active struct {
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	Status    task.Status  `json:"status"` // RUNNING or LOST
	Executor  string       `json:"executor"`
	Since     time.Time    `json:"since"` // its execution's start; zero: not known
	Progress  string       `json:"progress"`
	SlowSince time.Time    `json:"slow_since"` // progress has not moved since; zero: it moves
	Asked     task.Control `json:"asked"`
	Reason    task.Reason  `json:"reason"`
}

// Waiting is what has not begun or must begin again.
type Waiting struct {
	Due      int64         `json:"due"` // could run now
	Later    int64         `json:"later"`
	Retrying int64         `json:"retrying"` // of Due and Later: waits for its next attempt
	Held     int64         `json:"held"`     // PAUSED, or asked to pause
	Oldest   []WaitingTask `json:"oldest"`
	Next     []WaitingTask `json:"next"`
	HeldList []WaitingTask `json:"held_list"`
}

// WaitingTask is one of them.
type WaitingTask struct {
	ID       string      `json:"id"`
	Type     string      `json:"type"`
	Status   task.Status `json:"status"`
	Due      time.Time   `json:"due"`
	Retries  int64       `json:"retries"`
	MaxRetry int64       `json:"max_retry"`
}

// Retried is a task that was tried again and again.
type Retried struct {
	ID     string      `json:"id"`
	Type   string      `json:"type"`
	Status task.Status `json:"status"` // as it stands
	Times  int64       `json:"times"`  // failed attempts in the window
	Cause  string      `json:"cause"`  // of the last one
}

// Incident counts changes of status for one reason.
type Incident struct {
	Reason task.Reason `json:"reason"`
	Count  int64       `json:"count"`
	Last   time.Time   `json:"last"`
}

// Mark is a moment on the time line.
type Mark struct {
	At       time.Time `json:"at"`
	Executor string    `json:"executor"`
}

// Worker is an executor as its heartbeat row shows it.
type Worker struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	LastBeat  time.Time `json:"last_beat"`
	StoppedAt time.Time `json:"stopped_at"` // zero: it did not say good-bye
	Draining  bool      `json:"draining"`
	Task      string    `json:"task"`
	Standing  Standing  `json:"standing"`
}

// Standing is how an executor fares.
type Standing string

// The standings. Silence alone proves nothing; death is proven by its lock.
const (
	Alive   Standing = "alive"
	Silent  Standing = "silent"
	Dead    Standing = "dead"
	Stopped Standing = "stopped"
)

// Timeline is when each executor was at work.
type Timeline struct {
	Lanes []Lane `json:"lanes"`
	More  int    `json:"more"` // executors without a lane of their own
}

// Lane is one executor's line. It holds Bars or, when there are too many
// executions for that, Load.
type Lane struct {
	Executor string `json:"executor"`
	Runs     int64  `json:"runs"`
	Busy     Span   `json:"busy_seconds"`
	Bars     []Bar  `json:"bars"`
	Load     []Load `json:"load"`
}

// Bar is one execution.
type Bar struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"` // zero: it runs on
	TaskID  string    `json:"task_id"`
	Type    string    `json:"type"`
	Outcome string    `json:"outcome"` // of exec_history
}

// Load is one column of a lane: which part of its time was worked (0 … 1), and
// which part of its executions ended badly.
type Load struct {
	Busy float64 `json:"busy"`
	Bad  float64 `json:"bad"`
}

// Schedule is what a schedule did in the window.
type Schedule struct {
	Name    string      `json:"name"`
	Enabled bool        `json:"enabled"`
	LastID  string      `json:"last_id"` // its latest task, whenever that was
	LastAt  time.Time   `json:"last_at"`
	LastIs  task.Status `json:"last_is"`
	Next    time.Time   `json:"next"` // zero: not known
	Skips   []Skips     `json:"skips"`
}

// Skips counts the occurrences that did not run, for one reason.
type Skips struct {
	Reason string    `json:"reason"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last"`
}

// Disk is the room that Nightshift takes, in bytes.
type Disk struct {
	Known    bool   `json:"known"`
	DataDir  string `json:"data_dir"`
	Database int64  `json:"database"`
	WAL      int64  `json:"wal"`
	Logs     int64  `json:"logs"`
	TaskDirs int64  `json:"task_dirs"`
	Outputs  int64  `json:"outputs"`
	Partial  bool   `json:"partial"` // the directories hold more than was counted
	Budget   int64  `json:"budget"`  // 0: none
	Free     int64  `json:"free"`
	Total    int64  `json:"total"` // of the file system
}

// Taken is the whole of it.
func (d Disk) Taken() int64 { return d.Database + d.WAL + d.Logs + d.TaskDirs + d.Outputs }
