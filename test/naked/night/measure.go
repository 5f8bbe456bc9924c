package night

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measurement is how the sizes of a running system went over time.
type Measurement struct {
	names  []string
	series map[string][]float64
}

// limits say when a series has grown: the median of its last quarter beyond that
// of its second (the first is warming up) by more than this part and this amount.
var limits = []struct {
	prefix string
	part   float64
	amount float64
}{
	{"rss ", 0.20, 8 << 20},
	{"descriptors ", 0, 4},
	{"threads ", 0, 4},
	{"wal", 0, 16 << 20},
	{"database", 0.5, 16 << 20},
	{"logs", 0.5, 32 << 20},
	{"tasks' directories", 0.5, 1 << 20},
}

// Measure samples the system's processes and files for d.
func Measure(ctx context.Context, s *Stage, d, every time.Duration) *Measurement {
	m := &Measurement{series: map[string][]float64{}}
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(every) {
		m.sample(s)
	}
	return m
}

func (m *Measurement) add(name string, v float64) {
	if _, known := m.series[name]; !known {
		m.names = append(m.names, name)
	}
	m.series[name] = append(m.series[name], v)
}

func (m *Measurement) sample(s *Stage) {
	for _, p := range s.n.nem.find(func(p *process) bool { return p.env["NAKED"] != "" && p.env["NIGHTSHIFT_TASK_ID"] == "" && !p.forked }) {
		name := p.comm
		if p.comm == "worker" {
			name = s.n.nem.workerID(&p)
		} else if p.comm != "supervisor" {
			continue
		}
		rss, threads := status(p.pid)
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		if err != nil || rss == 0 {
			continue // it has just ended
		}
		m.add("rss "+name, rss)
		m.add("threads "+name, threads)
		m.add("descriptors "+name, float64(len(fds)))
	}
	m.add("database", size(s.n.g.database()))
	m.add("wal", size(s.n.g.database()+"-wal"))
	m.add("logs", size(filepath.Join(s.n.g.data, "logs")))
	m.add("tasks' directories", size(filepath.Join(s.n.g.data, "tasks")))
}

// status reads resident bytes and threads.
func status(pid int) (rss, threads float64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		v, err := strconv.ParseFloat(f[1], 64)
		switch {
		case err != nil:
		case f[0] == "VmRSS:":
			rss = v * 1024
		case f[0] == "Threads:":
			threads = v
		}
	}
	return rss, threads
}

// size of a file, or of all files below a directory. What goes away meanwhile
// counts nothing.
func size(path string) float64 {
	var sum float64
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += float64(info.Size())
		}
		return nil
	})
	return sum
}

// quarters are the medians of the second and the last quarter.
func quarters(v []float64) (early, late float64) {
	q := len(v) / 4
	return median(v[q : 2*q+1]), median(v[len(v)-q-1:])
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// Growth names what has grown.
func (m *Measurement) Growth() []string {
	var grown []string
	for _, name := range m.names {
		early, late := quarters(m.series[name])
		for _, l := range limits {
			if strings.HasPrefix(name, l.prefix) && late > early*(1+l.part)+l.amount {
				grown = append(grown, fmt.Sprintf("%s: %.0f, then %.0f", name, early, late))
			}
		}
	}
	return grown
}

// Table shows each series' second and last quarter and its largest value.
func (m *Measurement) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s %14s %14s %14s %6s\n", "", "second quarter", "last quarter", "most", "n")
	for _, name := range m.names {
		v := m.series[name]
		early, late := quarters(v)
		fmt.Fprintf(&b, "%-26s %14.0f %14.0f %14.0f %6d\n", name, early, late, slices.Max(v), len(v))
	}
	return b.String()
}
