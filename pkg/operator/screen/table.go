package screen

import (
	"io"
	"sort"
)

// gap is the space between two columns of a table.
const gap = 2

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // numbers: align to the right
	// Min is the width below which the column is not shortened; 0: it is shown
	// whole or not at all.
	Min int
	// Keep says which columns go first when the terminal is too narrow: those
	// with the smallest Keep. Columns of equal Keep go from the right.
	Keep int
}

// Cell is one value of a table. Its text must have been escaped.
type Cell struct {
	Text  string
	Color Color
}

// Table lays rows out in columns by display width. On a terminal that is too
// narrow, columns that allow it are shortened in the middle, the widest first;
// then whole columns are left out. Without a width nothing is ever cut.
type Table struct {
	Style   Style
	Columns []Column
	Indent  int

	rows [][]Cell
	show []int // indexes of shown columns, fixed by the first Lines or Flush
	fit  []int // their widths
	head bool  // the header has been drawn
}

// Row adds a row; missing cells are empty.
func (t *Table) Row(cells ...Cell) { t.rows = append(t.rows, cells) }

// Len is the number of rows that wait to be drawn.
func (t *Table) Len() int { return len(t.rows) }

// Lines draws the header, once, and the rows added since the last call. The
// first call fixes the widths.
func (t *Table) Lines() []Line {
	if t.show == nil {
		t.layout()
	}
	var lines []Line
	if !t.head {
		t.head = true
		titles := make([]Cell, len(t.Columns))
		for i, c := range t.Columns {
			titles[i] = Cell{c.Title, Bold}
		}
		lines = append(lines, t.line(titles))
	}
	for _, row := range t.rows {
		lines = append(lines, t.line(row))
	}
	t.rows = t.rows[:0]
	return lines
}

// Flush prints what Lines gives: a long list is printed in parts, in bounded
// memory, with the widths of its first part.
func (t *Table) Flush(w io.Writer) error { return t.Style.Print(w, t.Lines()) }

// layout chooses the columns and their widths.
func (t *Table) layout() {
	natural := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		natural[i] = Width(c.Title)
		t.show = append(t.show, i)
	}
	for _, row := range t.rows {
		for i, c := range row {
			natural[i] = max(natural[i], Width(c.Text))
		}
	}
	for {
		t.fit = t.fit[:0]
		for _, i := range t.show {
			t.fit = append(t.fit, natural[i])
		}
		if t.Style.Width <= 0 || t.shrink() || len(t.show) == 1 {
			return
		}
		t.dropOne()
	}
}

// total is the width of a full line.
func (t *Table) total() int {
	n := t.Indent + gap*(len(t.fit)-1)
	for _, w := range t.fit {
		n += w
	}
	return n
}

// shrink takes columns from the widest that may be shortened until the line
// fits, and reports whether it does.
func (t *Table) shrink() bool {
	for t.total() > t.Style.Width {
		widest := -1
		for k, i := range t.show {
			least := t.Columns[i].Min
			if least == 0 || t.fit[k] <= max(least, Width(t.Columns[i].Title)) {
				continue
			}
			if widest < 0 || t.fit[k] > t.fit[widest] {
				widest = k
			}
		}
		if widest < 0 {
			return false
		}
		t.fit[widest]--
	}
	return true
}

// dropOne leaves out the least wanted column.
func (t *Table) dropOne() {
	order := append([]int(nil), t.show...)
	sort.SliceStable(order, func(a, b int) bool {
		ca, cb := t.Columns[order[a]], t.Columns[order[b]]
		if ca.Keep != cb.Keep {
			return ca.Keep < cb.Keep
		}
		return order[a] > order[b]
	})
	kept := t.show[:0]
	for _, i := range t.show {
		if i != order[0] {
			kept = append(kept, i)
		}
	}
	t.show = kept
}

func (t *Table) line(row []Cell) Line {
	line := Line{{Text: PadRight("", t.Indent)}}
	for k, i := range t.show {
		var c Cell
		if i < len(row) {
			c = row[i]
		}
		text := c.Text
		// Rows after the first part of a long list may be wider than any before;
		// without a terminal they push their line out rather than being cut.
		if t.Style.Width > 0 {
			text = Shorten(text, t.fit[k], t.Style.ASCII)
		}
		if t.Columns[i].Right {
			text = PadLeft(text, t.fit[k])
		} else if k < len(t.show)-1 {
			text = PadRight(text, t.fit[k])
		}
		if k > 0 {
			line = append(line, Span{Text: PadRight("", gap)})
		}
		line = append(line, Span{text, c.Color})
	}
	return line
}
