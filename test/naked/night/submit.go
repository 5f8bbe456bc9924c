package night

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what a task does, and what must become of it.
type kind struct {
	name   string
	typ    string
	weight int
	steps  int
	every  int
	mode   string
	retry  int    // max_retry; 0: as good as endless
	want   string // final status unless somebody cancels it
}

var kinds = []kind{
	{name: "plain", typ: "witness", weight: 30, steps: 20, every: 1, want: "SUCCESS"},
	{name: "batch", typ: "witness", weight: 12, steps: 30, every: 10, want: "SUCCESS"},
	{name: "shell", typ: "shell", weight: 12, steps: 10, every: 1, want: "SUCCESS"},
	{name: "mute", typ: "witness", weight: 5, steps: 5, every: 0, want: "SUCCESS"},
	{name: "child", typ: "witness", weight: 10, steps: 15, every: 1, mode: "child", want: "SUCCESS"},
	{name: "escape", typ: "witness", weight: 6, steps: 15, every: 1, mode: "escape", want: "SUCCESS"},
	{name: "deaf", typ: "witness", weight: 5, steps: 15, every: 5, mode: "deaf", want: "SUCCESS"},
	{name: "bounded", typ: "bounded", weight: 6, steps: 10, every: 1, want: "SUCCESS"},
	{name: "untimed", typ: "untimed", weight: 5, steps: 15, every: 1, want: "SUCCESS"},
	{name: "fail", typ: "witness", weight: 4, steps: 3, every: 1, mode: "fail", retry: 2, want: "DEAD"},
	{name: "fatal", typ: "witness", weight: 3, steps: 3, every: 1, mode: "fatal", want: "FAILED"},
	{name: "fetch", typ: "fetch_data", weight: 5, want: "SUCCESS"},
	{name: "quick", typ: "witness", steps: 3, every: 1, want: "SUCCESS"}, // for scripts
	{name: "report", typ: "render_report", weight: 2, want: "SUCCESS"},
}

const stepMS = 25

// accepted is a task whose insertion was answered with success.
type accepted struct {
	id   string
	kind *kind
	via  string
}

// submitter feeds the queue from outside, in every way there is, and notes each
// accepted id in a log that is on disk, outside the database, before it goes on.
type submitter struct {
	n     *night
	rng   *rand.Rand
	acks  *os.File
	kinds []*kind

	mu     sync.Mutex
	list   []accepted
	seq    int
	ended  bool
	cancel context.CancelFunc // ends the insertion under way; nil: none
}

func newSubmitter(n *night) *submitter {
	f, err := os.OpenFile(n.g.out("acks"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic("night: ack log: " + err.Error())
	}
	s := &submitter{n: n, rng: rand.New(rand.NewPCG(n.o.Seed, 2)), acks: f, ended: n.o.Still}
	for i := range kinds {
		if n.o.Mix == nil || slices.Contains(n.o.Mix, kinds[i].name) {
			s.kinds = append(s.kinds, &kinds[i])
		}
	}
	return s
}

func (s *submitter) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if s.isEnded() {
			return
		}
		if s.n.watch.backlog() >= s.n.o.Backlog {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		s.n.cut.RLock()
		s.submit()
		s.n.cut.RUnlock()
	}
}

// stop ends the feeding.
func (s *submitter) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *submitter) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// disturb kills the insertion under way: its task may be there or not.
func (s *submitter) disturb() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return false
	}
	s.cancel()
	return true
}

func (s *submitter) pick() *kind {
	sum := 0
	for _, k := range s.kinds {
		sum += k.weight
	}
	at := s.rng.IntN(sum)
	for _, k := range s.kinds {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	panic("night: weights")
}

// submit inserts one task, or a batch, by one of the ways.
func (s *submitter) submit() {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	switch way := s.rng.IntN(10); {
	case way < 5:
		s.byShell(ctx)
	case way < 7:
		s.byCLI(ctx)
	default:
		s.byBatch(ctx)
	}
	s.mu.Lock()
	s.cancel = nil
	s.mu.Unlock()
}

func (s *submitter) newID(k *kind) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	return fmt.Sprintf("%s-%05d", k.name, s.seq)
}

func (k *kind) maxRetry() int {
	if k.retry > 0 {
		return k.retry
	}
	return 1000000
}

// payloadOf gives the payload of the task id; a fetch writes where its id says.
func (s *submitter) payloadOf(k *kind, id string) string {
	switch k.typ {
	case "fetch_data":
		return fmt.Sprintf(`{"url":"%s/items","output":"%s.jsonl","id":"id"}`, s.n.g.net.url, id)
	case "render_report":
		return `{}`
	}
	b, err := json.Marshal(map[string]any{"steps": k.steps, "ms": stepMS, "every": k.every, "mode": k.mode})
	if err != nil {
		panic("night: " + err.Error()) // numbers and texts always encode
	}
	return string(b)
}

func (s *submitter) byShell(ctx context.Context) {
	k := s.pick()
	id := s.newID(k)
	priority := 100
	if !s.n.o.Level {
		priority += s.rng.IntN(3)
	}
	s.answer(s.insert(ctx, k, id, priority), "shell", accepted{id: id, kind: k})
}

// addOne is for scripts, which submit by themselves.
func (s *submitter) addOne(k *kind) (string, error) {
	id := s.newID(k)
	err := s.insert(context.Background(), k, id, 100)
	s.answer(err, "shell", accepted{id: id, kind: k})
	return id, err
}

func (s *submitter) insert(ctx context.Context, k *kind, id string, priority int) error {
	_, err := s.command(ctx, "", "sqlite3", "-bail", "-batch", "-cmd", ".timeout 15000", "-cmd", "PRAGMA wal_autocheckpoint=0", s.n.g.database(),
		fmt.Sprintf("INSERT INTO tasks(task_id,task_type,payload,max_retry,priority) VALUES('%s','%s','%s',%d,%d)",
			id, k.typ, s.payloadOf(k, id), k.maxRetry(), priority))
	return err
}

func (s *submitter) byCLI(ctx context.Context) {
	k := s.pick()
	if k.typ == "fetch_data" { // its file's name is made of an id that is not known before
		k = &kinds[0]
	}
	out, err := s.nightshift(ctx, "", "add", k.typ, "--payload", s.payloadOf(k, ""), "--max-retry", fmt.Sprint(k.maxRetry()))
	s.answer(err, "cli", accepted{id: strings.TrimSpace(out), kind: k})
}

func (s *submitter) byBatch(ctx context.Context) {
	var lines strings.Builder
	var batch []accepted
	for range 1 + s.rng.IntN(6) {
		k := s.pick()
		id := s.newID(k)
		batch = append(batch, accepted{id: id, kind: k})
		fmt.Fprintf(&lines, `{"type":%q,"id":%q,"payload":%s,"max_retry":%d}`+"\n", k.typ, id, s.payloadOf(k, id), k.maxRetry())
	}
	_, err := s.nightshift(ctx, lines.String(), "add", "--batch", "-")
	s.answer(err, "batch", batch...)
}

func (s *submitter) nightshift(ctx context.Context, stdin string, args ...string) (string, error) {
	return s.command(ctx, stdin, append([]string{filepath.Join(s.n.g.bin, "nightshift"), "--config", s.n.g.config()}, args...)...)
}

func (s *submitter) command(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// answer notes what was accepted, and on a refusal rests a little.
func (s *submitter) answer(err error, via string, tasks ...accepted) {
	if err != nil {
		s.n.g.log("refused.log", err.Error())
		time.Sleep(100 * time.Millisecond)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines bytes.Buffer
	for i := range tasks {
		tasks[i].via = via
		fmt.Fprintf(&lines, "%s %s %s\n", tasks[i].id, tasks[i].kind.name, via)
	}
	if _, err := s.acks.Write(lines.Bytes()); err != nil {
		panic("night: ack log: " + err.Error())
	}
	if err := s.acks.Sync(); err != nil {
		panic("night: ack log: " + err.Error())
	}
	s.list = append(s.list, tasks...)
}

// all is what was accepted so far.
func (s *submitter) all() []accepted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]accepted(nil), s.list...)
}

func (s *submitter) figures() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("accepted=%d", len(s.list))
}

// log appends a line to a file of the evidence.
func (g *ground) log(name, line string) {
	f, err := os.OpenFile(g.out(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic("night: " + err.Error())
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", time.Now().Format("15:04:05.000"), line); err != nil {
		panic("night: " + err.Error())
	}
}
