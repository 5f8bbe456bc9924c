//go:build linux

package store

import (
	"sync"
	"testing"
	"time"
)

// await waits for a signal.
func await(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: no signal", what)
	}
}

// A store that writes without a pause looks at each BEGIN who else has committed,
// and not at each event that its own pages make.
func TestChangesOfOthersAreSeenByABusyWriter(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path, Clock: time.Now})
	changes := s.Changes()
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				mustAdd(t, s, NewTask{})
			}
		}
	})
	other := newStore(t, Options{Path: path, Clock: time.Now})
	for range 20 {
		for len(changes) > 0 {
			<-changes
		}
		mustAdd(t, other, NewTask{})
		await(t, changes, "beside a busy writer")
	}
	close(stop)
	busy.Wait()
}

// A commit of our own is told too, once it is quiet: a part of the process that
// waits for changes need not know who makes them.
func TestChangesOfOurOwnAreSeen(t *testing.T) {
	s := newStore(t, Options{Clock: time.Now})
	changes := s.Changes()
	for range 3 {
		for quiet := false; !quiet; {
			select {
			case <-changes:
			case <-time.After(50 * time.Millisecond):
				quiet = true
			}
		}
		mustAdd(t, s, NewTask{})
		await(t, changes, "of our own")
	}
}

// The connections of our own process are no strangers: no room is made for them.
func TestOurOwnConnectionsAreNoGuests(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path, Clock: time.Now})
	changes := s.Changes()
	for deadline := time.Now().Add(20 * time.Second); !s.guests.watched.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody watches")
		}
	}
	var wg sync.WaitGroup
	for range 2 * maxReaders {
		wg.Go(func() {
			if _, err := s.Count(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	mustAdd(t, s, NewTask{})
	await(t, changes, "of our own")
	if n := s.guests.here.Load(); n != 0 {
		t.Errorf("%d guests, nobody but us has opened the file", n)
	}
	stranger, err := openConn(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); s.guests.here.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a stranger was not seen")
		}
	}
	if err := stranger.close(); err != nil {
		t.Fatal(err)
	}
}

// Neighbours open the file at their start, and stay. They must not be counted with a
// stranger who comes later: everyone would make room long after he has left.
func TestNeighboursThatStayAreNoGuests(t *testing.T) {
	var g guests
	now := time.Now()
	for i := range 4 {
		g.came(now.Add(time.Duration(i) * time.Millisecond))
	}
	g.came(now.Add(2 * guestTime))
	if n := g.here.Load(); n != 1 {
		t.Errorf("%d guests, want the one who has just come", n)
	}
	g.left()
	if n := g.here.Load(); n != 0 {
		t.Errorf("%d guests after the last one has left", n)
	}
}
