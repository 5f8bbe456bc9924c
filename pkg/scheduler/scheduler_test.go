package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nowhere is a place without directory and log.
type nowhere struct{}

func (nowhere) Dir(*task.Task) (string, error) { return "", nil }

func (nowhere) Open(*task.Task) (executor.Log, error) { return discard{}, nil }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
func (discard) Path() string                { return "" }

func openStore(t testing.TB) *store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nightshift.db")
	if err := store.Init(path); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// shift is one scheduler at work on a store.
type shift struct {
	*Scheduler
	ended chan error
}

func settingsFor(types map[string]executor.Type, limits map[string]int) *Settings {
	set := &Settings{
		Types: types, Rules: map[string]store.TypeRule{}, PollInterval: 5 * time.Second, SuspectAfter: 90 * time.Second,
		OfflineAfter: 5 * time.Minute, MaxCrashes: 3, MaxExecutions: 1000, DrainTimeout: 5 * time.Second,
		Backoff:  func(string) task.Backoff { return task.Backoff{Base: 10 * time.Millisecond, Cap: time.Second} },
		SlowHook: func(*task.Task) *store.NewTask { return nil },
	}
	for name, ty := range types {
		if ty.Backoff.Base == 0 {
			ty.Backoff = set.Backoff(name)
		}
		if ty.Grace == 0 {
			ty.Grace = time.Second
		}
		types[name] = ty
		set.Rules[name] = store.TypeRule{Limit: limits[name], Timeout: ty.Timeout}
	}
	return set
}

func begin(t testing.TB, s *store.Store, id string, slots int, set *Settings) *shift {
	t.Helper()
	return beginIn(t, nowhere{}, s, id, slots, set)
}

func beginIn(t testing.TB, place executor.Place, s *store.Store, id string, slots int, set *Settings) *shift {
	t.Helper()
	names := []string{id}
	if slots > 1 {
		names = nil
		for i := range slots {
			names = append(names, fmt.Sprintf("%s.%d", id, i+1))
		}
	}
	h := &shift{ended: make(chan error, 1)}
	h.Scheduler = New(Config{
		WorkerID: id, Slots: names, Store: s, Logger: hclog.NewNullLogger(), Changes: s.Changes(),
		Deps: executor.Deps{Store: s, Place: place, Clock: executor.System{}, Rand: rand.Int64N},
		Beat: func() error { return nil }, LastBeat: time.Now, Discard: func(*task.Task) {},
	}, set, nil)
	go func() { h.ended <- h.Run() }()
	t.Cleanup(h.end)
	return h
}

func (h *shift) end() {
	h.Drain()
	if err, open := <-h.ended; open && err != nil && !errors.Is(err, ErrAbandoned) {
		panic(err)
	}
}

// stop drains and returns what Run returned.
func (h *shift) stop(t *testing.T) error {
	t.Helper()
	h.Drain()
	select {
	case err := <-h.ended:
		close(h.ended)
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the scheduler does not end")
		return nil
	}
}

func add(t testing.TB, s *store.Store, tasks ...store.NewTask) []string {
	t.Helper()
	ids, err := s.Add(time.Now(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func status(t testing.TB, s *store.Store, id string) task.Status {
	t.Helper()
	row, err := s.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return row.Status
}

func run(f func(ctx context.Context, t *handler.Task) (any, error)) executor.Type {
	return executor.Type{Handler: handler.Func(f)}
}

func TestTasksRunToTheirEnds(t *testing.T) {
	s := openStore(t)
	var tries atomic.Int64
	begin(t, s, "w1", 2, settingsFor(map[string]executor.Type{
		"ok":    run(func(context.Context, *handler.Task) (any, error) { return 1, nil }),
		"fatal": run(func(context.Context, *handler.Task) (any, error) { return nil, handler.Fatal(errors.New("no")) }),
		"third": run(func(context.Context, *handler.Task) (any, error) {
			if tries.Add(1) < 3 {
				return nil, errors.New("not yet")
			}
			return nil, nil
		}),
		"never": run(func(context.Context, *handler.Task) (any, error) { return nil, errors.New("never") }),
	}, nil))
	two := int64(2)
	ids := add(t, s, store.NewTask{Type: "ok"}, store.NewTask{Type: "fatal"}, store.NewTask{Type: "third"}, store.NewTask{Type: "never", MaxRetry: &two})
	for i, want := range []task.Status{task.Success, task.Failed, task.Success, task.Dead} {
		until(t, string(want), func() bool { return status(t, s, ids[i]) == want })
	}
	row, err := s.Get(ids[3])
	if err != nil || row.Reason != task.RetriesExhausted || row.RetryCount != 3 {
		t.Errorf("reason %s, retry count %d (%v)", row.Reason, row.RetryCount, err)
	}
}

func TestIN07UnknownTypesWaitForTheirType(t *testing.T) {
	s := openStore(t)
	top := int64(-1 << 62)
	ids := add(t, s, store.NewTask{Type: "later", Priority: &top}, store.NewTask{Type: "now"})
	done := run(func(context.Context, *handler.Task) (any, error) { return nil, nil })
	h := begin(t, s, "w1", 1, settingsFor(map[string]executor.Type{"now": done}, nil))
	until(t, "the known one", func() bool { return status(t, s, ids[1]) == task.Success })
	if st := status(t, s, ids[0]); st != task.Pending {
		t.Fatalf("the unknown one is %s", st)
	}
	h.Reload(settingsFor(map[string]executor.Type{"now": done, "later": done}, nil))
	until(t, "the type that came later", func() bool { return status(t, s, ids[0]) == task.Success })
}

func TestATypesLimitHoldsOverAllWorkers(t *testing.T) {
	s := openStore(t)
	var now, most atomic.Int64
	ty := run(func(context.Context, *handler.Task) (any, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
		return nil, nil
	})
	var tasks []store.NewTask
	for range 60 {
		tasks = append(tasks, store.NewTask{Type: "limited"})
	}
	ids := add(t, s, tasks...)
	for _, id := range []string{"w1", "w2", "w3"} {
		begin(t, s, id, 4, settingsFor(map[string]executor.Type{"limited": ty}, map[string]int{"limited": 3}))
	}
	for _, id := range ids {
		until(t, "all", func() bool { return status(t, s, id) == task.Success })
	}
	if m := most.Load(); m > 3 {
		t.Errorf("%d ran at a time, 3 are allowed", m)
	}
}

func TestACancelIsSeenBetweenCheckpoints(t *testing.T) {
	s := openStore(t)
	started := make(chan struct{})
	begin(t, s, "w1", 1, settingsFor(map[string]executor.Type{
		"silent": run(func(ctx context.Context, _ *handler.Task) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
	}, nil))
	id := add(t, s, store.NewTask{Type: "silent"})[0]
	<-started
	if _, err := s.SetControl(id, task.Cancel, time.Now()); err != nil {
		t.Fatal(err)
	}
	until(t, "cancelled", func() bool { return status(t, s, id) == task.Cancelled })
}

func TestADrainReleasesAndTheOperatorsDrainHoldsClaims(t *testing.T) {
	s := openStore(t)
	ty := map[string]executor.Type{"loop": run(func(ctx context.Context, t *handler.Task) (any, error) {
		for n := 0; ; n++ {
			if err := t.Checkpoint(ctx, n, ""); err != nil {
				return nil, err
			}
			time.Sleep(time.Millisecond)
		}
	})}
	h := begin(t, s, "w1", 1, settingsFor(ty, nil))
	id := add(t, s, store.NewTask{Type: "loop"})[0]
	until(t, "running", func() bool { return status(t, s, id) == task.Running })
	if err := h.stop(t); err != nil {
		t.Fatal(err)
	}
	if st := status(t, s, id); st != task.Running {
		t.Errorf("after the drain it is %s, its worker should find it RUNNING", st)
	}
	if err := s.SetDrain(true, time.Now()); err != nil {
		t.Fatal(err)
	}
	begin(t, s, "w2", 1, settingsFor(ty, nil))
	held := add(t, s, store.NewTask{Type: "loop"})[0]
	time.Sleep(100 * time.Millisecond) // nothing may happen: there is no event to wait for
	if st := status(t, s, held); st != task.Pending {
		t.Fatalf("claimed during the operator's drain: %s", st)
	}
	if err := s.SetDrain(false, time.Now()); err != nil {
		t.Fatal(err)
	}
	until(t, "claimed after it", func() bool { return status(t, s, held) == task.Running })
}

func TestAForcedTakeoverStopsTheOldExecution(t *testing.T) {
	s := openStore(t)
	stopped := make(chan struct{})
	var once sync.Once
	begin(t, s, "w1", 1, settingsFor(map[string]executor.Type{
		"long": run(func(ctx context.Context, _ *handler.Task) (any, error) {
			<-ctx.Done()
			once.Do(func() { close(stopped) })
			return nil, ctx.Err()
		}),
	}, nil))
	id := add(t, s, store.NewTask{Type: "long"})[0]
	until(t, "running", func() bool { return status(t, s, id) == task.Running })
	if _, err := s.TakeOver(store.TakeOverRequest{Executors: []string{"w1"}, Now: time.Now(), Graceful: true, MaxCrashes: 3}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Fatal("the old execution runs on")
	}
}

func TestAHandlerThatObeysNothingEndsTheWorker(t *testing.T) {
	s := openStore(t)
	release := make(chan struct{})
	ty := run(func(context.Context, *handler.Task) (any, error) { <-release; return nil, nil })
	ty.Grace = 50 * time.Millisecond
	h := begin(t, s, "w1", 2, settingsFor(map[string]executor.Type{"deaf": ty}, nil))
	id := add(t, s, store.NewTask{Type: "deaf"})[0]
	until(t, "running", func() bool { return status(t, s, id) == task.Running })
	if _, err := s.SetControl(id, task.Cancel, time.Now()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-h.ended:
		if !errors.Is(err, ErrAbandoned) {
			t.Errorf("ended with %v", err)
		}
		close(h.ended)
	case <-time.After(30 * time.Second):
		t.Fatal("the scheduler goes on beside a handler that obeys nothing")
	}
	if st := status(t, s, id); st != task.Running {
		t.Errorf("it is %s while its handler still runs", st)
	}
	close(release)
}

// It went on for ever: its last heartbeat was older than the lease that was stamped
// as expired, so each recovery took it for a machine that had been away.
func TestAnOverrunThatObeysNothingIsCounted(t *testing.T) {
	s := openStore(t)
	release := make(chan struct{})
	defer close(release)
	ty := run(func(context.Context, *handler.Task) (any, error) { <-release; return nil, nil })
	ty.Timeout, ty.Grace = 50*time.Millisecond, 50*time.Millisecond
	row := []store.Heartbeat{{WorkerID: "w1", PID: 1, BootID: "b", LastHeartbeat: time.Now().Add(-20 * time.Second)}}
	if err := s.Register(row); err != nil {
		t.Fatal(err)
	}
	id := add(t, s, store.NewTask{Type: "deaf"})[0]
	sched := New(Config{
		WorkerID: "w1", Slots: []string{"w1"}, Store: s, Logger: hclog.NewNullLogger(), Changes: s.Changes(),
		Deps: executor.Deps{Store: s, Place: nowhere{}, Clock: executor.System{}, Rand: rand.Int64N},
		Beat: func() error { row[0].LastHeartbeat = time.Now(); return s.Beat(row) }, LastBeat: time.Now, Discard: func(*task.Task) {},
	}, settingsFor(map[string]executor.Type{"deaf": ty}, nil), nil)
	if err := sched.Run(); !errors.Is(err, ErrAbandoned) {
		t.Fatalf("ended with %v", err)
	}
	if _, err := s.Recover(store.RecoverRequest{Worker: "w1", Executors: []string{"w1"}, BootID: "b", Now: time.Now(), MaxCrashes: 3}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(id)
	if err != nil || got.Status != task.Retrying || got.RetryCount != 1 {
		t.Errorf("%s with %d retries, %v", got.Status, got.RetryCount, err)
	}
}

// BenchmarkDrain is what a no-op task of a Go handler costs, all in: claim, start,
// finish, history and events, durable.
func BenchmarkDrain(b *testing.B) {
	for _, slots := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			s := openStore(b)
			batch := make([]store.NewTask, 0, 10000)
			for n := b.N; n > 0; n -= len(batch) {
				batch = batch[:0]
				for range min(n, 10000) {
					batch = append(batch, store.NewTask{Type: "noop"})
				}
				add(b, s, batch...)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			ty := run(func(context.Context, *handler.Task) (any, error) {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil, nil
			})
			b.ResetTimer()
			begin(b, s, "w1", slots, settingsFor(map[string]executor.Type{"noop": ty}, nil))
			<-done
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// oneEach is a place that has room for one execution of a slot at a time.
type oneEach struct {
	nowhere
	t    *testing.T
	mu   sync.Mutex
	busy map[string]string
	runs map[string]int
}

type seat struct {
	discard
	p    *oneEach
	slot string
}

func (p *oneEach) Open(tk *task.Task) (executor.Log, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.busy[tk.ExecutorID]; other != "" {
		p.t.Errorf("slot %s has %s and %s", tk.ExecutorID, other, tk.ID)
	}
	p.busy[tk.ExecutorID] = tk.ID
	p.runs[tk.ID]++
	return seat{p: p, slot: tk.ExecutorID}, nil
}

func (s seat) Close() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	delete(s.p.busy, s.slot)
	return nil
}

// Turns overlap with the starts of what the one before has claimed: a slot still has one
// task at a time, and a task one execution.
func TestOverlappingTurnsGiveASlotOneTask(t *testing.T) {
	s := openStore(t)
	p := &oneEach{t: t, busy: map[string]string{}, runs: map[string]int{}}
	short := run(func(context.Context, *handler.Task) (any, error) { return nil, nil })
	h := beginIn(t, p, s, "w1", 64, settingsFor(map[string]executor.Type{"short": short}, nil))
	ids := add(t, s, slices.Repeat([]store.NewTask{{Type: "short"}}, 3000)...)
	until(t, "all", func() bool {
		counts, err := s.Count()
		return err == nil && counts[task.Success] == int64(len(ids))
	})
	if err := h.stop(t); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if p.runs[id] != 1 {
			t.Errorf("%s ran %d times", id, p.runs[id])
		}
	}
}
