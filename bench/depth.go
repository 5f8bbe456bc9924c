package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"nightshift"
	"nightshift/pkg/store"
)

// depths measures what a claim costs with few and with many rows: half of the live
// ones due in the future, ten priorities, and nine finished rows for each ten live
// ones. The databases are asked in turns.
func (b *bench) depths() error {
	var all []*deep
	for _, live := range scale(b, []int{1_000, 100_000, 1_000_000}, []int{1_000, 20_000}) {
		d, err := b.deepStore(live)
		if err != nil {
			return err
		}
		defer d.close()
		all = append(all, d)
	}
	for range scale(b, 400, 50) {
		for _, d := range all {
			if err := d.once(); err != nil {
				return err
			}
		}
	}
	for _, kind := range []struct {
		name string
		get  func(d *deep) []float64
	}{
		{"look without a write", func(d *deep) []float64 { return d.looks }},
		{"claim of 1 task, committed", func(d *deep) []float64 { return d.claims }},
	} {
		var first *figure
		for _, d := range all {
			f := b.put(fmt.Sprintf("%s, %s live rows", kind.name, number(float64(d.live))), "µs", quantile(kind.get(d), 0.5))
			if first == nil {
				first = f
				continue
			}
			f.of(first).ratioAtMost(1.5)
		}
	}
	return nil
}

// deep is a store with many rows.
type deep struct {
	live   int
	path   string
	store  *store.Store
	req    store.ClaimRequest
	done   []store.Finish
	looks  []float64
	claims []float64
}

func (d *deep) close() {
	if err := errors.Join(d.store.Close(), os.Remove(d.path), os.RemoveAll(d.path+"-run")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// deepStore fills a database by SQL, with the triggers taken off meanwhile: the
// finished rows would have to pass through their whole lives otherwise.
func (b *bench) deepStore(live int) (*deep, error) {
	r, err := b.openRaw()
	if err != nil {
		return nil, err
	}
	path := r.path
	if err := errors.Join(r.script(nightshift.Schema), r.deepen(live)); err != nil {
		return nil, errors.Join(err, r.close())
	}
	for _, s := range r.stmts {
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	if err := r.c.Close(); err != nil {
		return nil, err
	}
	d := &deep{live: live, path: path}
	if d.store, err = store.Open(store.Options{Path: path, RunDir: path + "-run"}); err != nil {
		return nil, err
	}
	d.req = store.ClaimRequest{Executors: []string{"w1"}, Worker: "w1", NoTimeoutLease: time.Minute,
		Types: map[string]store.TypeRule{"noop": {Timeout: time.Hour}}}
	return d, nil
}

// deepen writes live rows, every second one due tomorrow, and 9 finished ones for
// each 10 of them.
func (r *rawDB) deepen(live int) error {
	triggers, err := r.texts(`SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND sql IS NOT NULL`)
	if err != nil {
		return err
	}
	names, err := r.names("trigger")
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := r.script(fmt.Sprintf("DROP TRIGGER %q", n)); err != nil {
			return err
		}
	}
	now := time.Now().UTC()
	err = r.tx(func() error {
		return errors.Join(
			r.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
				INSERT INTO tasks (task_id, task_type, priority, next_run_time, payload)
				SELECT printf('20261201T160405.123-%010x', i * 2654435761 % 1099511627776), 'noop', 10 * (i % 10),
				  strftime('%Y-%m-%dT%H:%M:%fZ', ?2, '+' || (CASE WHEN (i / 10) % 2 THEN 86400 + i ELSE i % 3600 END) || ' seconds'),
				  '{"n":' || i || '}' FROM n`, int64(live), now.Add(-2*time.Hour).Format(stampFormat)),
			r.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
				INSERT INTO tasks (task_id, task_type, status, reason, priority, next_run_time, executor_id, exec_id, executions, payload)
				SELECT printf('20261101T160405.123-%010x', i * 2654435761 % 1099511627776), 'noop', 'SUCCESS', 'done', 10 * (i % 10),
				  strftime('%Y-%m-%dT%H:%M:%fZ', ?2, '-' || (86400 + i) || ' seconds'), 'w1', i, 1, '{"n":' || i || '}' FROM n`,
				int64(live)*9/10, now.Format(stampFormat)),
		)
	})
	for _, sql := range triggers {
		err = errors.Join(err, r.script(sql))
	}
	return errors.Join(err, r.script("PRAGMA wal_checkpoint(TRUNCATE)"))
}

// once looks and claims one task, and ends the one before.
func (d *deep) once() error {
	began := time.Now()
	if _, _, err := d.store.NextDue(d.req.Types); err != nil {
		return err
	}
	d.looks = append(d.looks, float64(time.Since(began).Nanoseconds())/1e3)
	began = time.Now()
	got, err := d.store.Turn(d.done, &d.req)
	if err != nil {
		return err
	}
	d.claims = append(d.claims, float64(time.Since(began).Nanoseconds())/1e3)
	if len(got.Claimed) != 1 {
		return fmt.Errorf("%d tasks claimed from %d rows", len(got.Claimed), d.live)
	}
	d.done = []store.Finish{{Fence: got.Claimed[0].Fence(), Verdict: store.Succeed}}
	return nil
}
