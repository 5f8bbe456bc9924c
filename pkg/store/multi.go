package store

import (
	"fmt"
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
		var rows strings.Builder
		for r := range 1 << i {
			rows.WriteString(strings.Repeat(", ", min(r, 1)) + "(")
			for c := range width {
				fmt.Fprintf(&rows, "%s?%d", strings.Repeat(", ", min(c, 1)), fixed+r*width+c+1)
			}
			rows.WriteByte(')')
		}
		m.sizes[i] = define(strings.Replace(sql, "ROWS", rows.String(), 1))
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
