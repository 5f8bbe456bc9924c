package operator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestAddPrintsTheIDAlone(t *testing.T) {
	n := newNight(t)
	n.must(n.store.Register([]store.Heartbeat{beat("w1", 101, 0)}))
	d, out, errOut := n.desk(0, 0)
	if err := d.Add(AddOptions{Type: "clean_csv", Payload: ` {"a": 1.10} `, Priority: "-5", MaxRetry: "0", Timeout: "1500ms", Key: "k", ID: "job 1"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "job 1\n" || errOut.Len() > 0 {
		t.Errorf("out %q, err %q", out.String(), errOut.String())
	}
	got, err := n.store.Get("job 1")
	if err != nil || got.Payload != ` {"a": 1.10} ` || got.Priority != -5 || got.MaxRetry != 0 || *got.Timeout != 2 || got.UniqueKey != "k" || got.Status != task.Pending {
		t.Errorf("%+v, %v", got, err)
	}
}

// TI-02: a time without a zone is local to the caller, and the answer shows both.
func TestTI02AddShowsBothZones(t *testing.T) {
	n := newNight(t)
	n.must(n.store.Register([]store.Heartbeat{beat("w1", 101, 0)}))
	for _, c := range []struct {
		name string
		o    AddOptions
		due  string
		said string
	}{
		{"a clock time is local", AddOptions{At: "10:00"}, "2026-12-02T02:00:00.000Z", "due 2026-12-02 10:00:00 CST (2026-12-02T02:00:00.000Z), in 9 h 55 min\n"},
		{"an offset counts", AddOptions{At: "2026-12-01T10:00:00Z"}, "2026-12-01T10:00:00.000Z", "due 2026-12-01 18:00:00 CST (2026-12-01T10:00:00.000Z), 6 h 4 min ago\nwarning: that is past; the task runs at once\n"},
		{"far ahead", AddOptions{At: "2036-01-01"}, "2035-12-31T16:00:00.000Z", "due 2036-01-01 00:00:00 CST (2035-12-31T16:00:00.000Z), in 3,316 d\nwarning: that is more than a year ahead\n"},
		{"from now", AddOptions{In: "1 day"}, "2026-12-02T16:04:05.123Z", "due 2026-12-03 00:04:05 CST (2026-12-02T16:04:05.123Z), in 24 h\n"},
		{"before now", AddOptions{In: "-5m"}, "2026-12-01T15:59:05.123Z", "due 2026-12-01 23:59:05 CST (2026-12-01T15:59:05.123Z), 5 min ago\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, out, errOut := n.desk(0, 0)
			c.o.Type = "clean_csv"
			if err := d.Add(c.o); err != nil {
				t.Fatal(err)
			}
			got, err := n.store.Get(strings.TrimSpace(out.String()))
			if err != nil || task.FormatTime(got.NextRun) != c.due {
				t.Errorf("due %s, %v, want %s", task.FormatTime(got.NextRun), err, c.due)
			}
			if errOut.String() != c.said {
				t.Errorf("said %q, want %q", errOut.String(), c.said)
			}
		})
	}
}

func TestCL06OneTaskForAKey(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(0, 0)
	if err := d.Add(AddOptions{Type: "clean_csv", Key: "k", Quiet: true}); err != nil {
		t.Fatal(err)
	}
	first := strings.TrimSpace(out.String())
	err := d.Add(AddOptions{Type: "clean_csv", Key: "k", Quiet: true})
	if want := fmt.Sprintf(`key "k" is taken by the unfinished task %s; wait for its end, or use another key`, first); err == nil || err.Error() != want || ExitCode(err) != ExitCantCreate {
		t.Errorf("got %v (%d), want %s", err, ExitCode(err), want)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a second id was printed: %q", out.String())
	}
	if _, err := n.store.SetControl(first, task.Cancel, n.now); err != nil {
		t.Fatal(err)
	}
	if err := d.Add(AddOptions{Type: "clean_csv", Key: "k", Quiet: true}); err != nil {
		t.Errorf("the key is free again, yet: %v", err)
	}
}

func TestAddWarns(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(n *night)
		typ   string
		want  string
	}{
		{"a misspelt type", nil, "clean_cvs", `warning: no task type "clean_cvs" in /etc/nightshift/nightshift.yaml; did you mean "clean_csv"?; the task waits until a worker knows its type`},
		{"no worker ever", nil, "clean_csv", "warning: no worker is alive, and none has ever used this database"},
		{"the last worker is gone", func(n *night) { n.must(n.store.Register([]store.Heartbeat{beat("w3", 103, 3*time.Hour)})) }, "clean_csv",
			"warning: no worker is alive (the last one, w3, is dead, last heard 3 h ago); tasks wait until one is started"},
		{"drain", func(n *night) { n.must(n.store.SetDrain(true, n.now)) }, "clean_csv", "warning: drain is on: no task is started until `nightshift drain off`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNight(t)
			if c.setup != nil {
				c.setup(n)
			}
			d, _, errOut := n.desk(0, 0)
			if err := d.Add(AddOptions{Type: c.typ}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(errOut.String(), c.want) {
				t.Errorf("got  %swant %s", errOut.String(), c.want)
			}
		})
	}
}

// IN-01: the bytes of a payload reach the row unchanged, whichever way they come.
func TestIN01PayloadsByteForByte(t *testing.T) {
	n := newNight(t)
	payload := "{\"name\": \"O'Brien $HOME `id` \\\"x\\\" \\\\ ☾\",\n \"n\": 9007199254740993}\n"
	file := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(file, []byte(payload), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{"as a value": payload, "from a file": "@" + file, "from standard input": "-"} {
		t.Run(name, func(t *testing.T) {
			d, out, _ := n.desk(0, 0)
			d.In = strings.NewReader(payload)
			if err := d.Add(AddOptions{Type: "clean_csv", Payload: spec, Quiet: true}); err != nil {
				t.Fatal(err)
			}
			if got, err := n.store.Get(strings.TrimSpace(out.String())); err != nil || got.Payload != payload {
				t.Errorf("got %q, %v", got.Payload, err)
			}
		})
	}
}

// endless never ends; how much was read is counted.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n += int64(len(p))
	return len(p), nil
}

func TestIN06StandardInputWithoutEnd(t *testing.T) {
	n := newNight(t)
	d, _, _ := n.desk(0, 0)
	in := &endless{}
	d.In = in
	err := d.Add(AddOptions{Type: "clean_csv", Payload: "-"})
	if ExitCode(err) != ExitInput || !strings.Contains(fmt.Sprint(err), "more than 1048576 bytes (1 MiB)") {
		t.Errorf("got %v", err)
	}
	if in.n > 4<<20 {
		t.Errorf("%d bytes were read", in.n)
	}
}

func TestIN10HalfABatchIsNone(t *testing.T) {
	good := `{"type": "clean_csv", "payload": {"a": 1.10}}`
	n := newNight(t)
	for _, c := range []struct {
		name string
		bad  string
		want string
		code int
	}{
		{"broken JSON", `{"type": "clean_csv", "payload": {"a": }}`, "line 500, column 40: invalid character '}' looking for beginning of value; nothing was added", ExitInput},
		{"cut off", `{"type": "clean_csv"`, "line 500, column 21: the text ends too early; nothing was added", ExitInput},
		{"no object", `["clean_csv"]`, `line 500, column 1: one JSON object is expected, like {"type": "clean_csv", "payload": {}}; nothing was added`, ExitInput},
		{"two objects", good + good, "line 500, column 46: text after the object; each task has a line of its own; nothing was added", ExitInput},
		{"a misspelt key", `{"type": "clean_csv", "payloda": {}}`, `line 500, column 23: unknown key "payloda"; did you mean "payload"?; nothing was added`, ExitInput},
		{"a key twice", `{"type": "clean_csv", "task_type": "x"}`, "line 500, column 23: the key type is given twice; nothing was added", ExitInput},
		{"no type", `{"payload": {}}`, "line 500: it has no type; nothing was added", ExitInput},
		{"a priority that is none", `{"type": "clean_csv", "priority": "high"}`, `line 500, column 35: priority "\"high\"" is no whole number`, ExitInput},
		{"a priority of half", `{"type": "clean_csv", "priority": 1.5}`, `line 500, column 35: priority "1.5" is no whole number`, ExitInput},
		{"a time that is none", `{"type": "clean_csv", "at": "2026-02-30"}`, `line 500, column 29: "2026-02-30" is no time`, ExitInput},
		{"a number as time", `{"type": "clean_csv", "at": 1767225600}`, `line 500, column 29: "1767225600" is no time: a bare number`, ExitInput},
		{"hold that is none", `{"type": "clean_csv", "hold": "yes"}`, `line 500, column 31: hold must be true or false, not "yes"`, ExitInput},
		{"a control character in the id", `{"type": "clean_csv", "id": "a\u001bb"}`, `line 500, column 29: task id "a\x1bb" holds a control character`, ExitInput},
		{"Latin-1", "{\"type\": \"clean_csv\", \"payload\": {\"a\": \"\xe9\"}}", "line 500, column 41: byte 0xe9 is no UTF-8 text", ExitInput},
		{"at and in", `{"type": "clean_csv", "at": "10:00", "in": "1h"}`, "line 500: at and in exclude each other", ExitInput},
		{"the id of another line", `{"type": "clean_csv", "id": "line-1"}`, `line 500: a task "line-1" exists already; choose another id; to run a finished task again use rerun; nothing was added`, ExitCantCreate},
		{"a timeout beyond all", `{"type": "clean_csv", "timeout": 1e18}`, "line 500, column 34: timeout", ExitInput},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := make([]string, 1000)
			for i := range lines {
				lines[i] = good
			}
			lines[0] = `{"task_type": "clean_csv", "task_id": "line-1"}`
			lines[499] = c.bad
			text := strings.Join(lines, "\n") + "\n"
			file := filepath.Join(t.TempDir(), "tasks.jsonl")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{file, "-"} {
				d, out, _ := n.desk(0, 0)
				d.In = strings.NewReader(text)
				err := d.AddBatch(from, true)
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || ExitCode(err) != c.code {
					t.Errorf("%s: got %v (%d)\nwant %s (%d)", from, err, ExitCode(err), c.want, c.code)
				}
				if counts, err := n.store.Count(); err != nil || sum(counts) != 0 || out.Len() > 0 {
					t.Errorf("%s: %d tasks, %v, out %q", from, sum(counts), err, out.String())
				}
			}
		})
	}
}

func TestBatchAddsAll(t *testing.T) {
	n := newNight(t)
	text := "\ufeff" + `{"type": "clean_csv", "payload": {"u": 18446744073709551615,  "f": 1.10}, "priority": -5, "at": "2026-12-02 10:00", "max_retry": 3, "timeout": "2h", "key": "k", "id": "first"}` + "\r\n" +
		"\n" + `{"task_type": "inspect", "in": "1 day", "hold": true, "timeout": 0, "unique_key": null}` + "\n" + `{"type":"日报"}`
	d, out, errOut := n.desk(0, 0)
	d.In = strings.NewReader(text)
	if err := d.AddBatch("-", false); err != nil {
		t.Fatal(err)
	}
	ids := strings.Fields(out.String())
	if len(ids) != 3 || ids[0] != "first" || !strings.Contains(errOut.String(), "no worker is alive") {
		t.Fatalf("out %q, err %q", out.String(), errOut.String())
	}
	first, err := n.store.Get("first")
	if err != nil || first.Payload != `{"u": 18446744073709551615,  "f": 1.10}` || first.Priority != -5 || first.MaxRetry != 3 || *first.Timeout != 7200 ||
		first.UniqueKey != "k" || task.FormatTime(first.NextRun) != "2026-12-02T02:00:00.000Z" {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := n.store.Get(ids[1])
	if err != nil || second.Status != task.Paused || *second.Timeout != 0 || second.UniqueKey != "" || !second.NextRun.Equal(midnight.Add(24*time.Hour)) {
		t.Errorf("%+v, %v", second, err)
	}
	if third, err := n.store.Get(ids[2]); err != nil || third.Type != "日报" || third.Payload != "{}" {
		t.Errorf("%+v, %v", third, err)
	}
}

func TestBatchOnATerminalSaysHowMany(t *testing.T) {
	n := newNight(t)
	d, out, errOut := n.desk(80, 24)
	d.Style.Terminal, d.ErrTerminal = true, true
	d.In = strings.NewReader(strings.Repeat(`{"type":"clean_csv"}`+"\n", 1204))
	if err := d.AddBatch("-", false); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1,204 tasks added\n" {
		t.Errorf("out %q", out.String())
	}
	if !strings.Contains(errOut.String(), "adding") {
		t.Errorf("no progress bar: %q", errOut.String())
	}
}

func TestBatchOfNothing(t *testing.T) {
	n := newNight(t)
	d, out, _ := n.desk(0, 0)
	if err := d.AddBatch("-", false); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
	err := d.AddBatch(filepath.Join(t.TempDir(), "none.jsonl"), false)
	if ExitCode(err) != ExitNoInput || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// IN-06: a line without end is refused, in bounded memory.
func TestIN06BatchLineWithoutEnd(t *testing.T) {
	n := newNight(t)
	d, _, _ := n.desk(0, 0)
	in := &endless{}
	d.In = in
	err := d.AddBatch("-", true)
	if ExitCode(err) != ExitInput || !strings.HasPrefix(fmt.Sprint(err), "line 1 has more than") {
		t.Errorf("got %v", err)
	}
	if in.n > 8<<20 {
		t.Errorf("%d bytes were read", in.n)
	}
}

// DB-03: somebody's forgotten BEGIN. add waits a bounded time and names the
// process that blocks.
func TestDB03AddNamesWhoBlocks(t *testing.T) {
	n := newNight(t)
	path := n.path
	holdWriteLock(t, path)
	d, _, _ := n.desk(0, 0)
	d.Store, d.Patience = nil, 300*time.Millisecond
	d.Config.DataDir = filepath.Dir(path)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	start := time.Now()
	err := d.Add(AddOptions{Type: "clean_csv"})
	if ExitCode(err) != ExitTryAgain || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("got %v (%d)", err, ExitCode(err))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := d.Status(); ExitCode(err) != ExitNoWorker {
		t.Errorf("status does not work meanwhile: %v", err)
	}
}
