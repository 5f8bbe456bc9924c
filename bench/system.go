package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nightshift/pkg/store"
)

// system is one installation in a directory of its own: a configuration, a
// database, and while it runs a supervisor with its workers.
type system struct {
	b     *bench
	dir   string
	db    *sql.DB // read-only, of a stranger
	store *store.Store

	sup    *exec.Cmd
	stderr bytes.Buffer
}

// newSystem makes an empty database and the configuration; nothing runs yet.
func (b *bench) newSystem(config string) (*system, error) {
	dir, err := os.MkdirTemp(b.dir, "system-")
	if err != nil {
		return nil, err
	}
	s := &system{b: b, dir: dir}
	if err := os.Mkdir(s.path("data"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.config(), []byte("data_dir: ./data\n"+config), 0o600); err != nil {
		return nil, err
	}
	if err := store.Init(s.path("data/nightshift.db")); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(store.Options{Path: s.path("data/nightshift.db")}); err != nil {
		return nil, err
	}
	s.db, err = sql.Open("sqlite3", "file:"+s.path("data/nightshift.db")+"?mode=ro&_busy_timeout=5000")
	if err == nil {
		s.db.SetMaxOpenConns(1)
		err = s.db.Ping() // before the workers look: a stranger who comes is made room for
	}
	b.mu.Lock()
	b.systems[s] = true
	b.mu.Unlock()
	return s, err
}

func (s *system) path(name string) string { return filepath.Join(s.dir, name) }
func (s *system) config() string          { return s.path("nightshift.yaml") }

// start starts a supervisor over n workers and waits until they are ready. worker
// is the stock one or ours.
func (s *system) start(n int, worker string) error {
	s.sup = exec.Command(filepath.Join(s.b.bin, "supervisor"), "--workers", fmt.Sprint(n), "--run-dir", s.path("data/run"), "--",
		worker, "run", "--config", s.config())
	s.sup.Dir, s.sup.Stderr = s.dir, &s.stderr
	s.sup.Env = append(os.Environ(), runsFile+"="+s.path("runs"))
	s.sup.WaitDelay = time.Second
	if err := s.sup.Start(); err != nil {
		return err
	}
	return s.until("workers ready", 20*time.Second, func() (bool, error) {
		ready := 0
		for w := range n {
			log, err := os.ReadFile(s.path(fmt.Sprintf("data/logs/w%d.log", w+1)))
			if err == nil && strings.Contains(string(log), "worker ready") {
				ready++
			}
		}
		return ready == n, nil
	})
}

// stop ends the supervisor and its workers as an operator would.
func (s *system) stop() error {
	if s.sup == nil {
		return nil
	}
	if err := s.sup.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := s.sup.Wait()
	s.sup = nil
	if err != nil {
		return fmt.Errorf("supervisor: %w: %s", err, s.stderr.String())
	}
	return nil
}

// end stops what runs, without ado, and removes the directory.
func (s *system) end() {
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	err := s.store.Close()
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	s.b.mu.Lock()
	delete(s.b.systems, s)
	s.b.mu.Unlock()
	if err = errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// until waits for a condition, looking each 2 ms.
func (s *system) until(what string, limit time.Duration, ok func() (bool, error)) error {
	return s.untilAt(2*time.Millisecond, what, limit, ok)
}

// untilAt is until at another pace.
func (s *system) untilAt(pace time.Duration, what string, limit time.Duration, ok func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(pace) {
		done, err := ok()
		if done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s; the supervisor said: %s", what, limit, s.stderr.String())
		}
	}
}

// untilDone waits until no task is left that will still run.
func (s *system) untilDone(limit time.Duration) error {
	q, err := s.db.Prepare(`SELECT NOT EXISTS (SELECT 1 FROM tasks WHERE status = 'PENDING')
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE status IN ('RUNNING', 'RETRYING', 'LOST'))`)
	if err != nil {
		return err
	}
	defer q.Close()
	// Seldom: what a look costs the workers would have.
	return s.untilAt(25*time.Millisecond, "all tasks done", limit, func() (done bool, err error) {
		err = q.QueryRow().Scan(&done)
		return done, err
	})
}

// rate is how many tasks a second went from their first claim to the last end, by the
// workers' own records.
func (s *system) rate(n int) (float64, error) {
	var seconds float64
	err := s.db.QueryRow(`SELECT (julianday(max(end_time)) - julianday(min(start_time))) * 86400 FROM exec_history`).Scan(&seconds)
	return float64(n) / seconds, err
}

// number reads one number.
func (s *system) number(query string, args ...any) (n int64, err error) {
	err = s.db.QueryRow(query, args...).Scan(&n)
	return n, err
}

// add inserts n tasks of a type in one transaction.
func (s *system) add(n int, t store.NewTask) ([]string, error) {
	tasks := make([]store.NewTask, n)
	for i := range tasks {
		tasks[i] = t
	}
	return s.store.Add(time.Time{}, tasks...)
}

// complaints counts the log lines of all workers that hold one of the words.
func (s *system) complaints(words ...string) (n int, err error) {
	logs, err := filepath.Glob(s.path("data/logs/w*.log"))
	if err != nil {
		return 0, err
	}
	texts := []string{s.stderr.String()}
	for _, l := range logs {
		b, err := os.ReadFile(l)
		if err != nil {
			return 0, err
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		for line := range strings.Lines(strings.ToLower(text)) {
			for _, w := range words {
				if strings.Contains(line, w) {
					n++
					break
				}
			}
		}
	}
	return n, nil
}
