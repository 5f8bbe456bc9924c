package scheduler

import "github.com/hashicorp/go-hclog"

// diary holds the lines about starts and ends until the loop has nothing better
// to do. To format one costs more than to start a no-op task; behind the start of
// the next turn it costs no time at all, because the database has the other core.
type diary struct {
	log   hclog.Logger
	lines []entry
}

type entry struct {
	level hclog.Level
	what  string
	args  []any
}

// note keeps a line for later. The order of lines stays.
func (d *diary) note(level hclog.Level, what string, args ...any) {
	d.lines = append(d.lines, entry{level, what, args})
}

// write logs what was kept.
func (d *diary) write() {
	for i := range d.lines {
		e := &d.lines[i]
		d.log.Log(e.level, e.what, e.args...)
	}
	clear(d.lines)
	d.lines = d.lines[:0]
}
