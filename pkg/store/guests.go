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
	owed    time.Duration                 // of rest
}

// toldLimit bounds the wait for the kernel's word on an opening of our own: SQLite may
// have used an old descriptor again, or it was told as one with a stranger's.
const toldLimit = 100 * time.Millisecond

// openOwn opens a connection that is no guest: every worker opens some at its start and
// when it first reads, and would slow itself down for 5 s after each. The kernel merges
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
	if now.UnixNano() > g.until.Load() {
		g.here.Store(0) // the others have had their time, or are neighbours that stay
	}
	g.here.Add(1)
	g.until.Store(now.Add(guestTime).UnixNano())
}

func (g *guests) left() {
	if g.here.Add(-1) < 0 {
		g.here.Store(0) // it had come before we watched
	}
}

// A busy handler's 58 looks within 5 s fail all with a chance of 1 in 400,000 when a fifth
// of the time is free. Short sleeps take longer than they say: they are saved up.
const (
	restShare = 4 // of the time that the lock was held, one part in so many
	restLeast = 2 * time.Millisecond
	restMost  = 20 * time.Millisecond
)

// rest leaves the write lock free now and then, in proportion to how long it was held.
// Only the writer's goroutine calls it.
func (g *guests) rest(held time.Duration) {
	if g.here.Load() == 0 || time.Now().UnixNano() > g.until.Load() {
		g.owed = 0
		return
	}
	if g.owed += held / restShare; g.owed >= restLeast {
		time.Sleep(min(g.owed, restMost))
		g.owed = 0
	}
}
