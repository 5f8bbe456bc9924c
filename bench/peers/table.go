package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// print writes the table, 80 characters wide.
func (r *run) print(w io.Writer) {
	section := ""
	for _, e := range r.rows {
		if e.section != section {
			section = e.section
			fmt.Fprintf(w, "\n%s\n%-28s %8s %8s %8s %8s %5s %5s\n", section, "", "insert/s", "batch/s", "drain 1", "drain 4", "p99", "idle")
		}
		fmt.Fprintf(w, "%s %8s %8s %8s %8s %5s %5s\n", pad(e.name, 28), cell(e.single), cell(e.batch), cell(e.drain1), cell(e.drain4), cell(e.wake99), cell(e.idleS))
		if twice, locked := sum(e.twice), sum(e.locked); twice+locked > 0 {
			fmt.Fprintf(w, "    4 processes: %s jobs run twice, %s times \"database is locked\"\n", number(twice), number(locked))
		}
		if e.trouble != "" {
			fmt.Fprintf(w, "    %.74s\n", strings.ReplaceAll(e.trouble, "\n", " "))
		}
	}
	fmt.Fprintln(w, `
drain 1, drain 4: no-op jobs a second with 1 and 4 processes. p99: from an
INSERT of another process to the start, ms. idle: CPU seconds of a worker in 30 s.`)
	for _, n := range r.notes {
		fmt.Fprintln(w, n)
	}
}

// cell is the median, as short as it can be told.
func cell(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	return number(quantile(v, 0.5))
}

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
		return fmt.Sprintf("%.2f", v)
	}
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) }

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// quantile is the nearest-rank quantile; of an even number the median is the mean
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

// write stores all samples.
func (r *run) write(path string) error {
	type line struct {
		Section string               `json:"section"`
		Name    string               `json:"name"`
		Samples map[string][]float64 `json:"samples"`
		Trouble string               `json:"trouble,omitempty"`
	}
	var lines []line
	for _, e := range r.rows {
		lines = append(lines, line{e.section, e.name, map[string][]float64{
			"insert_per_s": e.single, "batch_per_s": e.batch, "drain1_per_s": e.drain1, "drain4_per_s": e.drain4,
			"twice": e.twice, "locked": e.locked, "wake_p50_ms": e.wake50, "wake_p99_ms": e.wake99,
			"idle_cpu_s": e.idleS, "anonymous_mb": e.anonMB,
		}, e.trouble})
	}
	b, err := json.MarshalIndent(struct {
		Rows  []line   `json:"rows"`
		Notes []string `json:"notes"`
	}{lines, r.notes}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
