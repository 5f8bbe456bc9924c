package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idles measures what a system costs that has nothing to do: the stock worker
// under the supervisor.
func (b *bench) idles() error {
	s, err := b.newSystem("")
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.start(1, filepath.Join(b.bin, "worker")); err != nil {
		return err
	}
	pid, err := s.number(`SELECT pid FROM worker_heartbeats WHERE worker_id = 'w1'`)
	if err != nil {
		return err
	}
	time.Sleep(scale(b, 4*time.Second, time.Second)) // the start itself is over
	span := scale(b, 30*time.Second, 2*time.Second)
	pids := map[string]int{"worker": int(pid), "supervisor": s.sup.Process.Pid}
	before := map[string]float64{}
	for name, pid := range pids {
		if before[name], err = cpuSeconds(pid); err != nil {
			return err
		}
	}
	time.Sleep(span)
	for _, name := range []string{"worker", "supervisor"} {
		after, err := cpuSeconds(pids[name])
		if err != nil {
			return err
		}
		used := (after - before[name]) * float64(30*time.Second) / float64(span)
		b.put("idle "+name+", CPU in 30 s", "s", used).below(0.03)
	}
	for _, name := range []string{"worker", "supervisor"} {
		rss, anon, err := memory(pids[name])
		if err != nil {
			return err
		}
		b.put("idle "+name+", RSS", "MB", rss).below(map[string]float64{"worker": 40, "supervisor": 10}[name]).
			note("%.1f MB of it anonymous", anon)
	}
	return nil
}

// cpuSeconds is what a process has used, to the nanosecond: /proc/PID/stat counts
// in hundredths of a second only.
func cpuSeconds(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("process %d cannot be looked at: %v", pid, err)
	}
	var sum float64
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
		if err != nil {
			return 0, err
		}
		sum += ns / 1e9
	}
	return sum, nil
}

// memory is a process's resident memory, in MB, and the part that is no file.
func memory(pid int) (rss, anon float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "VmRSS:" && f[0] != "RssAnon:" {
			continue
		}
		kb, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return 0, 0, err
		}
		if f[0] == "VmRSS:" {
			rss = kb / 1024
		} else {
			anon = kb / 1024
		}
	}
	return rss, anon, nil
}
