//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// envDir names the directory through which a test arms failpoints. A file in it
// named like the point (with '/' as '_') holds the action and the number of the
// hit at which it fires, counted in one process from when the file is first seen:
//
//	kill 3         SIGKILL to this process at the third hit
//	stop 1         SIGSTOP
//	sleep 200ms 1  waits
//
// What fires is first renamed to NAME.fired, so that it fires once over all
// processes. Each process notes the points that it passes in the file `passed`.
const envDir = "NIGHTSHIFT_FAILPOINTS"

var points = struct {
	sync.Mutex
	dir    string
	hits   map[string]int
	passed map[string]bool
}{dir: os.Getenv(envDir), hits: map[string]int{}, passed: map[string]bool{}}

// Hit does at this point what a test has armed for it, if anything.
func Hit(name string) {
	if points.dir == "" {
		return
	}
	points.Lock()
	defer points.Unlock()
	if !points.passed[name] {
		points.passed[name] = true
		note(name)
	}
	path := filepath.Join(points.dir, strings.ReplaceAll(name, "/", "_"))
	text, err := os.ReadFile(path)
	if err != nil {
		delete(points.hits, name)
		return
	}
	points.hits[name]++
	fire(path, strings.Fields(string(text)), points.hits[name])
}

func note(name string) {
	f, err := os.OpenFile(filepath.Join(points.dir, "passed"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %d\n", name, os.Getpid()); err != nil {
		panic("failpoint: " + err.Error())
	}
}

func fire(path string, action []string, hits int) {
	var nth int
	if len(action) < 2 {
		return // half written: the next hit reads it whole
	}
	if _, err := fmt.Sscan(action[len(action)-1], &nth); err != nil || hits < nth {
		return
	}
	if os.Rename(path, path+".fired") != nil {
		return // another process was faster
	}
	switch action[0] {
	case "kill":
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {} // the signal is on its way
	case "stop":
		must(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	case "sleep":
		d, err := time.ParseDuration(action[1])
		must(err)
		time.Sleep(d)
	default:
		panic("failpoint: unknown action in " + path)
	}
}

func must(err error) {
	if err != nil {
		panic("failpoint: " + err.Error())
	}
}
