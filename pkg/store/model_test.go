package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nightshift/pkg/task"
)

// modelTask is a task as it should be: the rules of the design written a second
// time, over a map and without SQL.
type modelTask struct {
	id         string
	seq        int
	status     task.Status
	control    task.Control
	priority   int64
	due        time.Time
	retries    int64
	maxRetry   int64
	crashes    int64
	runs       int64
	down       bool // put down by its execution: its worker's crash is not its own
	executor   string
	execID     int64
	checkpoint string
}

// model is the reference and the store beside it.
type model struct {
	s       *Store
	now     time.Time
	tasks   []*modelTask
	lastRun int64
}

const modelCrashes = 3

func (m *model) pick(t *rapid.T, which func(*modelTask) bool) *modelTask {
	var some []*modelTask
	for _, x := range m.tasks {
		if which(x) {
			some = append(some, x)
		}
	}
	if len(some) == 0 {
		t.Skip("no such task")
	}
	return rapid.SampledFrom(some).Draw(t, "task")
}

func owned(x *modelTask) bool { return x.status == task.Running || x.status == task.Lost }

func (x *modelTask) fence() task.Fence {
	return task.Fence{TaskID: x.id, ExecutorID: x.executor, ExecID: x.execID}
}

func (m *model) add(t *rapid.T) {
	n := NewTask{Type: "a", Held: rapid.Bool().Draw(t, "held")}
	priority, maxRetry := rapid.Int64Range(0, 2).Draw(t, "priority"), rapid.Int64Range(0, 2).Draw(t, "max_retry")
	n.Priority, n.MaxRetry = &priority, &maxRetry
	n.NextRun = m.now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "due")) * time.Minute)
	ids, err := m.s.Add(m.now, n)
	if err != nil {
		t.Fatal(err)
	}
	x := &modelTask{id: ids[0], seq: len(m.tasks), status: task.Pending, priority: priority, maxRetry: maxRetry, due: n.NextRun}
	if n.Held {
		x.status = task.Paused
	}
	m.tasks = append(m.tasks, x)
}

// claim takes what the model says, in its order.
func (m *model) claim(t *rapid.T) {
	busy := map[string]bool{}
	for _, x := range m.tasks {
		if owned(x) {
			busy[x.executor] = true
		}
	}
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	var idle []string
	for _, x := range executors(worker, 3) {
		if !busy[x] {
			idle = append(idle, x)
		}
	}
	if len(idle) == 0 {
		t.Skip("no idle slot")
	}
	var want []*modelTask
	for _, x := range m.tasks {
		claimable := (x.status == task.Pending || x.status == task.Retrying) && x.control != task.Pause || x.status == task.Paused && x.control == task.Resume
		if claimable && !x.due.After(m.now) {
			want = append(want, x)
		}
	}
	slices.SortFunc(want, func(a, b *modelTask) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), a.due.Compare(b.due), cmp.Compare(a.seq, b.seq))
	})
	want = want[:min(len(want), len(idle))]
	r, err := m.s.Turn(nil, &ClaimRequest{Executors: idle, Worker: worker, Types: anyType, Now: m.now, NoTimeoutLease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Claimed) != len(want) {
		t.Fatalf("claimed %d, want %d", len(r.Claimed), len(want))
	}
	for i, c := range r.Claimed {
		x := want[i]
		if c.ID != x.id || c.ExecID <= m.lastRun || c.ExecutorID != idle[i] || c.Checkpoint != x.checkpoint {
			t.Fatalf("claimed %+v, want %+v on %s", c, x, idle[i])
		}
		m.lastRun = c.ExecID
		x.status, x.control, x.executor, x.execID, x.down = task.Running, "", c.ExecutorID, c.ExecID, false
		x.runs++
	}
}

func (m *model) checkpoint(t *rapid.T) {
	x := m.pick(t, owned)
	state := fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(t, "state"))
	control, err := m.s.Checkpoint(x.fence(), state, "", m.now)
	if err != nil || control != x.control {
		t.Fatalf("checkpoint says %q, %v; want %q", control, err, x.control)
	}
	if state != x.checkpoint {
		x.crashes = 0
	}
	x.status, x.checkpoint = task.Running, state
}

func (m *model) finish(t *rapid.T) {
	x := m.pick(t, owned)
	verdict := rapid.SampledFrom([]Verdict{Succeed, Fail, Retry, Timeout, Cancel, Pause, Release}).Draw(t, "verdict")
	retryAt := m.now.Add(time.Minute)
	r, err := m.s.Turn([]Finish{{Fence: x.fence(), Verdict: verdict, RetryAt: retryAt, Now: m.now}}, nil)
	if err != nil || r.Finished[0].Err != nil {
		t.Fatal(err, r.Finished[0].Err)
	}
	x.status = task.Running
	if x.control.Cancels() && verdict != Succeed && verdict != Fail {
		verdict = Cancel
	}
	if x.control == task.Pause && verdict == Release {
		verdict = Pause
	}
	switch verdict {
	case Succeed:
		x.status, x.control = task.Success, ""
	case Fail:
		x.status, x.control = task.Failed, ""
	case Cancel:
		x.status, x.control = task.Cancelled, ""
	case Retry, Timeout:
		x.retry(retryAt)
	case Pause:
		x.status, x.executor = task.Paused, ""
		if x.control == "" {
			x.control = task.Resume
		} else {
			x.control = ""
		}
	case Release:
		x.down = true
	}
	if r.Finished[0].Status != x.status {
		t.Fatalf("finish says %s, want %s", r.Finished[0].Status, x.status)
	}
}

func (x *modelTask) retry(at time.Time) {
	x.retries++
	x.due, x.executor = at, ""
	x.status = task.Retrying
	if x.retries > x.maxRetry {
		x.status, x.control = task.Dead, ""
	}
}

func (m *model) staleWrite(t *rapid.T) {
	x := m.pick(t, func(x *modelTask) bool { return x.execID > 0 })
	f := x.fence()
	f.ExecutorID = "w1.1"
	f.ExecID--
	if _, err := m.s.Checkpoint(f, `{"stale":true}`, "", m.now); !errors.Is(err, ErrNotMine) {
		t.Fatalf("a stale checkpoint: %v", err)
	}
	r, err := m.s.Turn([]Finish{{Fence: f, Verdict: Succeed, Now: m.now}}, nil)
	if err != nil || !errors.Is(r.Finished[0].Err, ErrNotMine) {
		t.Fatalf("a stale finish: %v, %v", err, r.Finished)
	}
}

func (m *model) setControl(t *rapid.T) {
	x := m.pick(t, func(*modelTask) bool { return true })
	c := rapid.SampledFrom([]task.Control{task.Cancel, task.Kill, task.Pause, task.Resume}).Draw(t, "control")
	_, err := m.s.SetControl(x.id, c, m.now)
	if x.status.Final() || x.control.Cancels() && !c.Cancels() {
		if err == nil {
			t.Fatalf("%s of a task that is %s with %q was taken", c, x.status, x.control)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case c.Cancels() && !owned(x):
		x.status, x.control = task.Cancelled, ""
	case c == task.Cancel && x.control == task.Kill:
	case c == task.Resume && x.status != task.Paused, c == task.Pause && x.status == task.Paused:
		x.control = ""
	default:
		x.control = c
	}
}

func (m *model) offline(t *rapid.T) {
	x := m.pick(t, func(x *modelTask) bool { return x.status == task.Running })
	if n, err := m.s.MarkOffline(x.executor, m.now); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	x.status = task.Lost
}

// giveUp is what becomes of a task whose executor is dead.
func (x *modelTask) giveUp(crashed bool) {
	crashed = crashed && !x.down
	if crashed {
		x.crashes++
	}
	switch {
	case x.control.Cancels():
		x.status, x.control = task.Cancelled, ""
	case crashed && x.crashes >= modelCrashes:
		x.status, x.control = task.Dead, ""
	default:
		x.status, x.executor = task.Pending, ""
	}
}

func (m *model) takeOver(t *rapid.T) {
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	crashed := rapid.Bool().Draw(t, "crashed")
	if _, err := m.s.TakeOver(TakeOverRequest{Worker: worker, Graceful: !crashed, Now: m.now, MaxCrashes: modelCrashes}); err != nil {
		t.Fatal(err)
	}
	for _, x := range m.tasks {
		if owned(x) && workerOf(x.executor) == worker {
			x.giveUp(crashed)
		}
	}
}

func (m *model) recover(t *rapid.T) {
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	crashed := rapid.Bool().Draw(t, "crashed")
	out, err := m.s.Recover(RecoverRequest{
		Worker: worker, Executors: executors(worker, 3), Now: m.now, Graceful: !crashed, Types: anyType,
		Backoff: backoffOf, Rand: noJitter, NoTimeoutLease: time.Hour, MaxCrashes: modelCrashes, SuspectAt: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	resumed := map[string]task.Task{}
	for _, r := range out.Resume {
		resumed[r.ID] = r
	}
	for _, x := range m.tasks {
		if !owned(x) || workerOf(x.executor) != worker {
			continue
		}
		switch {
		case x.status == task.Lost:
			x.giveUp(crashed)
		case x.control.Cancels():
			x.status, x.control = task.Cancelled, ""
		case x.control == task.Pause:
			x.status, x.control, x.executor = task.Paused, "", ""
		case crashed && !x.down && x.crashes+1 >= modelCrashes:
			x.giveUp(crashed)
		default:
			r, ok := resumed[x.id]
			if !ok || r.ExecutorID != x.executor || r.ExecID <= x.execID {
				t.Fatalf("%+v was not resumed: %+v", x, out)
			}
			delete(resumed, x.id)
			x.execID, m.lastRun = r.ExecID, max(m.lastRun, r.ExecID)
			x.runs++
			if crashed && !x.down {
				x.crashes++
			}
			x.down = false
		}
	}
	if len(resumed) > 0 {
		t.Fatalf("resumed too many: %+v", resumed)
	}
}

func (m *model) passTime(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
}

// check compares every task, and the events with the table.
func (m *model) check(t *rapid.T) {
	for _, x := range m.tasks {
		got, err := m.s.Get(x.id)
		if err != nil {
			t.Fatal(err)
		}
		executor := got.ExecutorID
		if got.Status.Final() {
			executor = x.executor // kept for people to see
		}
		if got.Status != x.status || got.Control != x.control || got.RetryCount != x.retries || got.CrashCount != x.crashes ||
			got.Executions != x.runs || executor != x.executor || got.ExecID != x.execID || got.Checkpoint != x.checkpoint || !got.NextRun.Equal(x.due) {
			t.Fatalf("the row is\n%+v\nwant\n%+v", got, *x)
		}
	}
}

// memoryDir is a directory in memory, if the machine has such a place: what is
// looked for here is not the disk's doing.
func memoryDir(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "nightshift-model-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestStoreAgainstModel runs random operations on the store and on the model.
func TestStoreAgainstModel(t *testing.T) {
	empty, err := os.ReadFile(newDB(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, n := memoryDir(t), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}()
		m := &model{s: s, now: night}
		t.Repeat(map[string]func(*rapid.T){
			"add": m.add, "claim": m.claim, "checkpoint": m.checkpoint, "finish": m.finish, "stale write": m.staleWrite,
			"control": m.setControl, "offline": m.offline, "take over": m.takeOver, "recover": m.recover, "time": m.passTime,
			"": m.check,
		})
		if err := s.read("events", func(c *conn) error {
			lines, err := c.texts("SELECT from_status || ' ' || to_status || ' ' || reason FROM task_events")
			for _, line := range lines {
				var e task.Transition
				if _, err := fmt.Sscan(line, &e.From, &e.To, &e.Reason); err != nil {
					return err
				}
				if err := task.Check(e.From, e.To, e.Reason); err != nil {
					t.Error(err)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
