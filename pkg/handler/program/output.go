package program

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// How much of a line is kept: a result may be a JSON value of the largest size, of
// stderr the history quotes a few words.
const (
	resultBytes    = 1 << 20
	lastWordsBytes = 1 << 10
)

// pipeBytes bounds what is read from a pipe after its program's end: its capacity
// (at most 1 MiB for an unprivileged user). A stray that writes on can't hold us.
const pipeBytes = 1 << 20

// stream copies what a program prints into the log, and keeps its last line.
type stream struct {
	conn *os.File
	log  io.Writer
	last lastLine
	done chan struct{}
	held bool // somebody still has the other end open; read after done
}

func newStream(conn *os.File, log io.Writer, keep int) *stream {
	return &stream{conn: conn, log: log, last: lastLine{max: keep}, done: make(chan struct{})}
}

// run copies until every process that holds the pipe has closed it, or until cut.
// The log never blocks, so the program is not held up by its own output.
func (s *stream) run() {
	defer close(s.done)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := s.conn.Read(*buf)
		s.take((*buf)[:n])
		if err != nil {
			s.held = errors.Is(err, os.ErrDeadlineExceeded)
			break
		}
	}
	rest(s.conn, *buf, pipeBytes, s.take)
}

func (s *stream) take(p []byte) {
	if len(p) == 0 {
		return
	}
	// An execution log reports success always; another writer's error must not
	// stop the program, whose result is told by its exit status.
	_, _ = s.log.Write(p)
	s.last.feed(p)
}

// cut takes what is in the pipe now and ends run. It reports whether everybody had
// closed the pipe before.
func (s *stream) cut() (atEnd bool) {
	// It fails only on a closed file, and that is closed below.
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	<-s.done
	s.conn.Close()
	return !s.held
}

// rest takes what can be read from f at once, at most limit bytes.
func rest(f *os.File, buf []byte, limit int, take func([]byte)) {
	raw, err := f.SyscallConn()
	if err != nil {
		return // closed
	}
	for got := 0; got < limit; {
		n := 0
		// Control, unlike Read, looks at no deadline and does not wait.
		if err := raw.Control(func(fd uintptr) { n = readNow(int(fd), buf) }); err != nil || n <= 0 {
			return
		}
		take(buf[:n])
		got += n
	}
}

// readNow reads from a non-blocking descriptor; 0: nothing there, or the end.
func readNow(fd int, buf []byte) int {
	for {
		n, err := syscall.Read(fd, buf)
		if err != syscall.EINTR {
			return max(n, 0)
		}
	}
}
