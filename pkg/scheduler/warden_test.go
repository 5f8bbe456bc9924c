package scheduler

import (
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/executor"
	"nightshift/pkg/store"
)

// stepClock moves only when told; its timers never fire by themselves.
type stepClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *stepClock) NewTimer(time.Duration) executor.Timer { return never{} }

type never struct{}

func (never) C() <-chan time.Time { return nil }
func (never) Stop() bool          { return true }

// machine is the kernel of a test.
type machine struct {
	proof   Proof
	gone    bool
	left    []string
	hunts   []bool // proven or not
	signals []bool // kill or not
	guards  int
}

func (m *machine) BootID() string { return "this-boot" }
func (m *machine) Probe(*Owner) (Proof, Guard, error) {
	if m.proof == Free {
		m.guards++
		return Free, m, nil
	}
	return m.proof, nil, nil
}
func (m *machine) Close()           { m.guards-- }
func (m *machine) Gone(*Owner) bool { return m.gone }
func (m *machine) Signal(_ *Owner, kill bool) error {
	m.signals = append(m.signals, kill)
	return nil
}
func (m *machine) Hunt(_ *Owner, proven bool) ([]string, error) {
	m.hunts = append(m.hunts, proven)
	return m.left, nil
}

// ledger is the warden's database.
type ledger struct {
	m       *machine
	rows    []store.Owner
	took    []store.TakeOverRequest
	guarded []int
	offline []string
	takeErr error
}

func (l *ledger) Foreign(string) ([]store.Owner, error) { return l.rows, nil }
func (l *ledger) TakeOver(r store.TakeOverRequest) (store.TakenOver, error) {
	if l.takeErr != nil {
		return store.TakenOver{}, l.takeErr
	}
	l.took, l.guarded = append(l.took, r), append(l.guarded, l.m.guards)
	l.rows = nil
	return store.TakenOver{}, nil
}
func (l *ledger) MarkOffline(id string, _ time.Time) (int, error) {
	l.offline = append(l.offline, id)
	return 1, nil
}

type watchRig struct {
	w     *Warden
	clock *stepClock
	m     *machine
	l     *ledger
	beat  time.Time
}

func newWatch(t *testing.T, boot string) *watchRig {
	t.Helper()
	r := &watchRig{clock: &stepClock{now: time.Now()}, m: &machine{}}
	r.beat = r.clock.now
	r.l = &ledger{m: r.m, rows: []store.Owner{
		{ExecutorID: "w2.1", Tasks: 1, ExecIDs: []int64{11}, MinLease: r.clock.now.Add(24 * time.Hour),
			Heartbeat: store.Heartbeat{WorkerID: "w2.1", PID: 4242, StartTicks: 7, BootID: boot, LockPath: "/run/w2.lock"}},
		{ExecutorID: "w2.2", Tasks: 1, ExecIDs: []int64{12}, MinLease: r.clock.now.Add(24 * time.Hour),
			Heartbeat: store.Heartbeat{WorkerID: "w2.2", PID: 4242, StartTicks: 7, BootID: boot, LockPath: "/run/w2.lock"}},
	}}
	r.w = NewWarden(WardenConfig{
		WorkerID: "w1", Store: r.l, Kernel: r.m, Clock: r.clock, Logger: hclog.NewNullLogger(), Took: func() {},
		LastBeat: func() time.Time { return r.beat },
		Settings: func() WardenSettings {
			return WardenSettings{SuspectAfter: 90 * time.Second, OfflineAfter: 5 * time.Minute, StopGrace: 70 * time.Second}
		},
	})
	return r
}

// pass lets d go by in rounds of a second, with this worker's own beats.
func (r *watchRig) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		r.clock.add(time.Second)
		r.beat = r.clock.now
		r.w.Round()
	}
}

func (r *watchRig) expireLeases() {
	for i := range r.l.rows {
		r.l.rows[i].MinLease = r.clock.now.Add(-time.Hour)
	}
}

func TestAFreeLockIsTakenOverAfterASecondWithTheLockInHand(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.proof = Free
	r.w.Round()
	if len(r.l.took) != 0 || !r.w.soon {
		t.Fatalf("taken before the worker could come back: %v", r.l.took)
	}
	r.pass(2 * time.Second)
	if len(r.l.took) != 1 || r.l.guarded[0] != 1 {
		t.Fatalf("takeovers %d, guards held at that moment %v", len(r.l.took), r.l.guarded)
	}
	got := r.l.took[0]
	if len(got.Executors) != 2 || got.PID != 4242 || got.StartTicks != 7 || got.Graceful {
		t.Errorf("%+v", got)
	}
	if len(r.m.hunts) != 1 || !r.m.hunts[0] {
		t.Errorf("hunts %v: the tree must be dead first", r.m.hunts)
	}
	if r.m.guards != 0 {
		t.Error("the lock was kept")
	}
}

func TestAWorkerThatComesBackKeepsItsTasks(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.proof = Free
	r.w.Round()
	r.m.proof = Held // the supervisor has started it again
	r.pass(10 * time.Second)
	if len(r.l.took)+len(r.m.signals) != 0 {
		t.Errorf("took %v, signals %v", r.l.took, r.m.signals)
	}
}

func TestLeftoversThatDoNotEndKeepTheTasksWaiting(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.proof, r.m.left = Free, []string{"process 99 (stuck)"}
	r.pass(10 * time.Second)
	if len(r.l.took) != 0 {
		t.Fatal("taken over beside a living process")
	}
	r.m.left = nil
	r.pass(2 * time.Second)
	if len(r.l.took) != 1 {
		t.Error("not taken over once they had ended")
	}
}

func TestAnotherBootIsProofWithoutALock(t *testing.T) {
	r := newWatch(t, "an-earlier-boot")
	r.m.proof = Unproven
	r.pass(3 * time.Second)
	if len(r.l.took) != 1 || !r.l.took[0].Graceful {
		t.Errorf("%+v", r.l.took)
	}
}

// TestAHeldLockOutweighsABootID: a container can be shown another boot id.
func TestAHeldLockOutweighsABootID(t *testing.T) {
	r := newWatch(t, "another-boot")
	r.pass(10 * time.Minute)
	if len(r.l.took)+len(r.m.signals) != 0 {
		t.Errorf("took %v, signals %v", r.l.took, r.m.signals)
	}
	r.m.proof = Free
	r.pass(3 * time.Second)
	if len(r.l.took) != 1 {
		t.Error("not taken over once the lock was free")
	}
}

func TestSilenceAloneNeverTakesOver(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.pass(20 * time.Minute)
	if len(r.l.took) != 0 || len(r.m.signals) != 0 {
		t.Errorf("took %v, signals %v", r.l.took, r.m.signals)
	}
	if len(r.l.offline) == 0 {
		t.Error("five minutes of silence were not noticed")
	}
}

func TestAnExpiredLeaseAllowsOnlyAKill(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.expireLeases()
	r.pass(89 * time.Second)
	if len(r.m.signals) != 0 {
		t.Fatalf("signalled before the owner had time to stamp its lease anew: %v", r.m.signals)
	}
	r.pass(5 * time.Second)
	if len(r.m.signals) != 1 || r.m.signals[0] {
		t.Fatalf("signals %v, want one TERM", r.m.signals)
	}
	r.pass(80 * time.Second)
	if n := len(r.m.signals); n < 2 || !r.m.signals[n-1] {
		t.Fatalf("signals %v, want a KILL", r.m.signals)
	}
	if len(r.l.took) != 0 {
		t.Fatal("taken over without proof")
	}
	r.m.proof, r.m.gone = Free, true
	r.pass(3 * time.Second)
	if len(r.l.took) != 1 || !r.l.took[0].Overran {
		t.Errorf("%+v", r.l.took)
	}
}

// TestH14ClockJump: with the wall clock an hour ahead all leases look expired for
// the second that their owners need to stamp them anew.
func TestH14ClockJumpExpiresNothing(t *testing.T) {
	r := newWatch(t, "this-boot")
	for range 20 {
		r.expireLeases()
		r.pass(3 * time.Second)
		for i := range r.l.rows {
			r.l.rows[i].MinLease = r.clock.now.Add(time.Hour)
			r.l.rows[i].Heartbeat.Beat++
		}
		r.pass(30 * time.Second)
	}
	if len(r.m.signals)+len(r.l.took)+len(r.l.offline) != 0 {
		t.Errorf("signals %v took %v offline %v", r.m.signals, r.l.took, r.l.offline)
	}
}

// TestDU04LaptopLid: everyone slept; after waking nobody is dead.
func TestDU04LaptopLid(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.pass(4 * time.Minute)
	r.clock.add(10 * time.Minute) // the observer was stopped with all the others
	r.beat = r.clock.now
	r.w.Round()
	if len(r.l.offline)+len(r.m.signals) != 0 {
		t.Errorf("judged on waking: offline %v signals %v", r.l.offline, r.m.signals)
	}
}

// TestPR18SlowDatabase: while we could not write either, the others' silence
// says nothing.
func TestPR18SlowDatabaseMakesNobodySilent(t *testing.T) {
	r := newWatch(t, "this-boot")
	for range 600 {
		r.clock.add(time.Second) // no beat of our own
		r.w.Round()
	}
	if len(r.l.offline) != 0 {
		t.Errorf("offline %v", r.l.offline)
	}
}

// TestFault44LockFileDeleted: a tmp cleaner is no proof of death.
func TestFault44LockFileDeleted(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.proof = Unproven
	r.pass(10 * time.Minute)
	if len(r.l.took) != 0 {
		t.Fatal("taken over from a living worker")
	}
	r.m.gone = true // the kernel says that the recorded process is gone
	r.pass(4 * time.Second)
	if len(r.l.took) != 1 || len(r.m.hunts) == 0 {
		t.Errorf("took %v hunts %v", r.l.took, r.m.hunts)
	}
}

// TestCR05HeldByADescendant: the worker is gone, something keeps its descriptor.
func TestCR05HeldByADescendant(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.gone, r.m.left = true, []string{"process 99 (sh)"}
	r.pass(5 * time.Second)
	if len(r.l.took) != 0 || len(r.m.hunts) == 0 || r.m.hunts[0] {
		t.Fatalf("took %v, hunts %v", r.l.took, r.m.hunts)
	}
	r.m.left, r.m.proof = nil, Free
	r.pass(3 * time.Second)
	if len(r.l.took) != 1 {
		t.Error("not taken over when the lock was free")
	}
}

func TestATakeoverThatCameTooLateIsNoError(t *testing.T) {
	r := newWatch(t, "this-boot")
	r.m.proof, r.l.takeErr = Free, store.ErrNotMine
	r.pass(5 * time.Second)
	if len(r.l.took) != 0 {
		t.Error("took")
	}
}
