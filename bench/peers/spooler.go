package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// programs is how many times /bin/true is run.
const programs = 500

// spoolers measures task-spooler, whose queue lies in memory, against a bare loop:
// how fast it starts programs, two at a time.
func (r *run) spoolers() {
	path, err := exec.LookPath("tsp")
	if err != nil {
		r.notes = append(r.notes, "task-spooler left out: tsp is not installed")
		return
	}
	var bare, spooled []float64
	for range r.rounds {
		rate, err := bareLoop()
		if err == nil {
			bare = append(bare, rate)
			rate, err = r.spool(path)
		}
		if err != nil {
			r.notes = append(r.notes, "task-spooler: "+err.Error())
			return
		}
		spooled = append(spooled, rate)
	}
	b, s := quantile(bare, 0.5), quantile(spooled, 0.5)
	r.notes = append(r.notes, fmt.Sprintf("/bin/true, 2 at a time: bare loop %s/s; task-spooler %s/s (%.0f %%), nothing durable", number(b), number(s), 100*s/b))
}

func bareLoop() (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	began := time.Now()
	for range 2 {
		wg.Go(func() {
			for next.Add(1) <= programs {
				if err := exec.Command("/bin/true").Run(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return programs / time.Since(began).Seconds(), <-failed
}

// spool queues the programs behind two that sleep, ends those, and waits for the
// last: so the enqueueing is not in it.
func (r *run) spool(path string) (rate float64, err error) {
	socket := filepath.Join(r.dir, fmt.Sprintf("tsp%d", time.Now().UnixNano()))
	tsp := func(args ...string) (string, error) {
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), "TS_SOCKET="+socket, "TS_MAXFINISHED=2000", "TS_SLOTS=2", "TMPDIR="+r.dir)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := tsp("-S", "2"); err != nil {
		return 0, err
	}
	defer func() {
		if _, kerr := tsp("-K"); err == nil {
			err = kerr
		}
	}()
	for range 2 {
		if _, err := tsp("-n", "sleep", "60"); err != nil {
			return 0, err
		}
	}
	for range programs {
		if _, err := tsp("-n", "/bin/true"); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for id := range 2 {
		if _, err := tsp("-k", fmt.Sprint(id)); err != nil {
			return 0, err
		}
	}
	_, _ = tsp("-w", fmt.Sprint(programs+1)) // its status is the job's
	for {
		list, err := tsp("-l")
		if err != nil {
			return 0, err
		}
		if !strings.Contains(list, " running ") && !strings.Contains(list, " queued ") {
			return programs / time.Since(began).Seconds(), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
