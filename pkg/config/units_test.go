package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute,
		"30d": 720 * time.Hour, "2w": 336 * time.Hour, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute, "0.1s": 100 * time.Millisecond,
		"90m": 90 * time.Minute, "106751d": 106751 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "5", "-5s", "+5s", "5 m", "1m1h", "1h1h", "s", ".s", "1..5s", "1.5.5s", "5y", "1e3s", "106752d",
		"9223372036854775807h", "999999999999999999999s", "1h-5m", "0x5s", "５m", "1h ", "tomorrow"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "0B": 0, "1B": 1, "50MB": 50e6, "50mb": 50e6, "10GB": 10e9, "64KiB": 65536, "1.5GB": 1.5e9, "1 GiB": 1 << 30, "2TB": 2e12, "7kb": 7000,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "5", "50M", "50 K", "-5MB", "MB", "1e3MB", "9223372036854775808B", "10000000TB", "5PB", "..MB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", in, got)
		}
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "d")).Truncate(time.Millisecond)
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read %v, %v", d, FormatDuration(d), got, err)
		}
		n := rapid.Int64Min(0).Draw(t, "n")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %q and read %d, %v", n, FormatSize(n), got, err)
		}
	})
}
