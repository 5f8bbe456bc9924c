package screen

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// cell is one column of the terminal. A wide character fills its cell and leaves
// the next one with an empty text.
type cell struct {
	text  string
	color Color
}

// grid is a screen full of cells.
type grid struct {
	width, height int
	cells         []cell
}

// newGrid lays lines out on a screen; what does not fit is left out.
func newGrid(lines []Line, width, height int, ascii bool) *grid {
	g := &grid{width: width, height: height, cells: make([]cell, width*height)}
	for i := range g.cells {
		g.cells[i].text = " "
	}
	for y, l := range lines {
		if y == height {
			break
		}
		x := 0
		for _, s := range l.Fit(width, ascii) {
			for _, cluster := range clusters(s.Text) {
				w := Width(cluster)
				if w == 0 || x+w > width {
					continue
				}
				g.cells[y*width+x] = cell{cluster, s.Color}
				for i := 1; i < w; i++ {
					g.cells[y*width+x+i] = cell{}
				}
				x += w
			}
		}
	}
	return g
}

// clusters splits s into pieces that take a column or more: a letter with its
// combining marks stays whole.
func clusters(s string) []string {
	var parts []string
	start := 0
	for i := range s {
		if i > start && startsCluster(s, i) && !strings.HasSuffix(s[start:i], string(zeroWidthJoiner)) {
			parts = append(parts, s[start:i])
			start = i
		}
	}
	if start < len(s) {
		parts = append(parts, s[start:])
	}
	return parts
}

// diff is what turns the screen old into g: cursor moves and changed cells
// only. A nil old, or one of another size, is cleared first.
func (g *grid) diff(old *grid, color bool) string {
	var b strings.Builder
	if old == nil || old.width != g.width || old.height != g.height {
		b.WriteString("\x1b[0m\x1b[2J")
		old = newGrid(nil, g.width, g.height, true)
	}
	current, at := Plain, -1
	for i, c := range g.cells {
		if c == old.cells[i] || c.text == "" {
			continue
		}
		if at != i {
			b.WriteString(move(i/g.width, i%g.width))
		}
		if color && c.color != current {
			b.WriteString("\x1b[0m")
			if c.color != Plain {
				b.WriteString("\x1b[" + sgr[c.color] + "m")
			}
			current = c.color
		}
		b.WriteString(c.text)
		at = i + max(Width(c.text), 1)
		if at%g.width == 0 {
			at = -1 // where the cursor is after the last column differs between terminals
		}
	}
	if current != Plain {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// move puts the cursor on row y, column x, both from 0.
func move(y, x int) string {
	return "\x1b[" + strconv.Itoa(y+1) + ";" + strconv.Itoa(x+1) + "H"
}

// What a full-screen program sends at its start and end: the alternate screen
// keeps the shell's text, the cursor is hidden meanwhile.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// Watch draws what draw gives once a period until q, Ctrl-C, a signal or the end
// of ctx, and leaves the terminal as it was, whatever ends it. draw is called
// with the size of the terminal from the caller's goroutine, and its error ends
// the watching.
//
// in may be no terminal: then only a signal or ctx ends it.
func Watch(ctx context.Context, in, out *os.File, s Style, period time.Duration, draw func(Style) ([]Line, error)) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)

	quit := make(chan struct{})
	if term.IsTerminal(int(in.Fd())) {
		saved, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), saved) }() // nothing can be done about a terminal that is gone
		keysCtx, stopKeys := context.WithCancel(ctx)
		keysDone := make(chan struct{})
		go func() {
			defer close(keysDone)
			readKeys(keysCtx, in, quit)
		}()
		defer func() { stopKeys(); <-keysDone }()
	}
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leaveScreen) }() // as above

	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var shown *grid
	for {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 0 {
			s.Width, s.Height = max(w, MinWidth), h
		}
		lines, err := draw(s)
		if err != nil {
			return err
		}
		next := newGrid(lines, s.Width, s.Height, s.ASCII)
		if _, err := io.WriteString(out, next.diff(shown, s.Color)); err != nil {
			return err
		}
		shown = next
		select {
		case <-ctx.Done():
			return nil
		case <-quit:
			return nil
		case <-resized:
			shown = nil
		case <-ticker.C:
		}
	}
}

// keyPoll bounds how long a watch that ends waits for its key reader.
const keyPoll = 100 * time.Millisecond

// readKeys closes quit at q, Q, Ctrl-C, Ctrl-D or Escape. Raw mode makes keys of
// what would be signals.
func readKeys(ctx context.Context, in *os.File, quit chan<- struct{}) {
	poll := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	var buf [64]byte
	for ctx.Err() == nil {
		n, err := unix.Poll(poll, int(keyPoll/time.Millisecond))
		if n <= 0 {
			if err != nil && err != unix.EINTR {
				return
			}
			continue
		}
		got, err := in.Read(buf[:])
		if err != nil || got == 0 {
			close(quit) // the terminal is gone
			return
		}
		if strings.ContainsAny(string(buf[:got]), "qQ\x03\x04") || string(buf[:got]) == "\x1b" {
			close(quit)
			return
		}
	}
}
