package program

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// How much of a line is kept: a result may be a JSON value of the largest size, of
// stderr the history quotes a few words.
const (
	resultBytes    = 1 << 20
	lastWordsBytes = 1 << 10
)

// maxDrain bounds what is read after a program's end: more than a pipe or a socket
// holds (1 MiB for an unprivileged user).
const maxDrain = 2 << 20

// stream copies what a program prints into the log, and keeps its last line.
type stream struct {
	fd   int
	conn *os.File // the same, once somebody listens
	log  io.Writer
	last lastLine
	done chan struct{}
	held bool // somebody still has the other end open; read after done
}

func newStream(fd int, log io.Writer, keep int) *stream {
	return &stream{fd: fd, log: log, last: lastLine{max: keep}, done: make(chan struct{})}
}

// listen copies from now on until cut.
func (s *stream) listen() {
	s.conn = os.NewFile(uintptr(s.fd), "output of a program")
	go s.run()
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
	if s.held {
		atOnce(s.conn, func(fd int) { drain(fd, *buf, s.take) })
	}
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

// ended takes what a program printed that nobody has listened to, and reports
// whether that was all: everybody has closed the pipe.
func (s *stream) ended(buf []byte) bool { return drain(s.fd, buf, s.take) }

// cut takes what is in the pipe now and ends listening. It reports whether everybody
// had closed the pipe before.
func (s *stream) cut() (atEnd bool) {
	// It fails only on a closed file, and that is closed below.
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	<-s.done
	s.conn.Close()
	return !s.held
}

// sharedLog lets both streams write to a log that need not be safe for that.
type sharedLog struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// atOnce hands out the descriptor: no deadline is looked at, nothing waits.
func atOnce(f *os.File, use func(fd int)) {
	raw, err := f.SyscallConn()
	if err != nil {
		return // closed
	}
	// It fails only on a closed file.
	_ = raw.Control(func(fd uintptr) { use(int(fd)) })
}

// drain takes what can be read from a non-blocking descriptor at once, within
// bounds: a stray that writes on must not hold us. It reports the end of the stream.
func drain(fd int, buf []byte, take func([]byte)) (atEnd bool) {
	for got := 0; got < maxDrain; {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			return err == nil || err == syscall.ECONNRESET // it left our replies unread
		}
		take(buf[:n])
		got += n
	}
	return false
}
