package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nightshift/pkg/store"
)

// shape is a number of workers with a number of slots each.
type shape struct{ workers, slots int }

func (s shape) String() string {
	return fmt.Sprintf("%s, %s", plural(s.workers, "worker"), plural(s.slots, "slot"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

var shapes = []shape{{1, 1}, {1, 8}, {1, 32}, {1, 256}, {4, 1}, {4, 8}, {4, 32}, {4, 256}}

// drains measures how fast no-op tasks of a Go handler are carried from PENDING to
// SUCCESS, in turns with SQLite alone doing the same row changes.
func (b *bench) drains() error {
	n := scale(b, 20000, 2000)
	raw := map[int][]float64{}
	ours := map[shape][]drained{}
	for range b.rounds {
		for _, batch := range []int{1, 32, 64, 128, 256} {
			rate, err := b.rawDrain(batch, scale(b, n, n/2))
			if err != nil {
				return err
			}
			raw[batch] = append(raw[batch], rate)
		}
		for _, s := range shapes {
			if b.quick && s.workers*s.slots > 8 && s != (shape{1, 32}) {
				continue
			}
			d, err := b.drain(s, scale(b, n, n/2))
			if err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			ours[s] = append(ours[s], d)
		}
	}
	b.putDrains(raw, ours)
	return nil
}

func (b *bench) putDrains(raw map[int][]float64, ours map[shape][]drained) {
	best := 32
	for batch := range raw {
		if median(raw[batch]) > median(raw[best]) {
			best = batch
		}
	}
	one := b.put("raw SQLite, 1 task a transaction", "/s", raw[1]...)
	same := b.put("raw SQLite, 32 tasks a transaction", "/s", raw[32]...)
	limit := b.put(fmt.Sprintf("raw SQLite, best batch (%d)", best), "/s", raw[best]...)
	var whole *figure
	for _, s := range shapes {
		rates, worst := rates(ours[s])
		if len(rates) == 0 {
			continue
		}
		of := limit
		if s.slots == 1 && s.workers == 1 {
			of = one
		}
		f := b.put(s.String(), "/s", rates...).of(of)
		if s == (shape{1, 256}) {
			whole = f.want("≥ 50 %, 22k", f.Ratio >= 0.5 && f.Value >= 22000)
		}
		if s == (shape{1, 32}) {
			f.note("%.0f %% of raw SQLite at 32 tasks a transaction", 100*f.Value/same.Value)
		}
		if s.workers > 1 {
			f.note("shares %.0f to %.0f %%, %d busy errors, %d run twice", 100*worst.least, 100*worst.most, worst.busy, worst.twice)
		}
		if s == (shape{4, 256}) && whole != nil {
			f.want("≥ 90 % of 1", f.Value >= 0.9*whole.Value && worst.busy == 0 && worst.twice == 0)
		}
	}
}

// drained is what one drain showed.
type drained struct {
	rate        float64
	least, most float64 // the smallest and the largest worker's share
	busy        int     // log lines about a busy or locked database
	twice       int64   // runs beyond one a task
}

func rates(all []drained) (r []float64, worst drained) {
	worst.least = 1
	for _, d := range all {
		r = append(r, d.rate)
		worst.least, worst.most = min(worst.least, d.least), max(worst.most, d.most)
		worst.busy, worst.twice = worst.busy+d.busy, worst.twice+d.twice
	}
	return r, worst
}

func (b *bench) rawDrain(batch, n int) (float64, error) {
	if batch == 1 {
		n /= 4
	}
	return b.onRaw((*rawDB).bareTables, func(r *rawDB) (float64, error) {
		if err := r.fill(n); err != nil {
			return 0, err
		}
		began := time.Now()
		done, err := r.drain(batch)
		if err == nil && done != n {
			err = fmt.Errorf("%d of %d tasks drained", done, n)
		}
		return float64(n) / time.Since(began).Seconds(), err
	})
}

// settled is when workers that started together no longer make room for one
// another: whoever opens the database may be a stranger's shell, for 5 s.
const settled = 5500 * time.Millisecond

// drain puts n tasks before idle workers and takes the time until all are SUCCESS.
func (b *bench) drain(sh shape, n int) (d drained, err error) {
	if sh.slots == 1 {
		n /= 4
	}
	s, err := b.newSystem(fmt.Sprintf("worker: {slots: %d}\n", sh.slots))
	if err != nil {
		return d, err
	}
	defer s.end()
	if err := s.start(sh.workers, b.self); err != nil {
		return d, err
	}
	time.Sleep(scale(b, settled, 0))
	if _, err := s.add(n, store.NewTask{Type: "noop"}); err != nil {
		return d, err
	}
	if err := s.store.Close(); err != nil { // who only feeds is gone by then
		return d, err
	}
	if err := s.untilDone(2 * time.Minute); err != nil {
		return d, err
	}
	if d.rate, err = s.rate(n); err != nil {
		return d, err
	}
	if err := s.stop(); err != nil {
		return d, err
	}
	return d, s.judge(&d, n, sh.workers)
}

// judge looks at what a drain left behind: who ran how many, and whether a task
// ran twice, by the database and by the handlers' own count.
func (s *system) judge(d *drained, n, workers int) error {
	rows, err := s.db.Query(`SELECT CASE instr(executor_id, '.') WHEN 0 THEN executor_id ELSE substr(executor_id, 1, instr(executor_id, '.') - 1) END AS w,
		count(*) FROM exec_history GROUP BY w`)
	if err != nil {
		return err
	}
	defer rows.Close()
	d.least = 1
	seen := 0
	var executions int64
	for rows.Next() {
		var w string
		var k int64
		if err := rows.Scan(&w, &k); err != nil {
			return err
		}
		executions += k
		seen++
		share := float64(k) / float64(n)
		d.least, d.most = min(d.least, share), max(d.most, share)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if seen < workers {
		d.least = 0
	}
	called, err := s.called()
	if err != nil {
		return err
	}
	ended, err := s.number(`SELECT count(*) FROM tasks WHERE status = 'SUCCESS'`)
	if err != nil {
		return err
	}
	if ended != int64(n) || called < int64(n) {
		return fmt.Errorf("%d of %d tasks ended SUCCESS, handlers were called %d times", ended, n, called)
	}
	d.twice = max(executions, called) - int64(n)
	d.busy, err = s.complaints("locked", "busy")
	return err
}

// called adds up how often the workers' noop handlers ran.
func (s *system) called() (sum int64, err error) {
	files, err := filepath.Glob(s.path("runs.*"))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
