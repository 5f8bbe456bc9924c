package fetchdata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/examples/apiserver/paged"
	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errKilled stands in for the end of the process: what the handler does after it
// is not seen by anybody.
var errKilled = errors.New("killed")

// memory is the database of one task: the checkpoint that a restart finds.
type memory struct {
	mu      sync.Mutex
	state   json.RawMessage
	saved   int   // checkpoints acknowledged
	killAt  int   // the checkpoint at which the process dies; 0: never
	durable bool  // it dies after the checkpoint was written, not before
	stop    error // what the next checkpoint answers
	log     bytes.Buffer
}

func (m *memory) Checkpoint(_ context.Context, state json.RawMessage, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
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

func (m *memory) StillMine(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stop
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(b)
}

func (m *memory) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.String()
}

func (m *memory) setStop(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop = err
}

// bench is a task, its output directory and its options.
type bench struct {
	t       *testing.T
	dir     string
	options Options
	payload map[string]any
	mem     *memory
	id      string
}

func newBench(t *testing.T, payload map[string]any) *bench {
	t.Helper()
	dir := t.TempDir()
	return &bench{t: t, dir: dir, payload: payload, mem: &memory{}, id: "t1", options: Options{
		OutputDir: dir, TryDelay: time.Millisecond, MaxWait: 2 * time.Second,
		ConnectTimeout: 5 * time.Second, HeaderTimeout: 5 * time.Second, StallTimeout: 5 * time.Second, PageTimeout: 20 * time.Second,
	}}
}

// run is one execution from the last checkpoint on.
func (b *bench) run(ctx context.Context) (Result, error) {
	b.t.Helper()
	h, err := New(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	payload, err := json.Marshal(b.payload)
	if err != nil {
		b.t.Fatal(err)
	}
	row := &task.Task{ID: b.id, Type: "fetch_data", Payload: string(payload), Checkpoint: string(b.mem.state)}
	result, err := h.Run(ctx, handler.NewTask(row, b.t.TempDir(), b.mem, b.mem, nil))
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(result.(handler.Report).Result, &r); err != nil {
		b.t.Fatal(err)
	}
	return r, nil
}

func (b *bench) mustRun() Result {
	b.t.Helper()
	r, err := b.run(context.Background())
	if err != nil {
		b.t.Fatalf("run: %v\nlog:\n%s", err, b.mem.logged())
	}
	return r
}

func (b *bench) output(name string) string {
	b.t.Helper()
	out, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(out)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// pages serves fixed bodies, one a page, linked by a cursor.
func pages(t *testing.T, bodies ...string) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if c := r.URL.Query().Get("cursor"); c != "" {
			n = int(c[0] - '0')
		}
		w.Header().Set("Content-Type", "application/json")
		if n < len(bodies) {
			_, _ = w.Write([]byte(bodies[n]))
		}
	}))
}

// ways are the modes of paging against the example server.
func ways(url string) map[string]map[string]any {
	base := func(paging map[string]any) map[string]any {
		return map[string]any{"url": url + "/items", "output": "out.jsonl", "items": "items", "id": "id", "paging": paging}
	}
	return map[string]map[string]any{
		"link header": base(map[string]any{"mode": "link"}),
		"link field":  base(map[string]any{"mode": "link", "next": "next", "more": "has_more"}),
		"cursor":      base(map[string]any{"mode": "cursor", "param": "cursor", "field": "next_cursor"}),
		"last item":   base(map[string]any{"mode": "cursor", "param": "cursor", "item_field": "id"}),
		"token":       base(map[string]any{"mode": "token", "param": "token", "field": "next_token"}),
		"page":        base(map[string]any{"mode": "page", "param": "page"}),
	}
}

func paging() map[string]any {
	return map[string]any{"mode": "cursor", "param": "cursor", "field": "next"}
}

func isFatal(err error) bool {
	var f *handler.Failure
	return errors.As(err, &f) && f.Fatal
}

func wantFailure(t *testing.T, err error, fatal bool, part string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("no error; wanted one with %q", part)
	case isFatal(err) != fatal:
		t.Fatalf("fatal is %v, wanted %v: %v", isFatal(err), fatal, err)
	case !strings.Contains(err.Error(), part):
		t.Fatalf("error %q does not say %q", err, part)
	}
}

// undisturbed is the output of a run that nothing disturbs.
func undisturbed(t *testing.T, cfg paged.Config, way string) (string, Result) {
	t.Helper()
	cfg.Faults = paged.Faults{}
	b := newBench(t, ways(serve(t, paged.New(cfg)))[way])
	r := b.mustRun()
	return b.output("out.jsonl"), r
}
