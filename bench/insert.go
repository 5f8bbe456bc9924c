package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"nightshift/pkg/store"
)

// inserts measures durable enqueueing: one task a transaction, and one batch, by
// the library, by the command line and by the sqlite3 shell, in turns with SQLite
// without us.
func (b *bench) inserts() error {
	got := map[string][]float64{}
	for range b.rounds {
		for _, way := range []func(b *bench, got map[string][]float64) error{
			(*bench).rawSingles, (*bench).singles, (*bench).rawBatch, (*bench).batch, (*bench).byShell, (*bench).byCommand,
		} {
			if err := way(b, got); err != nil {
				return err
			}
		}
	}
	raw := b.put("raw SQLite, smallest table, one a commit", "/s", got["raw smallest"]...)
	b.put("raw SQLite, our columns, one a commit", "/s", got["raw single"]...).of(raw)
	b.put("library, one a commit", "/s", got["single"]...).of(raw).ratioAtLeast(0.9)
	b.put("sqlite3 shell, one a commit, one process", "/s", got["shell"]...).of(raw)
	batch := b.put(fmt.Sprintf("raw SQLite, our columns, batch of %d", b.batchSize()), "/s", got["raw batch"]...)
	b.put("raw SQLite, smallest table, same batch", "/s", got["raw batch smallest"]...).of(batch)
	b.put("library, same batch", "/s", got["batch"]...).of(batch).ratioAtLeast(0.6)
	b.put("nightshift add --batch, whole process", "/s", got["command batch"]...).of(batch)
	start := b.put("bare start of nightshift (version)", "/s", got["start"]...)
	b.put("nightshift add, a process each", "/s", got["command"]...).of(start)
	bare := b.put("bare start of sqlite3 (select 1)", "/s", got["shell start"]...)
	b.put("sqlite3 shell, a process each", "/s", got["shell each"]...).of(bare)
	return nil
}

func (b *bench) batchSize() int { return scale(b, 10000, 2000) }

const rawSmallest = `CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL, payload TEXT NOT NULL) STRICT`

const rawSmallestInsert = `INSERT INTO jobs (run_at, payload) VALUES (?1, '{}')`

func (b *bench) insertSpan() time.Duration { return scale(b, 2*time.Second, 200*time.Millisecond) }

func (b *bench) rawSingles(got map[string][]float64) (err error) {
	for name, one := range map[string]struct {
		setup  func(r *rawDB) error
		insert func(r *rawDB, i int) error
	}{
		"raw smallest": {func(r *rawDB) error { return r.script(rawSmallest) },
			func(r *rawDB, i int) error { return r.exec(rawSmallestInsert, int64(i)) }},
		"raw single": {(*rawDB).bareTables, func(r *rawDB, i int) error { return r.exec(rawInsert, rawID(i), stampNow()) }},
	} {
		rate, err := b.onRaw(one.setup, func(r *rawDB) (float64, error) {
			return ratePerSecond(b.insertSpan(), func(i int) error { return one.insert(r, i) })
		})
		if err != nil {
			return err
		}
		got[name] = append(got[name], rate)
	}
	return nil
}

// onRaw runs f on a fresh raw database.
func (b *bench) onRaw(setup func(r *rawDB) error, f func(r *rawDB) (float64, error)) (v float64, err error) {
	r, err := b.openRaw()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := setup(r); err != nil {
		return 0, err
	}
	return f(r)
}

func (b *bench) singles(got map[string][]float64) error {
	s, err := b.newSystem("")
	if err != nil {
		return err
	}
	defer s.end()
	rate, err := ratePerSecond(b.insertSpan(), func(int) error {
		_, err := s.store.Add(time.Time{}, store.NewTask{Type: "noop"})
		return err
	})
	got["single"] = append(got["single"], rate)
	return err
}

func (b *bench) rawBatch(got map[string][]float64) error {
	n := b.batchSize()
	rate, err := b.onRaw((*rawDB).bareTables, func(r *rawDB) (float64, error) {
		began := time.Now()
		err := r.fill(n)
		return float64(n) / time.Since(began).Seconds(), err
	})
	if err != nil {
		return err
	}
	got["raw batch"] = append(got["raw batch"], rate)
	rate, err = b.onRaw(func(r *rawDB) error { return r.script(rawSmallest) }, func(r *rawDB) (float64, error) {
		began := time.Now()
		err := r.tx(func() error {
			for i := range n {
				if err := r.exec(rawSmallestInsert, int64(i)); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(n) / time.Since(began).Seconds(), err
	})
	got["raw batch smallest"] = append(got["raw batch smallest"], rate)
	return err
}

func (b *bench) batch(got map[string][]float64) error {
	s, err := b.newSystem(trueConfig)
	if err != nil {
		return err
	}
	defer s.end()
	n := b.batchSize()
	began := time.Now()
	if _, err := s.add(n, store.NewTask{Type: "noop"}); err != nil {
		return err
	}
	got["batch"] = append(got["batch"], float64(n)/time.Since(began).Seconds())
	began = time.Now()
	lines := strings.Repeat(`{"type": "noop"}`+"\n", n)
	if err := s.nightshift(strings.NewReader(lines), "add", "--batch", "-"); err != nil {
		return err
	}
	got["command batch"] = append(got["command batch"], float64(n)/time.Since(began).Seconds())
	return nil
}

// trueConfig lets the command line know the type noop.
const trueConfig = "tasks: {noop: {command: [\"/bin/true\"]}}\n"

// nightshift runs the command line on the system.
func (s *system) nightshift(stdin *strings.Reader, args ...string) error {
	cmd := exec.Command(filepath.Join(s.b.bin, "nightshift"), append([]string{"--config", s.config()}, args...)...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("nightshift %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return nil
}

const shellInsert = "INSERT INTO tasks(task_type) VALUES('noop');\n"

// byShell inserts through the stock shell, as a script of a user does: many lines
// in one process, and a process each.
func (b *bench) byShell(got map[string][]float64) error {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: the sqlite3 shell is not installed: left out")
		return nil
	}
	s, err := b.newSystem("")
	if err != nil {
		return err
	}
	defer s.end()
	run := func(stdin string, args ...string) error {
		cmd := exec.Command(shell, append([]string{"-cmd", ".timeout 5000", s.path("data/nightshift.db")}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sqlite3: %w: %s", err, out)
		}
		return nil
	}
	n := scale(b, 5000, 500)
	began := time.Now()
	if err := run(strings.Repeat(shellInsert, n)); err != nil {
		return err
	}
	got["shell"] = append(got["shell"], float64(n)/time.Since(began).Seconds())
	for name, line := range map[string]string{"shell each": shellInsert, "shell start": "SELECT 1"} {
		rate, err := ratePerSecond(b.insertSpan()/2, func(int) error { return run("", line) })
		if err != nil {
			return err
		}
		got[name] = append(got[name], rate)
	}
	return nil
}

func (b *bench) byCommand(got map[string][]float64) error {
	s, err := b.newSystem(trueConfig)
	if err != nil {
		return err
	}
	defer s.end()
	for name, args := range map[string][]string{"command": {"add", "noop"}, "start": {"version"}} {
		rate, err := ratePerSecond(b.insertSpan()/2, func(int) error { return s.nightshift(nil, args...) })
		if err != nil {
			return err
		}
		got[name] = append(got[name], rate)
	}
	return nil
}
