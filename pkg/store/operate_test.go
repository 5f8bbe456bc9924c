package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// TestControlInEveryState: what each wish does, through the store and through a
// shell alike.
func TestControlInEveryState(t *testing.T) {
	type outcome struct {
		status  task.Status // "" : refused
		control task.Control
	}
	stays := func(s task.Status, c task.Control) outcome { return outcome{s, c} }
	want := map[task.Status]map[task.Control]outcome{
		task.Pending:  {task.Cancel: {task.Cancelled, ""}, task.Kill: {task.Cancelled, ""}, task.Pause: stays(task.Pending, task.Pause), task.Resume: stays(task.Pending, "")},
		task.Retrying: {task.Cancel: {task.Cancelled, ""}, task.Kill: {task.Cancelled, ""}, task.Pause: stays(task.Retrying, task.Pause), task.Resume: stays(task.Retrying, "")},
		task.Paused:   {task.Cancel: {task.Cancelled, ""}, task.Kill: {task.Cancelled, ""}, task.Pause: stays(task.Paused, ""), task.Resume: stays(task.Paused, task.Resume)},
		task.Running:  {task.Cancel: stays(task.Running, task.Cancel), task.Kill: stays(task.Running, task.Kill), task.Pause: stays(task.Running, task.Pause), task.Resume: stays(task.Running, "")},
		task.Lost:     {task.Cancel: stays(task.Lost, task.Cancel), task.Kill: stays(task.Lost, task.Kill), task.Pause: stays(task.Lost, task.Pause), task.Resume: stays(task.Lost, "")},
	}
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	all := engines(t, path)
	for _, state := range task.Statuses() {
		for _, c := range []task.Control{task.Cancel, task.Kill, task.Pause, task.Resume} {
			ways := map[string]func() error{"store": func() error { _, err := s.SetControl("x", c, night); return err }}
			for _, e := range all {
				ways[e.name] = func() error { return e.exec("UPDATE tasks SET control='" + string(c) + "' WHERE task_id='x'") }
			}
			for way, set := range ways {
				if err := all[0].exec(stateSQL(state)); err != nil {
					t.Fatal(err)
				}
				err := set()
				got := mustGet(t, s, "x")
				w := want[state][c]
				switch {
				case w.status == "":
					wantErr(t, err, "rerun")
					if got.Status != state || got.Control != "" {
						t.Errorf("%s of %s by %s: %s, %q", c, state, way, got.Status, got.Control)
					}
				case err != nil || got.Status != w.status || got.Control != w.control:
					t.Errorf("%s of %s by %s: %s, %q, %v", c, state, way, got.Status, got.Control, err)
				}
				if err := all[0].exec("DROP TRIGGER tasks_delete; DELETE FROM tasks; DELETE FROM task_events;" + deleteTrigger(t, s)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// deleteTrigger is the text of tasks_delete, to put it back.
func deleteTrigger(t *testing.T, s *Store) (sql string) {
	t.Helper()
	err := s.read("trigger", func(c *conn) (err error) {
		sql, err = c.pragma("SELECT sql FROM sqlite_schema WHERE name = 'tasks_delete'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sql
}

// TestControlStrength: a cancel is not softened by what comes after it.
func TestControlStrength(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{})[0]
	mustClaim(t, s, "w1")
	for _, step := range []struct{ set, want task.Control }{
		{task.Pause, task.Pause}, {task.Resume, ""}, {task.Pause, task.Pause}, {task.Cancel, task.Cancel}, {task.Kill, task.Kill}, {task.Cancel, task.Kill},
	} {
		res, err := s.SetControl(id, step.set, night)
		if err != nil || res.Control != step.want {
			t.Errorf("%s: %+v, %v; want %q", step.set, res, err, step.want)
		}
	}
	_, err := s.SetControl(id, task.Resume, night)
	wantErr(t, err, "a cancel was asked for already")
	if _, err := s.SetControl("nobody", task.Cancel, night); !errors.Is(err, ErrNotFound) || ExitCode(err) != 66 {
		t.Errorf("%v", err)
	}
}

// TestCA05CancelMeetsTheEnd: the first fenced write wins; a retry heeds the wish.
func TestCA05CancelMeetsTheEnd(t *testing.T) {
	for _, c := range []struct {
		verdict Verdict
		control task.Control
		want    task.Status
		reason  task.Reason
		left    task.Control
	}{
		{Succeed, task.Cancel, task.Success, task.Done, ""},
		{Succeed, task.Pause, task.Success, task.Done, ""},
		{Fail, task.Kill, task.Failed, task.FatalError, ""},
		{Retry, task.Cancel, task.Cancelled, task.UserCancel, ""},
		{Timeout, task.Kill, task.Cancelled, task.UserCancel, ""},
		{Retry, task.Pause, task.Retrying, task.RetryableError, task.Pause},
		{Pause, task.Pause, task.Paused, task.UserPause, ""},
		{Pause, task.Cancel, task.Cancelled, task.UserCancel, ""},
		{Pause, "", task.Paused, task.UserPause, task.Resume}, // taken back meanwhile
		{Cancel, task.Cancel, task.Cancelled, task.UserCancel, ""},
		{Release, "", task.Running, task.Claimed, ""},
		{Release, task.Cancel, task.Cancelled, task.UserCancel, ""},
		{Release, task.Pause, task.Paused, task.UserPause, ""},
	} {
		t.Run(fmt.Sprint(c.verdict, c.control), func(t *testing.T) {
			s := newStore(t, Options{})
			mustAdd(t, s, NewTask{})
			got := mustClaim(t, s, "w1")
			if c.control != "" {
				if _, err := s.SetControl(got.ID, c.control, night); err != nil {
					t.Fatal(err)
				}
			}
			code := 3
			to := mustFinish(t, s, Finish{Fence: got.Fence(), Verdict: c.verdict, RetryAt: night, Summary: "said", ExitCode: &code, LogPath: "l"})
			row := wantStatus(t, s, got.ID, c.want, c.reason)
			if to != c.want || row.Control != c.left {
				t.Errorf("finish says %s, control is %q", to, row.Control)
			}
			h, err := s.History(got.ID)
			if err != nil || len(h) != 1 || h[0].End.IsZero() || h[0].Result != "said" || *h[0].ExitCode != 3 || h[0].LogPath != "l" || h[0].Outcome == "" {
				t.Errorf("history %+v, %v", h, err)
			}
		})
	}
}

// TestPausedIsClaimedAgain: resume makes it due at once, and the claim says why.
func TestPausedIsClaimedAgain(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{Held: true})[0]
	if r, err := s.Turn(nil, claimFor("w1")); err != nil || len(r.Claimed) != 0 || !r.NextDue.IsZero() {
		t.Fatalf("a held task: %+v, %v", r, err)
	}
	if _, err := s.SetControl(id, task.Resume, night); err != nil {
		t.Fatal(err)
	}
	if due, ok, err := s.NextDue(anyType); err != nil || !ok || !due.Equal(night) {
		t.Errorf("due %s %v, %v", due, ok, err)
	}
	got := mustClaim(t, s, "w1")
	if got.Reason != task.UserResume || got.Control != "" {
		t.Errorf("%+v", got)
	}
	wantStatus(t, s, id, task.Running, task.UserResume)
}

// TestClaimRespectsLimits: a type at its limit, over all workers, is not walked.
func TestClaimRespectsLimits(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{Type: "a"}, NewTask{Type: "a"}, NewTask{Type: "a"}, NewTask{Type: "b"}, NewTask{Type: "unknown"})
	limited := func(executors ...string) *ClaimRequest {
		r := claimFor(executors...)
		r.Types = map[string]TypeRule{"a": {Limit: 2}, "b": {Limit: 2}}
		return r
	}
	r1, err := s.Turn(nil, limited("w1"))
	if err != nil || len(r1.Claimed) != 1 || !r1.NextDue.Equal(night) {
		t.Fatalf("%+v, %v", r1, err)
	}
	r2, err := s.Turn(nil, limited("w2.1", "w2.2", "w2.3", "w2.4"))
	if err != nil || len(r2.Claimed) != 2 || r2.Claimed[0].Type != "a" || r2.Claimed[1].Type != "b" {
		t.Fatalf("%+v, %v", r2.Claimed, err)
	}
	if !r2.NextDue.IsZero() {
		t.Errorf("next due %s although the only type left is full or unknown", r2.NextDue)
	}
	if _, ok, err := s.NextDue(limited("w1").Types); ok || err != nil {
		t.Errorf("something is due: %v, %v", ok, err)
	}
	if _, err := s.MarkOffline("w1", night); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Turn(nil, limited("w3")); err != nil || len(r.Claimed) != 0 {
		t.Errorf("a LOST task still counts: %+v, %v", r.Claimed, err)
	}
	r3, err := s.Turn([]Finish{{Fence: r2.Claimed[0].Fence(), Verdict: Succeed}}, limited("w2.1"))
	if err != nil || len(r3.Claimed) != 1 || r3.Claimed[0].Type != "a" {
		t.Errorf("%+v, %v", r3, err)
	}
}

// TestClaimSkipsWhatIsNotDue and says when it will be.
func TestClaimSkipsWhatIsNotDue(t *testing.T) {
	s := newStore(t, Options{})
	soon, later := int64(50), int64(60)
	mustAdd(t, s, NewTask{NextRun: night.Add(time.Hour), Priority: &soon}, NewTask{NextRun: night.Add(time.Minute), Priority: &later}, NewTask{Type: "b", NextRun: night.Add(time.Millisecond)}, NewTask{})
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2"))
	if err != nil || len(r.Claimed) != 1 || !r.NextDue.Equal(night.Add(time.Millisecond)) {
		t.Errorf("%+v, %v", r, err)
	}
	if due, ok, err := s.NextDue(map[string]TypeRule{"a": {}}); err != nil || !ok || !due.Equal(night.Add(time.Minute)) {
		t.Errorf("%s %v %v", due, ok, err)
	}
}

// TestDrainStopsClaims on every worker, and lets finishes through.
func TestDrainStopsClaims(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{}, NewTask{})
	got := mustClaim(t, s, "w1")
	if err := s.SetDrain(true, night); err != nil {
		t.Fatal(err)
	}
	r, err := s.Turn([]Finish{{Fence: got.Fence(), Verdict: Succeed}}, claimFor("w1"))
	if err != nil || len(r.Claimed) != 0 || r.Finished[0].Status != task.Success {
		t.Errorf("%+v, %v", r, err)
	}
	if on, err := s.Draining(); err != nil || !on {
		t.Error(on, err)
	}
	if err := s.SetDrain(false, night); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, s, "w1")
}

// TestHooksAreInsertedWithTheChange, and a hook that is refused undoes nothing.
func TestHooksAreInsertedWithTheChange(t *testing.T) {
	s := newStore(t, Options{})
	s.SetHook([]string{"FAILED", "SUCCESS"}, func(event string, tk *task.Task) (NewTask, bool) {
		if tk.Type != "a" {
			return NewTask{}, false
		}
		n := NewTask{Type: "notify", Payload: `{"task":"` + tk.ID + `"}`}
		if event == "SUCCESS" {
			n.Payload = "{"
		}
		return n, true
	})
	mustAdd(t, s, NewTask{}, NewTask{}, NewTask{})
	r, err := s.Turn(nil, claimFor(executors("w1", 3)...))
	if err != nil {
		t.Fatal(err)
	}
	mustFinish(t, s, Finish{Fence: r.Claimed[0].Fence(), Verdict: Fail})
	mustFinish(t, s, Finish{Fence: r.Claimed[1].Fence(), Verdict: Succeed})
	mustFinish(t, s, Finish{Fence: r.Claimed[2].Fence(), Verdict: Retry, RetryAt: night.Add(time.Hour)})
	wantStatus(t, s, r.Claimed[1].ID, task.Success, task.Done)
	var notes []string
	if err := s.List(Filter{Type: "notify", Full: true}, func(_ int64, t *task.Task) error {
		notes = append(notes, t.Payload)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], r.Claimed[0].ID) {
		t.Errorf("notes %v", notes)
	}
}

// TestTurnTellsEachItsOwn: among many successes those that cannot end as such are
// told apart.
func TestTurnTellsEachItsOwn(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, make([]NewTask, 100)...)
	r, err := s.Turn(nil, claimFor(executors("w1", 100)...))
	if err != nil || len(r.Claimed) != 100 {
		t.Fatal(len(r.Claimed), err)
	}
	var done []Finish
	for i := range r.Claimed {
		f := Finish{Fence: r.Claimed[i].Fence(), Verdict: Succeed, Now: night}
		switch {
		case i == 7:
			f.Fence.ExecID++
		case i == 70:
			if _, err := s.SetControl(r.Claimed[i].ID, task.Pause, night); err != nil {
				t.Fatal(err)
			}
		case i == 71:
			if _, err := s.MarkOffline(r.Claimed[i].ExecutorID, night); err != nil {
				t.Fatal(err)
			}
		case i == 80:
			f.Result = "{" // not JSON: the schema refuses it
		case i > 90:
			f.Result = fmt.Sprint(i)
		}
		done = append(done, f)
	}
	res, err := s.Turn(done, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range res.Finished {
		want := task.Success
		switch i {
		case 7:
			if !errors.Is(f.Err, ErrNotMine) {
				t.Errorf("%d: %v", i, f.Err)
			}
			want = task.Running
		case 80:
			wantErr(t, f.Err, "result is not valid JSON")
			want = task.Running
		default:
			if f.Err != nil || f.Status != task.Success {
				t.Errorf("%d: %+v", i, f)
			}
		}
		got := mustGet(t, s, r.Claimed[i].ID)
		if got.Status != want || (i > 90 && got.Result != fmt.Sprint(i)) {
			t.Errorf("%d is %s with result %q", i, got.Status, got.Result)
		}
		h, err := s.History(got.ID)
		if err != nil || len(h) != 1 || h[0].End.IsZero() != (want == task.Running) {
			t.Errorf("%d: history %+v, %v", i, h, err)
		}
	}
}

// TestEmptyingHistoryDisturbsNothing: no decision reads history or events.
func TestEmptyingHistoryDisturbsNothing(t *testing.T) {
	s := newStore(t, Options{})
	c := rawConn(t, s.Path())
	empty := func() {
		t.Helper()
		if err := c.script("DELETE FROM exec_history; DELETE FROM task_events"); err != nil {
			t.Fatal(err)
		}
	}
	registerAs(t, s, "boot1", night, "w1")
	ids := mustAdd(t, s, NewTask{}, NewTask{})
	first := mustClaim(t, s, "w1")
	empty()
	out := mustRecover(t, s, recoverFor("w1"))
	if len(out.Resume) != 1 || out.Resume[0].ExecID <= first.ExecID {
		t.Fatalf("exec_id %d after %d: %+v", out.Resume[0].ExecID, first.ExecID, out)
	}
	empty()
	mustFinish(t, s, Finish{Fence: out.Resume[0].Fence(), Verdict: Succeed})
	empty()
	got := mustClaim(t, s, "w1")
	empty()
	if taken, err := s.TakeOver(TakeOverRequest{Worker: "w1", Now: night}); err != nil || len(taken.Requeued) != 1 {
		t.Errorf("%+v, %v", taken, err)
	}
	wantStatus(t, s, ids[0], task.Success, task.Done)
	wantStatus(t, s, got.ID, task.Pending, task.Takeover)
	for _, q := range queries {
		if strings.HasPrefix(q.sql, "UPDATE tasks") && (strings.Contains(q.sql, "exec_history") || strings.Contains(q.sql, "task_events")) {
			t.Errorf("a change of a task looks at the history: %s", q.sql)
		}
	}
}

// TestDB13Prune removes finished tasks by when they ended, with their history and
// events, and nothing else.
func TestDB13Prune(t *testing.T) {
	s := newStore(t, Options{})
	old, now := night.AddDate(0, 0, -40), night
	add := func(n NewTask, at time.Time) string {
		n.Type = "a"
		ids, err := s.Add(at, n)
		if err != nil {
			t.Fatal(err)
		}
		return ids[0]
	}
	finish := func(id string, at time.Time, v Verdict) {
		claim := claimFor("w1")
		claim.Now = at
		r, err := s.Turn(nil, claim)
		if err != nil || len(r.Claimed) != 1 || r.Claimed[0].ID != id {
			t.Fatalf("%+v, %v", r, err)
		}
		mustFinish(t, s, Finish{Fence: r.Claimed[0].Fence(), Verdict: v, Now: at, LogPath: "log-" + id})
	}
	gone := []string{add(NewTask{ID: "gone1"}, old)}
	finish("gone1", old, Succeed)
	gone = append(gone, add(NewTask{ID: "gone2"}, old))
	finish("gone2", old, Fail)
	gone = append(gone, add(NewTask{ID: "future", NextRun: night.AddDate(1, 0, 0)}, old))
	if _, err := s.SetControl("future", task.Cancel, old); err != nil {
		t.Fatal(err)
	}
	add(NewTask{ID: "late"}, old)
	finish("late", now.AddDate(0, 0, -1), Succeed) // created long ago, ended yesterday
	add(NewTask{ID: "parent"}, old)
	finish("parent", old, Succeed)
	child, err := s.Rerun("parent", false, now)
	if err != nil {
		t.Fatal(err)
	}
	occurrence := "nightly@" + now.Add(-time.Hour).Format(time.RFC3339)
	add(NewTask{ID: occurrence, Schedule: "nightly", NextRun: old, Priority: new(int64)}, old)
	finish(occurrence, old, Succeed)
	keep := []string{"late", "parent", child, occurrence, add(NewTask{ID: "waiting"}, old), add(NewTask{ID: "held", Held: true}, old)}
	if _, err := s.FireOccurrences(Firing{Schedule: "x"}, old); err != nil {
		t.Fatal(err)
	}
	out, err := s.Prune(PrunePolicy{Before: now.AddDate(0, 0, -30), Now: now})
	if err != nil || len(out.Tasks) != len(gone) || len(out.LogPaths) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	for _, id := range gone {
		if _, err := s.Get(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s is still there: %v", id, err)
		}
		h, err1 := s.History(id)
		e, err2 := s.Events(id)
		if len(h)+len(e) != 0 || err1 != nil || err2 != nil {
			t.Errorf("%s leaves %d executions and %d events", id, len(h), len(e))
		}
	}
	for _, id := range keep {
		mustGet(t, s, id)
	}
	if out, err := s.Prune(PrunePolicy{MaxBytes: 1, Now: now}); err != nil || len(out.Tasks) != 1 || out.Tasks[0] != "late" {
		t.Errorf("to a budget: %+v, %v", out, err)
	}
}

// TestSchedulesFireOnce: whoever is second does nothing; an unfinished run is an overlap.
func TestSchedulesFireOnce(t *testing.T) {
	s := newStore(t, Options{})
	if err := s.SyncSchedules([]ScheduleDef{{Name: "n", Definition: "d", Enabled: true}, {Name: "gone", Definition: "d", Enabled: true}}, night); err != nil {
		t.Fatal(err)
	}
	if err := s.SyncSchedules([]ScheduleDef{{Name: "n", Definition: "other", Enabled: true}}, night); err != nil {
		t.Fatal(err)
	}
	all, err := s.Schedules()
	if err != nil || len(all) != 1 || all[0].Definition != "d" || !all[0].ConsideredUntil.IsZero() {
		t.Fatalf("%+v, %v", all, err)
	}
	at := night.Truncate(time.Minute)
	occurrence := func(at time.Time) NewTask {
		return NewTask{ID: "n@" + at.Format(time.RFC3339), Type: "a", Schedule: "n", NextRun: at}
	}
	f := Firing{Schedule: "n", Until: at, Tasks: []NewTask{occurrence(at)}, Skips: []Skip{{Occurrence: at.Add(-time.Minute), Reason: "missed"}}, NoOverlap: true}
	for i, want := range []bool{true, false} {
		out, err := s.FireOccurrences(f, night)
		if err != nil || out.Moved != want || (len(out.Inserted) == 1) != want {
			t.Errorf("call %d: %+v, %v", i, out, err)
		}
	}
	next := Firing{Schedule: "n", Seen: at, Until: at.Add(time.Minute), Tasks: []NewTask{occurrence(at), occurrence(at.Add(time.Minute))}, NoOverlap: true}
	out, err := s.FireOccurrences(next, night)
	if err != nil || !out.Moved || len(out.Inserted) != 0 || len(out.Skipped) != 1 || out.Skipped[0].Reason != SkipOverlap {
		t.Errorf("%+v, %v", out, err)
	}
	skips, err := s.Skips("n", 0)
	if err != nil || len(skips) != 2 || skips[1].Reason != "missed" {
		t.Errorf("%+v, %v", skips, err)
	}
	runs, err := s.Occurrences("n", 0)
	if err != nil || len(runs) != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
	if st, err := s.ScheduleState("n"); err != nil || !st.Unfinished || !st.ConsideredUntil.Equal(at.Add(time.Minute)) {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := s.ScheduleState("nobody"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestBackupIsAWholeDatabase, made beside running writes, and replaces nothing.
func TestBackupIsAWholeDatabase(t *testing.T) {
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{Payload: `{"k":"'quoted'"}`})[0]
	dst := filepath.Join(t.TempDir(), "it's a backup.db")
	if err := s.Backup(dst); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(dst); !errors.Is(err, ErrExists) {
		t.Errorf("over an existing file: %v", err)
	}
	if fi, err := filepath.Glob(filepath.Join(filepath.Dir(dst), "*")); err != nil || len(fi) != 1 {
		t.Errorf("left behind: %v", fi)
	}
	if id2, err := identify(dst); err != nil || id2.mode.Perm() != 0o600 {
		t.Errorf("mode %v, %v", id2.mode, err)
	}
	b := newStore(t, Options{Path: dst})
	if got := mustGet(t, b, id); got.Payload != `{"k":"'quoted'"}` {
		t.Error(got)
	}
	if found, err := b.Check(Indexes); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRenewalsLeaveUpdatedAtAlone: it tells when a running task last spoke.
func TestRenewalsLeaveUpdatedAtAlone(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{})
	got := mustClaim(t, s, "w1")
	lease := night.Add(5 * time.Hour)
	if err := s.RenewLeases(night.Add(time.Minute), []Renewal{{Fence: got.Fence(), Lease: lease}, {Fence: task.Fence{TaskID: "gone"}, Lease: lease}}); err != nil {
		t.Fatal(err)
	}
	before := mustGet(t, s, got.ID)
	if !before.LeaseUntil.Equal(lease) || before.UpdatedAt.After(night.Add(time.Second)) {
		t.Errorf("%+v", before)
	}
	owned, err := s.Controls("w1")
	if err != nil || len(owned) != 1 || owned[0].Fence() != got.Fence() || !owned[0].LeaseUntil.Equal(lease) {
		t.Errorf("%+v, %v", owned, err)
	}
}

// TestSC04CountsAreExact, whatever their sizes: small ones, large ones that are
// stepped through, and the largest, which is what the others leave of the total.
func TestSC04CountsAreExact(t *testing.T) {
	type group struct {
		status   task.Status
		n        int64
		due      bool
		lateness string // of next_run_time
	}
	const past, future = "-1 hour", "+1 day"
	for name, groups := range map[string][]group{
		"few":             {{task.Pending, 3, true, past}, {task.Retrying, 2, false, future}, {task.Dead, 4, false, past}},
		"some large ones": {{task.Pending, countCheap + 5, true, past}, {task.Success, countCheap + 7, false, past}, {task.Cancelled, countCheap + 9, false, past}, {task.Paused, 3, false, past}},
		"mostly finished": {{task.Success, 3 * countCheap, false, past}, {task.Failed, 5, false, past}, {task.Pending, 6, true, past}, {task.Pending, 7, false, future}},
		"mostly due":      {{task.Pending, 3 * countCheap, true, past}, {task.Pending, 11, false, future}, {task.Retrying, 12, true, past}},
		"mostly later":    {{task.Pending, 3 * countCheap, false, future}, {task.Pending, 13, true, past}, {task.Retrying, 14, false, future}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{})
			c := rawConn(t, s.Path())
			if err := c.script(`DROP TRIGGER tasks_insert_rules; DROP TRIGGER tasks_insert_guard`); err != nil {
				t.Fatal(err)
			}
			want := Tally{Counts: map[task.Status]int64{}}
			for i, g := range groups {
				if err := c.script(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
					INSERT INTO tasks(task_id, task_type, status, next_run_time)
					SELECT '%d-' || i, 'a', '%s', strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '%s') FROM n`, g.n, i, g.status, g.lateness)); err != nil {
					t.Fatal(err)
				}
				want.Counts[g.status] += g.n
				if g.due {
					want.Due += g.n
				}
			}
			got, err := s.Tally(time.Now())
			if err != nil || got.Due != want.Due {
				t.Errorf("%d due, want %d, %v", got.Due, want.Due, err)
			}
			for _, status := range task.Statuses() {
				if got.Counts[status] != want.Counts[status] {
					t.Errorf("%s: %d, want %d", status, got.Counts[status], want.Counts[status])
				}
			}
		})
	}
}
