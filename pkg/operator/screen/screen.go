// Package screen draws what an operator sees: lines of coloured text, tables
// that fit the terminal, ages in words, bars, and a screen that redraws only the
// cells that changed.
//
// It knows nothing of tasks. Everything that reaches a terminal passes through
// Escape, so that no id, payload or log line can move the cursor, change a colour
// or reorder the text around it.
package screen

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
)

// MinWidth is the narrowest terminal that a layout is made for; in a narrower
// one (COLUMNS=0 is seen in the wild) lines are laid out for this width.
const MinWidth = 20

// Style is what the drawing code must know of where the text goes.
type Style struct {
	Width    int            // columns; 0: unlimited (a file, a pipe)
	Height   int            // rows; 0: unlimited
	Color    bool           // only on a terminal, and without NO_COLOR
	ASCII    bool           // no "…" and no box characters (the locale is not UTF-8)
	Terminal bool           // the text goes to a terminal
	UTC      bool           // times are shown as they are stored
	Zone     *time.Location // the zone of shown times; nil: time.Local
}

// Detect reads the style of out from the terminal and the environment.
//
// Text that does not go to a terminal has no colour and no width, unless COLUMNS
// is exported: then that is what somebody wants.
func Detect(out io.Writer, getenv func(string) string) Style {
	s := Style{ASCII: !utf8Locale(getenv)}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Terminal = true
		s.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
		s.Width, s.Height = 80, 24
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			s.Width, s.Height = w, h
		}
	}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	if s.Width > 0 {
		s.Width = max(s.Width, MinWidth)
	}
	return s
}

// utf8Locale follows setlocale(3): LC_ALL, then LC_CTYPE, then LANG; none of
// them set is the C locale, but C.UTF-8 is what a service is given.
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Color is one of the few that a terminal of any scheme can show.
type Color uint8

// The colours have the meaning of the words beside them; no meaning is carried
// by a colour alone.
const (
	Plain Color = iota
	Bold
	Dim
	Red
	Green
	Yellow
	Blue
	Cyan
)

// sgr holds the "select graphic rendition" parameters of each Color.
var sgr = [...]string{Plain: "0", Bold: "1", Dim: "2", Red: "31", Green: "32", Yellow: "33", Blue: "34", Cyan: "36"}

// Span is a piece of text in one colour. Its text must have been escaped.
type Span struct {
	Text  string
	Color Color
}

// Line is one line of the screen, without its end.
type Line []Span

// Text makes a line of one plain span.
func Text(s string) Line { return Line{{Text: s}} }

// Title makes a line of one bold span.
func Title(s string) Line { return Line{{Text: s, Color: Bold}} }

// Width is the number of columns that l takes.
func (l Line) Width() int {
	n := 0
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// Plain is the text of l without colours.
func (l Line) Plain() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Fit shortens l at its end so that it takes at most width columns (0: any).
func (l Line) Fit(width int, ascii bool) Line {
	if width <= 0 || l.Width() <= width {
		return l
	}
	left := width
	fitted := make(Line, 0, len(l))
	for _, s := range l {
		w := Width(s.Text)
		if w >= left {
			// The rest of the line is cut too, so the mark is always shown.
			return append(fitted, Span{cutEnd(s.Text, left, ascii), s.Color})
		}
		fitted = append(fitted, s)
		left -= w
	}
	return fitted
}

// trim removes spaces at the end of l: they would be cut with a mark.
func (l Line) trim() Line {
	for n := len(l); n > 0; n-- {
		last := l[n-1]
		last.Text = strings.TrimRight(last.Text, " ")
		if last.Text != "" {
			return append(l[:n-1:n-1], last)
		}
	}
	return nil
}

// Print writes the lines to w, each fitted to the style's width, trailing
// spaces removed.
func (s Style) Print(w io.Writer, lines []Line) error {
	var b strings.Builder
	for _, l := range lines {
		s.write(&b, l.trim().Fit(s.Width, s.ASCII))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write renders one line. Colours end with their span, so that a cut pipe never
// leaves a terminal coloured for more than one span.
func (s Style) write(b *strings.Builder, l Line) {
	for _, span := range l {
		if !s.Color || span.Color == Plain || span.Text == "" {
			b.WriteString(span.Text)
			continue
		}
		b.WriteString("\x1b[" + sgr[span.Color] + "m" + span.Text + "\x1b[0m")
	}
}

// Wrap breaks a line that is wider than the style at its spaces; the lines that
// follow are indented. A word wider than a line (an id, a path) is broken where the
// line ends, as a terminal does: nothing of it is lost.
func (s Style) Wrap(l Line, indent int) []Line {
	if s.Width <= 0 || l.Width() <= s.Width {
		return []Line{l}
	}
	var lines []Line
	current, used := Line{}, 0
	begin := func() {
		lines = append(lines, current)
		current, used = Line{{Text: strings.Repeat(" ", indent)}}, indent
	}
	add := func(text string, c Color) {
		if len(current) == 0 || current[len(current)-1].Color != c {
			current = append(current, Span{Color: c})
		}
		current[len(current)-1].Text += text
		used += Width(text)
	}
	for _, span := range l {
		for _, word := range strings.SplitAfter(span.Text, " ") {
			w := Width(strings.TrimRight(word, " "))
			if used+w > s.Width && used > indent && w <= s.Width-indent {
				begin()
				word = strings.TrimLeft(word, " ")
			}
			for used+w > s.Width {
				head := firstColumns(word, s.Width-used)
				if head == "" && used <= indent {
					break // not even one character has room
				}
				add(head, span.Color)
				begin()
				word = word[len(head):]
				w = Width(strings.TrimRight(word, " "))
			}
			add(word, span.Color)
		}
	}
	return append(lines, current)
}
