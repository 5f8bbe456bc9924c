package cron

import (
	_ "embed"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known in a container that has no /usr/share/zoneinfo
)

// zoneNames are the zones of the time zone database, one a line. They serve to
// name the nearest when one is misspelt; what exists is decided by loading it.
//
//go:embed zones.txt
var zoneNames string

// ZoneError refuses the name of a time zone.
type ZoneError struct {
	Zone    string
	Why     string
	Nearest string // "" when nothing is near
}

func (e *ZoneError) Error() string {
	s := fmt.Sprintf("time zone %q: %s", cut(e.Zone, 60), e.Why)
	if e.Nearest != "" {
		s += fmt.Sprintf("; did you mean %s?", e.Nearest)
	}
	return s
}

// familiar are names that people use and the database does not know. Nearness of
// spelling would lead astray (Asia/Beijing is near Asia/Beirut).
var familiar = map[string]string{
	"beijing": "Asia/Shanghai", "asia/beijing": "Asia/Shanghai", "china": "Asia/Shanghai", "prc time": "Asia/Shanghai",
	"cst": "Asia/Shanghai or America/Chicago", "bst": "Europe/London", "ist": "Asia/Kolkata", "jst": "Asia/Tokyo",
	"kst": "Asia/Seoul", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "edt": "America/New_York",
	"cdt": "America/Chicago", "mdt": "America/Denver", "cest": "Europe/Berlin", "eest": "Europe/Helsinki",
	"msk": "Europe/Moscow", "asia/bangalore": "Asia/Kolkata", "asia/mumbai": "Asia/Kolkata", "asia/delhi": "Asia/Kolkata",
	"america/san_francisco": "America/Los_Angeles", "america/washington": "America/New_York", "z": "UTC",
}

// LoadZone finds a time zone by its name in the time zone database; the empty
// name is UTC. "Local" is refused: the same schedule would then fire at another
// time, and under another name, when it is looked at on another machine or with
// another TZ.
func LoadZone(name string) (*time.Location, error) {
	switch {
	case name == "" || name == "UTC":
		return time.UTC, nil
	case strings.EqualFold(name, "local") || name == "localtime":
		return nil, &ZoneError{Zone: name, Why: "it depends on the machine and on TZ; name the zone, as in Europe/Berlin"}
	case strings.HasPrefix(name, "right/"):
		return nil, &ZoneError{Zone: name, Why: "it counts leap seconds, which no clock here does", Nearest: strings.TrimPrefix(name, "right/")}
	case len(name) > 64:
		return nil, &ZoneError{Zone: name, Why: "no zone has so long a name"}
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		return loc, nil
	}
	e := &ZoneError{Zone: name, Why: "unknown", Nearest: nearestZone(name)}
	if l := strings.ToUpper(name); strings.HasPrefix(l, "UTC") || strings.HasPrefix(l, "GMT") || strings.HasPrefix(l, "+") || strings.HasPrefix(l, "-") {
		e.Why = "unknown; an offset is written with its sign turned round: Etc/GMT-8 is eight hours ahead of UTC"
		e.Nearest = ""
	}
	return nil, e
}

// nearestZone is the zone whose name is most like the given one, or "".
func nearestZone(name string) string {
	want := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"))
	if z, ok := familiar[want]; ok {
		return z
	}
	best, bestCost := "", 1+len(want)/4 // one letter in four may be wrong
	for _, zone := range strings.Fields(zoneNames) {
		low := strings.ToLower(zone)
		cost := distance(want, low, bestCost)
		if _, city, ok := cutLast(low); ok {
			// "Berlin" and "Asia/Berlin" mean Europe/Berlin.
			_, wantCity, both := cutLast(want)
			if !both {
				wantCity = want
			}
			cost = min(cost, 1+distance(wantCity, city, bestCost))
		}
		if cost < bestCost || cost == bestCost && best == "" {
			best, bestCost = zone, cost
		}
	}
	return best
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// distance is the number of letters to insert, drop or replace; it gives up
// beyond most and says most+1.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
