package main

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"nightshift"
)

// rawDB is SQLite without us: one connection with kept statements, past
// database/sql, with the settings of our own writer (WAL, FULL).
type rawDB struct {
	c     *sqlite3.SQLiteConn
	stmts map[string]*sqlite3.SQLiteStmt
	path  string
}

// openRaw makes an empty database in the scratch directory.
func (b *bench) openRaw() (*rawDB, error) {
	f, err := os.CreateTemp(b.dir, "raw-*.db")
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return openRawFile(f.Name())
}

func openRawFile(path string) (*rawDB, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_mutex=no")
	if err != nil {
		return nil, err
	}
	r := &rawDB{c: c.(*sqlite3.SQLiteConn), stmts: map[string]*sqlite3.SQLiteStmt{}, path: path}
	return r, r.script("PRAGMA wal_autocheckpoint = 2000")
}

func (r *rawDB) close() error {
	var errs []error
	for _, s := range r.stmts {
		errs = append(errs, s.Close())
	}
	errs = append(errs, r.c.Close())
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (r *rawDB) script(sql string) error {
	_, err := r.c.ExecContext(context.Background(), sql, nil)
	return err
}

func (r *rawDB) stmt(sql string) (*sqlite3.SQLiteStmt, error) {
	if s := r.stmts[sql]; s != nil {
		return s, nil
	}
	s, err := r.c.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, sql)
	}
	r.stmts[sql] = s.(*sqlite3.SQLiteStmt)
	return r.stmts[sql], nil
}

func named(args []any) []driver.NamedValue {
	v := make([]driver.NamedValue, len(args))
	for i, a := range args {
		v[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return v
}

func (r *rawDB) exec(sql string, args ...any) error {
	s, err := r.stmt(sql)
	if err == nil {
		_, err = s.ExecContext(context.Background(), named(args))
	}
	return err
}

// ints reads the first column of all rows.
func (r *rawDB) ints(sql string, args ...any) (all []int64, err error) {
	s, err := r.stmt(sql)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(context.Background(), named(args))
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err = rows.Next(row); err != nil {
			break
		}
		n, _ := row[0].(int64) // the queries here read numbers only
		all = append(all, n)
	}
	cerr := rows.Close()
	if errors.Is(err, io.EOF) {
		err = cerr
	}
	return all, err
}

// tx runs f in one transaction.
func (r *rawDB) tx(f func() error) error {
	if err := r.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, r.script("ROLLBACK"))
	}
	return r.exec("COMMIT")
}

// bareTables makes our tables without our rules: the same rows, no trigger, no
// index but the primary key's and the one that a claim walks.
func (r *rawDB) bareTables() error {
	if err := r.script(nightshift.Schema); err != nil {
		return err
	}
	for _, kind := range []string{"trigger", "index", "view"} {
		names, err := r.names(kind)
		if err != nil {
			return err
		}
		for _, n := range names {
			if strings.HasPrefix(n, "sqlite_autoindex") || n == "idx_tasks_claim" {
				continue
			}
			if err := r.script(fmt.Sprintf("DROP %s %q", kind, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rawDB) names(kind string) ([]string, error) {
	return r.texts(`SELECT name FROM sqlite_schema WHERE type = '` + kind + `'`)
}

const rawInsert = `INSERT INTO tasks (task_id, task_type, status, priority, next_run_time, created_at, updated_at, payload)
	VALUES (?1, 'noop', 'PENDING', 100, ?2, ?2, ?2, '{}')`

const stampFormat = "2006-01-02T15:04:05.000Z"

func stampNow() string { return time.Now().UTC().Format(stampFormat) }

// rawID is a task id of the usual length.
func rawID(n int) string { return fmt.Sprintf("20261201T160405.123-%010d", n) }

// fill inserts n due tasks in one transaction.
func (r *rawDB) fill(n int) error {
	now := stampNow()
	return r.tx(func() error {
		for i := range n {
			if err := r.exec(rawInsert, rawID(i), now); err != nil {
				return err
			}
		}
		return nil
	})
}

// The row changes of a drained task, each for a whole batch in one statement.
const (
	rawDue = `SELECT rowid FROM tasks INDEXED BY idx_tasks_claim
		WHERE executor_id IS NULL AND (control IS NULL OR control <> 'pause')
		  AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'))
		  AND task_type = 'noop' AND priority = 100 AND next_run_time <= ?1
		ORDER BY next_run_time LIMIT ?2`
	rawHistory = `INSERT INTO exec_history (exec_id, task_id, executor_id, start_time)
		SELECT ?2 + j.key, task_id, 'w1', ?3 FROM json_each(?1) AS j JOIN tasks ON tasks.rowid = j.value`
	rawClaim = `UPDATE tasks SET status = 'RUNNING', reason = 'claimed', executor_id = 'w1', exec_id = ?2 + j.key,
		executions = executions + 1, lease_expire_time = ?3, updated_at = ?3
		FROM json_each(?1) AS j WHERE tasks.rowid = j.value`
	rawFinish = `UPDATE tasks SET status = 'SUCCESS', reason = 'done', lease_expire_time = NULL, updated_at = ?2
		FROM json_each(?1) AS j WHERE tasks.rowid = j.value`
	rawEnd   = `UPDATE exec_history SET end_time = ?3, outcome = 'success' WHERE exec_id BETWEEN ?1 AND ?2`
	rawEvent = `INSERT INTO task_events (task_id, from_status, to_status, reason, executor_id, exec_id, at)
		SELECT task_id, ?2, status, reason, executor_id, exec_id, ?3 FROM json_each(?1) AS j JOIN tasks ON tasks.rowid = j.value`
)

// drain makes the row changes of all due tasks, batch tasks a transaction: the
// ends of one batch and the claims of the next share it, as they do in a worker.
func (r *rawDB) drain(batch int) (done int, err error) {
	var running string // rowids as a JSON array
	var first, last int64
	for {
		now := stampNow()
		var next []int64
		err := r.tx(func() error {
			if running != "" {
				if err := r.finish(running, first, last, now); err != nil {
					return err
				}
			}
			if next, err = r.ints(rawDue, now, int64(batch)); err != nil || len(next) == 0 {
				return err
			}
			first, last = last+1, last+int64(len(next))
			running, err = r.claim(next, first, now)
			return err
		})
		if err != nil || len(next) == 0 {
			return done, err
		}
		done += len(next)
	}
}

func (r *rawDB) finish(rowids string, first, last int64, now string) error {
	if err := r.exec(rawFinish, rowids, now); err != nil {
		return err
	}
	if err := r.exec(rawEnd, first, last, now); err != nil {
		return err
	}
	return r.exec(rawEvent, rowids, "RUNNING", now)
}

func (r *rawDB) claim(rows []int64, first int64, now string) (rowids string, err error) {
	b, err := json.Marshal(rows)
	if err != nil {
		return "", err
	}
	rowids = string(b)
	if err := r.exec(rawHistory, rowids, first, now); err != nil {
		return "", err
	}
	if err := r.exec(rawClaim, rowids, first, now); err != nil {
		return "", err
	}
	return rowids, r.exec(rawEvent, rowids, "PENDING", now)
}

// scratch is a file name below the scratch directory.
func (b *bench) scratch(name string) string { return filepath.Join(b.dir, name) }

// texts reads the first column of an unprepared query.
func (r *rawDB) texts(sql string) (all []string, err error) {
	rows, err := r.c.QueryContext(context.Background(), sql, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for rows.Next(row) == nil {
		all = append(all, fmt.Sprint(row[0]))
	}
	return all, rows.Close()
}
