package store

import (
	"strings"
	"testing"
	"unicode/utf8"

	"nightshift/pkg/task"
)

// Statements that a shell could run, with any values.
var (
	sqlFuzzInsert = define(`INSERT INTO tasks (task_id, task_type, status, payload, checkpoint, unique_key, next_run_time, priority, max_retry, timeout_seconds)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	sqlFuzzUpdate = define(`UPDATE tasks SET status = ?, reason = nullif(?, ''), control = nullif(?, ''), next_run_time = nullif(?, ''), checkpoint = nullif(?, ''),
	exec_id = nullif(?, 0), retry_count = ?, updated_at = iif(?, updated_at, '2026-12-01T20:00:00.000Z') WHERE task_id = 'x'`)
)

// inside runs do in a transaction that is taken back.
func inside(t *testing.T, c *conn, do func()) {
	t.Helper()
	if err := c.script("BEGIN"); err != nil {
		t.Fatal(err)
	}
	do()
	if err := c.script("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

// storedTime: a time is NULL or has the one form in which times can be compared.
func storedTime(t *testing.T, c *conn, column string) {
	t.Helper()
	text, err := c.pragma("SELECT ifnull(" + column + ", '') FROM tasks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.ParseTime(text); err != nil && text != "" {
		t.Errorf("%s is %q: %v", column, text, err)
	}
}

// FuzzInsert: whatever a stranger inserts is refused, or is a task that every part of the product can
// read: waiting, with names and JSON as promised and times in their one form.
func FuzzInsert(f *testing.F) {
	f.Add("id", "clean_csv", "PENDING", []byte(`{"a":1}`), true, `{"n":1}`, "key", "2026-12-01T16:04:05.123Z", int64(100), int64(5), int64(0))
	f.Add("é", "a", "PAUSED", []byte(`"\u0000"`), false, "1", "k", "2026-12-01 16:04+08:00", int64(-1), int64(0), int64(1))
	f.Add("a\x00b", "\x1b[31m", "RUNNING", []byte("\xff"), true, "{", "\xc2\x85", "now", int64(0), int64(-1), int64(-1))
	f.Add("\ufffd", "\xef\xbf", "pending", []byte("[1,"), false, "\x00", "", "9999-12-31T23:59:00-10:00", int64(1)<<62, int64(1)<<40, int64(1)<<40)
	f.Add("x", "y", "PENDING", []byte(`{"a":1}{`), true, "null", "z", "2026-02-30", int64(1), int64(1), int64(1))
	c := rawConn(f, newDB(f))
	f.Fuzz(func(t *testing.T, id, typ, status string, payload []byte, text bool, checkpoint, key, next string, priority, maxRetry, timeout int64) {
		inside(t, c, func() {
			var body any = payload
			if text {
				body = string(payload)
			}
			if _, err := c.exec(sqlFuzzInsert, id, typ, status, body, checkpoint, key, next, priority, maxRetry, timeout); err != nil {
				if strings.TrimSpace(err.Error()) == "" {
					t.Error("refused without a word")
				}
				return
			}
			row, err := getTask(c, id)
			if err != nil {
				t.Fatalf("%q was inserted and cannot be read: %v", id, err)
			}
			if row.Status != task.Pending && row.Status != task.Paused {
				t.Errorf("status %q", row.Status)
			}
			// Some bytes that are no UTF-8 (a lone continuation) SQLite cannot see: the claim does.
			unseen := !utf8.ValidString(row.ID + " " + row.Payload + " " + row.Checkpoint)
			if (sane(&row) != nil) != unseen {
				t.Errorf("not seen at the door: %t; at the claim: %v", unseen, sane(&row))
			}
			for _, name := range []string{row.ID, row.Type, key} {
				if err := task.CheckID(name); err != nil && utf8.ValidString(name) {
					t.Errorf("a name was taken: %v", err)
				}
			}
			for _, doc := range []string{row.Payload, row.Checkpoint} {
				if strings.ContainsRune(doc, 0) || len(doc) > task.MaxJSONBytes {
					t.Errorf("JSON was taken: %q", doc)
				}
			}
			if row.MaxRetry < 0 || row.Timeout != nil && *row.Timeout < 0 {
				t.Errorf("max_retry %d, timeout %v", row.MaxRetry, row.Timeout)
			}
			for _, column := range []string{"next_run_time", "created_at", "updated_at"} {
				storedTime(t, c, column)
			}
		})
	})
}

// FuzzUpdate: whatever a stranger's UPDATE says, a change of status is one of the table, and the rest
// of the row stays readable.
func FuzzUpdate(f *testing.F) {
	for i, s := range task.Statuses() {
		f.Add(uint8(i), "RUNNING", "claimed", "", "2026-12-01T16:04:05.123Z", "", int64(7), int64(0), true)
		f.Add(uint8(i), string(s), "", "pause", "2026-12-01 16:04", "1", int64(1), int64(1), true)
		f.Add(uint8(i), "PENDING", "takeover", "kill", "tomorrow", "{", int64(0), int64(-1), false)
	}
	c := rawConn(f, newDB(f))
	f.Fuzz(func(t *testing.T, state uint8, status, reason, control, next, checkpoint string, execID, retries int64, quiet bool) {
		from := task.Statuses()[int(state)%len(task.Statuses())]
		inside(t, c, func() {
			if err := c.script(stateSQL(from)); err != nil {
				t.Fatal(err)
			}
			before, err := getTask(c, "x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.exec(sqlFuzzUpdate, status, reason, control, next, checkpoint, execID, retries, quiet); err != nil {
				return
			}
			after, err := getTask(c, "x")
			if err != nil {
				t.Fatalf("updated and cannot be read: %v", err)
			}
			if after.Status != from {
				if err := task.Check(from, after.Status, task.Reason(reason)); err != nil {
					t.Error(err)
				}
			}
			if before.ExecID != 0 && (after.ExecID < before.ExecID || after.ExecID != before.ExecID && after.Status != task.Running) { // 0: NULL, no token yet
				t.Errorf("%s -> %s: the fencing token went from %d to %d", from, after.Status, before.ExecID, after.ExecID)
			}
			if after.RetryCount < 0 || after.Checkpoint != "" && !utf8.ValidString(after.Checkpoint) {
				t.Errorf("%+v", after)
			}
			storedTime(t, c, "next_run_time")
			storedTime(t, c, "updated_at")
		})
	})
}
