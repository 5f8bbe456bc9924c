package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

// figure is one line of the table: the median of its samples.
type figure struct {
	Group   string    `json:"group"`
	Name    string    `json:"name"`
	Unit    string    `json:"unit"` // /s: a rate, more is better; ms, µs, s, MB: less is better; "" a count
	Value   float64   `json:"value"`
	Samples []float64 `json:"samples,omitempty"`
	Limit   string    `json:"limit,omitempty"` // the figure that Ratio is taken of
	Ratio   float64   `json:"ratio,omitempty"`
	Target  string    `json:"target,omitempty"`
	Met     *bool     `json:"met,omitempty"`
	Note    string    `json:"note,omitempty"`
}

// report collects the figures of a run.
type report struct {
	group   string
	Machine map[string]string `json:"machine"`
	Quick   bool              `json:"quick"`
	Rounds  int               `json:"rounds"`
	Figures []*figure         `json:"figures"`
}

// put adds a figure.
func (r *report) put(name, unit string, samples ...float64) *figure {
	f := &figure{Group: r.group, Name: name, Unit: unit, Value: median(samples)}
	if len(samples) > 1 {
		f.Samples = samples
	}
	r.Figures = append(r.Figures, f)
	return f
}

// of sets the figure beside its limit. Both are measured in turns, so that what
// else the machine does meets both: the median of the pairs' ratios counts.
func (f *figure) of(limit *figure) *figure {
	f.Limit = limit.Name
	f.Ratio = f.Value / limit.Value
	if len(f.Samples) > 1 && len(f.Samples) == len(limit.Samples) {
		pairs := make([]float64, len(f.Samples))
		for i := range pairs {
			pairs[i] = f.Samples[i] / limit.Samples[i]
		}
		f.Ratio = median(pairs)
	}
	return f
}

// want says what the figure should show.
func (f *figure) want(target string, met bool) *figure {
	f.Target, f.Met = target, &met
	return f
}

// ratioAtLeast wants a share of the limit.
func (f *figure) ratioAtLeast(share float64) *figure {
	return f.want(fmt.Sprintf("≥ %.0f %%", 100*share), f.Ratio >= share)
}

// ratioAtMost wants a bound on a multiple of another figure.
func (f *figure) ratioAtMost(times float64) *figure {
	return f.want(fmt.Sprintf("≤ %.0f %%", 100*times), f.Ratio <= times)
}

// below wants a value under a bound.
func (f *figure) below(bound float64) *figure {
	return f.want("< "+number(bound)+" "+f.Unit, f.Value < bound)
}

func (f *figure) note(format string, args ...any) *figure {
	f.Note = fmt.Sprintf(format, args...)
	return f
}

// describe notes on what and of what the figures are.
func (r *report) describe(quick bool, rounds int) {
	r.Quick, r.Rounds = quick, rounds
	sqlite, _, _ := sqlite3.Version()
	r.Machine = map[string]string{
		"time": time.Now().UTC().Format(time.RFC3339), "cpus": fmt.Sprint(runtime.NumCPU()),
		"go": runtime.Version(), "sqlite": sqlite, "commit": commit(), "load": load(),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		r.Machine["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
}

// commit is what was built: as the binary knows it, or the work tree.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// load is the machine's load average: figures taken beside other work say so.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Columns of the table: 80 characters in all.
const (
	nameWidth   = 43
	valueWidth  = 13
	ratioWidth  = 9
	targetWidth = 12
)

func (r *report) print(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "Nightshift %s, %s CPUs, Linux %s, SQLite %s, load at the start %s\n", m["commit"], m["cpus"], m["kernel"], m["sqlite"], m["load"])
	if r.Quick {
		fmt.Fprintln(w, "quick: a smoke test, these figures have no weight")
	}
	group := ""
	for _, f := range r.Figures {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(w, "\n%s %s %s %s\n", pad(group, nameWidth), left("median", valueWidth), left("of limit", ratioWidth), left("target", targetWidth))
		}
		ratio, target := "", f.Target
		if f.Ratio > 0 {
			ratio = fmt.Sprintf("%.0f %%", 100*f.Ratio)
		}
		if f.Met != nil && !*f.Met {
			target = "MISSED " + target
		}
		line := fmt.Sprintf("%s %s %s %s", pad("  "+f.Name, nameWidth), left(number(f.Value)+" "+f.Unit, valueWidth), left(ratio, ratioWidth), left(target, targetWidth))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
		if f.Note != "" {
			fmt.Fprintf(w, "      %s\n", f.Note)
		}
	}
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func left(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}

// number writes v with three figures that matter, and thousands apart.
func number(v float64) string {
	switch {
	case v >= 1000:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile is the nearest-rank quantile; the median of an even number is the mean
// of the two in the middle.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); q == 0.5 && n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	rank := int(q*float64(len(s)) + 0.999999)
	return s[min(max(rank-1, 0), len(s)-1)]
}
