package program

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slow is the same rule, said in another way: the last line that is not blank, and
// of it what stands behind the last carriage return.
func slow(text string) string {
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimRight(lines[i], "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

func TestLastLineInAnyChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.StringMatching("[a\r\n \\xc3é]{0,6}")).Draw(t, "chunks")
		l := lastLine{max: 1000}
		for _, c := range chunks {
			l.feed([]byte(c))
		}
		got, whole := l.text()
		if want := slow(strings.Join(chunks, "")); string(got) != want || !whole {
			t.Fatalf("%q gives %q (whole: %v), want %q", chunks, got, whole, want)
		}
	})
}

// A line that was drawn over with blanks hid the one before it, when both had come at once.
func TestLastLineBehindOneDrawnOver(t *testing.T) {
	l := lastLine{max: 100}
	for _, c := range []string{"result", "\n50 %\r    \n"} {
		l.feed([]byte(c))
	}
	if got, whole := l.text(); string(got) != "result" || !whole {
		t.Errorf("%q, whole %v", got, whole)
	}
}

func TestLastLineOfBoundedMemory(t *testing.T) {
	l := lastLine{max: 100}
	l.feed([]byte("first\n"))
	for range 1000 {
		l.feed(bytes.Repeat([]byte("x"), 10_000))
	}
	got, whole := l.text()
	if string(got) != strings.Repeat("x", 100) || whole || cap(l.line) > 1000 {
		t.Errorf("%d bytes, whole %v, memory %d", len(got), whole, cap(l.line))
	}
	l.feed([]byte("\nend"))
	if got, whole := l.text(); string(got) != "end" || !whole {
		t.Errorf("then %q, whole %v", got, whole)
	}
}
