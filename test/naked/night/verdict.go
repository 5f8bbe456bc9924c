package night

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
)

// Verdict is what a night came to.
type Verdict struct {
	Seed     uint64
	Kills    int64
	Stops    int64
	Tasks    int // accepted
	Lost     int // accepted, and not there or not ended
	Overlaps int // two executions of one task at a time, or effects of one that had ended
	Illegal  int // transitions that are not in the table, fences and counts that do not hold
	Others   int // everything else
	Wrong    []string

	Workers, Supervisors, Scripts int64
	Faults                        map[string]int
	Skipped                       []string
	Ended                         map[string]int
	Condemned                     int // DEAD by max_crashes: legal, and rare
	Takeovers, Resumes            int
	Repeats                       int // steps made more than once
	Again                         []time.Duration
	Took                          time.Duration
}

// add files violations under the figure that they belong to.
func (v *Verdict) add(wrong ...string) {
	for _, w := range wrong {
		v.Wrong = append(v.Wrong, w)
		switch w[:min(3, len(w))] {
		case "I1 ", "I9 ":
			v.Lost++
		case "I2 ":
			v.Overlaps++
		case "I3 ", "I4 ", "I5 ", "I6 ", "I7 ", "I10", "I14":
			v.Illegal++
		default:
			v.Others++
		}
	}
}

// conclude fills in the figures.
func (v *Verdict) conclude(n *night) {
	t := &n.tally
	v.Kills, v.Stops = t.kills(), t.stops.Load()
	v.Workers, v.Supervisors, v.Scripts = t.workers.Load(), t.supervisors.Load(), t.scripts.Load()
	v.Repeats = n.eff.repeats
	for _, ns := range n.eff.again {
		v.Again = append(v.Again, time.Duration(ns))
	}
	sort.Slice(v.Again, func(i, j int) bool { return v.Again[i] < v.Again[j] })
	v.Took = time.Since(n.begun)
	if v.Kills == 0 && v.Stops == 0 {
		v.add("nothing was injected: this night proves nothing")
	}
	if v.Tasks == 0 {
		v.add("nothing was accepted: this night proves nothing")
	}
}

// Failed reports any violation.
func (v *Verdict) Failed() bool { return len(v.Wrong) > 0 }

// Percentile of the times from a worker's kill to its task's next start.
func (v *Verdict) Percentile(p float64) time.Duration {
	if len(v.Again) == 0 {
		return 0
	}
	return v.Again[min(int(p*float64(len(v.Again))), len(v.Again)-1)]
}

// Line is the last line of a night.
func (v *Verdict) Line() string {
	word := "ok"
	if v.Failed() {
		word = "FAILED"
	}
	return fmt.Sprintf("verdict: %s seed=%d kills=%d tasks=%d lost=%d overlaps=%d illegal=%d",
		word, v.Seed, v.Kills, v.Tasks, v.Lost, v.Overlaps, v.Illegal)
}

// Report writes the figures, the violations and the last line.
func (v *Verdict) Report(w io.Writer) {
	var b strings.Builder
	for i, s := range v.Wrong {
		if i == 50 {
			fmt.Fprintf(&b, "… and %d more\n", len(v.Wrong)-i)
			break
		}
		fmt.Fprintf(&b, "VIOLATION %s\n", s)
	}
	fmt.Fprintf(&b, "kills: %d workers, %d supervisors, %d scripts, %d others; %d stops\n",
		v.Workers, v.Supervisors, v.Scripts, v.Kills-v.Workers-v.Supervisors-v.Scripts, v.Stops)
	fmt.Fprintf(&b, "acts:  %s\n", counts(v.Faults))
	fmt.Fprintf(&b, "ended: %s; %d takeovers, %d resumed by their own worker, %d steps repeated, %d condemned for crashes\n",
		counts(v.Ended), v.Takeovers, v.Resumes, v.Repeats, v.Condemned)
	if len(v.Again) > 0 {
		fmt.Fprintf(&b, "from a worker's kill to its task's next start (n=%d): p50 %v, p90 %v, p99 %v\n", len(v.Again),
			v.Percentile(.5).Round(time.Millisecond), v.Percentile(.9).Round(time.Millisecond), v.Percentile(.99).Round(time.Millisecond))
	}
	for _, s := range v.Skipped {
		fmt.Fprintf(&b, "not done here: %s\n", s)
	}
	fmt.Fprintf(&b, "took %v\n%s\n", v.Took.Round(time.Second), v.Line())
	_, _ = io.WriteString(w, b.String()) // the exit status tells it too
}

func counts(m map[string]int) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(names, ", ")
}
