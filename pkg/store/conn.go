package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// query is a statement's text with a place of its own in every connection, so
// that it is prepared once a connection and found again without a lookup.
type query struct {
	id  int
	sql string
}

// queries lists all statements of the package; a test explains each of them.
var queries []*query

// define registers a statement; call it in a package variable only.
func define(sql string) *query {
	q := &query{id: len(queries), sql: sql}
	queries = append(queries, q)
	return q
}

// conn is one SQLite connection with its prepared statements, used by one
// goroutine at a time. It goes past database/sql on purpose: a pool has nothing to
// do here, and its bookkeeping cost more than the statement (see BenchmarkDrain).
type conn struct {
	c     *sqlite3.SQLiteConn
	stmts []*sqlite3.SQLiteStmt
	args  []driver.NamedValue
	row   []driver.Value
}

// openConn opens path, canonical and absolute. Nothing is set but what every
// connection needs before its first look at the file.
func openConn(path string, readOnly bool) (*conn, error) {
	q := url.Values{}
	q.Set("_busy_timeout", strconv.Itoa(busyTimeoutMS))
	q.Set("_mutex", "no") // one goroutine at a time
	q.Set("_synchronous", "FULL")
	q.Set("mode", "rw")
	if readOnly {
		q.Set("mode", "ro")
		q.Set("_query_only", "1")
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	dc, err := (&sqlite3.SQLiteDriver{}).Open(u.String())
	if err != nil {
		return nil, err
	}
	return &conn{c: dc.(*sqlite3.SQLiteConn), stmts: make([]*sqlite3.SQLiteStmt, len(queries))}, nil
}

func (c *conn) close() error {
	var errs []error
	for i, s := range c.stmts {
		if s != nil {
			errs = append(errs, s.Close())
			c.stmts[i] = nil
		}
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// script runs statements that need no preparing: schema, pragmas, BEGIN of a rare path.
func (c *conn) script(sql string) error {
	_, err := c.c.ExecContext(context.Background(), sql, nil)
	return err
}

func (c *conn) stmt(q *query) (*sqlite3.SQLiteStmt, error) {
	if s := c.stmts[q.id]; s != nil {
		return s, nil
	}
	ds, err := c.c.Prepare(q.sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", q.sql, err)
	}
	s := ds.(*sqlite3.SQLiteStmt)
	c.stmts[q.id] = s
	return s, nil
}

// named fills the connection's argument buffer. Values are nil, int64, string,
// or the pointers and names of this package that value unpacks.
func (c *conn) named(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: value(a)})
	}
	return c.args
}

func value(a any) driver.Value {
	switch v := a.(type) {
	case int:
		return int64(v)
	case *int:
		if v == nil {
			return nil
		}
		return int64(*v)
	case *int64:
		if v == nil {
			return nil
		}
		return *v
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	}
	return a
}

// exec runs q to its end and returns how many rows it changed.
func (c *conn) exec(q *query, args ...any) (changed int64, err error) {
	_, changed, err = c.insert(q, args...)
	return changed, err
}

// insert is exec, with the rowid of the last inserted row.
func (c *conn) insert(q *query, args ...any) (rowid, changed int64, err error) {
	s, err := c.stmt(q)
	if err != nil {
		return 0, 0, err
	}
	r, err := s.ExecContext(context.Background(), c.named(args))
	if err != nil {
		return 0, 0, err
	}
	rowid, _ = r.LastInsertId()   // SQLiteResult returns nil errors only
	changed, _ = r.RowsAffected() // likewise
	return rowid, changed, nil
}

// errStop ends a query early without an error.
var errStop = errors.New("stop")

// query calls each for every row. The rows are always closed: an open one would
// pin the WAL, and an open UPDATE … RETURNING would not be committed.
func (c *conn) query(q *query, each func(r row) error, args ...any) (err error) {
	s, err := c.stmt(q)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.named(args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	n := len(rows.Columns())
	for len(c.row) < n {
		c.row = append(c.row, nil)
	}
	for {
		// each may run another query on this connection only if it is done with r.
		switch err = rows.Next(c.row[:n]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err = each(row(c.row[:n])); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// one is query for at most one row; it reports whether there was one.
func (c *conn) one(q *query, scan func(r row), args ...any) (found bool, err error) {
	err = c.query(q, func(r row) error {
		found = true
		if scan != nil {
			scan(r)
		}
		return errStop
	}, args...)
	return found, err
}

// pragma reads a pragma's or a one-column query's first value as text.
func (c *conn) pragma(sql string) (string, error) {
	rows, err := c.c.QueryContext(context.Background(), sql, nil)
	if err != nil {
		return "", err
	}
	dest := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(dest)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, io.EOF) || len(dest) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return row(dest).text(0), nil
}

// texts reads the first column of all rows of an unprepared query.
func (c *conn) texts(sql string) ([]string, error) {
	rows, err := c.c.QueryContext(context.Background(), sql, nil)
	if err != nil {
		return nil, err
	}
	dest := make([]driver.Value, len(rows.Columns()))
	var all []string
	for {
		if err = rows.Next(dest); err != nil {
			break
		}
		all = append(all, row(dest).text(0))
	}
	cerr := rows.Close()
	if !errors.Is(err, io.EOF) {
		return all, err
	}
	return all, cerr
}

// row is one row of a result; its values are valid until the next row.
type row []driver.Value

// text reads a column as text; NULL is "".
func (r row) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// int reads a column as a number; NULL is 0.
func (r row) int(i int) int64 {
	v, _ := r[i].(int64) // NULL and what is no number read as 0
	return v
}

func (r row) intPtr(i int) *int64 {
	v, ok := r[i].(int64)
	if !ok {
		return nil
	}
	return &v
}
