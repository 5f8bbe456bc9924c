//go:build linux

package supervision

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needMeasure skips what takes minutes; the short form of each claim is a fault test.
func needMeasure(t *testing.T) {
	t.Helper()
	if !*measure {
		t.Skip("takes minutes: give -measure")
	}
}

func TestMeasureRestart(t *testing.T) {
	needMeasure(t)
	var started, ready []time.Duration
	for range 100 { // each under a supervisor of its own: the first failure is meant, not the back-off
		t.Run("kill", func(t *testing.T) {
			r := newRig(t, 1).start()
			pid := r.ready("w1", 0)
			r.until("its own note is whole", func() bool { return len(r.notes("ready-w1")) == 1 })
			began := time.Now()
			sigkill(t, pid)
			r.until("it is READY anew", func() bool { return len(r.notes("ready-w1")) == 2 })
			started = append(started, stamp(t, r.notes("starts-w1")[1]).Sub(began))
			ready = append(ready, stamp(t, r.notes("ready-w1")[1]).Sub(began))
		})
	}
	fmt.Printf("kill -9 to the new process's first line: %s\n", spread(started))
	fmt.Printf("kill -9 to READY: %s\n", spread(ready))
}

func TestMeasureIdle(t *testing.T) {
	needMeasure(t)
	r := newRig(t, 2)
	r.command = append(r.command, "--beat", "1s")
	r.start()
	r.ready("w1", 0)
	r.ready("w2", 0)
	time.Sleep(3 * time.Second)
	before := cpu(t, r.cmd.Process.Pid)
	time.Sleep(time.Minute)
	used := cpu(t, r.cmd.Process.Pid) - before
	fmt.Printf("idle with two workers: %v of CPU in a minute, RSS %s\n", used, rss(t, r.cmd.Process.Pid))
}

func TestMeasureCrashLoop(t *testing.T) {
	needMeasure(t)
	r := newRig(t, 1)
	r.set("exit-w1", "1")
	r.start()
	time.Sleep(30 * time.Second)
	starts := len(r.notes("starts-w1"))
	for range 3 {
		before := strings.Count(r.log(), "\n")
		time.Sleep(time.Minute)
		fmt.Printf("crash loop: %d starts in the first 30 s; %d log lines in a minute later\n", starts, strings.Count(r.log(), "\n")-before)
	}
	if starts > 10 {
		t.Errorf("%d starts in 30 s, want at most 10", starts)
	}
}

// TestMeasureSupervisorKilled kills the supervisor at random moments, under load.
func TestMeasureSupervisorKilled(t *testing.T) {
	rounds := 10
	if *measure {
		rounds = 200
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
	}
	t.Logf("repeat with SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, 2)
	r.set("task-w1", trees[3].script)
	r.set("task-w2", trees[2].script)
	r.start()
	for range rounds {
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		if rng.IntN(3) == 0 { // a worker dies too
			if w := r.worker("w1"); w.PID > 1 {
				_ = syscall.Kill(w.PID, syscall.SIGKILL) // stale numbers are of this test's dead
			}
		}
		r.kill()
		r.start()
	}
	r.until("both are ready", func() bool { // by the word of the one that runs now
		return r.status().PID == r.cmd.Process.Pid && r.worker("w1").State == "ready" && r.worker("w2").State == "ready"
	})
	r.single()
	fmt.Printf("%d × kill -9 of the supervisor: w1 started %d times, w2 %d times, overlaps none\n",
		rounds, len(r.notes("starts-w1")), len(r.notes("starts-w2")))
}

func stamp(t *testing.T, line string) time.Time {
	t.Helper()
	_, nanos, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(nanos, 10, 64)
	check(t, err)
	return time.Unix(0, n)
}

func spread(d []time.Duration) string {
	slices.Sort(d)
	at := func(q int) time.Duration { return d[(len(d)-1)*q/100].Round(100 * time.Microsecond) }
	return fmt.Sprintf("median %v, p90 %v, p99 %v, most %v (%d)", at(50), at(90), at(99), at(100), len(d))
}

func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	total := int64(0)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	check(t, err)
	for _, th := range threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, th.Name()))
		if err != nil {
			continue // ended meanwhile
		}
		n, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		check(t, err)
		total += n
	}
	return time.Duration(total).Round(10 * time.Microsecond)
}

func rss(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
