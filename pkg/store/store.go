package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Options says how to open a store.
type Options struct {
	Path     string           // the database file; it must exist (Init makes it)
	RunDir   string           // holds turn.lock; "": run beside the database
	Logger   hclog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now
	ReadOnly bool             // no writer: writes return ErrReadOnly
	MaxWait  time.Duration    // how long a write waits for others; 0: for ever (workers)
	Ballast  string           // a file of ballastBytes that is given up when the disk is full; "": none
	// AllowNetworkFS opens a file on a network file system all the same, without WAL.
	AllowNetworkFS bool
}

// Limits of the store's own making.
const (
	busyTimeoutMS   = 250                    // SQLite's own patience; the writer repeats it until MaxWait
	groupOps        = 128                    // writes in one group commit (DESIGN §9)
	groupTime       = 50 * time.Millisecond  // and how long a group may take in more
	turnPatience    = time.Second            // after which the turn is passed on while a stranger holds the lock
	guestTime       = 5 * time.Second        // how long a stranger that has opened the database is made room for
	complainEvery   = time.Minute            // a wait is logged this often, with the holder
	openPatience    = 10 * time.Second       // for others that open, recover or migrate at the same moment
	maxReaders      = 4                      // read connections of a process
	maintainEvery   = 5 * time.Second        // how often file, WAL and ballast are looked at
	checkpointPages = 2000                   // PRAGMA wal_autocheckpoint: 8 MB of 4 KiB pages
	walLimit        = 16 << 20               // PRAGMA journal_size_limit, and from where on an idle WAL is truncated
	walWarn         = 64 << 20               // a reader pins the WAL: say so
	ballastBytes    = 16 << 20               // holds thousands of finishes
	settleFirst     = 100 * time.Millisecond // first pause before a barrier commit is tried again
	settleMax       = 5 * time.Second        // and the longest
)

// Store is one process's way into a database. Its methods may be called from any
// goroutine; a write returns after its COMMIT.
type Store struct {
	path   string // canonical
	opts   Options
	log    hclog.Logger
	clock  func() time.Time
	file   fileID
	wal    bool // false on a network file system
	hooks  hooks
	turn   *turnLock
	w      *writer // nil when read-only
	reads  readers
	full   atomic.Bool // the ballast is spent: claims pause
	guests guests
	failed atomic.Pointer[error]

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
	wg        sync.WaitGroup // the maintenance and change-watching goroutines

	watchOnce sync.Once
	watched   atomic.Bool // changes is there
	changes   chan struct{}
	// migrated says what Open had to migrate: nothing, or from which version.
	migrated struct {
		from   int
		backup string
	}
}

// Close waits for the writes in hand, answers the waiting ones with ErrClosed,
// and closes all connections.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		var errs []error
		if s.w != nil {
			errs = append(errs, s.w.close())
		}
		s.wg.Wait()
		errs = append(errs, s.reads.close())
		if s.turn != nil {
			errs = append(errs, s.turn.close())
		}
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("close %s: %w", s.path, err)
		}
	})
	return s.closeErr
}

// Path is the database's canonical path.
func (s *Store) Path() string { return s.path }

// Err is not nil once the store can never write again: its file was removed or
// replaced, or a newer program has migrated it. The process should end and start anew.
func (s *Store) Err() error {
	if e := s.failed.Load(); e != nil {
		return *e
	}
	return nil
}

// fail makes err the answer to every write from now on; the first one stays.
func (s *Store) fail(err error) error {
	if s.failed.CompareAndSwap(nil, &err) {
		s.log.Error("nothing is written any more", "path", s.path, "err", err)
	}
	return s.Err()
}

// DiskFull reports that the ballast is spent: finishes are still written, claims pause.
func (s *Store) DiskFull() bool { return s.full.Load() }

func (s *Store) runDir() string {
	if s.opts.RunDir != "" {
		return s.opts.RunDir
	}
	return filepath.Join(filepath.Dir(s.path), "run")
}
