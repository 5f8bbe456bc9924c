package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// Limits of what a program may say on descriptor 3.
const (
	maxLine     = task.MaxJSONBytes + 64<<10 // a checkpoint at its limit, and the words around it
	maxProgress = 1 << 10                    // one line for people
	maxReplies  = 1 << 20                    // unread replies that are kept for a program that writes first and reads later
	maxDepth    = 1000                       // nesting that SQLite's JSON functions take
)

// speech is the talk with one program on descriptor 3: it says one line of JSON
// and reads one line back.
//
//	{"checkpoint": …, "progress": "6000/10000"}   either may be left out
//	{"ask": "still-mine"}
//	{"ask": "checkpoint"}
//
// The replies are {"ok":true}, once what was said is durable; {"stop":"cancel"},
// "pause", "shutdown" or "lost"; {"checkpoint":…} to the second question; and
// {"error":"…"}, after which the program may go on. A checkpoint is kept as the
// very bytes that were said.
type speech struct {
	ctx   context.Context
	end   context.CancelFunc // gives up a checkpoint that waits for the disk
	fd    int
	conn  *os.File // the same, once somebody listens
	task  *handler.Task
	said  atomic.Bool // something was understood: the program knows descriptor 3
	told  chan error  // what the first stop reply said
	quiet chan struct{}
	held  bool // somebody still has the other end open; read after quiet

	line     []byte // what came so far of a line
	skipping bool   // the rest of a line over the limit
	stopped  bool   // a stop was replied
	refused  int
	refusal  string // why the last line was refused

	mu      sync.Mutex // replies may wait for their reader in a goroutine
	unsent  []byte
	sending bool
	dropped int
	wg      sync.WaitGroup
}

func newSpeech(ctx context.Context, fd int, t *handler.Task) *speech {
	s := &speech{fd: fd, task: t, told: make(chan error, 1), quiet: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(ctx)
	return s
}

// buffers are shared by all programs: most say nothing.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// listen hears and answers from now on until hush.
func (s *speech) listen() {
	s.conn = os.NewFile(uintptr(s.fd), "descriptor 3 of a program")
	go s.run()
}

// run listens until the program and its descendants have closed the socket, or
// until hush; what was said by then is heard.
func (s *speech) run() {
	defer close(s.quiet)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := s.conn.Read(*buf)
		s.hear((*buf)[:n])
		if err != nil {
			s.held = errors.Is(err, os.ErrDeadlineExceeded)
			break
		}
	}
	if s.held {
		atOnce(s.conn, func(fd int) { drain(fd, *buf, s.hear) })
	}
}

// nothingSaid reports that nobody has said anything so far, and nobody can any more.
func (s *speech) nothingSaid() bool {
	n, _, err := syscall.Recvfrom(s.fd, make([]byte, 1), syscall.MSG_PEEK)
	return n == 0 && err == nil
}

// hush ends listening and waits for the end of what is being heard.
func (s *speech) hush() {
	// It fails only on a closed file, and that is closed below.
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	<-s.quiet
}

// close is called after hush; a reply still unread will not be read any more. It
// reports whether everybody had closed the socket before.
func (s *speech) close() (atEnd bool) {
	s.end()
	s.conn.Close()
	s.wg.Wait()
	return !s.held
}

// hear cuts what was said into lines. A last line without its end was not said.
func (s *speech) hear(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.keep(p)
			return
		}
		s.keep(p[:i])
		p = p[i+1:]
		if s.skipping {
			s.skipping = false
			s.refuse(fmt.Errorf("the line is longer than %d bytes", maxLine))
		} else if line := bytes.TrimSpace(s.line); len(line) > 0 {
			s.answer(line)
		}
		s.line = s.line[:0]
		if cap(s.line) > 64<<10 {
			s.line = nil // one large checkpoint must not hold its memory for hours
		}
	}
}

func (s *speech) keep(p []byte) {
	if s.skipping {
		return
	}
	if len(s.line)+len(p) > maxLine {
		s.skipping, s.line = true, nil
		return
	}
	s.line = append(s.line, p...)
}

// message is what one line says.
type message struct {
	checkpoint json.RawMessage // nil: none
	progress   string
	ask        string
}

// understand is strict: a misspelt key would mean a checkpoint that never was.
func understand(line []byte) (m message, err error) {
	if !utf8.Valid(line) {
		return m, errors.New("the line is not valid UTF-8")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return m, fmt.Errorf("the line is not a JSON object: %w", err)
	}
	if len(fields) == 0 {
		return m, errors.New(`the line says nothing: give it "checkpoint", "progress" or "ask"`)
	}
	for key, value := range fields {
		switch key {
		case "checkpoint":
			m.checkpoint = value
			if len(value) > task.MaxJSONBytes {
				err = handler.ErrTooLarge
			} else if depth(value) > maxDepth {
				err = fmt.Errorf("the checkpoint is nested more than %d deep", maxDepth)
			}
		case "progress":
			if json.Unmarshal(value, &m.progress) != nil {
				err = fmt.Errorf("progress is %.40s, and must be a string", value)
			}
			m.progress = cutText(m.progress, maxProgress)
		case "ask":
			if json.Unmarshal(value, &m.ask) != nil || (m.ask != "still-mine" && m.ask != "checkpoint") {
				err = fmt.Errorf(`ask is %.40s, and must be "still-mine" or "checkpoint"`, value)
			}
		default:
			err = fmt.Errorf(`unknown key %.40q; known are "checkpoint", "progress" and "ask"`, key)
		}
		if err != nil {
			return m, err
		}
	}
	if m.ask != "" && len(fields) > 1 {
		return m, errors.New(`"ask" stands alone in its line`)
	}
	return m, nil
}

// depth is how deep valid JSON is nested.
func depth(raw []byte) (deepest int) {
	level, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

func (s *speech) answer(line []byte) {
	m, err := understand(line)
	if err != nil {
		s.refuse(err)
		return
	}
	s.said.Store(true)
	switch m.ask {
	case "checkpoint":
		s.reply(`{"checkpoint":%s}`, oneLine(s.task.LastCheckpoint()))
		return
	case "still-mine":
		err = s.task.StillMine(s.ctx)
	default:
		var state any
		if m.checkpoint != nil {
			state = m.checkpoint
		}
		err = s.task.Checkpoint(s.ctx, state, m.progress)
	}
	switch {
	case err == nil:
		s.reply(`{"ok":true}`)
	case handler.IsStop(err):
		s.reply(`{"stop":%q}`, stopWord(err))
		if !s.stopped {
			s.stopped = true
			s.told <- err
		}
	default:
		s.refuse(err)
	}
}

// oneLine keeps every byte that counts: a line break in JSON stands between tokens.
func oneLine(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte("null")
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, raw)
}

// stopWord is the word of the protocol for a stop.
func stopWord(err error) string {
	switch {
	case errors.Is(err, handler.ErrCancelled):
		return "cancel"
	case errors.Is(err, handler.ErrPaused):
		return "pause"
	case errors.Is(err, handler.ErrStopping):
		return "shutdown"
	default:
		return "lost"
	}
}

func (s *speech) refuse(err error) {
	s.refused++
	s.refusal = err.Error()
	text, merr := json.Marshal(s.refusal)
	if merr != nil {
		text = []byte(`"refused"`) // a string always marshals
	}
	s.reply(`{"error":%s}`, text)
}

// reply sends a line without ever waiting for its reader: a program that only
// writes would wait for us meanwhile. What it does not read is kept up to a limit;
// beyond that replies are dropped, whole lines, except a stop.
func (s *speech) reply(format string, args ...any) {
	line := append(fmt.Appendf(nil, format, args...), '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending {
		if len(s.unsent)+len(line) > maxReplies && !s.mustArrive(line) {
			s.dropped++
			return
		}
		s.unsent = append(s.unsent, line...)
		return
	}
	n := sendNow(s.conn, line)
	if n < len(line) {
		s.unsent = append([]byte(nil), line[n:]...)
		s.sending = true
		s.wg.Add(1)
		go s.send()
	}
}

func (s *speech) mustArrive(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"stop"`)) && !s.stopped
}

// send delivers what could not be sent at once, as the program makes room.
func (s *speech) send() {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		chunk := s.unsent
		s.unsent = nil
		if len(chunk) == 0 {
			s.sending = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if _, err := s.conn.Write(chunk); err != nil {
			return // closed: sending stays true, so that nothing more is tried
		}
	}
}

// unread reports that replies wait for a program that does not read them.
func (s *speech) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sending || unreadBytes(s.conn) > 0
}

// remark is what the history says of a talk that went wrong.
func (s *speech) remark() string {
	switch {
	case s.refused == 1:
		return "a line on descriptor 3 was refused: " + s.refusal
	case s.refused > 1:
		return fmt.Sprintf("%d lines on descriptor 3 were refused, the last: %s", s.refused, s.refusal)
	default:
		return ""
	}
}
