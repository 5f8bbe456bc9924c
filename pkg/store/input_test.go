package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightshift/pkg/task"
)

// TestTI01EveryWayAShellWritesATime: stored as the instant that was meant, or
// refused; nothing is silently the year 2000.
func TestTI01EveryWayAShellWritesATime(t *testing.T) {
	const refused = "refused"
	times := []struct{ sql, want string }{
		{"datetime('2026-12-01 10:00','+1 hour')", "2026-12-01T11:00:00.000Z"},
		{"'2026-12-01 10:00'", "2026-12-01T10:00:00.000Z"},
		{"'2026-12-01T10:00'", "2026-12-01T10:00:00.000Z"},
		{"'2026-12-01T10:00:00+02:00'", "2026-12-01T08:00:00.000Z"},
		{"'2026-12-01 10:00:00-05:30'", "2026-12-01T15:30:00.000Z"},
		{"'2026-12-01T10:00:00Z'", "2026-12-01T10:00:00.000Z"},
		{"'2026-12-01T10:00:00.5Z'", "2026-12-01T10:00:00.500Z"},
		{"'2026-12-01T10:00:00.123456789Z'", "2026-12-01T10:00:00.123Z"},
		{"'2026-12-01T10:00:00.123Z'", "2026-12-01T10:00:00.123Z"},
		{"'2026-12-01'", "2026-12-01T00:00:00.000Z"},
		{"'2028-02-29'", "2028-02-29T00:00:00.000Z"},
		{"'2026-12-01T10:00:00+0200'", refused},
		{"'now'", refused},
		{"'1767225600'", refused},
		{"1767225600", refused},
		{"1767225600.5", refused},
		{"1767225600000", refused},
		{"2461000", refused},
		{"'20261201'", refused},
		{"'2026'", refused},
		{"'10:30'", refused},
		{"'2026-02-30'", refused},
		{"'2026-02-30T10:00:00.000Z'", refused},
		{"'2100-02-29'", refused},
		{"'2026-13-01'", refused},
		{"'2026-12-31T24:00:00Z'", refused},
		{"'2026-12-31T23:60:00Z'", refused},
		{"'2016-12-31T23:59:60Z'", refused},
		{"'10000-01-01'", refused},
		{"'9999-12-31T23:59:00-10:00'", refused},
		{"''", refused},
		{"' 2026-12-01 10:00'", refused},
		{"'tomorrow'", refused},
		{"'12/01/2026'", refused},
		{"'2026-12-01 10:00 CET'", refused},
		{"'2026-12-01T10:00:00.000Z; DROP TABLE tasks'", refused},
		{"x'323032362d31322d3031'", refused},
	}
	for _, e := range engines(t, newDB(t)) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
		}
		must(e.exec("INSERT INTO tasks(task_id, task_type) VALUES('u', 'a')"))
		for i, tm := range times {
			check := func(where, id, column string, err error) {
				t.Helper()
				if tm.want == refused {
					if err == nil {
						got, _ := e.read("SELECT " + column + " FROM tasks WHERE task_id='" + id + "'")
						t.Errorf("%s: %s of %s was taken as %s", e.name, where, tm.sql, got)
					} else if !strings.Contains(err.Error(), column) && !strings.Contains(err.Error(), "TEXT") {
						t.Errorf("%s: %s of %s: %v does not name %s", e.name, where, tm.sql, err, column)
					}
					return
				}
				got, rerr := e.read("SELECT " + column + " FROM tasks WHERE task_id='" + id + "'")
				must(rerr)
				if err != nil || got != tm.want {
					t.Errorf("%s: %s of %s is %s, want %s: %v", e.name, where, tm.sql, got, tm.want, err)
				}
			}
			id := fmt.Sprintf("%s%d", e.name, i)
			check("insert", id, "next_run_time", e.exec("INSERT INTO tasks(task_id, task_type, next_run_time) VALUES('"+id+"','a',"+tm.sql+")"))
			if e.name == "shell" { // a process for each; the rules are the same
				check("update", "u", "next_run_time", e.exec("UPDATE tasks SET next_run_time="+tm.sql+" WHERE task_id='u'"))
				continue
			}
			check("insert", id+"c", "created_at", e.exec("INSERT INTO tasks(task_id, task_type, created_at) VALUES('"+id+"c','a',"+tm.sql+")"))
			check("insert or ignore", id+"i", "next_run_time", e.exec("INSERT OR IGNORE INTO tasks(task_id, task_type, next_run_time) VALUES('"+id+"i','a',"+tm.sql+")"))
			for _, column := range []string{"next_run_time", "lease_expire_time", "created_at", "updated_at"} {
				check("update", "u", column, e.exec("UPDATE tasks SET "+column+"="+tm.sql+" WHERE task_id='u'"))
			}
		}
		must(e.exec("INSERT INTO tasks(task_id, task_type, next_run_time, created_at) VALUES('null" + e.name + "', 'a', NULL, NULL)"))
		got, err := e.read("SELECT next_run_time >= strftime('%Y-%m-%dT%H:%M','now','-1 hour') AND length(next_run_time) = 24 FROM tasks WHERE task_id='null" + e.name + "'")
		must(err)
		if got != "1" {
			t.Errorf("%s: NULL is not now", e.name)
		}
		must(e.exec("DELETE FROM tasks WHERE 0; UPDATE tasks SET control='cancel'; DELETE FROM tasks"))
	}
}

// TestTI01EveryMillisecondSurvives: the round trip that tells a normal time from
// others loses no millisecond in either engine.
func TestTI01EveryMillisecondSurvives(t *testing.T) {
	for _, e := range engines(t, newDB(t)) {
		got, err := e.read(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i < 59999)
			SELECT count(*) FROM (SELECT printf('2026-12-01T23:59:%02d.%03dZ', i/1000, i%1000) AS t FROM n)
			WHERE strftime('%Y-%m-%dT%H:%M:%fZ', t, '+0 days') IS NOT t`)
		if err != nil || got != "0" {
			t.Errorf("%s: %s milliseconds are lost, %v", e.name, got, err)
		}
	}
}

// TestIN03PayloadFromAFile: readfile() gives a BLOB; it is stored as text, byte for byte.
func TestIN03PayloadFromAFile(t *testing.T) {
	needShell(t)
	path := newDB(t)
	payload := `{"name":"O'Brien $HOME ` + "`id`" + ` \"x\" \\ ☾","n":1.10}`
	file := filepath.Join(t.TempDir(), "p.json")
	writeFile(t, file, payload)
	if _, err := shell(path, "INSERT INTO tasks(task_id, task_type, payload) VALUES('f','a',readfile('"+file+"'))"); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, Options{Path: path})
	if got := mustGet(t, s, "f"); got.Payload != payload {
		t.Errorf("payload %q, want %q", got.Payload, payload)
	}
	for _, e := range engines(t, path) {
		kind, err := e.read("SELECT typeof(payload) FROM tasks WHERE task_id='f'")
		if err != nil || kind != "text" {
			t.Errorf("%s: stored as %s, %v", e.name, kind, err)
		}
	}
}

// TestIN03WhatIsNoObject: every JSON value is a payload; what is no JSON text is not.
func TestIN03WhatIsNoObject(t *testing.T) {
	for _, p := range []struct{ sql, want string }{
		{"x'7b7d'", "{}"},
		{"'123'", "123"},
		{`'"x"'`, `"x"`},
		{"'null'", "null"},
		{`'{"a":1,"a":2}'`, `{"a":1,"a":2}`},
		{`' [1 , 2] '`, ` [1 , 2] `},
		{"123", ""},
		{"1.5", ""},
		{"NULL", ""},
		{"x'ff'", ""},
		{"x'7b'", ""},
		{"''", ""},
		{"'{'", ""},
		{"'{\"a\":1} x'", ""},
		{"'{''a'':1}'", ""},
	} {
		for _, e := range engines(t, newDB(t)) {
			err := e.exec("INSERT OR IGNORE INTO tasks(task_id, task_type, payload) VALUES('" + e.name + "','a'," + p.sql + ")")
			if p.want == "" {
				wantErr(t, err, "payload")
				continue
			}
			got, rerr := e.read("SELECT payload FROM tasks WHERE task_id='" + e.name + "'")
			if err != nil || rerr != nil || got != p.want {
				t.Errorf("%s: payload %s is %q, want %q: %v %v", e.name, p.sql, got, p.want, err, rerr)
			}
		}
	}
}

// TestIN04BytesThatAreNoText: a raw NUL and bad UTF-8 are refused at the door,
// escapes and rare characters pass unchanged.
func TestIN04BytesThatAreNoText(t *testing.T) {
	good := []string{`{"a":"\u0000"}`, `{"a":"\ud800"}`, "{\"a\":\"👩‍👩‍👧\u202e\"}", `{"a":"` + strings.Repeat(`\n`, 10000) + `"}`, "{\"a\":\"\ufffd\"}", "{\n\t\"a\": 1}\n"}
	s := newStore(t, Options{})
	for _, p := range good {
		id := mustAdd(t, s, NewTask{Payload: p})[0]
		if got := mustGet(t, s, id).Payload; got != p {
			t.Errorf("payload %q came back as %q", p, got)
		}
	}
	for _, bad := range []struct{ hex, say string }{
		{"7b2261223a226100627d", "NUL"},                 // {"a":"a␀b}
		{"7b2261223a317d0078", "NUL"},                   // {"a":1}␀x: valid up to the NUL
		{"7b2261223a22e9227d", "UTF-8"},                 // Latin-1 é
		{"7b2261223a2266fc72227d", "UTF-8"},             // Latin-1 für
		{"7b2261223a22c3227d", "UTF-8"},                 // half a character
		{"7b2261223a22ed a080227d", "UTF-8"},            // a surrogate
		{"7b2261223a22c0af227d", "UTF-8"},               // overlong
		{"7b2261223a22" + "efbfbd" + "227d", "nothing"}, // a true U+FFFD
	} {
		hex := strings.ReplaceAll(bad.hex, " ", "")
		for _, e := range engines(t, newDB(t)) {
			err := e.exec("INSERT INTO tasks(task_id, task_type, payload) VALUES('n','a',CAST(x'" + hex + "' AS TEXT))")
			if bad.say == "nothing" {
				if err != nil {
					t.Error(e.name, err)
				}
				if e.exec("UPDATE tasks SET control='cancel'") != nil || e.exec("DELETE FROM tasks") != nil {
					t.Fatal("cannot clear the table")
				}
				continue
			}
			wantErr(t, err, bad.say)
		}
		raw := decodeHex(t, hex)
		if bad.say != "nothing" {
			if _, err := s.Add(night, NewTask{Type: "a", Payload: raw}); err == nil {
				t.Errorf("Add took %q", raw)
			}
		}
	}
}

func decodeHex(t *testing.T, text string) string {
	t.Helper()
	var out []byte
	for i := 0; i+1 < len(text); i += 2 {
		var b byte
		if _, err := fmt.Sscanf(text[i:i+2], "%02x", &b); err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return string(out)
}

// TestIN04UndetectedBytesFailAtTheClaim: what SQLite cannot see (a lone
// continuation byte) ends that row alone, with the reason, and the others go on.
func TestIN04UndetectedBytesFailAtTheClaim(t *testing.T) {
	path := newDB(t)
	c := rawConn(t, path)
	if err := c.script("INSERT INTO tasks(task_id, task_type, payload, next_run_time) VALUES('bad','a',CAST(x'7b2261223a2280227d' AS TEXT), '2026-01-01')"); err != nil {
		t.Skipf("this SQLite refuses it at the door: %v", err)
	}
	s := newStore(t, Options{Path: path})
	good := mustAdd(t, s, NewTask{}, NewTask{})
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2", "w1.3"))
	if err != nil || len(r.Claimed) != 2 || r.Claimed[0].ID != good[0] || r.Claimed[1].ID != good[1] {
		t.Fatalf("claimed %+v, %v", r.Claimed, err)
	}
	wantStatus(t, s, "bad", task.Failed, task.FatalError)
	h, err := s.History("bad")
	if err != nil || len(h) != 1 || !strings.Contains(h[0].Result, "UTF-8") || h[0].Outcome != OutcomeFailed {
		t.Errorf("history %+v, %v", h, err)
	}
}

// TestIN05NumbersKeepTheirDigits through insert, claim, checkpoint and rerun.
func TestIN05NumbersKeepTheirDigits(t *testing.T) {
	const payload = `{"id":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e400}`
	s := newStore(t, Options{})
	id := mustAdd(t, s, NewTask{Payload: payload})[0]
	got := mustClaim(t, s, "w1")
	if got.Payload != payload {
		t.Errorf("claimed payload %s", got.Payload)
	}
	if _, err := s.Checkpoint(got.Fence(), payload, "", night); err != nil {
		t.Fatal(err)
	}
	mustFinish(t, s, Finish{Fence: got.Fence(), Verdict: Succeed, Result: payload})
	again, err := s.Rerun(id, false, night)
	if err != nil {
		t.Fatal(err)
	}
	if r := mustGet(t, s, again); r.Payload != payload || r.Checkpoint != payload || r.RerunOf != id {
		t.Errorf("rerun %+v", r)
	}
	if r := mustGet(t, s, id); r.Result != payload {
		t.Errorf("result %s", r.Result)
	}
}

// TestIN06LimitIsExact: 1 MiB passes, one byte more does not, and the message names it.
func TestIN06LimitIsExact(t *testing.T) {
	s := newStore(t, Options{})
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	mustAdd(t, s, NewTask{Payload: text(1 << 20)})
	_, err := s.Add(night, NewTask{Type: "a", Payload: text(1<<20 + 1)})
	wantErr(t, err, "1048577", "1048576")
	got := mustClaim(t, s, "w1")
	if _, err := s.Checkpoint(got.Fence(), text(1<<20), "", night); err != nil {
		t.Fatal(err)
	}
	_, err = s.Checkpoint(got.Fence(), text(1<<20+1), "", night)
	wantErr(t, err, "1048577")
	for _, e := range engines(t, newDB(t)) {
		for _, n := range []int{1 << 20, 1<<20 + 1} {
			err := e.exec(fmt.Sprintf("INSERT INTO tasks(task_type, payload) VALUES('a', '\"' || replace(hex(zeroblob(%d)),'00','x') || '\"')", n-2))
			if (err == nil) != (n == 1<<20) {
				t.Errorf("%s: %d bytes: %v", e.name, n, err)
			}
			if err != nil {
				wantErr(t, err, "1 MiB")
			}
		}
	}
}

// TestIN09Priorities: smaller first, ends of the range included; equal ones by due
// time, then by insertion; what is no integer is refused.
func TestIN09Priorities(t *testing.T) {
	path := newDB(t)
	for i, e := range engines(t, path) {
		for _, p := range []string{"'high'", "1.5", "9223372036854775808", "NULL", "x'37'", "''"} {
			if err := e.exec("INSERT OR IGNORE INTO tasks(task_type, priority) VALUES('a'," + p + ")"); err == nil {
				t.Errorf("%s: priority %s was taken", e.name, p)
			}
		}
		if i > 0 {
			continue
		}
		for n, p := range []string{"9223372036854775807", "100", "-9223372036854775808", "'7'", "0", "-1", "' 8 '"} {
			sql := fmt.Sprintf("INSERT INTO tasks(task_id, task_type, priority, next_run_time) VALUES('p%d','a',%s,'2026-01-01')", n, p)
			if err := e.exec(sql); err != nil {
				t.Errorf("%s: %s: %v", e.name, p, err)
			}
		}
		if err := e.exec("INSERT INTO tasks(task_id, task_type, priority, next_run_time) VALUES('early','a',100,'2025-01-01'), ('late','b',100,'2026-01-01')"); err != nil {
			t.Fatal(err)
		}
	}
	s := newStore(t, Options{Path: path})
	want := "p2 p5 p4 p3 p6 early p1 late p0"
	r, err := s.Turn(nil, claimFor(executors("w1", 20)...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.Claimed {
		got = append(got, c.ID)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("order %s, want %s", strings.Join(got, " "), want)
	}
}

// TestIN10HalfABatch: a batch with one bad task inserts nothing and names it.
func TestIN10HalfABatch(t *testing.T) {
	s := newStore(t, Options{})
	batch := make([]NewTask, 1000)
	for i := range batch {
		batch[i] = NewTask{Type: "a"}
	}
	for name, spoil := range map[string]func(n *NewTask){
		"broken JSON":                func(n *NewTask) { n.Payload = "{" },
		"what only the schema knows": func(n *NewTask) { n.Payload = strings.Repeat("[", 1500) + strings.Repeat("]", 1500) },
		"no type":                    func(n *NewTask) { n.Type = "" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := append([]NewTask(nil), batch...)
			spoil(&bad[499])
			_, err := s.Add(night, bad...)
			var in *InputError
			if !errors.As(err, &in) || in.Index != 499 || ExitCode(err) != 65 {
				t.Errorf("%v (exit %d), want the refusal of task 499", err, ExitCode(err))
			}
			counts, err := s.Count()
			if err != nil || counts[task.Pending] != 0 {
				t.Errorf("%d tasks are in, %v", counts[task.Pending], err)
			}
		})
	}
	if haveShell(t) {
		_, err := shell(s.Path(), "BEGIN; INSERT INTO tasks(task_type) VALUES('a'); INSERT INTO tasks(task_type, payload) VALUES('a','{'); COMMIT;")
		wantErr(t, err, "payload is not valid JSON")
		if counts, err := s.Count(); err != nil || counts[task.Pending] != 0 {
			t.Errorf("the shell with -bail left %d tasks, %v", counts[task.Pending], err)
		}
	}
}

// TestIN11ReplaceOverUnfinished: refused, whatever form it takes; OR IGNORE stays
// the idiom that it is; a finished id can be used again and brings nothing along.
func TestIN11ReplaceOverUnfinished(t *testing.T) {
	for _, state := range task.Statuses() {
		for i := range engines(t, newDB(t)) {
			if i > 0 && state != task.Running && state != task.Success {
				continue // a process for each statement
			}
			e := engines(t, newDB(t))[i]
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s, %s: %v", state, e.name, err)
				}
			}
			must(e.exec(stateSQL(state)))
			before, err := e.read("SELECT status || ifnull(exec_id,'-') || payload FROM tasks WHERE task_id='x'")
			must(err)
			for _, sql := range []string{
				"INSERT OR REPLACE INTO tasks(task_id, task_type, payload) VALUES('x','a','{\"v\":2}')",
				"REPLACE INTO tasks(rowid, task_id, task_type, payload) VALUES((SELECT rowid FROM tasks WHERE task_id='x'),'z','a','{\"v\":2}')",
				"INSERT INTO tasks(task_id, task_type) VALUES('x','a') ON CONFLICT(task_id) DO UPDATE SET payload='{\"v\":2}', status='PENDING'",
				"INSERT INTO tasks(task_id, task_type) VALUES('x','a')",
				"DELETE FROM tasks WHERE task_id='x'",
			} {
				must(e.exec("INSERT OR IGNORE INTO tasks(task_id, task_type) VALUES('x','b')"))
				err := e.exec("BEGIN; " + sql + "; ROLLBACK;")
				if e.name == "driver" && err != nil {
					must(e.exec("ROLLBACK"))
				}
				if !state.Final() && err == nil {
					t.Errorf("%s, %s: %s was let through", state, e.name, sql)
				}
				if !state.Final() && strings.HasPrefix(sql, "INSERT OR REPLACE") {
					wantErr(t, err, "rerun", "unique_key")
				}
				after, err := e.read("SELECT status || ifnull(exec_id,'-') || payload FROM tasks WHERE task_id='x'")
				must(err)
				if after != before {
					t.Errorf("%s, %s: after %s the row is %s, was %s", state, e.name, sql, after, before)
				}
			}
			if !state.Final() {
				continue
			}
			must(e.exec("INSERT OR REPLACE INTO tasks(task_id, task_type, payload) VALUES('x','a','{\"v\":2}')"))
			after, err := e.read("SELECT status || ifnull(exec_id,'-') || ifnull(result,'-') || payload FROM tasks WHERE task_id='x'")
			must(err)
			if after != `PENDING--{"v":2}` {
				t.Errorf("%s, %s: the new row is %s", state, e.name, after)
			}
		}
	}
}

// TestIN11UniqueKey: at most one unfinished task bears a key; it is free again
// after the end.
func TestIN11UniqueKey(t *testing.T) {
	for i := range engines(t, newDB(t)) {
		path := newDB(t)
		e := engines(t, path)[i]
		s := newStore(t, Options{Path: path})
		first := mustAdd(t, s, NewTask{UniqueKey: "k"})[0]
		_, err := s.Add(night, NewTask{Type: "a", UniqueKey: "k"})
		var taken *ExistsError
		if !errors.As(err, &taken) || taken.TaskID != first || !errors.Is(err, ErrExists) {
			t.Errorf("second add: %v, want the first's id", err)
		}
		wantErr(t, e.exec("INSERT INTO tasks(task_type, unique_key) VALUES('a','k')"), "unique_key")
		wantErr(t, e.exec("INSERT OR REPLACE INTO tasks(task_type, unique_key) VALUES('a','k')"), "unique_key")
		if err := e.exec("INSERT OR IGNORE INTO tasks(task_type, unique_key) VALUES('a','k')"); err != nil {
			t.Error(err)
		}
		mustAdd(t, s, NewTask{ID: "other"})
		wantErr(t, e.exec("UPDATE tasks SET unique_key='k' WHERE task_id='other'"), "unique_key")
		wantErr(t, e.exec("UPDATE OR REPLACE tasks SET unique_key='k' WHERE task_id='other'"), "unique_key")
		if got := mustGet(t, s, first); got.Status != task.Pending {
			t.Errorf("the first is %s", got.Status)
		}
		got := mustClaim(t, s, "w1")
		mustFinish(t, s, Finish{Fence: got.Fence(), Verdict: Succeed})
		if err := e.exec("INSERT INTO tasks(task_id, task_type, unique_key) VALUES('next','a','k')"); err != nil {
			t.Errorf("the key is not free after the end: %v", err)
		}
	}
}

// TestIN14OddNumbers: refused, or defined and safe to compute with.
func TestIN14OddNumbers(t *testing.T) {
	for _, e := range engines(t, newDB(t)) {
		for _, bad := range []string{"max_retry=-1", "max_retry=1e10", "max_retry=NULL", "max_retry='many'", "timeout_seconds=-5", "timeout_seconds=1e18",
			"timeout_seconds='soon'", "timeout_seconds=1.5", "retry_count=-1", "crash_count=-1", "retry_count=NULL"} {
			column, v, _ := strings.Cut(bad, "=")
			if err := e.exec("INSERT OR IGNORE INTO tasks(task_type," + column + ") VALUES('a'," + v + ")"); err == nil {
				t.Errorf("%s: insert of %s was taken", e.name, bad)
			}
			if err := e.exec("INSERT OR IGNORE INTO tasks(task_id, task_type) VALUES('u','a'); UPDATE tasks SET " + bad + " WHERE task_id='u'"); err == nil {
				t.Errorf("%s: update of %s was taken", e.name, bad)
			}
		}
	}
	s := newStore(t, Options{})
	c := rawConn(t, s.Path())
	if err := c.script("INSERT INTO tasks(task_id, task_type, max_retry, timeout_seconds, retry_count, next_run_time) VALUES('never','a',0,1000000000,0,'2026-01-01'), ('often','a',5,0,4999,'2026-01-02')"); err != nil {
		t.Fatal(err)
	}
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2"))
	if err != nil || len(r.Claimed) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if y := r.Claimed[0].LeaseUntil.Year(); y != 2090 {
		t.Errorf("lease of a timeout of 10⁹ s ends in %d", y)
	}
	if d := r.Claimed[1].LeaseUntil.Sub(night); d.Minutes() != 10 {
		t.Errorf("lease without a timeout: %s", d)
	}
	for i, id := range []string{"never", "often"} {
		if got := mustFinish(t, s, Finish{Fence: r.Claimed[i].Fence(), Verdict: Retry, RetryAt: night}); got != task.Dead {
			t.Errorf("%s: after one failure %s, want DEAD", id, got)
		}
		wantStatus(t, s, id, task.Dead, task.RetriesExhausted)
	}
}

// TestIN01ValuesFromAShell: the documented idiom delivers any value unchanged.
func TestIN01ValuesFromAShell(t *testing.T) {
	needShell(t)
	s := newStore(t, Options{})
	value := "O'Brien $HOME `id` \"x\" \\ ☾\n$0123"
	sql := ".param init\n.param set :n \"'" + strings.ReplaceAll(value[:5], "'", "''") + "'\"\nINSERT INTO tasks(task_id, task_type, payload) VALUES('param','a',json_object('name', :n));\n" +
		"INSERT INTO tasks(task_id, task_type, payload) VALUES('quoted','a','{\"name\":\"O''Brien $HOME `id`\"}');"
	if _, err := shell(s.Path(), sql); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "v")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shell(s.Path(), "INSERT INTO tasks(task_id, task_type, payload) VALUES('file','a',json_object('name', CAST(readfile('"+file+"') AS TEXT)));"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"param":  `{"name":"O'Bri"}`,
		"quoted": "{\"name\":\"O'Brien $HOME `id`\"}",
		"file":   "{\"name\":\"O'Brien $HOME `id` \\\"x\\\" \\\\ ☾\\n$0123\"}",
	} {
		if got := mustGet(t, s, id).Payload; got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// TestIDsAreText: 1 to 255 bytes without control characters, or refused at insert.
func TestIDsAreText(t *testing.T) {
	good := []string{"a", strings.Repeat("x", 255), "日報@2026-12-01T00:00:00Z", "-rf", "a b", "'; DROP TABLE tasks; --", "é", "\ufffd"}
	bad := []string{"", strings.Repeat("x", 256), strings.Repeat("é", 128), "a\nb", "a\tb", "\x01", "\x7f", "\u0085", "a\x00b", "\xff", "caf\xe9"}
	for _, column := range []string{"task_id", "task_type", "unique_key", "schedule"} {
		for _, e := range engines(t, newDB(t)) {
			insert := func(v string) error {
				columns, values := column, "CAST(x'"+fmt.Sprintf("%x", v)+"' AS TEXT)"
				if column != "task_type" {
					columns, values = columns+", task_type", values+", 'a'"
				}
				return e.exec("INSERT OR IGNORE INTO tasks(" + columns + ") VALUES(" + values + ")")
			}
			if e.name == "shell" && column != "task_id" {
				continue // a process for each
			}
			for _, v := range good {
				if err := insert(v); err != nil {
					t.Errorf("%s: %s %q: %v", e.name, column, v, err)
				}
			}
			for _, v := range bad {
				if err := insert(v); err == nil {
					t.Errorf("%s: %s %q was taken", e.name, column, v)
				} else if !strings.Contains(err.Error(), column) {
					t.Errorf("%s: %s %q: %v", e.name, column, v, err)
				}
			}
		}
	}
	s := newStore(t, Options{})
	for _, v := range bad {
		if _, err := s.Add(night, NewTask{ID: v, Type: "a"}); err == nil && v != "" {
			t.Errorf("Add took the id %q", v)
		}
		if _, err := s.Add(night, NewTask{Type: v}); err == nil {
			t.Errorf("Add took the type %q", v)
		}
	}
	for _, v := range good {
		mustAdd(t, s, NewTask{ID: v})
	}
}
