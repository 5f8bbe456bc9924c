package store

import (
	"errors"
	"fmt"
	"sync"
)

// readers keeps a few read-only connections warm.
type readers struct {
	s *Store

	mu     sync.Mutex
	back   *sync.Cond // a connection came back, or the store closes
	idle   []*conn
	open   int // idle ones and those in use
	closed bool
}

func (r *readers) init(s *Store) {
	r.s = s
	r.back = sync.NewCond(&r.mu)
}

// get takes an idle connection or opens one; with all in use it waits for one.
func (r *readers) get() (*conn, error) {
	r.mu.Lock()
	for len(r.idle) == 0 && r.open == maxReaders && !r.closed {
		r.back.Wait()
	}
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.open++
	r.mu.Unlock()
	c, err := r.s.readConn()
	if err != nil {
		r.mu.Lock()
		r.open--
		r.mu.Unlock()
		r.back.Signal()
	}
	return c, err
}

func (r *readers) put(c *conn) {
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	r.back.Signal()
}

// adopt takes over a connection that was opened elsewhere.
func (r *readers) adopt(c *conn) {
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	r.put(c)
}

// close waits until all connections are back and closes them.
func (r *readers) close() error {
	if r.back == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.back.Broadcast()
	for len(r.idle) < r.open {
		r.back.Wait()
	}
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.close())
	}
	r.idle, r.open = nil, 0
	return errors.Join(errs...)
}

func (s *Store) readConn() (c *conn, err error) {
	err = s.patiently(func() error {
		if c, err = s.guests.openOwn(s.path, true); err != nil {
			return err
		}
		// The first look at the file opens WAL and shared memory.
		if err = s.current(c); err == nil {
			err = configure(c, readSettings)
		}
		if err != nil {
			return errors.Join(err, c.close())
		}
		return nil
	})
	if err != nil {
		return nil, s.explain(err)
	}
	return c, nil
}

// current refuses a file that a newer program has migrated meanwhile.
func (s *Store) current(c *conn) error {
	version, err := s.version(c)
	if err == nil && version > schemaVersion {
		err = &NewerSchemaError{s.path, version, schemaVersion}
	}
	return err
}

// read runs do on a read connection, again when another process was recovering the
// file. do must finish its queries before it returns: an open one pins the WAL.
func (s *Store) read(what string, do func(c *conn) error) error {
	c, err := s.reads.get()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = s.patiently(func() error { return do(c) })
	s.reads.put(c)
	if err != nil {
		return fmt.Errorf("%s: %w", what, s.explainDamage(err))
	}
	return nil
}

// snapshot is read with one view of the database over several queries.
func (s *Store) snapshot(what string, do func(c *conn) error) error {
	return s.read(what, func(c *conn) (err error) {
		if err := c.script("BEGIN"); err != nil {
			return err
		}
		defer func() {
			if cerr := c.script("COMMIT"); err == nil {
				err = cerr
			}
		}()
		return do(c)
	})
}

// explainDamage names damage for what it is and leaves other errors as they came.
func (s *Store) explainDamage(err error) error {
	explained := s.explain(err)
	var corrupt *CorruptError
	var foreign *NotDatabaseError
	if errors.As(explained, &corrupt) || errors.As(explained, &foreign) {
		return explained
	}
	return err
}
