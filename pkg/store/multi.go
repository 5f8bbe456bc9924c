package store

import (
	"strconv"
	"strings"
)

// multi is a statement over several rows of values at once. What a statement costs
// besides its rows (cursors, a journal of its own for each page, a frame for each
// trigger) is then paid once: for a drained no-op task that was more than half.
//
// It is prepared in sizes of powers of two. A size that is not filled is padded with
// NULLs, which match no row.
type multi struct {
	fixed, width int // parameters before the rows, and of each row
	sizes        [multiSizes]*query
}

const (
	multiSizes = 7
	multiRows  = 1 << (multiSizes - 1) // 64 rows a statement
)

// defineMulti registers a statement whose text holds ROWS where the rows of values
// go; fixed parameters come first.
func defineMulti(fixed, width int, sql string) *multi {
	m := &multi{fixed: fixed, width: width}
	for i := range m.sizes {
		var rows []byte // without fmt: every start of the program pays for it
		for n := range (1 << i) * width {
			switch {
			case n == 0:
				rows = append(rows, "(?"...)
			case n%width == 0:
				rows = append(rows, "), (?"...)
			default:
				rows = append(rows, ", ?"...)
			}
			rows = strconv.AppendInt(rows, int64(fixed+n+1), 10)
		}
		m.sizes[i] = define(strings.Replace(sql, "ROWS", string(append(rows, ')')), 1))
	}
	return m
}

// exec runs the statement over rows, at most multiRows of them: args are the fixed
// parameters and then the rows' values, one after the other.
func (m *multi) exec(c *conn, args []any) (rowid, changed int64, err error) {
	rows := (len(args) - m.fixed) / m.width
	size := 0
	for 1<<size < rows {
		size++
	}
	for len(args) < m.fixed+m.width<<size {
		args = append(args, nil)
	}
	return c.insert(m.sizes[size], args...)
}
