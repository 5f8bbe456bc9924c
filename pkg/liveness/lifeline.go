package liveness

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// What a worker says on its lifeline, one byte a second, written without blocking from the
// loop that does its work (so that a byte means progress, not that some ticker lives).
// Anything else is noise and no sign of life.
const (
	SaysReady    = 'R' // once, after recovery and before the first claim
	SaysAlive    = '.'
	SaysStalled  = 'B' // alive, but the database does not answer: nobody is to be killed for that
	SaysDraining = 'D'
)

// floodPause slows the reading from a worker that writes faster than the protocol.
const floodPause = 100 * time.Millisecond

// Lifeline is the supervisor's end of one worker's pipe. The worker reads its supervisor's
// death from the same pipe (EPIPE). Safe for use by one owner beside its own goroutine.
type Lifeline struct {
	pipe  *os.File
	clock func() time.Duration
	news  chan<- struct{}
	heard atomic.Int64
	ready atomic.Bool
	state atomic.Uint32
}

// NewLifeline makes the pipe. The worker's end is to be passed to it and closed here. news
// (buffered) gets a value when what the worker says changes. Follow must be started.
func NewLifeline(clock func() time.Duration, news chan<- struct{}) (l *Lifeline, workersEnd *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make lifeline: %w", err)
	}
	l = &Lifeline{pipe: r, clock: clock, news: news}
	l.heard.Store(int64(clock()))
	return l, w, nil
}

// Follow reads until the pipe ends or is closed.
func (l *Lifeline) Follow() {
	defer l.pipe.Close()
	buf := make([]byte, 64)
	for {
		n, err := l.pipe.Read(buf)
		for _, b := range buf[:n] {
			l.take(b)
		}
		if err != nil {
			return
		}
		if n == len(buf) {
			time.Sleep(floodPause)
		}
	}
}

func (l *Lifeline) take(b byte) {
	if !bytes.Contains([]byte{SaysReady, SaysAlive, SaysStalled, SaysDraining}, []byte{b}) {
		return
	}
	ready := l.ready.Load() || b == SaysReady
	if ready || b == SaysStalled { // a start that beats without getting ready does not count
		l.heard.Store(int64(l.clock()))
	}
	changed := !l.ready.Swap(ready) && ready
	if l.state.Swap(uint32(b)) != uint32(b) || changed {
		poke(l.news)
	}
}

// poke leaves word that there is news, unless there is such word already.
func poke(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// Heard is when the last sign of life came, by the clock given. Ready and State are what
// the worker has said: ever, and last (0: nothing yet).
func (l *Lifeline) Heard() time.Duration { return time.Duration(l.heard.Load()) }

// Ready says whether the worker was ever ready.
func (l *Lifeline) Ready() bool { return l.ready.Load() }

// State is the last byte, 0 before the first.
func (l *Lifeline) State() byte { return byte(l.state.Load()) }

// Word is what people are told of the state: "" when all is well.
func (l *Lifeline) Word() string {
	switch l.State() {
	case SaysStalled:
		return "the database does not answer"
	case SaysDraining:
		return "draining"
	}
	return ""
}

// Close ends Follow.
func (l *Lifeline) Close() { l.pipe.Close() }
