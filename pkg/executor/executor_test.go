package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row plays the store's part for one execution.
type row struct {
	mu      sync.Mutex
	control task.Control
	errs    []error // answers of the next checkpoints
	states  []string
}

func (r *row) Checkpoint(_ task.Fence, state, _ string, _ time.Time) (task.Control, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) > 0 {
		err := r.errs[0]
		r.errs = r.errs[1:]
		if err != nil {
			return "", err
		}
	}
	r.states = append(r.states, state)
	return r.control, nil
}

func (r *row) ask(c task.Control) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.control = c
}

type place struct {
	mu   sync.Mutex
	log  bytes.Buffer
	errs []error
}

func (p *place) Dir(*task.Task) (string, error) { return "dir", nil }

func (p *place) Open(*task.Task) (Log, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		return nil, err
	}
	return p, nil
}

func (p *place) Path() string { return "the.log" }

func (p *place) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *place) Close() error { return nil }

func (p *place) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// manual is a clock whose timers fire when the test says so.
type manual struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
}

type manualTimer struct {
	c    *manual
	at   time.Time
	ch   chan time.Time
	done bool
}

func (t *manualTimer) C() <-chan time.Time { return t.ch }
func (t *manualTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := !t.done
	t.done = true
	return was
}

func newManual() *manual { return &manual{now: time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)} }

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) NewTimer(d time.Duration) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{c: c, at: c.now.Add(d), ch: make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	c.fire()
	return t
}

func (c *manual) fire() {
	for _, t := range c.timers {
		if !t.done && !t.at.After(c.now) {
			t.done = true
			t.ch <- c.now
		}
	}
}

func (c *manual) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

// armed waits until a live timer is set to fire d from now.
func (c *manual) armed(t *testing.T, d time.Duration) {
	t.Helper()
	eventually(t, fmt.Sprintf("a timer of %v", d), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, tm := range c.timers {
			if !tm.done && tm.at.Sub(c.now) == d {
				return true
			}
		}
		return false
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in 10 s", what)
		}
	}
}

type rig struct {
	clock *manual
	row   *row
	place *place
	x     *Execution
	end   chan Completion
}

const (
	testTimeout = time.Hour
	testGrace   = 30 * time.Second
)

func start(t *testing.T, h handler.Handler) *rig { return startWith(t, h, &place{}) }

func startWith(t *testing.T, h handler.Handler, p *place) *rig {
	t.Helper()
	r := &rig{clock: newManual(), row: &row{}, place: p, end: make(chan Completion, 1)}
	row := task.Task{ID: "t1", Type: "x", ExecutorID: "w1", ExecID: 7, RetryCount: 1, Payload: "{}"}
	r.x = Start(row, Type{
		Handler: h, Timeout: testTimeout, Grace: testGrace, SlowAfter: 10 * time.Minute,
		Backoff: task.Backoff{Base: 30 * time.Second, Cap: time.Hour},
	}, Deps{Store: r.row, Place: p, Clock: r.clock, Rand: func(int64) int64 { return 0 }}, func(c Completion) { r.end <- c })
	return r
}

func (r *rig) wait(t *testing.T) Completion {
	t.Helper()
	select {
	case c := <-r.end:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("the execution does not end")
		return Completion{}
	}
}

func fn(f func(ctx context.Context, t *handler.Task) (any, error)) handler.Handler {
	return handler.Func(f)
}

func TestWhatAHandlerReturnsDecides(t *testing.T) {
	code := 3
	for name, tc := range map[string]struct {
		result  any
		err     error
		verdict store.Verdict
		stored  string
		summary string
		wait    time.Duration
	}{
		"result":            {result: map[string]int{"n": 1}, verdict: store.Succeed, stored: `{"n":1}`, summary: `{"n":1}`},
		"raw result kept":   {result: json.RawMessage(`{"id":9007199254740993}`), verdict: store.Succeed, stored: `{"id":9007199254740993}`, summary: `{"id":9007199254740993}`},
		"nothing":           {verdict: store.Succeed},
		"plain error":       {err: errors.New("no route"), verdict: store.Retry, summary: "no route", wait: 120 * time.Second},
		"retryable":         {err: handler.Retryable(errors.New("503")), verdict: store.Retry, summary: "503", wait: 120 * time.Second},
		"asked to wait":     {err: handler.RetryAfter(errors.New("429"), 10*time.Minute), verdict: store.Retry, summary: "429", wait: 10 * time.Minute},
		"shorter than ours": {err: handler.RetryAfter(errors.New("429"), time.Second), verdict: store.Retry, summary: "429", wait: 120 * time.Second},
		"fatal":             {err: fmt.Errorf("page 3: %w", handler.Fatal(errors.New("404"))), verdict: store.Fail, summary: "page 3: 404"},
		"program's report":  {result: handler.Report{Summary: "exit 3: no quota", ExitCode: &code}, err: handler.Retryable(errors.New("exit 3")), verdict: store.Retry, summary: "exit 3: no quota", wait: 120 * time.Second},
		"unencodable":       {result: func() {}, verdict: store.Succeed, summary: "the result was dropped"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, fn(func(context.Context, *handler.Task) (any, error) { return tc.result, tc.err }))
			f := r.wait(t).Finish
			if f.Verdict != tc.verdict || f.Result != tc.stored || !strings.HasPrefix(f.Summary, tc.summary) {
				t.Errorf("verdict %v result %q summary %q", f.Verdict, f.Result, f.Summary)
			}
			if tc.wait > 0 && !f.RetryAt.Equal(r.clock.Now().Add(tc.wait)) {
				t.Errorf("retry in %v, want %v", f.RetryAt.Sub(r.clock.Now()), tc.wait)
			}
			if f.Fence != (task.Fence{TaskID: "t1", ExecutorID: "w1", ExecID: 7}) || f.LogPath != "the.log" {
				t.Errorf("fence %v log %q", f.Fence, f.LogPath)
			}
		})
	}
}

func TestPanicIsAnErrorWithItsStackInTheLog(t *testing.T) {
	r := start(t, fn(func(context.Context, *handler.Task) (any, error) { panic("boom") }))
	c := r.wait(t)
	if c.Finish.Verdict != store.Retry || c.Finish.Summary != "panic: boom" {
		t.Errorf("%+v", c.Finish)
	}
	if log := r.place.text(); !strings.Contains(log, "panic: boom") || !strings.Contains(log, "executor_test.go") {
		t.Errorf("log: %s", log)
	}
}

// looping checkpoints until it is told to stop.
func looping(ctx context.Context, t *handler.Task) (any, error) {
	for n := 0; ; n++ {
		if err := t.Checkpoint(ctx, n, ""); err != nil {
			return nil, err
		}
	}
}

func TestOrdersReachAHandlerAtItsNextCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		control task.Control
		order   error
		verdict store.Verdict
	}{
		"cancel seen by the checkpoint itself": {control: task.Cancel, verdict: store.Cancel},
		"pause seen by the checkpoint itself":  {control: task.Pause, verdict: store.Pause},
		"kill":                                 {control: task.Kill, verdict: store.Cancel},
		"cancel seen by the worker":            {order: handler.ErrCancelled, verdict: store.Cancel},
		"drain":                                {order: handler.ErrStopping, verdict: store.Release},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, fn(looping))
			if tc.order != nil {
				r.x.Order(tc.order, false)
			}
			r.row.ask(tc.control)
			if c := r.wait(t); c.Finish.Verdict != tc.verdict || c.Lost || c.Abandoned {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestAfterAStopReplyTheReturnValueDoesNotMatter(t *testing.T) {
	r := start(t, fn(func(ctx context.Context, t *handler.Task) (any, error) {
		for t.Checkpoint(ctx, 1, "") == nil {
		}
		return nil, handler.Fatal(errors.New("undo went wrong"))
	}))
	r.row.ask(task.Cancel)
	f := r.wait(t).Finish
	if f.Verdict != store.Cancel || f.Summary != "undo went wrong" {
		t.Errorf("%+v", f)
	}
}

func TestCA05CompletionBeforeAnyoneWasToldIsASuccess(t *testing.T) {
	release := make(chan struct{})
	r := start(t, fn(func(context.Context, *handler.Task) (any, error) { <-release; return "done", nil }))
	r.x.Order(handler.ErrCancelled, false)
	close(release)
	if f := r.wait(t).Finish; f.Verdict != store.Succeed {
		t.Errorf("%+v", f)
	}
}

func TestAHandlerThatNeverCheckpointsIsStoppedThroughItsContext(t *testing.T) {
	for name, order := range map[string]func(r *rig){
		"cancel":      func(r *rig) { r.x.Order(handler.ErrCancelled, false) },
		"pause":       func(r *rig) { r.x.Order(handler.ErrPaused, false) },
		"kill":        func(r *rig) { r.x.Heed(task.Kill) },
		"forced stop": func(r *rig) { r.x.Order(handler.ErrStopping, true) },
		"timeout":     func(r *rig) { r.clock.advance(testTimeout) },
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{})
			r := start(t, fn(func(ctx context.Context, _ *handler.Task) (any, error) {
				close(started)
				<-ctx.Done()
				return nil, fmt.Errorf("get page: %w", ctx.Err())
			}))
			<-started
			r.clock.armed(t, testTimeout)
			order(r)
			want := map[string]store.Verdict{"cancel": store.Cancel, "pause": store.Pause, "kill": store.Cancel,
				"forced stop": store.Release, "timeout": store.Timeout}[name]
			if f := r.wait(t).Finish; f.Verdict != want {
				t.Errorf("verdict %v, want %v (%s)", f.Verdict, want, f.Summary)
			}
		})
	}
}

func TestADrainLeavesASilentHandlerAloneUntilItsDeadline(t *testing.T) {
	ended := make(chan error, 1)
	release := make(chan struct{})
	r := start(t, fn(func(ctx context.Context, _ *handler.Task) (any, error) {
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-release:
		}
		return nil, nil
	}))
	r.x.Order(handler.ErrStopping, false)
	close(release)
	if f := r.wait(t).Finish; f.Verdict != store.Succeed || len(ended) > 0 {
		t.Errorf("verdict %v, context ended %v", f.Verdict, len(ended) > 0)
	}
}

func TestAHandlerThatIgnoresItsContextIsAbandoned(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	defer close(release)
	r := start(t, fn(func(context.Context, *handler.Task) (any, error) { close(started); <-release; return nil, nil }))
	<-started
	r.x.Order(handler.ErrCancelled, false)
	r.clock.armed(t, testGrace)
	r.clock.advance(testGrace)
	c := r.wait(t)
	if !c.Abandoned || c.Finish.Verdict != store.Cancel {
		t.Errorf("%+v", c)
	}
}

func TestAForeignFenceStopsEverythingAndWritesNothing(t *testing.T) {
	calls := 0
	r := &rig{}
	r = start(t, fn(func(ctx context.Context, t *handler.Task) (any, error) {
		for {
			calls++
			if err := t.Checkpoint(ctx, calls, ""); err != nil {
				if err2 := t.Checkpoint(ctx, calls, ""); !errors.Is(err2, handler.ErrLost) {
					return nil, fmt.Errorf("second answer: %v", err2)
				}
				return nil, err
			}
		}
	}))
	r.row.mu.Lock()
	r.row.errs = []error{store.ErrNotMine}
	r.row.mu.Unlock()
	if c := r.wait(t); !c.Lost {
		t.Errorf("%+v", c)
	}
}

func TestDB09ACheckpointWaitsForTheDisk(t *testing.T) {
	r := start(t, fn(func(ctx context.Context, t *handler.Task) (any, error) {
		return "ok", t.Checkpoint(ctx, map[string]int{"n": 1}, "1/1")
	}))
	r.row.mu.Lock()
	early := len(r.row.states)
	r.row.errs = []error{store.ErrFull, store.ErrFull}
	r.row.mu.Unlock()
	if early == 0 {
		for range 2 {
			r.clock.armed(t, storeTroubleWait)
			r.clock.advance(storeTroubleWait)
		}
	}
	if f := r.wait(t).Finish; f.Verdict != store.Succeed {
		t.Errorf("%+v", f)
	}
}

// TestPR11SpawnTrouble: out of descriptors or processes is the worker's trouble:
// the task goes on unharmed and starts from its last checkpoint.
func TestPR11SpawnTrouble(t *testing.T) {
	n, seen := 0, ""
	p := &place{errs: []error{errors.New("too many open files")}}
	r := startWith(t, fn(func(ctx context.Context, t *handler.Task) (any, error) {
		n++
		seen = string(t.LastCheckpoint())
		if n < 3 {
			if err := t.Checkpoint(ctx, n, ""); err != nil {
				return nil, err
			}
			return nil, handler.WorkerTrouble(errors.New("fork: resource temporarily unavailable"))
		}
		return nil, nil
	}), p)
	for range 3 {
		r.clock.armed(t, workerTroubleWait)
		r.clock.advance(workerTroubleWait)
	}
	if f := r.wait(t).Finish; f.Verdict != store.Succeed || n != 3 || seen != "2" {
		t.Errorf("verdict %v after %d calls, last checkpoint %q", f.Verdict, n, seen)
	}
}

func TestSlowIsSaidOncePerStandstill(t *testing.T) {
	step := make(chan struct{})
	r := start(t, fn(func(ctx context.Context, t *handler.Task) (any, error) {
		for range step {
			if err := t.Checkpoint(ctx, nil, fmt.Sprint(time.Now().UnixNano())); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}))
	r.clock.advance(10 * time.Minute)
	for i, want := range []bool{true, false} {
		if now := r.clock.Now(); !r.x.Slow(now) || r.x.NoticeSlow(now) != want || !r.x.Slow(now) {
			t.Errorf("look %d: the notice is not %v, or the task is not slow", i, want)
		}
	}
	step <- struct{}{}
	eventually(t, "movement", func() bool { return !r.x.Slow(r.clock.Now()) })
	close(step)
	r.wait(t)
}
