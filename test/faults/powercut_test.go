package faults

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the checker's own connection

	"nightshift/pkg/store"
	"nightshift/pkg/task"
	"nightshift/test/naked/night"
)

// load writes as fast as it can, and says what was answered with success: "A id"
// for an accepted task, "C id" for a checkpoint, "F id" for a finished one.
func load(path string) int {
	s, err := store.Open(store.Options{Path: path, MaxWait: 10 * time.Second})
	if err != nil {
		return failed("open: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() { defer wg.Done(); accept(s) }()
	}
	wg.Add(1)
	go func() { defer wg.Done(); work(s) }()
	wg.Wait() // each ends with its first error
	return 0
}

func say(event, id string) {
	if _, err := os.Stdout.WriteString(event + " " + id + "\n"); err != nil {
		os.Exit(1)
	}
}

func accept(s *store.Store) {
	for {
		ids, err := s.Add(time.Now(), store.NewTask{Type: "load", Payload: `{"some":"thing"}`})
		if err != nil {
			return
		}
		say("A", ids[0])
	}
}

// work claims, makes a checkpoint and finishes.
func work(s *store.Store) {
	rules := map[string]store.TypeRule{"load": {Timeout: time.Hour}}
	var ends []store.Finish
	for {
		got, err := s.Turn(ends, &store.ClaimRequest{Executors: []string{"w1"}, Worker: "w1", Types: rules, Now: time.Now()})
		if err != nil {
			return
		}
		for i := range ends {
			if got.Finished[i].Err == nil {
				say("F", ends[i].Fence.TaskID)
			}
		}
		ends = ends[:0]
		for i := range got.Claimed {
			f := got.Claimed[i].Fence()
			if _, err := s.Checkpoint(f, `{"n":1}`, "1/1", time.Now()); err != nil {
				return
			}
			say("C", f.TaskID)
			ends = append(ends, store.Finish{Fence: f, Verdict: store.Succeed, Result: `{}`, Now: time.Now()})
		}
	}
}

// acks is what was answered with success in one round.
type acks struct {
	mu   sync.Mutex
	list []string
}

func (a *acks) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		a.mu.Lock()
		a.list = append(a.list, s.Text())
		a.mu.Unlock()
	}
}

func (a *acks) until() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list[:len(a.list):len(a.list)]
}

// TestAcceptedSurvivesPowerCuts: whatever was answered with success before the
// power went is there after. Only answers before the cut count: an fsync that
// races with the ioctl may return success for what is lost.
func TestAcceptedSurvivesPowerCuts(t *testing.T) {
	n := *cuts
	if testing.Short() {
		n = min(n, 5)
	}
	d := newDisk(t, "600M")
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(d.mount, "nightshift.db")
	if err := store.Init(path); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	total := map[string]int{}
	for i := range n {
		said := cutOnce(t, d, path, time.Duration(20+r.IntN(200))*time.Millisecond)
		for k, v := range verify(t, path, said, i == n-1) {
			total[k] += v
		}
		if t.Failed() {
			t.Fatalf("cut %d, seed %d", i, seed)
		}
	}
	if total["A"] == 0 || total["F"] == 0 {
		t.Errorf("nothing was accepted (%v): this proves nothing", total)
	}
	t.Logf("%d power cuts in %v: %d accepted, %d checkpoints, %d finished before their cut, 0 lost, 0 corrupt (seed %d)",
		n, time.Since(begun).Round(time.Second), total["A"], total["C"], total["F"], seed)
}

// cutOnce lets a process write for a while, beside a client of the command line,
// and cuts the power.
func cutOnce(t *testing.T, d *disk, path string, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &acks{}
	read := make(chan struct{})
	go func() { a.read(out); close(read) }()
	for end := time.Now().Add(20 * time.Second); len(a.until()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the load does not begin: %s", errs.String())
		}
	}
	time.Sleep(after)
	said := a.until()
	if err := night.PowerOff(d.mount); err != nil {
		t.Fatalf("power: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-read
	_ = cmd.Wait() // it was killed
	d.again()
	return said
}

// verify opens the database as it came back and looks for what was answered.
func verify(t *testing.T, path string, said []string, thorough bool) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=rw&_busy_timeout=5000&_synchronous=FULL")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // a checker's connection
	check := "PRAGMA quick_check"
	if thorough {
		check = "PRAGMA integrity_check"
	}
	var word string
	if err := db.QueryRow(check).Scan(&word); err != nil || word != "ok" {
		t.Errorf("%s: %s %v", check, word, err)
	}
	find, err := db.Prepare("SELECT status, coalesce(checkpoint,'') FROM tasks WHERE task_id=?")
	if err != nil {
		t.Fatal(err)
	}
	defer find.Close() // as db
	count := map[string]int{}
	for _, line := range said {
		event, id, _ := strings.Cut(line, " ")
		var status, checkpoint string
		if err := find.QueryRow(id).Scan(&status, &checkpoint); err != nil {
			t.Errorf("%s was answered with success (%s) and is not there: %v", id, event, err)
			continue
		}
		if event == "F" && status != string(task.Success) {
			t.Errorf("%s had ended and is %s", id, status)
		}
		if event == "C" && checkpoint == "" {
			t.Errorf("%s had a checkpoint and has none", id)
		}
		count[event]++
	}
	if t.Failed() {
		keep := filepath.Join(os.TempDir(), fmt.Sprintf("powercut-%d", os.Getpid()))
		if out, err := command("cp", "-a", filepath.Dir(path), keep); err != nil {
			t.Logf("evidence not kept: %v: %s", err, out)
		} else {
			t.Logf("evidence: %s", keep)
		}
	}
	return count
}
