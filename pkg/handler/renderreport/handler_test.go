package renderreport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// changing is a source whose facts are others at each look, as the world is.
type changing struct {
	mu    sync.Mutex
	looks int
	err   error
	asked []Window
}

func (c *changing) Facts(_ context.Context, w Window) (*Facts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.looks++
	c.asked = append(c.asked, w)
	f := busyNight()
	f.Window, f.At = w, w.Until
	f.Runs.Succeeded = int64(c.looks)
	return f, nil
}

var errKilled = errors.New("killed")

// memory is the database of one task: the checkpoint that a restart finds.
type memory struct {
	state   json.RawMessage
	saved   int
	killAt  int
	durable bool
	stop    error
}

func (m *memory) Checkpoint(_ context.Context, state json.RawMessage, _ string) error {
	m.saved++
	dies := m.saved == m.killAt
	if !dies || m.durable {
		m.state = append(json.RawMessage(nil), state...)
	}
	if dies {
		return errKilled
	}
	return m.stop
}

func (m *memory) StillMine(context.Context) error { return m.stop }

// bench is a task with its directories and its clock.
type bench struct {
	t       *testing.T
	out     string
	dir     string
	payload string
	source  *changing
	mem     *memory
	now     time.Time
}

func newBench(t *testing.T, payload string) *bench {
	t.Helper()
	return &bench{t: t, out: t.TempDir(), dir: t.TempDir(), payload: payload, source: &changing{}, mem: &memory{}, now: night.Until}
}

func (b *bench) run() (Result, error) {
	b.t.Helper()
	h, err := New(Options{Source: b.source, OutputDir: b.out, Zone: shanghai, Now: func() time.Time { return b.now }})
	if err != nil {
		b.t.Fatal(err)
	}
	row := &task.Task{ID: "r 1", Type: "render_report", Payload: b.payload, Checkpoint: string(b.mem.state)}
	result, err := h.Run(context.Background(), handler.NewTask(row, b.dir, &bytes.Buffer{}, b.mem, nil))
	b.now = b.now.Add(time.Hour) // the next execution comes later
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(result.(handler.Report).Result, &r); err != nil {
		b.t.Fatal(err)
	}
	return r, nil
}

func (b *bench) page(r Result) string {
	b.t.Helper()
	page, err := os.ReadFile(r.File)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(page)
}

// TestKilledAtEverySection kills the process at each checkpoint in turn, before
// and after it is durable, while the world changes: the page is the same as that
// of an undisturbed run over what was seen at the first look.
func TestKilledAtEverySection(t *testing.T) {
	whole := newBench(t, `{}`)
	r, err := whole.run()
	if err != nil {
		t.Fatal(err)
	}
	want, steps := whole.page(r), whole.mem.saved
	if steps != len(sections)+2 {
		t.Fatalf("%d checkpoints, wanted one for the window, the facts and each of %d sections", steps, len(sections))
	}
	for _, durable := range []bool{false, true} {
		for at := 1; at <= steps; at++ {
			t.Run(fmt.Sprintf("durable=%v/%d", durable, at), func(t *testing.T) {
				b := newBench(t, `{}`)
				b.mem.killAt, b.mem.durable = at, durable
				if _, err := b.run(); !errors.Is(err, errKilled) {
					t.Fatalf("the kill was not felt: %v", err)
				}
				// Before the facts are in a checkpoint they may be gathered again; after it never.
				again := at == 2 && !durable
				if at == 1 && !durable {
					b.now = night.Until // no window was fixed: this is the first run
				}
				r, err := b.run()
				if err != nil {
					t.Fatal(err)
				}
				got := b.page(r)
				if again {
					got = strings.Replace(got, "<b>2</b><span>succeeded", "<b>1</b><span>succeeded", 1)
					got = strings.Replace(got, "2 of 36 executions ended", "1 of 35 executions ended", 1)
					got = strings.Replace(got, "36 executions ended", "35 executions ended", 1)
				}
				if got != want {
					t.Errorf("the page differs from that of an undisturbed run:\n%s", firstDifference(got, want))
				}
				if !again && b.source.looks != 1 {
					t.Errorf("%d looks, wanted 1", b.source.looks)
				}
			})
		}
	}
}

func firstDifference(a, b string) string {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return fmt.Sprintf("%q\n%q", a[max(0, i-60):min(len(a), i+60)], b[max(0, i-60):min(len(b), i+60)])
		}
	}
	return fmt.Sprintf("%d and %d bytes", len(a), len(b))
}

// TestResumeFindsItsFilesHarmed: what is missing or changed is made anew.
func TestResumeFindsItsFilesHarmed(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a section changed": func(d string) error { return os.WriteFile(filepath.Join(d, "section-01.html"), []byte("x"), 0o600) },
		"a section gone":    func(d string) error { return os.Remove(filepath.Join(d, "section-00.html")) },
		"the facts gone":    func(d string) error { return os.Remove(filepath.Join(d, factsFile)) },
		"all gone, as in the directory of a rerun": func(d string) error {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
			return os.Mkdir(d, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, `{}`)
			b.mem.killAt, b.mem.durable = 6, true
			if _, err := b.run(); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if err := harm(b.dir); err != nil {
				t.Fatal(err)
			}
			r, err := b.run()
			if err != nil {
				t.Fatal(err)
			}
			page := b.page(r)
			if !strings.HasPrefix(page, "<!doctype html>") || !strings.HasSuffix(page, "</html>\n") || strings.Count(page, `id="failures"`) != 1 {
				t.Error("the page is not whole")
			}
			for _, w := range b.source.asked {
				if w != b.source.asked[0] {
					t.Errorf("the window moved: %v", b.source.asked)
				}
			}
		})
	}
}

func TestStopsAtTheNextStep(t *testing.T) {
	for _, stop := range []error{handler.ErrCancelled, handler.ErrPaused, handler.ErrStopping, handler.ErrLost} {
		b := newBench(t, `{}`)
		b.mem.stop = stop
		if _, err := b.run(); !errors.Is(err, stop) || b.mem.saved != 1 {
			t.Errorf("%v: ended with %v after %d steps", stop, err, b.mem.saved)
		}
	}
}

func TestDatabaseThatDoesNotAnswer(t *testing.T) {
	b := newBench(t, `{}`)
	b.source.err = errors.New("no answer")
	_, err := b.run()
	var f *handler.Failure
	if !errors.As(err, &f) || f.Fatal {
		t.Fatalf("wanted a retryable error, not %v", err)
	}
	b.source.err = nil
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	if want := (Window{night.Since, night.Until}); b.source.asked[0] != want {
		t.Errorf("the window moved while the database did not answer: %v", b.source.asked[0])
	}
}

func TestPayloadsAndWindows(t *testing.T) {
	day := func(d, h int) time.Time { return time.Date(2026, 12, d, h, 0, 0, 0, shanghai).UTC() }
	for payload, want := range map[string]Window{
		`{}`:                           {day(1, 20), day(2, 8)},
		`{"since":"8h"}`:               {day(2, 0), day(2, 8)},
		`{"since":"1d"}`:               {day(1, 8), day(2, 8)},
		`{"since":"2026-12-01"}`:       {day(1, 0), day(2, 8)},
		`{"since":"2026-12-01 22:00"}`: {day(1, 22), day(2, 8)},
		`{"since":"2026-12-01T14:00:00Z","until":"2026-12-02T06:00"}`:               {day(1, 22), day(2, 6)},
		`{"since":"2026-12-01T00:00:00","until":"2026-12-01 08:00","zone":"UTC"}`:   {day(1, 8), day(1, 16)},
		`{"since":"2h","until":"2026-11-01T00:00:00+01:00","zone":"Europe/Berlin"}`: {time.Date(2026, 10, 31, 21, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)},
	} {
		r, err := ParsePayload(json.RawMessage(payload))
		if err != nil {
			t.Errorf("%s: %v", payload, err)
			continue
		}
		if w, _, err := r.Window(night.Until, shanghai); err != nil || w != want {
			t.Errorf("%s: %v, %v; wanted %v", payload, w, err, want)
		}
	}
	for payload, says := range map[string]string{
		`[]`:                        "a JSON object is wanted",
		`{"sinse":"1h"}`:            `unknown key "sinse"; did you mean "since"?`,
		`{"Since":"1h"}`:            `unknown key "Since"`,
		`{"since":12}`:              "payload.since: a text is wanted",
		`{"since":"yesterday"}`:     "since: \"yesterday\" is no time",
		`{"since":"-1h"}`:           "since:",
		`{"since":"2026-02-30"}`:    "is no time",
		`{"until":"later"}`:         "until:",
		`{"since":"2026-12-03"}`:    "is not before until",
		`{"since":"9999d"}`:         "more than 400 days",
		`{"zone":"Mars/Olympus"}`:   "is no time zone",
		`{"zone":"Local"}`:          "is no time zone",
		`{"output":"../x"}`:         "payload.output",
		`{"output":"/etc/x"}`:       "payload.output",
		`{"output":"a/"}`:           "payload.output",
		"{\"output\":\"a\\u0000\"}": "control character",
		`{"output":"` + strings.Repeat("x", 2000) + `"}`: "at most 1024",
	} {
		b := newBench(t, payload)
		_, err := b.run()
		var f *handler.Failure
		if !errors.As(err, &f) || !f.Fatal || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, wanted a fatal %q", payload, err, says)
		}
	}
}

func TestNamesOfReports(t *testing.T) {
	for payload, want := range map[string]string{
		`{}`:                                     "shift-report-2026-12-02-0800.html",
		`{"output":"a/{date}/{time}-{id}.html"}`: "a/2026-12-02/0800-r_1.html",
		`{"zone":"UTC"}`:                         "shift-report-2026-12-02-0000.html",
	} {
		b := newBench(t, payload)
		r, err := b.run()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := filepath.Rel(b.out, r.File); err != nil || got != want {
			t.Errorf("%s: %s, wanted %s", payload, got, want)
		}
		if r.Bytes != int64(len(b.page(r))) || r.Headline == "" {
			t.Errorf("result %+v", r)
		}
	}
}

// TestSE05NothingIsWrittenOutside: no link leads out of the output directory or
// of the task's own.
func TestSE05NothingIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	target := filepath.Join(outside, "precious")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		trap  func(b *bench) error
		fails bool
	}{
		"a directory that is a link": {func(b *bench) error { return os.Symlink(outside, filepath.Join(b.out, "a")) }, true},
		"a part that is a link":      {func(b *bench) error { return os.MkdirAll(filepath.Join(b.out, "a"), 0o700) }, false},
		"facts that are a link":      {func(b *bench) error { return os.Symlink(target, filepath.Join(b.dir, factsFile)) }, false},
		"facts.part that is a pipe":  {func(b *bench) error { return syscall.Mkfifo(filepath.Join(b.dir, factsFile+".part"), 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, `{"output":"a/r.html"}`)
			if err := c.trap(b); err != nil {
				t.Fatal(err)
			}
			if name == "a part that is a link" {
				if err := os.Symlink(target, filepath.Join(b.out, "a/r.html.part")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.run(); c.fails != (err != nil) {
				t.Errorf("error %v, wanted one: %v", err, c.fails)
			}
			if got, err := os.ReadFile(target); err != nil || string(got) != "precious" {
				t.Errorf("the target was touched: %q, %v", got, err)
			}
		})
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {Source: &changing{}}, {Source: &changing{}, OutputDir: "rel"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestOutputDir(t *testing.T) {
	for _, c := range []struct {
		section map[string]any
		want    string
		fails   bool
	}{
		{nil, "/data/output", false},
		{map[string]any{"output_dir": "/srv/r"}, "/srv/r", false},
		{map[string]any{"output_dir": "r"}, "/etc/ns/r", false},
		{map[string]any{"output_dir": 1}, "", true},
		{map[string]any{"dir": "/x"}, "", true},
	} {
		got, err := OutputDir(c.section, "/etc/ns", "/data/output")
		if got != c.want || c.fails != (err != nil) {
			t.Errorf("%v: %q, %v", c.section, got, err)
		}
	}
}
