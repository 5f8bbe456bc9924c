package store

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"nightshift/pkg/failpoint"
)

// op is one write. Its run may be called more than once (the group was rolled
// back, the outcome of a COMMIT was unknown) and starts from nothing each time.
type op struct {
	run func(c *conn) error
	// applied asks, after a COMMIT of unknown outcome, whether it took place; nil
	// when doing it again is harmless.
	applied func(c *conn) (bool, error)
	// outside runs without a transaction, with the turn held: a checkpoint, a VACUUM.
	outside bool
	// alone fills a group of its own: a batch.
	alone bool
	// points are the failpoints on either side of its COMMIT, without their endings.
	points []string

	err  error
	done chan struct{}
}

// writer is the one goroutine that writes, with the one connection it does so on.
type writer struct {
	s    *Store
	c    *conn
	ops  chan *op
	next *op // taken from ops, but for the next group
	end  chan struct{}

	mu     sync.RWMutex // held for reading while ops is sent to, for writing to close it
	closed bool

	commits atomic.Int64 // transactions so far
	worked  atomic.Int64 // when the last group was answered, in Unix nanoseconds; atWork: one is being served
	others  dataVersion  // what others have committed, as this connection sees it
	waiting atomic.Int64 // since when the write lock is waited for, in Unix nanoseconds; 0: it is not

	sick   string // the trouble that was last logged; "" when all is well
	sickAt time.Time
	errs   int // how often it came since
}

func startWriter(s *Store, c *conn) *writer {
	w := &writer{s: s, c: c, others: dataVersion{c: c}, ops: make(chan *op, 2*groupOps), end: make(chan struct{})}
	go w.loop()
	return w
}

// close answers what is queued with ErrClosed and ends the goroutine.
func (w *writer) close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.ops)
	}
	w.mu.Unlock()
	<-w.end
	return w.c.close()
}

// write queues an op and waits for its COMMIT. It cannot be cancelled: a write
// that was handed over is either done or answered with an error that says it is not
// (or, with ErrUnknown, that this could not be found out).
func (s *Store) write(what string, o *op) error {
	if s.w == nil {
		return fmt.Errorf("%s: %w", what, ErrReadOnly)
	}
	o.done = make(chan struct{})
	s.w.mu.RLock()
	if s.w.closed {
		s.w.mu.RUnlock()
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	s.w.ops <- o
	s.w.mu.RUnlock()
	<-o.done
	if o.err != nil {
		return fmt.Errorf("%s: %w", what, o.err)
	}
	return nil
}

func (o *op) answer(err error) {
	o.err = err
	close(o.done)
}

func (w *writer) loop() {
	defer close(w.end)
	group := make([]*op, 0, groupOps)
	for {
		first := w.next
		w.next = nil
		if first == nil {
			var ok bool
			if first, ok = <-w.ops; !ok {
				return
			}
		}
		group = append(group[:0], first)
		w.worked.Store(atWork)
		w.serve(&group)
		w.worked.Store(time.Now().UnixNano())
	}
}

const atWork = math.MaxInt64

// lately reports that a group is being served, or was less than d ago. Safe from
// any goroutine.
func (w *writer) lately(d time.Duration) bool {
	at := w.worked.Load()
	return at == atWork || time.Since(time.Unix(0, at)).Abs() < d // a clock that was set back counts as quiet
}

// noticeOthers signals when another connection has committed since our last
// transaction. A connection's own commits do not move its data_version.
func (w *writer) noticeOthers() error {
	if !w.s.watched.Load() {
		return nil
	}
	moved, err := w.others.moved()
	if moved {
		w.s.signal()
	}
	return err
}

// more takes one queued op that may join the group.
func (w *writer) more(group []*op) *op {
	if len(group) >= groupOps || w.next != nil || group[0].alone || group[0].outside {
		return nil
	}
	select {
	case o, ok := <-w.ops:
		if !ok {
			return nil
		}
		if o.alone || o.outside {
			w.next = o
			return nil
		}
		return o
	default:
		return nil
	}
}

// serve runs a group, once or as often as it takes, and answers its ops.
func (w *writer) serve(group *[]*op) {
	deadline := time.Time{}
	if w.s.opts.MaxWait > 0 {
		deadline = time.Now().Add(w.s.opts.MaxWait) // real time: the waits for other processes are real
	}
	for {
		err := w.attempt(group, deadline)
		if err == nil {
			w.well()
			break
		}
		again, err := w.react(err, group, deadline)
		if again {
			continue
		}
		for _, o := range *group {
			o.err = err
		}
		break
	}
	for _, o := range *group {
		o.answer(o.err)
	}
}

var (
	sqlBegin  = define(`BEGIN IMMEDIATE`)
	sqlCommit = define(`COMMIT`)
)

// unknown wraps the error of a COMMIT that may have taken place.
type unknown struct{ error }

func (u unknown) Unwrap() error { return u.error }

// attempt runs the group in one transaction. An error of an op's own goes into the
// op; what is returned concerns them all, and nothing was written, unless it is unknown.
func (w *writer) attempt(group *[]*op, deadline time.Time) (err error) {
	if err := w.s.Err(); err != nil {
		return err
	}
	if w.s.replaced() {
		return w.s.fail(&ReplacedError{w.s.path})
	}
	if err := w.begin((*group)[0].outside, deadline); err != nil {
		return err
	}
	held := time.Now()
	defer func() {
		if uerr := w.s.turn.unlock(); err == nil {
			err = uerr
		}
	}()
	if first := (*group)[0]; first.outside {
		first.err = first.run(w.c)
		return nil
	}
	if err := w.noticeOthers(); err != nil {
		return w.rolledBack(err)
	}
	if err := w.run(group); err != nil {
		return w.rolledBack(err)
	}
	pass(*group, "/before-commit")
	if _, err := w.c.exec(sqlCommit); err != nil {
		if definite(err) {
			return w.rolledBack(err)
		}
		return unknown{w.rolledBack(err)}
	}
	w.commits.Add(1)
	pass(*group, "/after-commit")
	w.s.guests.rest(time.Since(held))
	return nil
}

// pass hits the failpoints of a group's ops at one side of its COMMIT.
func pass(group []*op, side string) {
	for _, o := range group {
		for _, p := range o.points {
			failpoint.Hit(p + side)
		}
	}
}

// run runs the group's ops, and those that are queued meanwhile. The first one
// needs no savepoint: when it fails, the transaction holds nothing else yet.
func (w *writer) run(group *[]*op) error {
	began := time.Now()
	for i := 0; ; i++ {
		if i == len(*group) {
			if time.Since(began) > groupTime {
				return nil
			}
			o := w.more(*group)
			if o == nil {
				return nil
			}
			*group = append(*group, o)
		}
		o := (*group)[i]
		if i > 0 {
			if err := w.c.script("SAVEPOINT op"); err != nil {
				return err
			}
		}
		o.err = o.run(w.c)
		if o.err != nil && (w.c.c.AutoCommit() || !own(o.err)) {
			return o.err // the whole transaction is gone, or should be
		}
		end := ""
		switch {
		case i == 0 && o.err != nil:
			end = "ROLLBACK; BEGIN IMMEDIATE"
		case i > 0 && o.err != nil:
			end = "ROLLBACK TO op; RELEASE op"
		case i > 0:
			end = "RELEASE op"
		default:
			continue
		}
		if err := w.c.script(end); err != nil {
			return err
		}
	}
}

// own reports an error that concerns the op and not the database's state: the
// other ops of its group go on.
func own(err error) bool {
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return true
	}
	switch se.Code {
	case sqlite3.ErrConstraint, sqlite3.ErrTooBig, sqlite3.ErrMismatch, sqlite3.ErrError, sqlite3.ErrRange, sqlite3.ErrMisuse:
		return true
	}
	return false
}

// definite reports an error of a COMMIT after which it certainly did not take
// place. After an I/O error it may: the frames can be in the WAL without their
// fsync, and come back when the last process has died.
func definite(err error) bool {
	var se sqlite3.Error
	return errors.As(err, &se) && (se.Code == sqlite3.ErrBusy || se.Code == sqlite3.ErrFull || se.Code == sqlite3.ErrConstraint)
}

// rolledBack makes sure that no transaction is left open after err.
func (w *writer) rolledBack(err error) error {
	if w.c.c.AutoCommit() {
		return err
	}
	if rerr := w.c.script("ROLLBACK"); rerr != nil && !w.c.c.AutoCommit() {
		return errors.Join(err, rerr)
	}
	return err
}

// begin gets the turn and, unless outside, the write lock; the turn is held when
// it returns nil.
func (w *writer) begin(outside bool, deadline time.Time) error {
	began := time.Now()
	w.waiting.Store(began.UnixNano())
	defer w.waiting.Store(0)
	complain := func(waited time.Duration) {
		w.s.log.Warn("waiting to write", "waited", waited.Round(time.Second), "holder", w.s.holderText())
	}
	complained := began
	for {
		if err := w.s.turn.lock(deadline, w.s.closing, complain); err != nil {
			if errors.Is(err, errGaveUp) {
				return w.gaveUp(began)
			}
			return err
		}
		failpoint.Hit("writer/turn-taken")
		if outside {
			return nil
		}
		turn := time.Now()
		for {
			_, err := w.c.exec(sqlBegin)
			if err == nil {
				failpoint.Hit("writer/in-transaction")
				return nil
			}
			if !passing(err) || w.isClosing() || !deadline.IsZero() && time.Now().After(deadline) {
				if passing(err) {
					err = w.gaveUp(began)
				}
				return errors.Join(err, w.s.turn.unlock())
			}
			if time.Since(complained) > complainEvery {
				complained = time.Now()
				complain(time.Since(began))
			}
			if time.Since(turn) > turnPatience {
				break
			}
		}
		// A stranger holds the lock. The others should not queue behind this one
		// process for the whole time: one that must give up could not.
		if err := w.s.turn.unlock(); err != nil {
			return err
		}
	}
}

// WriteWait is for how long this process has been waiting to write; 0: it is not. Holders
// tells for whom: a process of ours that is stopped may have to be ended.
func (s *Store) WriteWait() time.Duration {
	if s.w == nil {
		return 0
	}
	since := s.w.waiting.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, since)))
}

func (w *writer) gaveUp(began time.Time) error {
	if w.isClosing() {
		return ErrClosed
	}
	return fmt.Errorf("%w: waited %s for the write lock%s", ErrBusy, time.Since(began).Round(time.Millisecond), w.s.blame())
}

func (w *writer) isClosing() bool {
	select {
	case <-w.s.closing:
		return true
	default:
		return false
	}
}

// react decides what an error of a whole group means: try again, or answer it.
func (w *writer) react(err error, group *[]*op, deadline time.Time) (again bool, _ error) {
	var u unknown
	switch {
	case errors.As(err, &u):
		done, serr := w.settle(u, *group, deadline)
		if serr != nil {
			return false, serr
		}
		if done {
			return false, nil
		}
		return true, nil
	case noSpace(err):
		if w.s.spendBallast() {
			return true, nil
		}
		w.ail("the disk is full", err)
		return false, fmt.Errorf("%w (%w)", ErrFull, err)
	case passing(err) && !w.isClosing() && (deadline.IsZero() || time.Now().Before(deadline)):
		return true, nil
	case errors.Is(err, ErrClosed), errors.Is(err, ErrBusy):
		return false, err
	}
	w.ail("writing fails", err)
	return false, w.s.explainDamage(err)
}

// noSpace reports a full disk or an exhausted quota.
func noSpace(err error) bool {
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return false
	}
	if se.Code == sqlite3.ErrFull || se.ExtendedCode == sqlite3.ErrIoErrSHMSize {
		return true
	}
	return se.Code == sqlite3.ErrIoErr &&
		(se.SystemErrno == unix.ENOSPC || se.SystemErrno == unix.EDQUOT || se.SystemErrno == unix.EFBIG)
}

const sqlBarrier = `INSERT INTO settings (name, value) VALUES ('barrier', 1)
	ON CONFLICT (name) DO UPDATE SET value = value + 1`

// settle finds out what became of a COMMIT whose outcome is unknown. A barrier
// commit writes over whatever the failed one left in the WAL, or stands behind it
// if it was complete; then the rows say which.
func (w *writer) settle(u unknown, group []*op, deadline time.Time) (done bool, _ error) {
	w.ail("a commit's outcome is unknown", u.error)
	for pause := settleFirst; ; pause = min(2*pause, settleMax) {
		err := w.barrier(deadline)
		if err == nil {
			break
		}
		w.ail("a commit's outcome is unknown, and the barrier after it fails", err)
		if w.s.Err() != nil || w.isClosing() || !deadline.IsZero() && time.Now().Add(pause).After(deadline) {
			return false, fmt.Errorf("%w: %w", ErrUnknown, u.error)
		}
		if noSpace(err) {
			w.s.spendBallast()
		}
		select {
		case <-time.After(pause):
		case <-w.s.closing:
		}
	}
	for _, o := range group {
		if o.err != nil || o.applied == nil {
			continue
		}
		ok, err := o.applied(w.c)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return ok, nil // one transaction: what holds for one op holds for all
	}
	return false, nil
}

func (w *writer) barrier(deadline time.Time) (err error) {
	if err := w.begin(false, deadline); err != nil {
		return err
	}
	defer func() {
		if uerr := w.s.turn.unlock(); err == nil {
			err = uerr
		}
	}()
	if err := w.c.script(sqlBarrier + "; COMMIT"); err != nil {
		return w.rolledBack(err)
	}
	return nil
}

// ail logs trouble once, and then once a minute with a count.
func (w *writer) ail(what string, err error) {
	w.errs++
	if w.sick == what && time.Since(w.sickAt) < complainEvery {
		return
	}
	w.s.log.Error(what, "path", w.s.path, "err", err, "times", w.errs)
	w.sick, w.sickAt = what, time.Now()
}

func (w *writer) well() {
	if w.sick != "" {
		w.s.log.Info("writing works again", "path", w.s.path, "failed", w.errs)
		w.sick, w.errs = "", 0
	}
}
