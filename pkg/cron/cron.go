// Package cron says when a schedule is due, and what becomes of each of its
// occurrences.
//
// It is pure: it reads no clock, touches no database and starts nothing. The
// scheduler gives it the time and what is on record, and writes what it decides.
//
// Invariants: an occurrence is an instant of UTC, and its name is derived from
// nothing but the schedule's name and that instant, so that any number of
// schedulers name it alike; no occurrence is reported before its time; a rule
// that can never match is refused by Parse, so that every search ends.
//
// What an expression means on the nights when the clocks change, and what is
// taken from the library and what is not, stands in docs/schedules.md.
package cron

import (
	"fmt"
	"time"
)

// Rule is when a schedule is due: a cron expression in a time zone, or a fixed
// interval. It does not change after it is made and may be shared.
type Rule struct {
	text  string // as it was written
	every int64  // seconds; 0: a cron expression
	zone  *time.Location
	cal   calendar
	hints []string
}

// Limits of a fixed interval. Below a second ids would collide; above a century
// it is a mistake.
const (
	MinEvery = time.Second
	MaxEvery = 100 * 366 * 24 * time.Hour
)

// Every makes the rule of a fixed interval. Its occurrences are the multiples
// of d since 1970-01-01T00:00:00Z, so that their times do not depend on when
// anybody started: 90s, 1h and 24h fall on the same instants on every machine.
func Every(d time.Duration) (*Rule, error) {
	switch {
	case d < MinEvery || d > MaxEvery:
		return nil, fmt.Errorf("every: %s is not between %s and 100 years", d, MinEvery)
	case d%time.Second != 0:
		return nil, fmt.Errorf("every: %s is not a whole number of seconds", d)
	}
	return &Rule{text: "every " + d.String(), every: int64(d / time.Second), zone: time.UTC}, nil
}

// String is the rule as it was written, with its zone.
func (r *Rule) String() string {
	if r.every > 0 {
		return r.text
	}
	return r.text + " (" + r.zone.String() + ")"
}

// Zone is the zone that the rule's times of day are read in.
func (r *Rule) Zone() *time.Location { return r.zone }

// Hints are sentences about what in the expression often surprises: it is
// valid, and means what is said here.
func (r *Rule) Hints() []string { return append([]string(nil), r.hints...) }

// Same reports that both rules are due at the same times, for they say the same.
func (r *Rule) Same(other *Rule) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.every == other.every && r.cal == other.cal && r.zone.String() == other.zone.String()
}

// Next is the first occurrence after t, in UTC; the zero time when none comes
// before the year 10000.
func (r *Rule) Next(t time.Time) time.Time {
	w := r.walk(t)
	next, ok := w.next()
	if !ok {
		return time.Time{}
	}
	return time.Unix(next, 0).UTC()
}

// Occurrences lists those with from < t <= to, at most limit, in order.
func (r *Rule) Occurrences(from, to time.Time, limit int) []time.Time {
	var out []time.Time
	w := r.walk(from)
	for len(out) < limit {
		next, ok := w.next()
		if !ok || time.Unix(next, 0).After(to) {
			break
		}
		out = append(out, time.Unix(next, 0).UTC())
	}
	return out
}

// Last lists the latest occurrences with from < t <= to, at most limit, in
// order. It looks backwards in windows that double, so that it costs about what
// it returns, however far away from is.
func (r *Rule) Last(from, to time.Time, limit int) []time.Time {
	if limit <= 0 || !from.Before(to) {
		return nil
	}
	for window := time.Hour; ; window *= 2 {
		start := to.Add(-window)
		whole := window > to.Sub(from)/2 || !start.After(from)
		if whole {
			start = from
		}
		tail := newTail(limit)
		w := r.walk(start)
		for {
			next, ok := w.next()
			if !ok || time.Unix(next, 0).After(to) {
				break
			}
			tail.add(next)
		}
		if whole || tail.full() {
			return tail.times()
		}
	}
}

// tail keeps the latest n instants of a walk.
type tail struct {
	ring []int64
	n    int
}

func newTail(limit int) *tail { return &tail{ring: make([]int64, 0, min(limit, 1024)), n: limit} }

func (t *tail) add(u int64) {
	// Twice the limit before old ones are dropped: one copy for n additions.
	if len(t.ring) >= 2*t.n {
		t.ring = append(t.ring[:0], t.ring[len(t.ring)-t.n:]...)
	}
	t.ring = append(t.ring, u)
}

func (t *tail) full() bool { return len(t.ring) >= t.n }

func (t *tail) times() []time.Time {
	ring := t.ring[max(0, len(t.ring)-t.n):]
	out := make([]time.Time, len(ring))
	for i, u := range ring {
		out[i] = time.Unix(u, 0).UTC()
	}
	return out
}
