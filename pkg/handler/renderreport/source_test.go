package renderreport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func newStore(t testing.TB) *store.Store {
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

// shift plays a night through the store's own doors.
type shift struct {
	t   testing.TB
	s   *store.Store
	now time.Time
}

func (n *shift) after(d time.Duration) { n.now = n.now.Add(d) }

func (n *shift) add(tasks ...store.NewTask) {
	n.t.Helper()
	for i := range tasks {
		if tasks[i].NextRun.IsZero() {
			tasks[i].NextRun = n.now
		}
	}
	if _, err := n.s.Add(n.now, tasks...); err != nil {
		n.t.Fatal(err)
	}
}

func (n *shift) claim(executors ...string) []task.Task {
	n.t.Helper()
	types := map[string]store.TypeRule{}
	for _, ty := range []string{"fetch", "clean", "inspect"} {
		types[ty] = store.TypeRule{Timeout: time.Hour}
	}
	r, err := n.s.Turn(nil, &store.ClaimRequest{Executors: executors, Worker: "w1", Types: types, Now: n.now})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Claimed
}

func (n *shift) finish(t task.Task, v store.Verdict, summary string) {
	n.t.Helper()
	r, err := n.s.Turn([]store.Finish{{Fence: t.Fence(), Verdict: v, Summary: summary, RetryAt: n.now, Now: n.now}}, nil)
	if err != nil || r.Finished[0].Err != nil {
		n.t.Fatalf("%v %+v", err, r)
	}
}

// TestFactsOfANight plays a small night and looks at what the report says of it.
func TestFactsOfANight(t *testing.T) {
	s := newStore(t)
	n := &shift{t: t, s: s, now: night.Since.Add(-2 * time.Hour)}
	if err := s.SyncSchedules([]store.ScheduleDef{{Name: "nightly", Definition: `{"cron":"0 2 * * *"}`, Enabled: true}, {Name: "off", Definition: `{}`}}, n.now); err != nil {
		t.Fatal(err)
	}
	if err := s.Register([]store.Heartbeat{{WorkerID: "w1.1", PID: 7, Hostname: "h", Version: "v1", LastHeartbeat: night.Until, StartedAt: n.now}, {WorkerID: "w1.2", PID: 7, Hostname: "h", LastHeartbeat: night.Until.Add(-10 * time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	n.add(store.NewTask{ID: "before", Type: "clean"}, store.NewTask{ID: "long", Type: "clean"})
	early := n.claim("w1.1", "w1.2")
	n.after(time.Hour)
	n.finish(early[0], store.Succeed, "before the shift")
	n.after(3 * time.Hour) // two hours into the shift
	n.finish(early[1], store.Succeed, "began before it")

	for i := range 5 { // five of one cause, with numbers that differ
		n.add(store.NewTask{ID: fmt.Sprint("bad", i), Type: "fetch"})
		n.finish(n.claim("w1.1")[0], store.Fail, fmt.Sprintf("status 404 at item %d", i*100))
		n.after(time.Minute)
	}
	retries := int64(2)
	n.add(store.NewTask{ID: "tried", Type: "inspect", MaxRetry: &retries})
	for range 3 {
		n.after(time.Minute)
		got := n.claim("w1.1")
		if len(got) != 1 {
			t.Fatalf("claimed %v", got)
		}
		n.after(10 * time.Second)
		n.finish(got[0], store.Retry, "no answer")
	}
	n.add(store.NewTask{ID: "held", Type: "clean", Held: true}, store.NewTask{ID: "later", Type: "clean", NextRun: night.Until.Add(time.Hour)})
	n.add(store.NewTask{ID: "nightly@2026-12-01T18:00:00.000Z", Type: "clean", Schedule: "nightly"})
	n.now = night.Until.Add(-time.Hour)
	n.claim("w1.2")
	n.add(store.NewTask{ID: "due", Type: "fetch"})

	facts, err := FromStore(StoreOptions{
		Store: s, DataDir: filepath.Dir(s.Path()), Host: "nas-2", Version: "v1", Now: func() time.Time { return night.Until },
		Next: func(name string, after time.Time) time.Time { return after.Add(time.Hour) },
	}).Facts(context.Background(), night)
	if err != nil {
		t.Fatal(err)
	}
	want := Runs{Started: 9, Succeeded: 1, Failed: 5, Retried: 3, Busy: facts.Runs.Busy}
	if facts.Runs != want {
		// The last attempt of a task that ends DEAD may be told as failed or as one more retry.
		if want.Failed, want.Retried = 6, 2; facts.Runs != want {
			t.Errorf("runs %+v, wanted %+v", facts.Runs, want)
		}
	}
	if busy := time.Duration(facts.Runs.Busy); busy != 3*time.Hour+30*time.Second {
		t.Errorf("at work for %s, wanted 2 h of the long one, 1 h of the running one, 30 s", busy)
	}
	fail := facts.Failures
	if fail.Total != 6 || len(fail.Groups) != 2 || fail.Groups[0].Count != 5 || fail.Groups[0].Cause != "status 404 at item 400" || len(fail.Groups[0].Tasks) != MaxGroupIDs || fail.Groups[1].Status != task.Dead {
		t.Errorf("failures %+v", fail)
	}
	if len(facts.Retried) != 1 || facts.Retried[0].ID != "tried" || facts.Retried[0].Cause != "no answer" || facts.Retried[0].Status != task.Dead {
		t.Errorf("retried %+v", facts.Retried)
	}
	if facts.ActiveTotal != 1 || facts.Active[0].Executor != "w1.2" || !facts.Active[0].Since.Equal(night.Until.Add(-time.Hour)) {
		t.Errorf("active %+v", facts.Active)
	}
	w := facts.Waiting
	if w.Due != 1 || w.Later != 1 || w.Held != 1 || len(w.Oldest) != 1 || w.Oldest[0].ID != "due" || len(w.Next) != 1 || w.Next[0].ID != "later" || len(w.HeldList) != 1 {
		t.Errorf("waiting %+v", w)
	}
	if len(facts.Workers) != 2 || facts.Workers[0].Standing != Alive || facts.Workers[1].Standing != Silent {
		t.Errorf("workers %+v", facts.Workers)
	}
	if len(facts.Schedules) != 2 || facts.Schedules[0].LastIs != task.Running || facts.Schedules[0].Next.IsZero() || facts.Schedules[1].Enabled {
		t.Errorf("schedules %+v", facts.Schedules)
	}
	if l := facts.Timeline.Lanes; len(l) != 2 || l[0].Executor != "w1.1" || l[0].Runs != 8 || l[1].Runs != 2 || len(l[1].Bars) != 2 {
		t.Errorf("lanes %+v", l)
	}
	if !facts.Disk.Known || facts.Disk.Database == 0 || facts.Disk.Total == 0 {
		t.Errorf("disk %+v", facts.Disk)
	}
	var page bytes.Buffer
	if err := Render(&page, facts, "Shift report", shanghai); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "6 tasks failed") {
		t.Error("the page does not say what failed")
	}
}

func TestFactsOfAnEmptyDatabase(t *testing.T) {
	facts, err := FromStore(StoreOptions{Store: newStore(t)}).Facts(context.Background(), night)
	if err != nil {
		t.Fatal(err)
	}
	if v := judge(facts); v.Tone != "idle" || v.Headline != "Nothing ran" {
		t.Errorf("%+v", v)
	}
}

func TestLookEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errKilled)
	if _, err := FromStore(StoreOptions{Store: newStore(t)}).Facts(ctx, night); !errors.Is(err, errKilled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestCrashesOfAWorker: what a takeover moves is told, with its moment.
func TestCrashesOfAWorker(t *testing.T) {
	s := newStore(t)
	n := &shift{t: t, s: s, now: night.Since.Add(time.Hour)}
	if err := s.Register([]store.Heartbeat{{WorkerID: "w1.1", PID: 7, Hostname: "h"}}); err != nil {
		t.Fatal(err)
	}
	n.add(store.NewTask{ID: "a", Type: "clean"})
	n.claim("w1.1")
	n.after(time.Minute)
	if _, err := s.TakeOver(store.TakeOverRequest{Executors: []string{"w1.1"}, Now: n.now, MaxCrashes: 3}); err != nil {
		t.Fatal(err)
	}
	facts, err := FromStore(StoreOptions{Store: s, Now: func() time.Time { return night.Until }}).Facts(context.Background(), night)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[task.Reason]int64{}
	for _, i := range facts.Incidents {
		counts[i.Reason] = i.Count
	}
	if counts[task.WorkerCrash] != 1 || counts[task.Takeover] != 1 || len(facts.Breaks) != 1 || facts.Runs.Interrupted != 1 {
		t.Errorf("incidents %+v, crashes %+v, runs %+v", facts.Incidents, facts.Breaks, facts.Runs)
	}
}

func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var h histogram
	for range 100_000 {
		h.add(time.Duration(r.ExpFloat64() * float64(10*time.Second)))
	}
	for part, want := range map[float64]time.Duration{0.5: 6931 * time.Millisecond, 0.95: 29957 * time.Millisecond} {
		if got := h.at(part); got < want*9/10 || got > want*11/10 {
			t.Errorf("%v of them within %s, wanted %s", part, got, want)
		}
	}
	var none, tiny, huge histogram
	tiny.add(0)
	huge.add(1 << 62)
	if none.at(0.5) != 0 || tiny.at(0.5) != time.Millisecond || huge.at(0.95) < 24*time.Hour {
		t.Errorf("%s %s %s", none.at(0.5), tiny.at(0.5), huge.at(0.95))
	}
}

func TestExecutorOrder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"w2", "w10", true}, {"w10", "w2", false}, {"w1.2", "w1.10", true}, {"w1", "w2", true}, {"a", "b", true}} {
		if executorBefore(c.a, c.b) != c.want {
			t.Errorf("%s before %s: not %v", c.a, c.b, c.want)
		}
	}
}

func TestLoadLanes(t *testing.T) {
	tl := newTally(night, night.Until)
	for i := range 2 * MaxBars {
		from := night.Since.Add(time.Duration(i) * 18 * time.Second)
		outcome := "success"
		if i%2 == 1 {
			outcome = "retry"
		}
		tl.add(&store.Run{ExecID: int64(i), TaskID: "t", TaskType: "a", ExecutorID: "w1", Start: from, End: from.Add(9 * time.Second), Outcome: outcome})
	}
	f := emptyNight()
	tl.sumUp(f)
	l := f.Timeline.Lanes[0]
	if len(l.Bars) != 0 || len(l.Load) != Buckets {
		t.Fatalf("%d bars, %d columns", len(l.Bars), len(l.Load))
	}
	if x := l.Load[10]; x.Busy < 0.45 || x.Busy > 0.55 || x.Bad < 0.4 || x.Bad > 0.6 {
		t.Errorf("a column says %+v, wanted a half and a half", x)
	}
	if f.Retried[0].Times != MaxBars || f.Types[0].Median < Span(8*time.Second) || f.Types[0].Median > Span(10*time.Second) {
		t.Errorf("%+v %+v", f.Retried, f.Types)
	}
}

func TestDirectoriesAreMeasuredWithinLimits(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := walker{left: 1000, until: time.Now().Add(time.Minute)}
	if n, err := w.size(context.Background(), dir); err != nil || n != 5000 || w.gaveUp {
		t.Errorf("%d bytes, %v", n, err)
	}
	w = walker{left: 10, until: time.Now().Add(time.Minute)}
	if n, err := w.size(context.Background(), dir); err != nil || n >= 5000 || !w.gaveUp {
		t.Errorf("%d bytes, %v, gave up: %v", n, err, w.gaveUp)
	}
	w = walker{left: 10, until: time.Now().Add(time.Minute)}
	if n, err := w.size(context.Background(), filepath.Join(dir, "none")); err != nil || n != 0 || w.gaveUp {
		t.Errorf("%d bytes, %v, gave up: %v", n, err, w.gaveUp)
	}
}
