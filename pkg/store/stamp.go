package store

import (
	"time"

	"nightshift/pkg/task"
)

// stamp is a moment as it goes into a row, and the millisecond after it. Our
// statements write updated_at as CASE updated_at WHEN now THEN next ELSE now END:
// it always changes, and so tells the schema's triggers that they need not set it
// (they do for a shell). Two changes within one millisecond take turns.
type stamp struct {
	at        time.Time
	now, next string
}

func (s *Store) stamp(now time.Time) stamp {
	if now.IsZero() {
		now = s.clock()
	}
	return newStamp(now)
}

func newStamp(now time.Time) stamp {
	now = now.UTC().Truncate(time.Millisecond)
	return stamp{at: now, now: task.FormatTime(now), next: task.FormatTime(now.Add(time.Millisecond))}
}

// timeText is a time as it is stored: NULL for the zero time.
func timeText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return task.FormatTime(t)
}

// textOrNull stores "" as NULL.
func textOrNull[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// readTime reads a stored time; one that cannot be read is zero. Only display
// depends on such a value: the schema keeps next_run_time and leases readable.
func readTime(s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := task.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}
