package screen

import "io"

// gap is the space between two columns of a table.
const gap = 2

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // numbers: align to the right
	// Min is the width below which the column is not shortened; 0: it is shown
	// whole or not at all. Good is the width to which it is shortened gladly, before
	// other columns are left out; 0: Min.
	Min, Good int
	// Keep says which columns go first when the terminal is too narrow: those
	// with the smallest Keep. Columns of equal Keep go from the right.
	Keep int
}

// essential is the Keep from which on a column is only left out when shortening
// all others has not helped.
const essential = 7

// Cell is one value of a table. Its text must have been escaped.
type Cell struct {
	Text  string
	Color Color
}

// Table lays rows out in columns by display width. On a terminal that is too
// narrow, columns that allow it are shortened in the middle, the widest first,
// down to their good width; then columns that are not essential are left out; then
// all are shortened as far as they allow. Without a width nothing is ever cut.
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
	good := func(c Column) int { return max(c.Good, c.Min) }
	least := func(c Column) int { return c.Min }
	for {
		t.fit = t.fit[:0]
		for _, i := range t.show {
			t.fit = append(t.fit, natural[i])
		}
		if t.Style.Width <= 0 || t.shrink(good) || len(t.show) == 1 {
			return
		}
		drop := t.leastWanted()
		if t.Columns[drop].Keep >= essential && t.shrink(least) {
			return
		}
		t.drop(drop)
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

// shrink shortens the widest column that is wider than its limit until the line
// fits, and reports whether it does.
func (t *Table) shrink(limit func(Column) int) bool {
	for t.total() > t.Style.Width {
		widest := -1
		for k, i := range t.show {
			c := t.Columns[i]
			if c.Min == 0 || t.fit[k] <= max(limit(c), Width(c.Title)) {
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

// leastWanted is the shown column that goes first.
func (t *Table) leastWanted() int {
	least := t.show[0]
	for _, i := range t.show {
		if t.Columns[i].Keep <= t.Columns[least].Keep {
			least = i
		}
	}
	return least
}

// drop leaves a column out.
func (t *Table) drop(column int) {
	kept := t.show[:0]
	for _, i := range t.show {
		if i != column {
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
