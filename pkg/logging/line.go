package logging

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLine is the longest line, its newline included. grep, journald and people
// cope with 8 KiB; a stack or an error that quotes a payload may be larger.
const MaxLine = 8 << 10

// cutRoom is kept free in every line for the mark of a cut.
const cutRoom = 40

// Line makes one line of an event: control characters, line breaks, bytes that
// are no UTF-8 and characters that turn the direction of text are escaped, so
// that no id or message can forge a line or move a terminal's cursor. What is too
// long is cut and says by how much. The result ends with a newline.
func Line(event []byte) []byte {
	event = bytes.TrimRight(unfold(event), "\n")
	line := make([]byte, 0, min(len(event)+1, MaxLine))
	for i := 0; i < len(event); {
		before := len(line)
		n := 1
		if c := event[i]; c >= 0x20 && c < 0x7f {
			line = append(line, c)
		} else {
			line, n = appendEscaped(line, event[i:])
		}
		if len(line) > MaxLine-cutRoom {
			return fmt.Appendf(line[:before], " … [%d more bytes]\n", len(event)-i)
		}
		i += n
	}
	return append(line, '\n')
}

// appendEscaped appends the first character of rest, escaped where it must be,
// and returns how many bytes of rest it took.
func appendEscaped(line, rest []byte) ([]byte, int) {
	r, n := utf8.DecodeRune(rest)
	switch {
	case r == utf8.RuneError && n == 1:
		return fmt.Appendf(line, `\x%02x`, rest[0]), n
	case r == '\n':
		return append(line, `\n`...), n
	case r == '\t':
		return append(line, `\t`...), n
	case r == '\r':
		return append(line, `\r`...), n
	case r < 0x20 || r == 0x7f:
		return fmt.Appendf(line, `\x%02x`, r), n
	case unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
		return fmt.Appendf(line, `\u%04x`, r), n
	}
	return append(line, rest[:n]...), n
}

// block is how hclog writes a value of several lines.
var block = regexp.MustCompile(`\n  ([^\s=]+)=\n((?:  \| [^\n]*\n)+)  `)

// unfold puts hclog's blocks back into the line: key="first\nsecond". hclog has
// prefixed each line of the value, so a value cannot pretend to be a key.
func unfold(event []byte) []byte {
	if !bytes.Contains(event, []byte("=\n  | ")) {
		return event
	}
	return block.ReplaceAllFunc(event, func(b []byte) []byte {
		parts := block.FindSubmatch(b)
		value := strings.TrimSuffix(strings.TrimPrefix(string(parts[2]), "  | "), "\n")
		value = strings.ReplaceAll(value, "\n  | ", "\n")
		return fmt.Appendf(nil, ` %s="%s"`, parts[1], strings.ReplaceAll(value, `"`, `\"`))
	})
}
