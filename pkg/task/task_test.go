package task

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSeedBackoffIntervals(t *testing.T) {
	b := Backoff{Base: DefaultRetryBase, Cap: DefaultRetryCap}
	for count, want := range map[int64][2]time.Duration{
		1: {60 * time.Second, 90 * time.Second},
		2: {120 * time.Second, 150 * time.Second},
		3: {240 * time.Second, 270 * time.Second},
	} {
		if got := b.Delay(count, func(int64) int64 { return 0 }); got != want[0] {
			t.Errorf("retry %d without jitter: %v, want %v", count, got, want[0])
		}
		if got := b.Delay(count, func(n int64) int64 { return n - 1 }); got != want[1]-1 {
			t.Errorf("retry %d with the largest jitter: %v, want %v", count, got, want[1]-1)
		}
	}
}

// TestTI14BackoffOverflow: 2^n wrapped round after weeks of failures, and the
// delay became zero or negative.
func TestTI14BackoffOverflow(t *testing.T) {
	for _, b := range []Backoff{
		{DefaultRetryBase, DefaultRetryCap}, {time.Millisecond, time.Hour}, {10 * time.Hour, 10 * time.Hour},
		{time.Second, math.MaxInt64},
	} {
		for _, n := range []int64{5, 30, 37, 62, 63, 64, 100, 4999, math.MaxInt64} {
			d := b.Delay(n, func(n int64) int64 { return n - 1 })
			if d <= 0 || d > b.Limit() {
				t.Errorf("base %v cap %v retry %d: %v", b.Base, b.Cap, n, d)
			}
			if n >= 62 && d < b.Cap {
				t.Errorf("base %v cap %v retry %d: %v is under the cap", b.Base, b.Cap, n, d)
			}
		}
	}
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "base"))
		b := Backoff{Base: base, Cap: base + time.Duration(rapid.Int64Range(0, int64(240*time.Hour)).Draw(t, "more"))}
		n := rapid.Int64Range(1, math.MaxInt64).Draw(t, "retry")
		jitter := rapid.Int64Range(0, int64(base)-1).Draw(t, "jitter")
		d := b.Delay(n, func(int64) int64 { return jitter })
		if d < min(b.Cap, 2*base) || d >= b.Cap+base {
			t.Fatalf("delay %v outside [%v, %v)", d, min(b.Cap, 2*base), b.Cap+base)
		}
	})
}

func TestTimesSortAsTheirTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, "a"))
		b := time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, "b"))
		if (FormatTime(a) < FormatTime(b)) != a.Before(b) {
			t.Fatalf("%v and %v sort differently as %s and %s", a, b, FormatTime(a), FormatTime(b))
		}
		back, err := ParseTime(FormatTime(a))
		if err != nil || !back.Equal(a) {
			t.Fatalf("%v came back as %v (%v)", a, back, err)
		}
	})
	for _, bad := range []string{"", "now", "2026-12-01", "2026-02-30T00:00:00.000Z", "2026-12-01T10:00:00Z", "2026-12-01T10:00:00.0000Z"} {
		if _, err := ParseTime(bad); err == nil {
			t.Errorf("%q was read as a stored time", bad)
		}
	}
}

func TestNewIDsAreOrderedByTime(t *testing.T) {
	start := time.Date(2026, 12, 1, 23, 59, 59, 998e6, time.UTC)
	var ids []string
	for i := range 5 {
		ids = append(ids, NewID(start.Add(time.Duration(i)*time.Millisecond)))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("not in order: %v", ids)
	}
	if err := CheckID(ids[0]); err != nil {
		t.Error(err)
	}
}

func TestIDsThatAreRefused(t *testing.T) {
	for name, id := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", MaxIDBytes+1), "newline": "a\nb", "NUL": "a\x00b",
		"escape": "\x1b[2J", "C1 control": "a\u0085b", "bad UTF-8": "\xff",
	} {
		if CheckID(id) == nil {
			t.Errorf("%s: %q was taken", name, id)
		}
	}
	for _, id := range []string{"-rf", "a b", "../../x", "ü☾", strings.Repeat("x", MaxIDBytes)} {
		if err := CheckID(id); err != nil {
			t.Errorf("%q was refused: %v", id, err)
		}
	}
}

func TestOnSecond(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 7, 250_000_000, time.UTC)
	for d, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:   20 * time.Millisecond,
		time.Second:             750 * time.Millisecond,
		5 * time.Second:         4750 * time.Millisecond,
		2500 * time.Millisecond: 1750 * time.Millisecond,
	} {
		if got := OnSecond(at, d); got != want {
			t.Errorf("OnSecond(…07.250, %v) is %v, not %v", d, got, want)
		}
	}
	if got := OnSecond(at.Truncate(time.Second), time.Second); got != time.Second {
		t.Errorf("on a whole second it waits %v", got)
	}
}
