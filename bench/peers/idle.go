package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const idleSpan = 30 * time.Second

// idles lets one idle worker of each queue lie side by side, and looks what they
// cost. All are this one binary: of their memory only the anonymous part compares.
func (r *run) idles() {
	type one struct {
		e      *row
		w      *process
		before float64
	}
	var all []one
	for _, e := range r.rows {
		c, p, err := r.fresh(e)
		if err == nil {
			err = p.Insert(job{})
		}
		if err != nil {
			e.trouble = "idle: " + err.Error()
			continue
		}
		w, err := r.startWorker(duty{settings: c, Idle: true})
		if err != nil {
			e.trouble = "idle: " + err.Error()
			continue
		}
		if err := w.tell("go"); err == nil {
			all = append(all, one{e: e, w: w})
		}
	}
	time.Sleep(4 * time.Second)
	for i := range all {
		all[i].before = cpuSeconds(all[i].w.cmd.Process.Pid)
	}
	time.Sleep(idleSpan)
	for _, o := range all {
		pid := o.w.cmd.Process.Pid
		o.e.idleS = append(o.e.idleS, cpuSeconds(pid)-o.before)
		o.e.anonMB = append(o.e.anonMB, anonymousMB(pid))
	}
	for _, o := range all {
		o.w.stop()
	}
}

// cpuSeconds is what a process's threads have used; 0 when it is gone.
func cpuSeconds(pid int) (sum float64) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // that thread has ended
		}
		if fields := strings.Fields(string(b)); len(fields) > 0 {
			ns, _ := strconv.ParseFloat(fields[0], 64) // the kernel writes numbers
			sum += ns / 1e9
		}
	}
	return sum
}

func anonymousMB(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kb, _ := strconv.ParseFloat(f[1], 64) // the kernel writes numbers
			return kb / 1024
		}
	}
	return 0
}
