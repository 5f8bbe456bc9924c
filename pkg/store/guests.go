package store

import (
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
	watched atomic.Bool  // came and left are told
	ours    atomic.Int64 // openings of this process that came has not been told of yet
	here    atomic.Int64 // opened less closed, as far as the watcher saw
	until   atomic.Int64 // when the last one has had its time, in Unix nanoseconds
}

// opens announces that this process opens the file.
func (g *guests) opens() {
	if g.watched.Load() {
		g.ours.Add(1)
	}
}

// came is told of each opening of the file, of our own process too: for one that is
// expected no room is made. (Every worker opens connections at its start and when it
// first reads; for 5 s after each of them it halved its own pace.)
func (g *guests) came(now time.Time) {
	for n := g.ours.Load(); n > 0; n = g.ours.Load() {
		if g.ours.CompareAndSwap(n, n-1) {
			return
		}
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
