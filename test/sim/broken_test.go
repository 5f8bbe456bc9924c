package sim

import (
	"strings"
	"testing"
	"time"
)

// TestBrokenRulesAreCaught proves that the simulation can fail: each broken rule
// is seen within a few nights, by the invariant that it breaks.
func TestBrokenRulesAreCaught(t *testing.T) {
	for name, broken := range map[string]struct {
		rule Break
		says string
	}{
		"a kernel that calls every lock free":          {LyingLock, "I2 "},
		"recovery after the first claims":              {RecoverLate, "I4 "},
		"checkpoints acknowledged before they are":     {LyingCheckpoint, "I6 "},
		"a night without faults, which proves nothing": {Nothing, "nothing was injected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 5; seed++ {
				v := live(t, Options{Seed: seed, Hours: 0.5, Break: broken.rule, Calm: broken.rule == Nothing})
				for _, w := range v.Wrong {
					if strings.HasPrefix(w, broken.says) {
						t.Logf("seed %d: %s", seed, w)
						return
					}
				}
			}
			t.Error("not seen in five nights")
		})
	}
}

// TestASeedIsOneRun compares the traces of two runs.
func TestASeedIsOneRun(t *testing.T) {
	o := Options{Seed: 4, Hours: 1}
	first, second := live(t, o), live(t, o)
	if first.Hash != second.Hash || first.Hours != second.Hours || first.Executions != second.Executions {
		t.Errorf("traces %x and %x, %v and %v hours, %d and %d executions", first.Hash, second.Hash,
			first.Hours, second.Hours, first.Executions, second.Executions)
	}
}

// TestInstant: the wall reading moves, the monotonic one does not.
func TestInstant(t *testing.T) {
	wall := time.Date(2026, 12, 1, 16, 4, 5, 123456789, time.UTC)
	a, b := instant(wall, time.Second), instant(wall.Add(-30*365*24*time.Hour), 3*time.Second)
	if !a.Round(0).Equal(wall) || b.Sub(a) != 2*time.Second || !b.Round(0).Before(wall) {
		t.Errorf("%v, %v, %v apart", a, b, b.Sub(a))
	}
}
