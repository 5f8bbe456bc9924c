package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// guests are strangers (a shell, a script) that have just opened the database. They
// do not know of turns: SQLite's busy handler looks again every so often, at first each
// few milliseconds, later each tenth of a second, and beside a writer that commits back
// to back it may not find the lock free once in its five seconds. While a stranger is
// there, the writer rests for a part of the time, with the turn in its hand, so that
// all our processes rest.
type guests struct {
	watched atomic.Bool                   // came and left are told
	here    atomic.Int64                  // opened less closed, as far as the watcher saw
	until   atomic.Int64                  // when the last one has had its time, in Unix nanoseconds
	opening sync.Mutex                    // one opening of our own at a time
	ours    atomic.Pointer[chan struct{}] // the one in hand: closed when came is told of it
}

// toldLimit bounds the wait for the kernel's word on an opening of our own: SQLite may
// have used an old descriptor again, or it was told as one with a stranger's.
const toldLimit = 100 * time.Millisecond

// openOwn opens a connection that is no guest: every worker opens some at its start and
// when it first reads, and would halve its own pace for 5 s after each. The kernel merges
// equal events, so that a count of openings would drift: each is waited for.
func (g *guests) openOwn(path string, readOnly bool) (*conn, error) {
	if !g.watched.Load() {
		return openConn(path, readOnly)
	}
	g.opening.Lock()
	defer g.opening.Unlock()
	told := make(chan struct{})
	g.ours.Store(&told)
	defer g.ours.Store(nil)
	c, err := openConn(path, readOnly)
	if err != nil {
		return nil, err
	}
	select {
	case <-told:
	case <-time.After(toldLimit):
	}
	return c, nil
}

// came is told of each opening of the file, of our own process too.
func (g *guests) came(now time.Time) {
	if told := g.ours.Swap(nil); told != nil {
		close(*told)
		return
	}
	g.here.Add(1)
	g.until.Store(now.Add(guestTime).UnixNano())
}

func (g *guests) left() {
	if g.here.Add(-1) < 0 {
		g.here.Store(0) // it had come before we watched
	}
}

const (
	restLeast = 200 * time.Microsecond
	restMost  = 2 * time.Millisecond
)

// rest leaves the write lock free for half as long as it was just held.
func (g *guests) rest(held time.Duration) {
	if g.here.Load() == 0 || time.Now().UnixNano() > g.until.Load() {
		return
	}
	time.Sleep(min(max(held/2, restLeast), restMost))
}
