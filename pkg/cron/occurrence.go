package cron

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// idLayout is the UTC time in an occurrence's id. Occurrences fall on whole
// seconds.
const idLayout = "2006-01-02T15:04:05Z"

// MaxNameBytes is what a schedule's name may have, so that the id of its
// occurrences stays within a task id.
const MaxNameBytes = 200

// OccurrenceID is the id of the task that an occurrence becomes:
// nightly@2026-12-01T18:00:00Z. The primary key of tasks makes it impossible to
// fire one twice, whatever the clocks do and however many schedulers look.
func OccurrenceID(schedule string, at time.Time) string {
	return schedule + "@" + at.UTC().Format(idLayout)
}

// SplitOccurrenceID takes an id apart; ok is false when it is not an
// occurrence's.
func SplitOccurrenceID(id string) (schedule string, at time.Time, ok bool) {
	i := strings.LastIndexByte(id, '@')
	if i <= 0 {
		return "", time.Time{}, false
	}
	at, err := time.Parse(idLayout, id[i+1:])
	if err != nil || at.Format(idLayout) != id[i+1:] {
		return "", time.Time{}, false
	}
	return id[:i], at.UTC(), true
}

// CheckName refuses a schedule's name that could not be part of a task id.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the schedule's name is empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("the schedule's name has %d bytes, at most %d are allowed", len(name), MaxNameBytes)
	case strings.Contains(name, "@"):
		return fmt.Errorf("schedule %q: @ separates the name from the time in the ids of its tasks", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("schedule %q: the name begins or ends with a space", name)
	}
	if err := task.CheckID(name); err != nil {
		return fmt.Errorf("schedule %q: as a %w", name, err)
	}
	return nil
}

// Spread is how much later than its time an occurrence may begin when its
// schedule has jitter: within [0, jitter), to the millisecond, the same whoever
// computes it and whenever.
func Spread(schedule string, at time.Time, jitter time.Duration) time.Duration {
	span := uint64(jitter / time.Millisecond)
	if jitter <= 0 || span == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(OccurrenceID(schedule, at)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%span) * time.Millisecond
}
