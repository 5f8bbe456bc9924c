package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"nightshift/pkg/task"
)

// BadJSON says where a JSON text stops being one.
type BadJSON struct {
	What         string // "payload", "line 500"
	Line, Column int    // from 1; column in characters; 0: of no place
	Why          string
}

func (e *BadJSON) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.What, e.Why)
	}
	return fmt.Sprintf("%s is not valid JSON at line %d, column %d: %s", e.What, e.Line, e.Column, e.Why)
}

// CheckJSON refuses what is no JSON text of at most 1 MiB, with the place. It
// reads the text only: nothing of ours ever re-encodes it, so that 64-bit
// numbers, escapes and spaces reach the program as they were written.
func CheckJSON(what string, text []byte) error {
	if len(text) > task.MaxJSONBytes {
		return &BadJSON{What: what, Why: fmt.Sprintf("it has more than %d bytes (1 MiB), which is the limit; put the data into a file and its path into the payload", task.MaxJSONBytes)}
	}
	if i := badByte(text); i >= 0 {
		why := fmt.Sprintf("byte 0x%02x is not valid UTF-8", text[i])
		if text[i] == 0 {
			why = `a NUL byte; write it as \u0000`
		}
		return at(what, text, i, why)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &BadJSON{What: what, Why: "it is empty; an empty object is {}"}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return at(what, text, syntaxOffset(err, len(text)), syntaxReason(err))
	}
	if rest := bytes.TrimSpace(text[dec.InputOffset():]); len(rest) > 0 {
		return at(what, text, len(text)-len(bytes.TrimLeft(text[dec.InputOffset():], " \t\r\n")), "text after the value")
	}
	return nil
}

// badByte is the index of the first NUL or byte outside UTF-8; -1: none.
func badByte(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if text[i] == 0 || (r == utf8.RuneError && n == 1) {
			return i
		}
		i += n
	}
	return -1
}

func syntaxOffset(err error, size int) int {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset > 0 {
		return int(syntax.Offset) - 1
	}
	return size
}

func syntaxReason(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "the text ends too early"
	}
	return err.Error()
}

// at makes a BadJSON of a byte offset.
func at(what string, text []byte, offset int, why string) error {
	before := text[:min(offset, len(text))]
	line := 1 + bytes.Count(before, []byte("\n"))
	start := bytes.LastIndexByte(before, '\n') + 1
	return &BadJSON{What: what, Line: line, Column: 1 + utf8.RuneCount(before[start:]), Why: why}
}
