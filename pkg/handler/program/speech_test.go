package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/pkg/handler"
)

// talk is a program's end of descriptor 3, in the test's own hand.
type talk struct {
	t    *testing.T
	conn *os.File
	in   *bufio.Reader
	s    *speech
}

func talkTo(t *testing.T, tr *trial) *talk {
	t.Helper()
	ch, err := openChannels()
	if err != nil {
		t.Fatal(err)
	}
	closePair([2]int{ch.ours[0], ch.ours[1]})
	closePair([2]int{ch.theirs[0], ch.theirs[1]})
	s := newSpeech(context.Background(), ch.ours[2], handler.NewTask(&tr.row, tr.dir, tr.log, tr.rec, nil))
	s.listen()
	conn := os.NewFile(uintptr(ch.theirs[2]), "descriptor 3")
	t.Cleanup(func() {
		conn.Close()
		s.hush()
		s.close()
	})
	return &talk{t, conn, bufio.NewReader(conn), s}
}

func (k *talk) say(text string) {
	k.t.Helper()
	if _, err := k.conn.WriteString(text); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hear() string {
	k.t.Helper()
	line, err := k.in.ReadString('\n')
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func TestProtocol(t *testing.T) {
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	cases := []struct{ name, say, hear string }{
		{"checkpoint and progress", `{"checkpoint":{"n":1},"progress":"1/2"}`, `{"ok":true}`},
		{"checkpoint alone", `{"checkpoint":[1]}`, `{"ok":true}`},
		{"progress alone", `{"progress":"half"}`, `{"ok":true}`},
		{"null is a checkpoint", `{"checkpoint":null}`, `{"ok":true}`},
		{"white space", " \t{ \"checkpoint\" : 1 } \r", `{"ok":true}`},
		{"still mine", `{"ask":"still-mine"}`, `{"ok":true}`},
		{"the last checkpoint", `{"ask":"checkpoint"}`, `{"checkpoint":{"start":0}}`},
		{"no JSON", `hello`, `{"error":"the line is not a JSON object: invalid character 'h' looking for beginning of value"}`},
		{"no object", `[1]`, `{"error":"the line is not a JSON object:`},
		{"half an object", `{"checkpoint":{`, `{"error":"the line is not a JSON object: unexpected end of JSON input"}`},
		{"two objects", `{"progress":"a"}{"progress":"b"}`, `{"error":"the line is not a JSON object: invalid character '{' after top-level value"}`},
		{"misspelt", `{"chekpoint":1}`, `{"error":"unknown key \"chekpoint\"; known are \"checkpoint\", \"progress\" and \"ask\""}`},
		{"other case", `{"Checkpoint":1}`, `{"error":"unknown key`},
		{"nothing", `{}`, `{"error":"the line says nothing`},
		{"progress as a number", `{"progress":7}`, `{"error":"progress is 7, and must be a string"}`},
		{"unknown question", `{"ask":"time"}`, `{"error":"ask is \"time\", and must be`},
		{"question and statement", `{"ask":"still-mine","progress":"x"}`, `{"error":"\"ask\" stands alone in its line"}`},
		{"bad UTF-8", "{\"checkpoint\":\"\xff\"}", `{"error":"the line is not valid UTF-8"}`},
		{"too deep for the database", `{"checkpoint":` + deep + `}`, `{"error":"the checkpoint is nested more than 1000 deep"}`},
		{"exactly 1 MiB", `{"checkpoint":"` + strings.Repeat("x", 1<<20-2) + `"}`, `{"ok":true}`},
		{"1 MiB and one byte", `{"checkpoint":"` + strings.Repeat("x", 1<<20-1) + `"}`, `{"error":"checkpoint is larger than 1048576 bytes"}`},
		{"a line of 3 MiB", `{"checkpoint":"` + strings.Repeat("x", 3<<20) + `"}`, `{"error":"the line is longer than`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tr := sh(t, "")
			tr.row.Checkpoint = "{\"start\":0}"
			k := talkTo(t, tr)
			k.say(c.say + "\n")
			if got := k.hear(); !strings.HasPrefix(got, c.hear) {
				t.Errorf("the reply is %.200s, want %s", got, c.hear)
			}
			k.say(`{"progress":"and on"}` + "\n") // the talk goes on after anything
			if got := k.hear(); got != `{"ok":true}` {
				t.Errorf("then %s", got)
			}
		})
	}
}

func TestEveryReplyIsOneLineOfJSON(t *testing.T) {
	tr := sh(t, "")
	tr.row.Checkpoint = "{\n\"id\": 9007199254740993,\r\n\"s\": \"☾\\n\" }"
	tr.rec.answer = func(context.Context, int) error { return errors.New("a \"strange\"\nerror \x01") }
	k := talkTo(t, tr)
	k.say(`{"ask":"checkpoint"}` + "\n")
	if got, want := k.hear(), `{"checkpoint":{ "id": 9007199254740993,  "s": "☾\n" }}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	k.say(`{"checkpoint":1}` + "\n")
	var reply struct{ Error string }
	if got := k.hear(); json.Unmarshal([]byte(got), &reply) != nil || reply.Error != "a \"strange\"\nerror \x01" {
		t.Errorf("got %s", got)
	}
}

// The bytes that were said are the bytes that are stored (IN-05).
func TestIN05CheckpointIsNotReencoded(t *testing.T) {
	tr := sh(t, "")
	k := talkTo(t, tr)
	for _, state := range []string{
		`{"id":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e400}`,
		`{"b":1, "a":2,"a":3}`, `"\ud800\u0000<&>"`, `-0.0`, `{"夜":"☾"}`,
	} {
		k.say(`{"progress":"x", "checkpoint":` + state + "}\n")
		k.hear()
		if got := tr.rec.last(); got != state {
			t.Errorf("stored %s, want %s", got, state)
		}
		k.say(`{"ask":"checkpoint"}` + "\n")
		if got := k.hear(); got != `{"checkpoint":`+state+`}` {
			t.Errorf("asked for: %s", got)
		}
	}
}

func TestLinesInAnyPieces(t *testing.T) {
	tr := sh(t, "")
	k := talkTo(t, tr)
	text := strings.Repeat(`{"checkpoint":{"n":1},"progress":"☾"}`+"\n\n\r\n", 3)
	for i := range len(text) {
		k.say(text[i : i+1])
	}
	for range 3 {
		if got := k.hear(); got != `{"ok":true}` {
			t.Errorf("got %s", got)
		}
	}
	k.say(`{"checkpoint":`) // and never the rest
	k.conn.Close()
	<-k.s.quiet
	if n := len(tr.rec.progress); n != 3 {
		t.Errorf("%d checkpoints, want 3: half a line is none", n)
	}
}

// A program may write everything first and read all the replies then.
func TestManyLinesBeforeTheFirstReply(t *testing.T) {
	tr := sh(t, "")
	k := talkTo(t, tr)
	const n = 20_000
	go func() {
		for i := range n {
			fmt.Fprintf(k.conn, "{\"checkpoint\":%d}\n", i)
		}
	}()
	until(t, "all are stored", func() bool { return tr.rec.last() == fmt.Sprint(n-1) })
	for i := range n {
		if got := k.hear(); got != `{"ok":true}` {
			t.Fatalf("reply %d is %s", i, got)
		}
	}
}

// One that never reads is never blocked by that, and costs bounded memory.
func TestRepliesThatNobodyReads(t *testing.T) {
	tr := sh(t, "")
	const n = 200_000
	tr.rec.answer = func(_ context.Context, i int) error {
		if i <= n {
			return nil
		}
		return handler.ErrPaused
	}
	k := talkTo(t, tr)
	for i := range n / 100 {
		var b strings.Builder
		for j := range 100 {
			fmt.Fprintf(&b, "{\"progress\":\"%d\"}\n", i*100+j)
		}
		k.say(b.String())
	}
	k.say(`{"progress":"last"}` + "\n")
	until(t, "it is told", func() bool { return len(k.s.told) == 1 })
	k.s.mu.Lock()
	kept, dropped := len(k.s.unsent), k.s.dropped
	k.s.mu.Unlock()
	if kept > maxReplies+100 || dropped == 0 {
		t.Errorf("%d bytes of replies are kept, %d dropped", kept, dropped)
	}
	if !k.s.unread() {
		t.Error("nobody notices that it does not read")
	}
	last := ""
	for !strings.Contains(last, "stop") { // whole lines only, and the stop among them
		last = k.hear()
		if last != `{"ok":true}` && last != `{"stop":"pause"}` {
			t.Fatalf("heard %q", last)
		}
	}
}

// A line without an end costs no memory (IN-06).
func TestIN06LineWithoutEnd(t *testing.T) {
	tr := sh(t, "")
	k := talkTo(t, tr)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := strings.Repeat("x", 1<<20)
	for range 50 {
		k.say(chunk)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 20<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	k.say("\n")
	if got := k.hear(); !strings.HasPrefix(got, `{"error":"the line is longer than`) {
		t.Errorf("got %s", got)
	}
}

func TestRefusedLinesAreToldInTheSummary(t *testing.T) {
	o := sh(t, `echo garbage >&3; read -r a <&3; echo "$a"`).run()
	if o.err != nil || !strings.Contains(o.Summary, "a line on descriptor 3 was refused: the line is not a JSON object") {
		t.Errorf("summary %q, error %v", o.Summary, o.err)
	}
	sh(t, `echo '{"chekpoint":1}' >&3; echo x >&3; exit 3`).run().want(t, "retry", "exit 3; 2 lines on descriptor 3 were refused, the last: ")
}

// A child of the program speaks for it, with the descriptor that it inherits.
func TestGrandchildSpeaks(t *testing.T) {
	tr := sh(t, `sh -c 'echo "{\"checkpoint\":1}" >&3; read -r a <&3; echo "$a"'; sh -c 'sh -c "echo {\\\"ask\\\":\\\"checkpoint\\\"} >&3"; read -r a <&3; echo "$a"'`)
	tr.run().wantResult(t, `{"checkpoint":1}`)
}

func TestLO01FloodNeitherBlocksNorKills(t *testing.T) {
	began := time.Now()
	tr := sh(t, `dd if=/dev/zero bs=1M count=200 2>/dev/null; echo; echo end`)
	tr.log = nil
	p, err := New(tr.cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := &serialCounter{}
	result, err := p.Run(context.Background(), handler.NewTask(&tr.row, tr.dir, n, tr.rec, tr.stop))
	if err != nil || string(result.(handler.Report).Result) != `"end"` || n.n != 200<<20+5 {
		t.Errorf("result %v, error %v, %d bytes in the log", result, err, n.n)
	}
	t.Logf("200 MiB of output took %v", time.Since(began))
}

// serialCounter counts what two streams write.
type serialCounter struct {
	mu sync.Mutex
	n  int64
}

func (c *serialCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += int64(len(p))
	return len(p), nil
}
