package logging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"nightshift/pkg/task"
)

// Bounds of a sink's queue. 4 MiB holds some seconds of a flood; more would only
// be lost later, and cost a worker memory while its disk is in trouble.
const (
	maxQueuedBytes = 4 << 20
	maxQueuedLines = 32 << 10
)

// putPatience is how long a caller waits for room in a full queue while lines do
// leave it: a disk that is merely slower than a burst loses nothing. Once a wait
// was in vain nobody waits again until a line has been written.
const putPatience = 100 * time.Millisecond

// tickEvery is how often a file is looked after: what was deleted or moved away
// is let go of after this at the latest.
const tickEvery = 5 * time.Second

// reconfigureWithin bounds how long a Reload waits for a disk.
const reconfigureWithin = 5 * time.Second

// target is where a sink's lines end: a rotating file or a stream. Only the
// sink's goroutine calls it, path excepted.
type target interface {
	write(lines []byte) (n int, err error)
	tick() // tickEvery apart
	close()
	path() string
}

// sink is a bounded queue, and one goroutine that writes it to a target.
type sink struct {
	dropped atomic.Int64 // lines that were never written, told or not

	mu     sync.Mutex
	queue  []item
	bytes  int
	closed bool
	lost   lost

	target  target
	every   time.Duration // between two ticks
	stalled atomic.Bool   // a caller waited in vain and nothing was written since
	wake    chan struct{} // capacity 1: there is something to do
	room    chan struct{} // capacity 1: lines have left the queue
	done    chan struct{} // closed when the goroutine has ended
}

// item is a line, or something to do between the lines.
type item struct {
	line []byte
	do   func()
}

// lost is what was dropped and has not been told yet.
type lost struct {
	lines int64
	since time.Time
	err   error
}

// errQueueFull is why a line is dropped that never reached the disk.
var errQueueFull = errors.New("the disk does not follow")

func startSink(t target, every time.Duration) *sink {
	s := &sink{target: t, every: every, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *sink) path() string { return s.target.path() }

// put queues a line, or drops it.
func (s *sink) put(line []byte) {
	if s.offer(line) {
		return
	}
	if !s.stalled.Load() {
		patience := time.NewTimer(putPatience)
		defer patience.Stop()
		for waiting := true; waiting; {
			select {
			case <-s.room:
				if s.offer(line) {
					return
				}
			case <-s.done:
				waiting = false
			case <-patience.C:
				waiting = false
			}
		}
		s.stalled.Store(true)
	}
	s.drop(errQueueFull)
}

// offer queues a line when there is room.
func (s *sink) offer(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) >= maxQueuedLines || s.bytes+len(line) > maxQueuedBytes {
		return false
	}
	s.queue = append(s.queue, item{line: line})
	s.bytes += len(line)
	signal(s.wake)
	return true
}

func (s *sink) drop(err error) {
	s.dropped.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.lines == 0 {
		s.lost.since = time.Now()
	}
	s.lost.lines++
	s.lost.err = err
}

// call runs f on the sink's goroutine after the lines that are queued now; false
// when it did not come to that within d.
func (s *sink) call(f func(), d time.Duration) bool {
	ran := make(chan struct{})
	s.mu.Lock()
	if !s.closed {
		s.queue = append(s.queue, item{do: func() { f(); close(ran) }})
	}
	s.mu.Unlock()
	signal(s.wake)
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ran:
		return true
	case <-s.done:
		return false
	case <-timer.C:
		return false
	}
}

func (s *sink) flush(d time.Duration) bool { return s.call(func() {}, d) }

// reconfigure hands new settings to the file, between two lines.
func (s *sink) reconfigure(path string, maxSize int64, maxBackups int) error {
	f, ok := s.target.(*file)
	if !ok {
		return nil
	}
	answer := make(chan error, 1)
	if !s.call(func() { answer <- f.reconfigure(path, maxSize, maxBackups) }, reconfigureWithin) {
		return fmt.Errorf("its writer did not answer within %s", reconfigureWithin)
	}
	return <-answer
}

// close ends the sink after what is queued; false when that took longer than d.
func (s *sink) close(d time.Duration) bool {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
		return false
	}
}

// run is the sink's goroutine: it writes until it is closed and empty.
func (s *sink) run() {
	defer close(s.done)
	defer s.target.close()
	next := func() time.Duration { return task.OnSecond(time.Now(), s.every) }
	tick := time.NewTimer(next())
	defer tick.Stop()
	look := func() {
		s.target.tick()
		s.tell()
		tick.Reset(next())
	}
	for {
		batch, closed := s.take()
		for rest := batch; len(rest) > 0; {
			if rest[0].do != nil {
				rest[0].do()
				rest = rest[1:]
				continue
			}
			lines, n := join(rest)
			s.write(lines, n)
			rest = rest[n:]
		}
		if len(batch) == 0 && closed {
			s.tell()
			return
		}
		select {
		case <-tick.C:
			look()
			continue
		default:
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-tick.C:
			look()
		}
	}
}

// batchLines bounds a batch, so that a flood does not keep the tick waiting.
const batchLines = 256

func (s *sink) take() (batch []item, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), batchLines)
	batch = append(batch, s.queue[:n]...)
	clear(s.queue[:n])
	s.queue = s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil // let go of the array that a flood has grown
	}
	for i := range batch {
		s.bytes -= len(batch[i].line)
	}
	if n > 0 {
		signal(s.room)
	}
	return batch, s.closed
}

// join puts lines that follow one another together, as many as fit into the length
// of one: a drain logs ten thousand lines a second, and each write is a system call.
func join(items []item) (lines []byte, n int) {
	size := 0
	for n < len(items) && items[n].do == nil && (n == 0 || size+len(items[n].line) <= MaxLine) {
		size += len(items[n].line)
		n++
	}
	if n == 1 {
		return items[0].line, 1
	}
	lines = make([]byte, 0, size)
	for _, it := range items[:n] {
		lines = append(lines, it.line...)
	}
	return lines, n
}

// write writes n lines, after telling what was dropped before them.
func (s *sink) write(lines []byte, n int) {
	s.tell()
	written, err := s.target.write(lines)
	if err != nil {
		for range n - bytes.Count(lines[:written], []byte("\n")) {
			s.drop(err)
		}
		return
	}
	s.stalled.Store(false)
}

// tell writes how many lines were dropped, once that is possible again.
func (s *sink) tell() {
	s.mu.Lock()
	l := s.lost
	s.mu.Unlock()
	if l.lines == 0 {
		return
	}
	now := time.Now().UTC()
	note := fmt.Sprintf("%s [WARN]  logging: log lines dropped: lines=%d since=%s err=%q",
		now.Format(timeFormat), l.lines, l.since.UTC().Format(timeFormat), l.err.Error())
	if _, err := s.target.write(Line([]byte(note))); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.lines -= l.lines; s.lost.lines == 0 {
		s.lost = lost{}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stream is a target without a file: the worker's stderr.
type stream struct{ w io.Writer }

func (t stream) write(lines []byte) (int, error) { return t.w.Write(lines) }
func (t stream) tick()                           {}
func (t stream) close()                          {}
func (t stream) path() string                    { return "console" }
