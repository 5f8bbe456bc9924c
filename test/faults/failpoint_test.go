package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

// How a failpoint is named in the source: by itself, or as what the store's writer
// passes on either side of a COMMIT.
var (
	hit    = regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	points = regexp.MustCompile(`points(?:: \[\]string\{|, )"([^"]+)"`)
)

// failpoints reads the names from the source: a new one is tested by itself.
func failpoints(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir("../../pkg", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range hit.FindAllStringSubmatch(string(b), -1) {
			seen[m[1]] = true
		}
		for _, m := range points.FindAllStringSubmatch(string(b), -1) {
			seen[m[1]+"/before-commit"], seen[m[1]+"/after-commit"] = true, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// TestKillAtEveryFailpoint kills the process at each named point of the protocol,
// at the first hit (and with NIGHTSHIFT_LONG=1 at the third), and checks the night
// afterwards.
func TestKillAtEveryFailpoint(t *testing.T) {
	names := failpoints(t)
	if len(names) == 0 {
		t.Fatal("no failpoint in the source")
	}
	nths := []int{1}
	if os.Getenv("NIGHTSHIFT_LONG") != "" {
		nths = append(nths, 3)
	}
	dir := t.TempDir()
	var missed []string
	play(t, night.Options{
		Bin: binaries(t, "failpoint"), Workers: 2, Free: 2, Slots: 2, NoLoop: true, Quiet: time.Minute,
		Mix: []string{"plain", "batch", "shell", "child", "escape", "fail", "fatal", "untimed"},
		Env: []string{"NIGHTSHIFT_FAILPOINTS=" + dir},
		Config: func(c string) string {
			return c + "schedules:\n  each_second: {every: 1s, task: render_report, overlap: allow}\n"
		},
		Script: func(st *night.Stage) error {
			for _, nth := range nths {
				for _, name := range names {
					if !killAt(st, dir, name, nth) {
						missed = append(missed, fmt.Sprintf("%s (hit %d)", name, nth))
					}
				}
			}
			return nil
		},
	})
	if len(missed) > 0 {
		t.Errorf("not reached: %s", strings.Join(missed, ", "))
	}
	t.Logf("killed at each of %d points", len(names))
}

// killAt arms a point, does what brings a process there, and waits for its death.
func killAt(st *night.Stage, dir, name string, nth int) bool {
	path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
	if once(name) {
		nth = 1
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "kill %d", nth), 0o600); err != nil {
		st.Say("%v", err)
		return false
	}
	st.Say("%s, hit %d", name, nth)
	fired := func() bool {
		_, err := os.Stat(path + ".fired")
		return err == nil
	}
	again := stimulus(st, name)
	err := st.Wait(name, 25*time.Second, func() bool { again(); return fired() })
	st.Want("h1", true)
	_ = os.Remove(path) // gone when it fired
	if err != nil {
		return false
	}
	st.Did("failpoint")
	st.Died()
	return os.Remove(path+".fired") == nil
}

// once: a process passes these once in its life.
func once(name string) bool {
	for _, p := range []string{"start/", "recover/", "register/", "drain/", "stopped/", "takeover/", "warden/", "migrate/"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// stimulus brings a process to the point, if an ordinary night does not, and
// returns what to repeat while it has not been reached.
func stimulus(st *night.Stage, name string) (again func()) {
	last := time.Now()
	every := func(d time.Duration, f func()) func() {
		f()
		return func() {
			if time.Since(last) > d {
				last = time.Now()
				f()
			}
		}
	}
	switch strings.SplitN(name, "/", 2)[0] {
	case "start", "recover", "register":
		return every(2*time.Second, func() { st.Kill(st.PID("h2")) })
	case "takeover", "warden":
		// It goes for good, while it runs something.
		return every(6*time.Second, func() {
			st.Want("h1", true)
			_ = st.Wait("h1 runs a task", 5*time.Second, func() bool { return len(st.Scripts("h1")) > 0 }) // tried again
			st.Want("h1", false)
			st.Kill(st.PID("h1"))
		})
	case "drain", "stopped":
		return every(6*time.Second, func() { st.Signal(st.PID("h2"), syscall.SIGTERM) })
	}
	return func() {}
}
