package store

import "time"

const (
	// ownRest is how long after a write of our own the watcher goes on resting. A commit
	// is an event for each page, and a commit of ours tells us nothing: while we write,
	// our writer finds out itself who else has committed (it asks at each BEGIN), and a
	// look each 0.1 ms on another core took a quarter of a drain's speed.
	ownRest   = 5 * time.Millisecond
	lookFirst = 100 * time.Microsecond // after an event: 0.1, 0.2, 0.4 … ms
	lookMax   = time.Second            // then the scheduler's poll is the net
	pollEvery = 250 * time.Millisecond
)

// Changes returns a channel that is signalled after a commit of any process, the
// stock shell's included. Signals that nobody has taken yet become one. The first call
// starts the watching.
func (s *Store) Changes() <-chan struct{} {
	s.watchOnce.Do(func() {
		s.changes = make(chan struct{}, 1)
		s.watched.Store(true)
		s.wg.Go(s.watch)
	})
	return s.changes
}

func (s *Store) signal() {
	select {
	case s.changes <- struct{}{}:
	default: // one pending signal is enough
	}
}

// dataVersion tells whether anyone has committed since it was last asked. The number
// means something within one connection only.
type dataVersion struct {
	c    *conn
	last int64
}

var sqlDataVersion = define(`PRAGMA data_version`)

func (d *dataVersion) moved() (bool, error) {
	now := d.last
	if _, err := d.c.one(sqlDataVersion, func(r row) { now = r.int(0) }); err != nil {
		return false, err
	}
	moved := now != d.last
	d.last = now
	return moved, nil
}

// pinned opens a connection of the watcher's own.
func (s *Store) pinned() (*dataVersion, bool) {
	for {
		c, err := s.readConn()
		if err == nil {
			d := &dataVersion{c: c}
			if _, err = d.moved(); err == nil {
				return d, true
			}
			s.closeConn(c)
		}
		s.log.Warn("changes cannot be watched", "err", err)
		select {
		case <-s.closing:
			return nil, false
		case <-time.After(maintainEvery):
		}
	}
}

func (s *Store) closeConn(c *conn) {
	if err := c.close(); err != nil {
		s.log.Debug("close a connection", "err", err)
	}
}

// follow looks at data_version after each event. The event comes before the commit
// is visible (the frames are written first, the shared memory last, and one event can
// stand for two commits): so it looks again, each time after twice as long.
func (s *Store) follow(woken <-chan struct{}) {
	d, ok := s.pinned()
	if !ok {
		return
	}
	defer s.closeConn(d.c)
	look := time.NewTimer(0)
	defer look.Stop()
	pause := lookMax
	for {
		select {
		case <-s.closing:
			return
		case <-woken:
			pause = lookFirst
		case <-look.C:
			pause *= 2
		}
		if s.w != nil && s.w.lately(ownRest) {
			pause = lookFirst / 2 // from there when it is quiet
			look.Reset(ownRest)
			continue
		}
		moved, err := d.moved()
		if moved || err != nil { // an error: let the scheduler find out what is wrong
			s.signal()
		}
		if pause < lookMax {
			look.Reset(pause)
		}
	}
}

// poll is follow without events.
func (s *Store) poll() {
	d, ok := s.pinned()
	if !ok {
		return
	}
	defer s.closeConn(d.c)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
			if moved, err := d.moved(); moved || err != nil {
				s.signal()
			}
		}
	}
}
