package cron

import "time"

// State is what is on record of a schedule: a row of schedules.
type State struct {
	// ConsideredUntil: every occurrence up to here has been decided on. Zero: the
	// schedule has never been seen.
	ConsideredUntil time.Time
	// High is how far it had been decided before the clock stepped back below it;
	// zero when ConsideredUntil has never been further.
	High time.Time
	// Enabled is the operator's switch. The definition has one of its own.
	Enabled bool
}

// Look is one look at a schedule.
type Look struct {
	Now time.Time
	// Since is how long this process has looked at the schedules without a gap;
	// zero at its first look, and again after its clock stepped or it was stopped.
	Since time.Time
	// Poll is the longest time between two looks.
	Poll time.Duration
	// Unfinished reports that a run of this schedule is not final: pending,
	// running, retrying, paused or lost.
	Unfinished bool
}

// How late an occurrence may be seen and still count as on time. Later than that
// it is missed.
const (
	// minLate holds for what came due before the process looked for the first time:
	// two polls, so that the restart of one worker while others run, whichever of
	// them is first to look, makes nothing missed.
	minLate = 10 * time.Second
	// whileLooking holds for what came due while the process looked: it was late
	// for another reason, a busy database or machine.
	whileLooking = time.Minute
	// stepSlack is how far the clock may be behind ConsideredUntil without being
	// taken for one that was set back: two schedulers read it a moment apart, and
	// time synchronisation corrects by seconds. Until it has caught up nothing is
	// due that was not decided on before.
	stepSlack = time.Minute
	// countLimit bounds how many occurrences are counted one by one. A clock that
	// started in 1970 has missed 29 million of a schedule of every minute.
	countLimit = 100_000
)

// onTimeFrom is the time from which on an occurrence counts as on time.
func (l Look) onTimeFrom() time.Time {
	atStart := max(minLate, 2*l.Poll)
	from := l.Now.Add(-atStart)
	if l.Since.IsZero() {
		return from
	}
	looking := l.Now.Add(-max(whileLooking, atStart))
	if l.Since.After(looking) {
		looking = l.Since
	}
	if looking.Before(from) {
		return looking
	}
	return from
}

// Reason says why an occurrence did not run.
type Reason string

// The reasons of schedule_skips.
const (
	SkipMissed   Reason = "missed"       // nobody looked at its time; By may name the run that stands for it
	SkipLimit    Reason = "missed_limit" // more were missed than missed_limit allows to run
	SkipOverlap  Reason = "overlap"      // an earlier run was unfinished
	SkipDisabled Reason = "disabled"
)

// Fire is an occurrence that becomes a task.
type Fire struct {
	ID    string
	At    time.Time // its time
	RunAt time.Time // next_run_time: At and its share of the jitter
	// StandsFor counts the occurrences that this run does duty for, itself included.
	StandsFor int
}

// Skip is one occurrence, or several in a row, that did not run.
type Skip struct {
	From, To time.Time // the first and the last of them
	Count    int
	AtLeast  bool // there were more than could be counted
	Reason   Reason
	By       string // the task that runs in their place; "" when none does
}

// Decision is what to write in one transaction, if State is still what Decide
// was given. Nothing is to be written when Changed is false.
type Decision struct {
	Fires   []Fire // in the order of their times
	Skips   []Skip
	State   State
	Changed bool
	// Queue: the fires were each asked for (missed: all) and are inserted whatever
	// is unfinished by then. Otherwise, with overlap: skip, a run that has turned up
	// since the look makes them skips.
	Queue bool
	// Next is the first occurrence after the look; zero: none.
	Next time.Time
	// Back is how far the clock was found to have been set back; usually 0.
	Back time.Duration
}

// Decide says what is due at a look, what becomes of it, and what to put on
// record. It may be called by any number of schedulers at once: they decide
// alike, and of those that write, the condition on State lets one through.
func (s *Schedule) Decide(st State, l Look) Decision {
	d := Decision{State: st, Next: s.Rule.Next(l.Now)}
	onTime := l.onTimeFrom()
	switch behind := st.ConsideredUntil.Sub(l.Now); {
	case st.ConsideredUntil.IsZero():
		// Seen for the first time: what was due before was nobody's promise.
		d.State.ConsideredUntil, d.Changed = l.Now, true
		return d
	case behind > stepSlack:
		// The clock was set back. What it shows now is believed, so that a year's
		// error does not silence the schedule for a year. What ran already does not
		// run again: its id exists.
		d.Back, d.Changed = behind, true
		if st.High.Before(st.ConsideredUntil) {
			d.State.High = st.ConsideredUntil
		}
		st.ConsideredUntil = onTime.Add(-1)
	case behind >= 0:
		return d
	}
	s.settle(&d, s.due(st, l.Now, onTime), l)
	if d.Changed {
		d.State.ConsideredUntil = l.Now
		if !d.State.High.After(l.Now) {
			d.State.High = time.Time{}
		}
	}
	return d
}

// due is what came due since the last decision.
type due struct {
	missed  []time.Time // the latest of them, in order
	first   time.Time   // the first missed of all
	count   int         // how many were missed
	atLeast bool
	onTime  []time.Time
}

func (s *Schedule) due(st State, now, onTime time.Time) due {
	from := st.ConsideredUntil
	// The clock is back beyond High, so that the one which went before High was
	// right after all: what lies below was decided on by its light.
	if !st.High.IsZero() && now.After(st.High) && st.High.After(from) {
		from = st.High
		if before := onTime.Add(-1); before.Before(from) {
			from = before
		}
		if from.Before(st.ConsideredUntil) {
			from = st.ConsideredUntil
		}
	}
	d := due{}
	lastMissed := onTime.Add(-1)
	if lastMissed.Before(from) {
		lastMissed = from
	}
	d.onTime = s.Rule.Occurrences(lastMissed, now, countLimit)
	counted := s.Rule.Occurrences(from, lastMissed, countLimit)
	d.count = len(counted)
	if d.count == 0 {
		return d
	}
	d.first = counted[0]
	d.missed = counted
	if d.count == countLimit {
		d.missed = s.Rule.Last(from, lastMissed, MaxMissedLimit)
		d.atLeast = true
	}
	return d
}

// settle applies the policies.
func (s *Schedule) settle(d *Decision, due due, l Look) {
	if due.count+len(due.onTime) == 0 {
		return
	}
	d.Changed = true
	if s.Disabled || !d.State.Enabled {
		d.skip(due.all(), SkipDisabled, "")
		return
	}
	busy := l.Unfinished && s.Overlap == OverlapSkip
	onTime := due.onTime
	switch {
	case due.count == 0:
	case s.Missed == MissedSkip:
		d.skip(due.missedSpan(), SkipMissed, "")
	case s.Missed == MissedAll:
		// Each was asked for, and those on time queue behind them: how many run at a
		// time is the task type's concurrency. Overlap speaks of later looks.
		d.Queue = true
		s.fireMissed(d, due)
		for _, at := range onTime {
			d.Fires = append(d.Fires, s.fire(at))
		}
		return
	case busy:
		d.skip(due.missedSpan(), SkipOverlap, "")
	case len(onTime) > 0:
		// The first of those on time runs anyway, and does duty for the missed ones.
		f := s.fire(onTime[0])
		f.StandsFor += due.count
		d.skip(due.missedSpan(), SkipMissed, f.ID)
		d.Fires = append(d.Fires, f)
		onTime, busy = onTime[1:], s.Overlap == OverlapSkip
	default:
		f := s.fire(due.missed[len(due.missed)-1])
		f.StandsFor = due.count
		d.skip(due.allButLast(), SkipMissed, f.ID)
		d.Fires = append(d.Fires, f)
	}
	s.settleOnTime(d, onTime, busy)
}

func (s *Schedule) settleOnTime(d *Decision, onTime []time.Time, busy bool) {
	for i, at := range onTime {
		if busy {
			rest := onTime[i:]
			d.skip(Skip{From: rest[0], To: rest[len(rest)-1], Count: len(rest)}, SkipOverlap, "")
			return
		}
		d.Fires = append(d.Fires, s.fire(at))
		busy = s.Overlap == OverlapSkip
	}
}

func (s *Schedule) fireMissed(d *Decision, due due) {
	run := due.missed
	if over := len(run) - s.MissedLimit; over > 0 {
		d.skip(Skip{From: due.first, To: run[over-1], Count: due.count - s.MissedLimit, AtLeast: due.atLeast}, SkipLimit, "")
		run = run[over:]
	}
	for _, at := range run {
		d.Fires = append(d.Fires, s.fire(at))
	}
}

func (s *Schedule) fire(at time.Time) Fire {
	return Fire{ID: s.ID(at), At: at, RunAt: s.RunAt(at), StandsFor: 1}
}

func (d *Decision) skip(k Skip, why Reason, by string) {
	if k.Count == 0 {
		return
	}
	k.Reason, k.By = why, by
	d.Skips = append(d.Skips, k)
}

func (u due) missedSpan() Skip {
	if u.count == 0 {
		return Skip{}
	}
	return Skip{From: u.first, To: u.missed[len(u.missed)-1], Count: u.count, AtLeast: u.atLeast}
}

func (u due) allButLast() Skip {
	k := u.missedSpan()
	k.Count--
	if k.Count > 0 {
		k.To = u.missed[len(u.missed)-2]
	}
	return k
}

func (u due) all() Skip {
	k := u.missedSpan()
	if len(u.onTime) == 0 {
		return k
	}
	if k.Count == 0 {
		k.From = u.onTime[0]
	}
	k.To = u.onTime[len(u.onTime)-1]
	k.Count += len(u.onTime)
	return k
}

// Change is Decide for a schedule whose definition was replaced: s is the new
// one, old the one on record (nil: unreadable, or the schedule had been taken
// out). When the times did not change it has nothing to do. Otherwise what the
// old rule left undecided is settled now, by the new policies, and the new rule
// counts from now on, so that neither forgets nor fires twice.
func (s *Schedule) Change(old *Schedule, st State, l Look) Decision {
	if old != nil && s.Rule.Same(old.Rule) {
		return Decision{State: st, Next: s.Rule.Next(l.Now)}
	}
	d := Decision{State: st}
	if old != nil && !st.ConsideredUntil.IsZero() && st.ConsideredUntil.Before(l.Now) {
		both := *s
		both.Rule = old.Rule
		d = both.Decide(st, l)
	}
	d.State.ConsideredUntil, d.State.High, d.Changed = l.Now, time.Time{}, true
	d.Next = s.Rule.Next(l.Now)
	return d
}
