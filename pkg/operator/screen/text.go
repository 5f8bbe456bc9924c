package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// condition makes widths independent of the environment: runewidth would count
// "…" as two columns under a Chinese locale, which UTF-8 terminals do not.
var condition = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is the number of columns that s takes on a terminal: 2 for a wide
// character, 0 for a combining one.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return condition.StringWidth(s)
		}
	}
	return len(s)
}

// Escape makes s safe to show on one line: control characters, bytes that are
// no UTF-8 and characters that reorder or hide text (bidirectional overrides,
// zero-width ones) are written as Go would write them. Other text is unchanged.
func Escape(s string) string { return escape(s, false) }

// EscapeText is Escape for text of several lines: line ends and tabs stay.
func EscapeText(s string) string { return escape(s, true) }

func escape(s string, multiline bool) string {
	if clean(s, multiline) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case multiline && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

func clean(s string, multiline bool) bool {
	for i, r := range s {
		if multiline && (r == '\n' || r == '\t') {
			continue
		}
		if hidden(r) || (r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")) {
			return false
		}
	}
	return true
}

// zeroWidthJoiner holds emoji together ("👩‍🔧"); it hides nothing.
const zeroWidthJoiner = '\u200d'

// hidden reports that r is a control character or moves or hides its neighbours.
func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r < 0x300, r == zeroWidthJoiner:
		return r == 0xad // soft hyphen
	case r == 0x2028, r == 0x2029: // line and paragraph separator
		return true
	}
	return unicode.Is(unicode.Cf, r) // bidirectional controls, zero-width space, tags …
}

// ellipsis is the mark of what was left out.
func ellipsis(ascii bool) string {
	if ascii {
		return "~"
	}
	return "…"
}

// Shorten cuts s in the middle so that it takes at most width columns: ids and
// paths differ at both ends.
func Shorten(s string, width int, ascii bool) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	head := width / 2
	tail := width - 1 - head
	return condition.Truncate(s, head, "") + ellipsis(ascii) + lastColumns(s, tail)
}

// cutEnd shortens s at its end, with the mark in its last column, also when s
// alone would fit exactly.
func cutEnd(s string, width int, ascii bool) string {
	if width < 1 {
		return ""
	}
	return condition.Truncate(s, width-1, "") + ellipsis(ascii)
}

// firstColumns is the longest beginning of s that takes at most width columns.
func firstColumns(s string, width int) string {
	if width < 1 {
		return ""
	}
	return condition.Truncate(s, width, "")
}

// lastColumns is the longest end of s that takes at most width columns.
func lastColumns(s string, width int) string {
	total := Width(s)
	if total <= width {
		return s
	}
	for i := range s {
		if Width(s[i:]) <= width && startsCluster(s, i) {
			return s[i:]
		}
	}
	return ""
}

// startsCluster is false where a cut would leave a combining mark without its letter.
func startsCluster(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return !unicode.Is(unicode.M, r) && r != zeroWidthJoiner
}

// PadRight fills s with spaces up to width columns.
func PadRight(s string, width int) string {
	return s + strings.Repeat(" ", max(width-Width(s), 0))
}

// PadLeft puts spaces before s up to width columns.
func PadLeft(s string, width int) string {
	return strings.Repeat(" ", max(width-Width(s), 0)) + s
}
