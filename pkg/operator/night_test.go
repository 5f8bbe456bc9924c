package operator

import (
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"go.uber.org/goleak"

	"nightshift/pkg/config"
	"nightshift/pkg/liveness"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// midnight is the moment of all golden screens: 00:04:05 in Shanghai.
var midnight = time.Date(2026, 12, 1, 16, 4, 5, 123e6, time.UTC)

const nightConfig = `
data_dir: /srv/night
worker: {slots: 2}
tasks:
  clean_csv: {command: [python3, clean_csv.py], timeout: 2h, env: {TOKEN: s3cr3t}}
  inspect:   {command: [./inspect.sh], concurrency: 1}
  日报:      {command: [./report.sh]}
schedules:
  nightly: {cron: "0 2 * * *", zone: Asia/Shanghai, task: inspect}
  hourly:  {every: 1h, task: clean_csv, payload: {"a": 1}}
  friday:  {cron: "30 6 13 * 5", zone: Europe/Berlin, task: 日报, missed: skip}
`

// night is a database in which one night's work has left its traces, with a
// clock that stands still and a kernel that says what the test wants.
type night struct {
	t     testing.TB
	path  string
	store *store.Store
	conf  *config.Config
	now   time.Time
}

func newNight(t testing.TB) *night {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nightshift.db")
	if err := store.Init(path); err != nil {
		t.Fatal(err)
	}
	n := &night{t: t, path: path, now: midnight}
	var err error
	if n.conf, err = config.Parse("/etc/nightshift/nightshift.yaml", "/etc/nightshift", []byte(nightConfig)); err != nil {
		t.Fatal(err)
	}
	n.open()
	t.Cleanup(func() {
		if err := n.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *night) open() {
	n.t.Helper()
	var err error
	if n.store, err = store.Open(store.Options{Path: n.path, Clock: func() time.Time { return n.now }}); err != nil {
		n.t.Fatal(err)
	}
}

// worked is the database after one night's work: made once, copied for each test.
var worked struct {
	sync.Mutex
	file []byte
}

// work leaves the traces of a night.
func (n *night) work() {
	n.t.Helper()
	worked.Lock()
	defer worked.Unlock()
	if worked.file == nil {
		n.leaveTraces()
	}
	n.must(n.store.Close())
	if worked.file == nil {
		var err error
		worked.file, err = os.ReadFile(n.path)
		n.must(err)
	}
	n.must(os.WriteFile(n.path, worked.file, 0o600))
	n.open()
	n.at(0)
}

// desk is a desk of this night, with its output.
func (n *night) desk(width, height int) (*Desk, *bytes.Buffer, *bytes.Buffer) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		n.t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	return &Desk{
		Program: "nightshift", Version: "1.0.0", Store: n.store, Config: n.conf, In: strings.NewReader(""), Out: &out, Err: &errOut,
		Style: screen.Style{Width: width, Height: height, Zone: shanghai}, Zone: shanghai,
		Now: func() time.Time { return n.now }, Getenv: func(string) string { return "" }, ask: nightKernel(),
	}, &out, &errOut
}

// nightKernel says which of the workers of nightCrew live.
func nightKernel() *prober {
	return &prober{
		bootID: func() (string, error) { return "boot-now", nil },
		probe: func(path string, _, _ uint64) (liveness.Proof, error) {
			switch filepath.Base(path) {
			case "w1.lock", "w2.lock", "w5.lock":
				return liveness.Proof{Outcome: liveness.Held}, nil
			case "w3.lock", "w4.lock":
				return liveness.Proof{Outcome: liveness.Free}, nil
			}
			return liveness.Proof{Outcome: liveness.Unproven, Why: "the lock file is missing"}, nil
		},
		process: func(pid int) (liveness.Process, error) {
			switch pid {
			case 101, 102:
				return liveness.Process{PID: pid, StartTicks: uint64(pid), State: 'S', Threads: 1, Comm: "worker"}, nil
			}
			return liveness.Process{}, liveness.ErrGone
		},
		holders: func(path string, _, _ uint64) ([]liveness.Process, error) {
			if filepath.Base(path) == "w5.lock" {
				return []liveness.Process{{PID: 4711, State: 'S', Comm: "sleep"}}, nil
			}
			return nil, nil
		},
	}
}

// beat is the heartbeat row of an executor.
func beat(executor string, pid int, silent time.Duration) store.Heartbeat {
	return store.Heartbeat{
		WorkerID: executor, PID: pid, Hostname: "attic", LastHeartbeat: midnight.Add(-silent), Version: "1.0.0", BootID: "boot-now",
		StartedAt: midnight.Add(-26 * time.Hour), StartTicks: uint64(pid), LockPath: "/srv/night/run/" + WorkerOf(executor) + ".lock", LockDev: 1, LockIno: 2,
	}
}

func (n *night) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *night) add(t store.NewTask) string {
	n.t.Helper()
	ids, err := n.store.Add(n.now, t)
	n.must(err)
	return ids[0]
}

// run claims the task with an executor; it must be the only one that is due.
func (n *night) run(id, executor string) task.Task {
	n.t.Helper()
	types := map[string]store.TypeRule{}
	for name, ty := range n.conf.Tasks {
		types[name] = store.TypeRule{Timeout: ty.Timeout}
	}
	r, err := n.store.Turn(nil, &store.ClaimRequest{Executors: []string{executor}, Worker: WorkerOf(executor), Types: types, Now: n.now, NoTimeoutLease: 10 * time.Minute})
	n.must(err)
	if len(r.Claimed) != 1 || r.Claimed[0].ID != id {
		n.t.Fatalf("claimed %+v, want %s", r.Claimed, id)
	}
	return r.Claimed[0]
}

func (n *night) end(t task.Task, f store.Finish) {
	n.t.Helper()
	f.Fence, f.Now = t.Fence(), n.now
	r, err := n.store.Turn([]store.Finish{f}, nil)
	n.must(err)
	n.must(r.Finished[0].Err)
}

// at moves the clock.
func (n *night) at(before time.Duration) { n.now = midnight.Add(-before) }

// leaveTraces puts something into every state, and of every kind that a screen
// must bear.
func (n *night) leaveTraces() {
	n.t.Helper()
	exit := func(code int) *int { return &code }
	id := func(i int) string { return fmt.Sprintf("20261201T%02d0000.000-%016d", 10+i/10, i) }

	n.at(5 * time.Hour)
	done := n.run(n.add(store.NewTask{ID: id(1), Type: "clean_csv", Payload: `{"file": "a.csv"}`}), "w1.1")
	n.at(4 * time.Hour)
	n.end(done, store.Finish{Verdict: store.Succeed, Result: `{"rows":100000}`, Summary: "100000 rows", ExitCode: exit(0), LogPath: "/srv/night/logs/exec/0/1.log"})

	failed := n.run(n.add(store.NewTask{ID: id(2), Type: "clean_csv"}), "w1.1")
	n.at(3 * time.Hour)
	n.end(failed, store.Finish{Verdict: store.Fail, Summary: "no column \"price\" in line 1\nsecond line", ExitCode: exit(65)})

	zero := int64(0)
	dead := n.run(n.add(store.NewTask{ID: id(3), Type: "日报", MaxRetry: &zero}), "w1.1")
	n.at(95 * time.Minute)
	n.end(dead, store.Finish{Verdict: store.Retry, Signal: "SIGSEGV", RetryAt: n.now})

	retrying := n.run(n.add(store.NewTask{ID: id(4), Type: "clean_csv"}), "w1.2")
	n.at(time.Minute)
	n.end(retrying, store.Finish{Verdict: store.Retry, Summary: "connection refused", ExitCode: exit(1), RetryAt: midnight.Add(80 * time.Second)})

	n.at(12 * time.Minute)
	running := n.run(n.add(store.NewTask{ID: id(5), Type: "clean_csv", Payload: `{"file": "b.csv"}`}), "w1.1")
	n.at(8 * time.Second)
	_, err := n.store.Checkpoint(running.Fence(), `{"offset":612345}`, "6000/10000", n.now)
	n.must(err)

	n.at(50 * time.Minute)
	slow := n.run(n.add(store.NewTask{ID: "nightly@2026-11-30T18:00:00Z", Type: "inspect", Schedule: "nightly"}), "w1.2")
	_, err = n.store.Checkpoint(slow.Fence(), `{"disk":3}`, "disk 3\x1b[2J", n.now)
	n.must(err)

	n.at(20 * time.Minute)
	n.run(n.add(store.NewTask{ID: id(6), Type: "日报"}), "w3")
	n.run(n.add(store.NewTask{ID: id(7), Type: "日报"}), "w5")
	_, err = n.store.MarkOffline("w5", n.now)
	n.must(err)

	n.at(10 * time.Minute)
	n.add(store.NewTask{ID: id(8), Type: "clean_csv", Held: true, UniqueKey: "b.csv"})
	cancelled := n.add(store.NewTask{ID: id(9), Type: "clean_csv"})
	_, err = n.store.SetControl(cancelled, task.Cancel, n.now)
	n.must(err)
	for i := range 12 {
		n.add(store.NewTask{ID: id(20 + i), Type: "inspect", NextRun: midnight.Add(time.Duration(i-3) * 10 * time.Minute)})
	}
	n.add(store.NewTask{ID: "清洗-" + strings.Repeat("很长的名字", 8), Type: "clean_cvs"})

	idle := beat("w1.2", 101, 10*time.Second)
	idle.CurrentTaskID, idle.Progress, idle.SlowSince = "nightly@2026-11-30T18:00:00Z", "disk 3", midnight.Add(-35*time.Minute)
	busy := beat("w1.1", 101, 10*time.Second)
	busy.CurrentTaskID, busy.Progress = id(5), "5900/10000"
	stopped := beat("w4", 104, 2*time.Hour)
	dead3 := beat("w3", 103, 15*time.Minute)
	dead3.CurrentTaskID = id(6)
	n.at(0)
	n.must(n.store.Register([]store.Heartbeat{busy, idle}))
	n.must(n.store.Register([]store.Heartbeat{beat("w2", 102, 95*time.Second)}))
	n.must(n.store.Register([]store.Heartbeat{dead3}))
	n.must(n.store.Register([]store.Heartbeat{stopped}))
	n.must(n.store.Register([]store.Heartbeat{beat("w5", 105, 18*time.Minute)}))
	n.must(n.store.Stopped("w4", midnight.Add(-2*time.Hour)))
}

// holdWriteLock is a stranger that leaves a transaction open until the test ends.
func holdWriteLock(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	})
}

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./pkg/operator -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (rewrite it with -update when that is meant).\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// steady replaces what differs from run to run: sizes of files, and paths of the
// test's own.
func (n *night) steady(text string) string {
	size, err := n.store.Sizes()
	n.must(err)
	for _, s := range []int64{size.Database, size.WAL, size.FreeDisk} {
		text = strings.ReplaceAll(text, screen.Bytes(s), "# B")
	}
	return text
}

// exits checks an exit status that needs no words.
func exits(t *testing.T, err error, want int) {
	t.Helper()
	var exit Exit
	if got := ExitCode(err); got != want || (err != nil && !errors.As(err, &exit)) {
		t.Fatalf("status %d (%v), want %d without words", got, err, want)
	}
}
