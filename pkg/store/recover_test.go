package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"nightshift/pkg/task"
)

var backoff = task.Backoff{Base: 30 * time.Second, Cap: time.Hour}

func backoffOf(string) task.Backoff { return backoff }

func noJitter(int64) int64 { return 0 }

func recoverFor(executors ...string) RecoverRequest {
	return RecoverRequest{
		Worker: workerOf(executors[0]), Executors: executors, BootID: "boot1", Now: night, Types: anyType,
		Backoff: backoffOf, Rand: noJitter, NoTimeoutLease: 10 * time.Minute, MaxCrashes: 3, MaxExecutions: 1000,
	}
}

func mustRecover(t *testing.T, s *Store, r RecoverRequest) Recovered {
	t.Helper()
	out, err := s.Recover(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// register writes the heartbeat rows of executors, of one boot and process.
func registerAs(t *testing.T, s *Store, boot string, at time.Time, executors ...string) {
	t.Helper()
	var rows []Heartbeat
	for _, x := range executors {
		rows = append(rows, Heartbeat{WorkerID: x, PID: 100, Hostname: "h", BootID: boot, StartTicks: 7, LastHeartbeat: at})
	}
	if err := s.Register(rows); err != nil {
		t.Fatal(err)
	}
}

// TestRecoverResumesFromTheCheckpoint: RUNNING stays RUNNING under the same
// executor, with a new exec_id; the old execution can write nothing more.
func TestRecoverResumesFromTheCheckpoint(t *testing.T) {
	s := newStore(t, Options{})
	registerAs(t, s, "boot1", night, "w1")
	id := mustAdd(t, s, NewTask{})[0]
	old := mustClaim(t, s, "w1")
	if _, err := s.Checkpoint(old.Fence(), `{"at":5}`, "5/10", night); err != nil {
		t.Fatal(err)
	}
	later := recoverFor("w1")
	later.Now = night.Add(time.Minute)
	out := mustRecover(t, s, later)
	if len(out.Resume) != 1 {
		t.Fatalf("%+v", out)
	}
	r := out.Resume[0]
	if r.ID != id || r.ExecutorID != "w1" || r.ExecID <= old.ExecID || r.Checkpoint != `{"at":5}` || r.CrashCount != 1 || r.Executions != 2 ||
		!r.LeaseUntil.Equal(later.Now.Add(2*time.Hour)) {
		t.Errorf("resumed %+v", r)
	}
	if got := mustGet(t, s, id); got.Fence() != r.Fence() || got.Status != task.Running || !got.LeaseUntil.Equal(r.LeaseUntil) || got.Executions != 2 {
		t.Errorf("the row is %+v", got)
	}
	if _, err := s.Checkpoint(old.Fence(), `{"at":9}`, "", night); !errors.Is(err, ErrNotMine) {
		t.Errorf("the old execution still writes: %v", err)
	}
	res, err := s.Turn([]Finish{{Fence: old.Fence(), Verdict: Succeed}, {Fence: r.Fence(), Verdict: Succeed}}, nil)
	if err != nil || !errors.Is(res.Finished[0].Err, ErrNotMine) || res.Finished[1].Err != nil {
		t.Errorf("finishes: %+v, %v", res.Finished, err)
	}
	h, err := s.History(id)
	if err != nil || len(h) != 2 || h[0].Outcome != OutcomeInterrupted || h[1].Outcome != OutcomeSuccess {
		t.Errorf("history %+v, %v", h, err)
	}
	if again := mustRecover(t, s, later); len(again.Resume)+again.Requeued+again.Dead != 0 {
		t.Errorf("recovering twice: %+v", again)
	}
}

// TestRecoverCountsCrashes: a crash counts, a good-bye, a reboot and a graceful end do not.
func TestRecoverCountsCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, s *Store, r *RecoverRequest)
		want   int64
	}{
		"crash":             {func(*testing.T, *Store, *RecoverRequest) {}, 1},
		"said to be smooth": {func(_ *testing.T, _ *Store, r *RecoverRequest) { r.Graceful = true }, 0},
		"another boot":      {func(_ *testing.T, _ *Store, r *RecoverRequest) { r.BootID = "boot2" }, 0},
		"good-bye": {func(t *testing.T, s *Store, _ *RecoverRequest) {
			if err := s.Stopped("w1", night); err != nil {
				t.Fatal(err)
			}
		}, 0},
		// Found by test/sim: a worker is killed while it drains, and what it had put
		// down before was charged with that.
		"put down before the crash": {func(t *testing.T, s *Store, _ *RecoverRequest) {
			owned, err := s.Controls("w1")
			if err != nil || len(owned) != 1 {
				t.Fatal(owned, err)
			}
			mustFinish(t, s, Finish{Fence: owned[0].Fence(), Verdict: Release})
			late := Renewal{owned[0].Fence(), night.Add(time.Hour)} // asked for before it was put down
			if err := s.RenewLeases(night, []Renewal{late}); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{})
			registerAs(t, s, "boot1", night, "w1")
			mustAdd(t, s, NewTask{})
			mustClaim(t, s, "w1")
			r := recoverFor("w1")
			c.before(t, s, &r)
			r.Register = []Heartbeat{{WorkerID: "w1", PID: 2, Hostname: "h", BootID: r.BootID}}
			out := mustRecover(t, s, r)
			if len(out.Resume) != 1 || out.Resume[0].CrashCount != c.want {
				t.Errorf("resumed %+v, want %d crashes", out.Resume, c.want)
			}
			hb, err := s.Heartbeats()
			if err != nil || len(hb) != 1 || hb[0].PID != 2 || hb[0].BootID != r.BootID || !hb[0].StoppedAt.IsZero() {
				t.Errorf("the heartbeat row is %+v, %v", hb, err)
			}
		})
	}
}

// TestCR07PoisonPill: a task that takes its worker down each time is DEAD after
// three crashes; one whose checkpoint moves survives any number.
func TestCR07PoisonPill(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{})[0]
	mustClaim(t, s, "w1")
	for crash := 1; crash <= 2; crash++ {
		if out := mustRecover(t, s, recoverFor("w1")); len(out.Resume) != 1 || out.Resume[0].CrashCount != int64(crash) {
			t.Fatalf("crash %d: %+v", crash, out)
		}
	}
	if out := mustRecover(t, s, recoverFor("w1")); out.Dead != 1 {
		t.Fatalf("third crash: %+v", out)
	}
	wantStatus(t, s, id, task.Dead, task.CrashesExhausted)

	id = mustAdd(t, s, NewTask{})[0]
	mustClaim(t, s, "w1")
	for i := range 20 {
		out := mustRecover(t, s, recoverFor("w1"))
		if len(out.Resume) != 1 {
			t.Fatalf("kill %d: %+v", i, out)
		}
		if _, err := s.Checkpoint(out.Resume[0].Fence(), fmt.Sprintf(`{"n":%d}`, i), "", night); err != nil {
			t.Fatal(err)
		}
		if got := mustGet(t, s, id); got.CrashCount != 0 {
			t.Fatalf("after progress the crash count is %d", got.CrashCount)
		}
	}
	limited := recoverFor("w1")
	limited.MaxExecutions = 21
	if out := mustRecover(t, s, limited); out.Dead != 1 {
		t.Errorf("after 21 executions: %+v", out)
	}
	wantStatus(t, s, id, task.Dead, task.CrashesExhausted)
}

// TestRecoverExpiredLeases: an overrun is the task's failure, the machine's absence costs nothing.
func TestRecoverExpiredLeases(t *testing.T) {
	s := newStore(t, Options{})
	ids := mustAdd(t, s, NewTask{}, NewTask{}, NewTask{MaxRetry: new(int64)})
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2", "w1.3"))
	if err != nil || len(r.Claimed) != 3 {
		t.Fatal(r, err)
	}
	back := night.Add(3 * time.Hour) // the leases ended after two
	registerAs(t, s, "boot1", night, "w1.2")
	registerAs(t, s, "boot1", night.Add(2*time.Hour+time.Minute), "w1.1")
	for _, x := range []string{"w1.2", "w1.3"} {
		at := night
		if x == "w1.3" {
			at = night.Add(2*time.Hour + time.Minute)
		}
		if err := s.Beat([]Heartbeat{{WorkerID: x, PID: 1, Hostname: "h", BootID: "boot1", LastHeartbeat: at}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Beat([]Heartbeat{{WorkerID: "w1.1", PID: 1, Hostname: "h", BootID: "boot1", LastHeartbeat: night.Add(2*time.Hour + time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	req := recoverFor("w1.1", "w1.2", "w1.3")
	req.Worker, req.Now = "w1", back
	if out := mustRecover(t, s, req); out.Expired != 3 || out.Dead != 1 {
		t.Errorf("%+v", out)
	}
	over := wantStatus(t, s, ids[0], task.Retrying, task.LeaseExpired)
	if over.RetryCount != 1 || !over.NextRun.Equal(back.Add(time.Minute)) || over.ExecutorID != "" {
		t.Errorf("overran: %+v", over)
	}
	away := wantStatus(t, s, ids[1], task.Retrying, task.LeaseExpired)
	if away.RetryCount != 0 || !away.NextRun.Equal(back) {
		t.Errorf("away: %+v", away)
	}
	wantStatus(t, s, ids[2], task.Dead, task.RetriesExhausted)
}

// TestRecoverHeedsWishes: a cancel or pause that was asked for meanwhile comes first.
func TestRecoverHeedsWishes(t *testing.T) {
	s := newStore(t, Options{})
	ids := mustAdd(t, s, make([]NewTask, 6)...)
	if _, err := s.Turn(nil, claimFor(executors("w1", 6)...)); err != nil {
		t.Fatal(err)
	}
	wish := func(i int, c task.Control) {
		t.Helper()
		if res, err := s.SetControl(ids[i], c, night); err != nil || res.Control != c {
			t.Fatal(res, err)
		}
	}
	wish(0, task.Cancel)
	wish(1, task.Pause)
	wish(2, task.Kill)
	for _, x := range []string{"w1.4", "w1.5", "w1.6"} {
		if n, err := s.MarkOffline(x, night); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	wish(3, task.Cancel)
	wish(4, task.Pause)
	req := recoverFor(executors("w1", 6)...)
	if out := mustRecover(t, s, req); out.Cancelled != 3 || out.Paused != 1 || out.Requeued != 2 || len(out.Resume) != 0 {
		t.Errorf("%+v", out)
	}
	wantStatus(t, s, ids[0], task.Cancelled, task.UserCancel)
	wantStatus(t, s, ids[1], task.Paused, task.UserPause)
	wantStatus(t, s, ids[2], task.Cancelled, task.UserCancel)
	wantStatus(t, s, ids[3], task.Cancelled, task.UserCancel)
	if got := wantStatus(t, s, ids[4], task.Pending, task.Takeover); got.Control != task.Pause {
		t.Errorf("the pause of a LOST task is gone: %+v", got)
	}
	wantStatus(t, s, ids[5], task.Pending, task.Takeover)
	r, err := s.Turn(nil, claimFor(executors("w2", 6)...))
	if err != nil || len(r.Claimed) != 1 || r.Claimed[0].ID != ids[5] {
		t.Errorf("claimed %+v, %v; want the one that nobody holds back", r.Claimed, err)
	}
}

// TestRecoverFewerSlots: the surplus of slots that are gone is queued again, and so
// is a type that the worker no longer knows; old slots are matched first.
func TestRecoverFewerSlots(t *testing.T) {
	s := newStore(t, Options{})
	ids := mustAdd(t, s, NewTask{}, NewTask{}, NewTask{}, NewTask{Type: "b", Priority: new(int64)})
	if _, err := s.Turn(nil, claimFor(executors("w1", 4)...)); err != nil {
		t.Fatal(err)
	}
	req := recoverFor("w1.2", "w1.9")
	req.Graceful, req.Types = true, map[string]TypeRule{"a": {}}
	out := mustRecover(t, s, req)
	if len(out.Resume) != 2 || out.Requeued != 2 {
		t.Fatalf("%+v", out)
	}
	slots := map[string]string{}
	for _, r := range out.Resume {
		slots[r.ExecutorID] = r.ID
	}
	if slots["w1.2"] != ids[0] || slots["w1.9"] != ids[1] {
		t.Errorf("slots %v of %v", slots, ids)
	}
	wantStatus(t, s, ids[2], task.Pending, task.Takeover)
	wantStatus(t, s, ids[3], task.Pending, task.Takeover)
}

// TestRecoverSuspectsOneByOne: of tasks that may have crashed the worker one runs on at a time.
func TestRecoverSuspectsOneByOne(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, make([]NewTask, 3)...)
	if _, err := s.Turn(nil, claimFor(executors("w1", 3)...)); err != nil {
		t.Fatal(err)
	}
	req := recoverFor(executors("w1", 3)...)
	if out := mustRecover(t, s, req); len(out.Resume) != 3 {
		t.Fatalf("first crash: %+v", out)
	}
	out := mustRecover(t, s, req)
	if len(out.Resume) != 1 || out.Requeued != 2 {
		t.Fatalf("second crash: %+v", out)
	}
	claim := claimFor("w1.2", "w1.3")
	claim.SuspectAt = 2
	if r, err := s.Turn(nil, claim); err != nil || len(r.Claimed) != 0 {
		t.Errorf("beside a suspect another was claimed: %+v, %v", r.Claimed, err)
	}
	other := claimFor("w2.1", "w2.2")
	other.SuspectAt = 2
	r, err := s.Turn(nil, other)
	if err != nil || len(r.Claimed) != 1 || r.Claimed[0].CrashCount != 2 {
		t.Errorf("another worker takes %+v, %v; want one suspect", r.Claimed, err)
	}
}

// TestTakeOver: proven death brings the tasks back, once, however often it is said.
func TestTakeOver(t *testing.T) {
	s := newStore(t, Options{})
	var lost []string
	s.SetHook([]string{EventLost, "DEAD"}, func(event string, tk *task.Task) (NewTask, bool) {
		lost = append(lost, event+" "+tk.ID)
		return NewTask{Type: "b", UniqueKey: event + tk.ID}, true
	})
	registerAs(t, s, "boot1", night, executors("w2", 4)...)
	ids := mustAdd(t, s, make([]NewTask, 4)...)
	if _, err := s.Turn(nil, claimFor(executors("w2", 4)...)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetControl(ids[1], task.Cancel, night); err != nil {
		t.Fatal(err)
	}
	if n, err := s.MarkOffline("w2.3", night); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	wantStatus(t, s, ids[2], task.Lost, task.WorkerOffline)
	owners, err := s.Foreign("w1")
	if err != nil || len(owners) != 4 || owners[0].Heartbeat.BootID != "boot1" || len(owners[0].ExecIDs) != 1 {
		t.Fatalf("owners %+v, %v", owners, err)
	}
	req := TakeOverRequest{Worker: "w2", Now: night, MaxCrashes: 1, MaxExecutions: 1000}
	if out, err := s.TakeOver(TakeOverRequest{Worker: "w2", BootID: "boot0", Now: night}); err != nil || len(out.Requeued) != 0 {
		t.Errorf("a takeover for another boot took %+v, %v", out, err)
	}
	req.Graceful = true
	out, err := s.TakeOver(req)
	if err != nil || len(out.Requeued) != 3 || len(out.Cancelled) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if again, err := s.TakeOver(req); err != nil || len(again.Requeued)+len(again.Cancelled)+len(again.Dead) != 0 {
		t.Errorf("twice: %+v, %v", again, err)
	}
	got := wantStatus(t, s, ids[0], task.Pending, task.Takeover)
	if got.ExecutorID != "" || !got.LeaseUntil.IsZero() || got.CrashCount != 0 {
		t.Errorf("%+v", got)
	}
	wantStatus(t, s, ids[1], task.Cancelled, task.UserCancel)
	if len(lost) != 4 {
		t.Errorf("the hook was asked %v", lost)
	}
	if counts, err := s.Count(); err != nil || counts[task.Pending] != 3+4 {
		t.Errorf("%v, %v: want the hooks' tasks beside the three", counts, err)
	}
}

// TestTakeOverOfAWorkerThatIsBack: between the proof of death and the takeover its
// next incarnation has registered, in this boot or the next: the tasks are its own.
func TestTakeOverOfAWorkerThatIsBack(t *testing.T) {
	for _, next := range []Heartbeat{{PID: 11, BootID: "boot1", StartTicks: 200}, {PID: 10, BootID: "boot2", StartTicks: 50}} {
		s := newStore(t, Options{})
		registerAs(t, s, "boot1", night, "w2")
		id := mustAdd(t, s, NewTask{})[0]
		if _, err := s.Turn(nil, claimFor("w2")); err != nil {
			t.Fatal(err)
		}
		next.WorkerID = "w2"
		if err := s.Register([]Heartbeat{next}); err != nil {
			t.Fatal(err)
		}
		req := TakeOverRequest{Worker: "w2", BootID: "boot1", PID: 10, StartTicks: 100, ThisBoot: next.BootID, Now: night}
		if out, err := s.TakeOver(req); !errors.Is(err, ErrNotMine) || len(out.Requeued) != 0 {
			t.Errorf("%+v is back: %+v, %v", next, out, err)
		}
		wantStatus(t, s, id, task.Running, task.Claimed)
		req.PID, req.BootID, req.StartTicks, req.MaxCrashes, req.MaxExecutions = next.PID, next.BootID, next.StartTicks, 3, 1000
		if out, err := s.TakeOver(req); err != nil || len(out.Requeued) != 1 {
			t.Errorf("the death of %+v itself: %+v, %v", next, out, err)
		}
	}
}

// TestWorkerBack: an executor that was only silent goes on: its checkpoint, its end
// and its lease bring the task back from LOST.
func TestWorkerBack(t *testing.T) {
	s := newStore(t, Options{})
	ids := mustAdd(t, s, NewTask{}, NewTask{})
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []string{"w1.1", "w1.2"} {
		if _, err := s.MarkOffline(x, night); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Checkpoint(r.Claimed[0].Fence(), `{"n":1}`, "", night); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, ids[0], task.Running, task.WorkerBack)
	if got := mustFinish(t, s, Finish{Fence: r.Claimed[1].Fence(), Verdict: Succeed, Result: `1`}); got != task.Success {
		t.Error(got)
	}
	wantStatus(t, s, ids[1], task.Success, task.Done)
}

// TestLetGo: a row that a shell moved while it ran is not claimed before its
// executor has let go of it, or is proven dead.
func TestLetGo(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{})[0]
	got := mustClaim(t, s, "w1")
	c := rawConn(t, s.Path())
	if err := c.script("UPDATE tasks SET status='RETRYING', reason='retryable_error', next_run_time='2026-01-01'"); err != nil {
		t.Fatal(err)
	}
	claimNothing := func() {
		t.Helper()
		if r, err := s.Turn(nil, claimFor("w2")); err != nil || len(r.Claimed) != 0 {
			t.Fatalf("claimed %+v, %v while the first executor may still run it", r.Claimed, err)
		}
	}
	claimNothing()
	if _, err := s.Checkpoint(got.Fence(), `{}`, "", night); !errors.Is(err, ErrNotMine) {
		t.Fatal(err)
	}
	found, err := s.Check(Pages)
	if err != nil || len(found) != 1 {
		t.Errorf("the check finds %v, %v", found, err)
	}
	if err := s.LetGo(got.Fence(), night); err != nil {
		t.Fatal(err)
	}
	if r := mustClaim(t, s, "w2"); r.ID != id {
		t.Error(r)
	}
	if err := c.script("UPDATE tasks SET status='RETRYING', reason='retryable_error', next_run_time='2026-01-01'"); err != nil {
		t.Fatal(err)
	}
	claimNothing()
	if out, err := s.TakeOver(TakeOverRequest{Worker: "w2", Now: night}); err != nil || out.LetGo != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	mustClaim(t, s, "w3")
}

// TestOwnerlessRowsAreFreed: RUNNING by hand, without an executor, is nobody's.
func TestOwnerlessRowsAreFreed(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{})[0]
	c := rawConn(t, s.Path())
	if err := c.script("UPDATE tasks SET status='RUNNING', reason='claimed'"); err != nil {
		t.Fatal(err)
	}
	owners, err := s.Foreign("w1")
	if err != nil || len(owners) != 1 || owners[0].ExecutorID != "" {
		t.Errorf("owners %+v, %v", owners, err)
	}
	if out := mustRecover(t, s, recoverFor("w1")); out.Requeued != 1 {
		t.Errorf("%+v", out)
	}
	if got := wantStatus(t, s, id, task.Pending, task.Takeover); got.CrashCount != 0 {
		t.Error(got)
	}
	mustClaim(t, s, "w1")
}

// TestExpireLease ends an overrun execution as the task's own failure.
func TestExpireLease(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{}, NewTask{})
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetControl(r.Claimed[1].ID, task.Kill, night); err != nil {
		t.Fatal(err)
	}
	to, err := s.ExpireLease(r.Claimed[0].Fence(), night.Add(time.Minute), night)
	if err != nil || to != task.Retrying {
		t.Errorf("%s, %v", to, err)
	}
	if got := wantStatus(t, s, r.Claimed[0].ID, task.Retrying, task.LeaseExpired); got.RetryCount != 1 {
		t.Error(got)
	}
	if to, err = s.ExpireLease(r.Claimed[1].Fence(), night, night); err != nil || to != task.Cancelled {
		t.Errorf("%s, %v", to, err)
	}
	if _, err = s.ExpireLease(r.Claimed[1].Fence(), night, night); !errors.Is(err, ErrNotMine) {
		t.Errorf("twice: %v", err)
	}
}

// TestTI09RetriesOfAWrongClock are drawn in; the others stay.
func TestTI09RetriesOfAWrongClock(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, make([]NewTask, 3)...)
	r, err := s.Turn(nil, claimFor(executors("w1", 3)...))
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []time.Time{night.Add(time.Minute), night.Add(backoff.Limit()), night.AddDate(1, 0, 0)} {
		mustFinish(t, s, Finish{Fence: r.Claimed[i].Fence(), Verdict: Retry, RetryAt: at})
	}
	if n, err := s.PullIn(night, time.Time{}, backoffOf, noJitter); err != nil || n != 1 {
		t.Fatalf("drew in %d, %v", n, err)
	}
	if got := mustGet(t, s, r.Claimed[2].ID); !got.NextRun.Equal(night.Add(time.Minute)) {
		t.Errorf("drawn in to %s", got.NextRun)
	}
	if n, err := s.PullIn(night, time.Time{}, backoffOf, noJitter); err != nil || n != 0 {
		t.Errorf("again %d, %v", n, err)
	}
}

// TestTI09InterruptedUnderAWrongClock: tasks that a worker had begun while the clock
// stood an hour ahead, and that wait again, do not wait for that hour to come again.
// What nobody has begun, or lies further ahead than that clock, keeps its time.
func TestTI09InterruptedUnderAWrongClock(t *testing.T) {
	ahead := night.Add(time.Hour)
	for _, known := range []time.Time{{}, ahead.Add(time.Second)} { // at a start, at a step
		s := newStore(t, Options{})
		ids := mustAdd(t, s, NewTask{NextRun: ahead}, NewTask{NextRun: ahead}, NewTask{NextRun: ahead, Held: true},
			NewTask{Type: "b", NextRun: ahead}, NewTask{NextRun: ahead})
		registerAs(t, s, "boot1", ahead, executors("w1", 3)...)
		claim := claimFor(executors("w1", 3)...)
		claim.Types, claim.Now = map[string]TypeRule{"a": {}}, ahead
		r, err := s.Turn(nil, claim)
		if err != nil || len(r.Claimed) != 3 {
			t.Fatalf("%+v, %v", r.Claimed, err)
		}
		if _, err := s.SetControl(ids[0], task.Pause, ahead); err != nil {
			t.Fatal(err)
		}
		mustFinish(t, s, Finish{Fence: r.Claimed[0].Fence(), Verdict: Pause, Now: ahead})
		taken := TakeOverRequest{Worker: "w1", Now: ahead, MaxCrashes: 3, MaxExecutions: 1000}
		if out, err := s.TakeOver(taken); err != nil || len(out.Requeued) != 2 {
			t.Fatalf("%+v, %v", out, err)
		}
		if n, err := s.PullIn(night, known, backoffOf, noJitter); err != nil || n != 3 {
			t.Errorf("drew in %d, %v; want the paused one and two that were taken over", n, err)
		}
		for i, want := range []time.Time{night, night, ahead, ahead, night} {
			if got := mustGet(t, s, ids[i]); !got.NextRun.Equal(want) {
				t.Errorf("task %d is due at %s, want %s", i, got.NextRun, want)
			}
		}
	}
}

// TestTakeOverAfterTheClockWentBack: what was due under the other clock stays due.
func TestTakeOverAfterTheClockWentBack(t *testing.T) {
	ahead := night.Add(time.Hour)
	s := newStore(t, Options{})
	ids := mustAdd(t, s, NewTask{NextRun: ahead}, NewTask{NextRun: ahead})
	claim := claimFor(executors("w1", 2)...)
	claim.Now = ahead
	r, err := s.Turn(nil, claim)
	if err != nil || len(r.Claimed) != 2 {
		t.Fatalf("%+v, %v", r.Claimed, err)
	}
	if _, err := s.SetControl(ids[0], task.Pause, night); err != nil {
		t.Fatal(err)
	}
	mustFinish(t, s, Finish{Fence: r.Claimed[0].Fence(), Verdict: Pause, Now: night})
	if _, err := s.TakeOver(TakeOverRequest{Worker: "w1", Now: night, MaxCrashes: 3, MaxExecutions: 1000}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := mustGet(t, s, id); got.NextRun.After(night) {
			t.Errorf("%s is due at %s", got.Status, got.NextRun)
		}
	}
}

// TestTI14BackoffOverflows: any retry count gives a wait within cap and cap + base.
func TestTI14BackoffOverflows(t *testing.T) {
	s := newStore(t, Options{})
	many := int64(5000)
	for _, n := range []int64{5, 30, 37, 62, 63, 64, 100, 4999} {
		mustAdd(t, s, NewTask{MaxRetry: &many, RetryCount: n})
		got := mustClaim(t, s, "w1")
		at := night.Add(backoff.Delay(got.RetryCount+1, noJitter))
		mustFinish(t, s, Finish{Fence: got.Fence(), Verdict: Retry, RetryAt: at})
		row := wantStatus(t, s, got.ID, task.Retrying, task.RetryableError)
		if d := row.NextRun.Sub(night); row.RetryCount != n+1 || d > backoff.Limit() || (n > 6 && d < backoff.Cap) {
			t.Errorf("after %d failures: %s, count %d", n, d, row.RetryCount)
		}
	}
}
