package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// durationUnits are the units a duration may carry, longest first. A day is
// 24 hours: the machine's clock knows no other.
var durationUnits = []struct {
	name string
	unit time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

const durationHint = "write it like 500ms, 30s, 5m, 1h30m or 30d"

// ParseDuration reads what people write: 500ms, 30s, 5m, 1h30m, 30d, 2w, 1.5h.
// Each unit may appear once, largest first; a bare 0 needs no unit. Nothing
// negative and nothing beyond 292 years passes.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if s == "" {
		return 0, errors.New("duration is empty; " + durationHint)
	}
	rest, total, next := s, time.Duration(0), 0
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n < 0 {
			return 0, fmt.Errorf("duration %q has a number without a unit; %s", s, durationHint)
		}
		m := strings.IndexFunc(rest[n:], func(r rune) bool { return r < 'a' || r > 'z' })
		if m < 0 {
			m = len(rest) - n
		}
		number, name := rest[:n], rest[n:n+m]
		rest = rest[n+m:]
		i := next
		for i < len(durationUnits) && durationUnits[i].name != name {
			i++
		}
		if number == "" || i == len(durationUnits) {
			return 0, fmt.Errorf("%q is no duration; %s", s, durationHint)
		}
		next = i + 1
		part, err := scale(number, int64(durationUnits[i].unit))
		if err != nil || total > math.MaxInt64-time.Duration(part) {
			return 0, fmt.Errorf("%q is no duration; %s", s, durationHint)
		}
		total += time.Duration(part)
	}
	return total, nil
}

// scale multiplies a decimal number by unit without losing whole units to
// floating point.
func scale(number string, unit int64) (int64, error) {
	whole, fraction, dotted := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64/unit {
		return 0, strconv.ErrRange
	}
	n *= unit
	if !dotted {
		return n, nil
	}
	f, err := strconv.ParseFloat("0."+fraction, 64)
	if err != nil || strings.ContainsAny(fraction, ".eE+-") {
		return 0, strconv.ErrSyntax
	}
	part := int64(math.Round(f * float64(unit)))
	if n > math.MaxInt64-part {
		return 0, strconv.ErrRange
	}
	return n + part, nil
}

// FormatDuration writes d as ParseDuration reads it: 1h30m, 30d, 500ms.
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	var b strings.Builder
	for _, u := range durationUnits[1:] { // 30d, not 4w2d
		if n := d / u.unit; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			d -= n * u.unit
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// sizeUnits: kB, MB, GB are powers of 1,000, KiB, MiB, GiB of 1,024, as the
// standards have it.
var sizeUnits = []struct {
	name string
	unit int64
}{
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
}

const sizeHint = "write it like 64KiB, 50MB or 10GB"

// ParseSize reads 64KiB, 50MB, 10GB, 1.5GB, 100B in any case; a bare 0 needs no unit.
func ParseSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	n := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if n <= 0 {
		return 0, fmt.Errorf("%q is no size; %s", s, sizeHint)
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(u.name, strings.TrimSpace(s[n:])) {
			size, err := scale(s[:n], u.unit)
			if err != nil {
				return 0, fmt.Errorf("%q is no size; %s", s, sizeHint)
			}
			return size, nil
		}
	}
	return 0, fmt.Errorf("%q is no size: the unit is one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; %s", s, sizeHint)
}

// FormatSize writes n as ParseSize reads it, in the largest unit that divides it.
func FormatSize(n int64) string {
	if n <= 0 {
		return "0"
	}
	best, unit := "B", int64(1)
	for _, u := range sizeUnits {
		if n%u.unit == 0 && u.unit > unit {
			best, unit = u.name, u.unit
		}
	}
	return strconv.FormatInt(n/unit, 10) + best
}
