package cron

import (
	"math/bits"
	"time"
)

// calendar is what the five fields admit, on a wall clock that knows no zone.
// Times here are minutes since 1970-01-01 00:00 of that clock.
type calendar struct {
	minutes, hours, days, months, weekdays uint64 // bit n: n is admitted

	// Vixie's rule: when both day fields are restricted, a day that either of them
	// admits will do; when one of them begins with *, both must admit it.
	eitherDay bool
	// The rule fires in both passes of an hour that exists twice: its minute field
	// begins with *, or every hour is admitted.
	repeats bool
	// Every hour is admitted: an hour that does not exist needs no substitute.
	everyHour bool
}

const (
	minutesPerDay = 24 * 60
	// lastMinute is the end of the year 9999: a stored time has four digits of year.
	lastMinute = 253402300800 / 60
)

// next is the first admitted minute at or after from and before end.
func (c *calendar) next(from, end int64) (int64, bool) {
	end = min(end, lastMinute)
	day, minute := floorDiv(from, minutesPerDay), int(floorMod(from, minutesPerDay))
	for day*minutesPerDay < end {
		y, m, d := civil(day)
		switch {
		case c.months&(1<<uint(m)) == 0:
			day += int64(daysIn(y, m) - d + 1)
			minute = 0
			continue
		case c.admitsDay(day, d):
			if at, ok := c.timeOfDay(minute); ok {
				found := day*minutesPerDay + int64(at)
				return found, found < end
			}
		}
		day++
		minute = 0
	}
	return 0, false
}

// admits reports whether the day that holds the minute is admitted.
func (c *calendar) admits(minute int64) bool {
	day := floorDiv(minute, minutesPerDay)
	_, m, d := civil(day)
	return c.months&(1<<uint(m)) != 0 && c.admitsDay(day, d)
}

func (c *calendar) admitsDay(day int64, d int) bool {
	weekday := uint(floorMod(day+4, 7)) // 1970-01-01 was a Thursday
	byDate := c.days&(1<<uint(d)) != 0
	byWeekday := c.weekdays&(1<<weekday) != 0
	if c.eitherDay {
		return byDate || byWeekday
	}
	return byDate && byWeekday
}

// timeOfDay is the first admitted minute of a day at or after the given one.
func (c *calendar) timeOfDay(minute int) (int, bool) {
	h, m := minute/60, minute%60
	if c.hours&(1<<uint(h)) != 0 {
		if rest := c.minutes >> uint(m); rest != 0 {
			return h*60 + m + bits.TrailingZeros64(rest), true
		}
	}
	later := c.hours >> uint(h+1)
	if later == 0 {
		return 0, false
	}
	h += 1 + bits.TrailingZeros64(later)
	return h*60 + bits.TrailingZeros64(c.minutes), true
}

// possible reports whether any day of the calendar can match. A date that
// exists in some year falls on every weekday within 400 years, so that only the
// lengths of the months decide.
func (c *calendar) possible() bool {
	if c.eitherDay {
		return true
	}
	for m := time.January; m <= time.December; m++ {
		if c.months&(1<<uint(m)) == 0 {
			continue
		}
		// 2000 was a leap year.
		if shortest := bits.TrailingZeros64(c.days); shortest <= daysIn(2000, m) {
			return true
		}
	}
	return false
}

func civil(day int64) (year int, month time.Month, d int) {
	return time.Unix(day*86400, 0).UTC().Date()
}

func daysIn(year int, m time.Month) int {
	return time.Date(year, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
