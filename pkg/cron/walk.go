package cron

import (
	"math"
	"time"
)

// walker lists a rule's occurrences in order. It goes through the stretches of
// time in which the zone's offset does not change, because within one the wall
// clock is plain arithmetic; all that is special happens where two meet.
type walker struct {
	rule *Rule
	from int64 // seconds of UTC; the next occurrence is at or after it
	seg  segment
}

// segment is a stretch with one offset.
type segment struct {
	start, end int64 // seconds of UTC, end excluded
	offset     int64 // what the wall clock is ahead
	// shown is the first second that the wall clock had not yet shown when the
	// segment began. Ahead of start+offset: what lies between is shown a second
	// time. Behind it: what lies between is never shown at all.
	shown int64
}

// noEnd and noStart bound a segment that has no transition on that side.
const (
	noStart = math.MinInt64 / 4
	noEnd   = math.MaxInt64 / 4
)

func (r *Rule) walk(after time.Time) *walker {
	w := &walker{rule: r, from: after.Unix() + 1} // Unix rounds down: the next whole second
	if r.every == 0 {
		w.seg = segmentAt(r.zone, w.from)
	}
	return w
}

// next returns the next occurrence and moves beyond it.
func (w *walker) next() (int64, bool) {
	if w.rule.every > 0 {
		at := ceilDiv(w.from, w.rule.every) * w.rule.every
		w.from = at + 1
		return at, at < lastMinute*60
	}
	for {
		at, ok := w.inSegment()
		if ok {
			w.from = at + 1
			return at, true
		}
		if w.seg.end == noEnd || w.seg.end >= lastMinute*60 {
			return 0, false
		}
		w.from = w.seg.end
		w.seg = segmentAt(w.rule.zone, w.seg.end)
	}
}

// inSegment is the first occurrence of the current segment at or after from.
func (w *walker) inSegment() (int64, bool) {
	cal, seg := &w.rule.cal, &w.seg
	local := max(w.from, seg.start) + seg.offset
	if !cal.repeats {
		local = max(local, seg.shown) // what was shown before has fired before
	}
	at, ok := int64(0), false
	if m, found := cal.next(ceilDiv(local, 60), ceilDiv(seg.end+seg.offset, 60)); found {
		at, ok = m*60-seg.offset, true
	}
	if sub, found := w.substitute(); found && sub >= w.from && (!ok || sub < at) {
		return sub, true
	}
	return at, ok
}

// substitute is the first valid minute after a gap in which the rule was due:
// the one run for all the times that the wall clock left out.
//
// A day that is missing as a whole (Apia had no 30 December 2011) gets one only
// if the rule is not due on the day that follows it: a daily rule then runs once
// on each day that there was, and a rule for the 30th is not left out.
func (w *walker) substitute() (int64, bool) {
	cal, seg := &w.rule.cal, &w.seg
	first := seg.start + seg.offset
	if cal.everyHour || seg.start == noStart || seg.shown >= first {
		return 0, false
	}
	gap, gapEnd := ceilDiv(seg.shown, 60), ceilDiv(first, 60)
	for {
		m, due := cal.next(gap, gapEnd)
		if !due {
			return 0, false
		}
		day := floorDiv(m, minutesPerDay) * minutesPerDay
		wholeDay := day*60 >= seg.shown && (day+minutesPerDay)*60 <= first
		if !wholeDay || !cal.admits(gapEnd) {
			return gapEnd*60 - seg.offset, true
		}
		gap = day + minutesPerDay
	}
}

// segmentAt is the segment of a zone that holds the instant.
func segmentAt(zone *time.Location, at int64) segment {
	seg := bareSegment(zone, at)
	if seg.start == noStart {
		seg.shown = noStart
		return seg
	}
	// Offsets differ by less than 26 hours: what ended two days before the start
	// has shown nothing that this segment could show again.
	const reach = 48 * 3600
	seg.shown = math.MinInt64
	for before := seg.start; before > seg.start-reach; {
		p := bareSegment(zone, before-1)
		seg.shown = max(seg.shown, before+p.offset)
		if p.start == noStart {
			break
		}
		before = p.start
	}
	return seg
}

func bareSegment(zone *time.Location, at int64) segment {
	t := time.Unix(at, 0).In(zone)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	seg := segment{start: noStart, end: noEnd, offset: int64(offset)}
	if !start.IsZero() {
		seg.start = start.Unix()
	}
	if !end.IsZero() {
		seg.end = end.Unix()
	}
	// Beyond the zone's table Go reckons a year as 365 days (time.tzset): on the
	// last day of a leap year the end lies before the instant itself. The offset
	// holds; go on from a little later.
	if seg.end <= at {
		seg.end = at + 3600
	}
	return seg
}
