package screen

import (
	"strings"
	"testing"
)

func TestWatchRedrawsOnlyChangedCells(t *testing.T) {
	first := []Line{Text("w1  alive  6000/10000"), Text("w2  alive")}
	second := []Line{Text("w1  alive  6100/10000"), Text("w2  alive")}
	a := newGrid(first, 40, 5, false)
	b := newGrid(second, 40, 5, false)
	if got, want := b.diff(a, true), "\x1b[1;13H1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := a.diff(a, true); got != "" {
		t.Errorf("nothing changed, yet %q is written", got)
	}
	if got := a.diff(nil, true); !strings.HasPrefix(got, "\x1b[0m\x1b[2J") || !strings.Contains(got, "w2") {
		t.Errorf("the first picture clears the screen: %q", got)
	}
	if got := newGrid(first, 30, 5, false).diff(a, true); !strings.Contains(got, "\x1b[2J") {
		t.Errorf("another size draws anew: %q", got)
	}
}

func TestWatchColoursEndWithTheirCells(t *testing.T) {
	g := newGrid([]Line{{{"dead", Red}, {" x", Plain}}}, 20, 1, false)
	if got, want := g.diff(newGrid(nil, 20, 1, false), true), "\x1b[1;1H\x1b[0m\x1b[31mdead\x1b[1;6H\x1b[0mx"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := g.diff(newGrid(nil, 20, 1, false), false); strings.Contains(got, "31m") {
		t.Errorf("colour without being asked: %q", got)
	}
}

func TestWatchWideCharacters(t *testing.T) {
	a := newGrid([]Line{Text("清洗 1")}, 10, 1, false)
	b := newGrid([]Line{Text("清洗 2")}, 10, 1, false)
	if got, want := b.diff(a, false), "\x1b[1;6H2"; got != want {
		t.Errorf("got %q, want %q: a wide character takes two columns", got, want)
	}
	// A wide character gives way to narrow ones: both its columns are drawn.
	c := newGrid([]Line{Text("ab洗 1")}, 10, 1, false)
	if got, want := c.diff(a, false), "\x1b[1;1Hab"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWatchCutsWhatDoesNotFit(t *testing.T) {
	g := newGrid([]Line{Text("0123456789"), Text("b"), Text("c")}, 5, 2, false)
	var text strings.Builder
	for _, c := range g.cells {
		text.WriteString(c.text)
	}
	if got, want := text.String(), "0123…b    "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
