package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/liveness"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestStatusTellsScriptsThatNobodyWorks(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(80, 24)
	exits(t, d.Status(), ExitNoWorker)
	if !strings.Contains(out.String(), "! no worker is alive, and none has ever used this database") {
		t.Errorf("got %s", out.String())
	}
	n.must(n.store.Register([]store.Heartbeat{beat("w1", 101, 0)}))
	exits(t, d.Status(), ExitOK)
}

func TestCL05DrainIsOneCommand(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, _ := n.desk(0, 0)
	for _, step := range []struct {
		run  func() error
		want string
	}{
		{d.DrainShow, "drain is off; 4 tasks at work\n"},
		{func() error { return d.DrainSet(true) }, "drain is on; 4 tasks at work, no other is started until `nightshift drain off`\n"},
		{d.DrainShow, "drain is on; 4 tasks at work\n"},
		{func() error { return d.DrainSet(false) }, "drain is off; due tasks are started again\n"},
	} {
		out.Reset()
		if err := step.run(); err != nil || out.String() != step.want {
			t.Errorf("%v, got %q, want %q", err, out.String(), step.want)
		}
	}
	n.must(n.store.SetDrain(true, n.now))
	out.Reset()
	if err := d.Status(); err != nil || !strings.Contains(out.String(), "DRAINING") || !strings.Contains(out.String(), "! draining: no task is started until") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestMetricsAreInTheTextFormat(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, _ := n.desk(0, 0)
	if err := d.Metrics(""); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) nightshift_[a-z_]+ .+|nightshift_[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? -?[0-9.]+)$`)
	types := map[string]bool{}
	for _, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("no line of the format: %q", l)
		}
		if name, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			if types[name] {
				t.Errorf("%s comes twice", name)
			}
			types[name] = true
		}
	}
	for _, want := range []string{
		`nightshift_build_info{version="1.0.0"} 1`,
		`nightshift_tasks{status="PENDING"} 13`,
		`nightshift_tasks{status="DEAD"} 1`,
		`nightshift_running_tasks{type="日报"} 2`,
		`nightshift_tasks_due 5`,
		`nightshift_oldest_due_age_seconds 1800`,
		`nightshift_failed_last_day 2`,
		`nightshift_draining 0`,
		`nightshift_worker_up{worker="w1"} 1`, `nightshift_worker_up{worker="w3"} 0`, `nightshift_worker_state{state="suspect",worker="w2"} 1`,
		`nightshift_worker_slots{worker="w1"} 2`, `nightshift_worker_busy_slots{worker="w1"} 2`,
		`nightshift_slow_tasks 1`,
		`nightshift_schedule_next_run_timestamp_seconds{schedule="hourly"} 1796144400`,
	} {
		if !strings.Contains(out.String(), "\n"+want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	for _, secret := range []string{"b.csv", "s3cr3t", "6000/10000"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("SE-04: %q is in the metrics", secret)
		}
	}
}

func TestMetricsTextfileIsPutInPlaceWhole(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(0, 0)
	file := filepath.Join(t.TempDir(), "nightshift.prom")
	for range 2 {
		if err := d.Metrics(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(string(text), "\n") || !strings.Contains(string(text), "nightshift_build_info") || out.Len() > 0 {
		t.Errorf("%v, file %q, out %q", err, text, out.String())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(filepath.Dir(file)); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if err := d.Metrics("/nonexistent/x.prom"); ExitCode(err) != ExitNoInput {
		t.Errorf("got %v (%d)", err, ExitCode(err))
	}
	if got := labelValue("a\"b\\c\nd\xff"); got != `a\"b\\c\nd�` {
		t.Errorf("label value %q", got)
	}
}

// findings runs a part of doctor and gives what it found, one a line.
func findings(x *examination) string {
	var lines []string
	for _, f := range x.findings {
		lines = append(lines, fmt.Sprintf("%s %s: %s [%s]", f.Grade, f.Subject, f.Found, f.Cure))
	}
	return strings.Join(lines, "\n")
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	n := newNight(t)
	n.work()
	d, _, _ := n.desk(0, 0)
	x := &examination{d: d, now: n.now}
	if err := x.crew(false); err != nil {
		t.Fatal(err)
	}
	if err := x.tasks(false); err != nil {
		t.Fatal(err)
	}
	got := findings(x)
	for _, want := range []string{
		"ok worker w1: alive, process 101, heard 10 s ago []",
		"bad worker w2: process 102 is there, but silent 95 s (suspect) [see its log in /srv/night/logs; if its process hangs, kill -ABRT 102 shows where]",
		"warning worker w3: dead: its process is gone [its supervisor starts it again; another worker takes over its tasks]",
		"ok worker w4: stopped in good order 2 h ago []",
		"bad worker w5: dead: its process is gone, but its lock is held by process 4711 (sleep) [end that process, or say takeover --force w5]",
		"bad task 20261201T100000.000-0000000000000007: LOST: owner dead: its process is gone, but its lock is held by process 4711 (sleep)",
		"warning task 20261201T100000.000-0000000000000006: RUNNING on w3: owner dead (its process is gone), will be taken over",
		"warning type clean_cvs: unfinished tasks bear it, and /etc/nightshift/nightshift.yaml does not know it",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestDoctorLooksAtOwnersAndModes(t *testing.T) {
	n := newNight(t)
	d, _, _ := n.desk(0, 0)
	dir := filepath.Dir(n.path)
	d.Config.DataDir, d.Config.Log.Dir = dir, filepath.Join(dir, "logs")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	x := &examination{d: d, now: n.now}
	if x.files(); len(x.findings) != 1 || x.findings[0].Grade != Well {
		t.Errorf("all is well, yet:\n%s", findings(x))
	}
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{logs: 0o777, n.path: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	x = &examination{d: d, now: n.now}
	x.files()
	for _, want := range []string{
		"bad files: " + logs + " can be written by everybody (mode 0777) [chmod o-w " + logs + "]",
		"warning files: " + n.path + " is open to everybody (mode 0644) [chmod o= " + n.path,
	} {
		if !strings.Contains(findings(x), want) {
			t.Errorf("lacks %s\n%s", want, findings(x))
		}
	}
}

// DB-03: doctor says which process holds the write lock.
func TestDB03DoctorNamesTheHolder(t *testing.T) {
	n := newNight(t)
	holdWriteLock(t, n.path)
	d, _, _ := n.desk(0, 0)
	x := &examination{d: d, now: n.now}
	if err := x.locks(false); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("holds the write lock for more than 1s; nobody else can write [end its transaction there, or end process %d]", os.Getpid())
	if !strings.Contains(findings(x), want) {
		t.Errorf("got %s", findings(x))
	}
}

func TestDoctorReport(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(60, 24)
	exits(t, d.report([]Finding{
		{"disk", Well, "84 GB are free for /srv/night", ""},
		{"worker w5", Bad, "dead: its process is gone, but its lock is held by process 4711 (sleep)", "end that process, or say takeover --force w5"},
	}), ExitUnwell)
	want := "bad     worker w5: dead: its process is gone, but its lock\n        is held by process 4711 (sleep)\n        end that process, or say takeover --force w5\n" +
		"ok      disk: 84 GB are free for /srv/night\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	exits(t, d.report([]Finding{{"disk", Notable, "little room", "make some"}}), ExitOK)
}

func TestTakeoverNeedsProof(t *testing.T) {
	n := newNight(t)
	n.work()
	for _, c := range []struct {
		target string
		force  bool
		code   int
		want   string
	}{
		{"w1", false, ExitTryAgain, "worker w1 lives, as process 101; end its process first (kill 101), its supervisor starts it anew; or cancel the task"},
		{"w1", true, ExitTryAgain, "worker w1 lives, as process 101"},
		{"20261201T100000.000-0000000000000005", false, ExitTryAgain, "worker w1 lives, as process 101"},
		{"w5", false, ExitTryAgain, "the death of worker w5 is not proven: its process is gone, but its lock is held by process 4711 (sleep); end what holds it, or add --force to go on without proof"},
		{"nobody", false, ExitNoInput, `there is neither a worker nor a task "nobody"`},
		{"20261201T100000.000-0000000000000001", false, ExitInput, `task "20261201T100000.000-0000000000000001" is SUCCESS`},
		{"w4", false, ExitOK, ""},
	} {
		t.Run(fmt.Sprintf("%s %v", c.target, c.force), func(t *testing.T) {
			d, out, _ := n.desk(0, 0)
			err := d.TakeOver(c.target, c.force)
			if ExitCode(err) != c.code || (err != nil && !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("got %v (%d), want %s (%d)", err, ExitCode(err), c.want, c.code)
			}
			if c.target == "w4" && out.String() != "worker w4 (stopped) owns no task\n" {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

func TestTakeover(t *testing.T) {
	n := newNight(t)
	n.work()
	// Real lock files: those of the dead are free, and the sweep finds nobody.
	dir := t.TempDir()
	boot, err := liveness.BootID()
	n.must(err)
	for _, worker := range []string{"w3", "w5"} {
		path := filepath.Join(dir, worker+".lock")
		l, err := liveness.Acquire(path)
		if err != nil {
			t.Fatal(err)
		}
		h := beat(worker, 99999, time.Hour)
		h.LockPath, h.BootID = path, boot
		h.LockDev, h.LockIno = l.Inode()
		if worker == "w3" {
			l.Release()
		} else {
			t.Cleanup(l.Release)
		}
		n.must(n.store.Register([]store.Heartbeat{h}))
	}
	d, out, errOut := n.desk(0, 0)
	d.ask = nil // the real kernel
	if err := d.TakeOver("w3", false); err != nil {
		t.Fatal(err)
	}
	if want := "20261201T100000.000-0000000000000006: PENDING\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := d.TakeOver("20261201T100000.000-0000000000000007", true); err != nil {
		t.Fatalf("%v %s", err, errOut.String())
	}
	if want := "20261201T100000.000-0000000000000007: PENDING\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	for _, id := range []string{"20261201T100000.000-0000000000000006", "20261201T100000.000-0000000000000007"} {
		if got, err := n.store.Get(id); err != nil || got.Status != task.Pending || got.Reason != task.Takeover {
			t.Errorf("%s is %s (%s), %v", id, got.Status, got.Reason, err)
		}
	}
}

func TestDatabaseVerbs(t *testing.T) {
	n := newNight(t)
	n.work()
	dir := t.TempDir()
	t.Run("a backup, checked", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		path := filepath.Join(dir, "copy.db")
		if err := d.DBBackup(path); err != nil || !strings.HasPrefix(out.String(), path+"  (") || !strings.HasSuffix(out.String(), ", checked)\n") {
			t.Fatalf("%v, %q", err, out.String())
		}
		s, err := store.Open(store.Options{Path: path, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() // only read
		if counts, err := s.Count(); err != nil || counts[task.Pending] != 13 {
			t.Errorf("%v, %v", counts, err)
		}
	})
	t.Run("a backup never overwrites", func(t *testing.T) {
		d, _, _ := n.desk(0, 0)
		if err := d.DBBackup(filepath.Join(dir, "copy.db")); ExitCode(err) != ExitCantCreate {
			t.Errorf("got %v (%d)", err, ExitCode(err))
		}
	})
	t.Run("a directory gets a name with the time", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		if err := d.DBBackup(dir); err != nil || !strings.Contains(out.String(), "nightshift-20261201T160405Z.db") {
			t.Errorf("%v, %q", err, out.String())
		}
	})
	t.Run("a check", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		if err := d.DBCheck(true); err != nil || !strings.Contains(out.String(), "every page was read and every index compared") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
	t.Run("a prune, tried", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		if err := d.DBPrune(PruneOptions{Keep: "2h", DryRun: true}); err != nil || out.String() != "would remove 2 tasks that finished before 2026-12-01 22:04:05 CST\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	})
	t.Run("a prune takes finished tasks and their logs only", func(t *testing.T) {
		d, out, _ := n.desk(0, 0)
		if err := d.DBPrune(PruneOptions{Keep: "2h"}); err != nil || !strings.HasPrefix(out.String(), "2 finished tasks, 0 files and 0 skip records removed") {
			t.Errorf("%v, %q", err, out.String())
		}
		counts, err := n.store.Count()
		if err != nil || counts[task.Success]+counts[task.Failed] != 0 || counts[task.Dead] != 1 || counts[task.Pending] != 13 {
			t.Errorf("%v, %v", counts, err)
		}
	})
}

func TestSchedulesEnable(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(0, 0)
	if err := d.SchedulesEnable("nightly", false); ExitCode(err) != ExitTryAgain {
		t.Errorf("before any worker: %v (%d)", err, ExitCode(err))
	}
	n.skips()
	for on, want := range map[bool]string{
		false: "nightly is disabled; its occurrences are recorded as skipped until `nightshift schedules enable nightly`\n",
		true:  "nightly is enabled; next in 115 min\n",
	} {
		out.Reset()
		if err := d.SchedulesEnable("nightly", on); err != nil || out.String() != want {
			t.Errorf("%v, %q", err, out.String())
		}
		if st, err := n.store.ScheduleState("nightly"); err != nil || st.Enabled != on {
			t.Errorf("%+v, %v", st, err)
		}
	}
	err := d.SchedulesEnable("nihgtly", false)
	if want := `there is no schedule "nihgtly"; did you mean "nightly"?`; ExitCode(err) != ExitNoInput || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// CA-09: a run by hand is a task beside the occurrences; its id can be none of theirs.
func TestCA09RunNowBesideTheSchedule(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(0, 0)
	if err := d.SchedulesRun("hourly"); err != nil {
		t.Fatal(err)
	}
	got, err := n.store.Get(strings.TrimSpace(out.String()))
	if err != nil || got.ID != "hourly@2026-12-01T16:04:05.123Z!by-hand" || got.Schedule != "hourly" || got.Type != "clean_csv" || got.Payload != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSchedulesSimulate(t *testing.T) {
	n := newNight(t)
	for _, c := range []struct {
		name           string
		which          string
		from, to, want string
	}{
		{"a day of one", "nightly", "", "", "Wed 2026-12-02 02:00:00 +08:00"},
		{"TI-03: the spring night", "friday", "2026-03-27", "3d", "Fri 2026-03-27 06:30:00 +01:00 = 13:30 CST here"},
		{"a span from then on", "nightly", "2027-01-01", "2 days", "Sat 2027-01-02 02:00:00 +08:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, out, _ := n.desk(0, 0)
			if err := d.SchedulesSimulate(c.which, c.from, c.to); err != nil || !strings.Contains(out.String(), c.want) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
	d, _, _ := n.desk(0, 0)
	for _, bad := range [][2]string{{"soon", ""}, {"", "never"}, {"2027-01-02", "2027-01-01"}, {"", "-1h"}} {
		if err := d.SchedulesSimulate("", bad[0], bad[1]); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
