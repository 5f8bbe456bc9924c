package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// maxDocument is what the database takes as a payload (DESIGN: 1 MiB).
const maxDocument = 1 << 20

// document turns a YAML value into JSON text. Numbers that JSON knows keep their
// digits, so a 64-bit id arrives as it was written; mappings keep their order. A
// text that begins with { or [ is JSON already, and is kept as it is.
func (d *decoder) document(full string, from *node, v reflect.Value) {
	raw := strings.TrimSpace(from.text)
	if from.kind == textNode && (strings.HasPrefix(raw, "{") || strings.HasPrefix(raw, "[")) {
		if err := checkJSON(raw); err != nil {
			d.fail(from.at, full, fmt.Sprintf("the text begins like JSON and is none: %v", err))
			return
		}
		if len(raw) > maxDocument {
			d.fail(from.at, full, tooLarge(len(raw)))
			return
		}
		v.SetString(raw)
		return
	}
	var b bytes.Buffer
	if !d.writeJSON(&b, full, from) {
		return
	}
	if b.Len() > maxDocument {
		d.fail(from.at, full, tooLarge(b.Len()))
		return
	}
	v.SetString(b.String())
}

func tooLarge(n int) string {
	return fmt.Sprintf("it has %d bytes as JSON, at most %d are allowed; put the data into a file and name the file", n, maxDocument)
}

func checkJSON(s string) error {
	var any json.RawMessage
	return json.Unmarshal([]byte(s), &any)
}

// jsonNumber is the grammar of RFC 8259.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// writeJSON appends n as JSON; false when a mistake was reported.
func (d *decoder) writeJSON(b *bytes.Buffer, full string, n *node) bool {
	if b.Len() > maxDocument {
		return true // refused by the caller; no need to go on
	}
	switch n.kind {
	case nullNode:
		b.WriteString("null")
	case boolNode:
		b.WriteString(strings.ToLower(n.text))
	case numberNode:
		number := n.text
		if !jsonNumber.MatchString(number) {
			var ok bool
			if number, ok = plainNumber(number); !ok {
				d.fail(n.at, full, n.text+" is no number that JSON can hold")
				return false
			}
		}
		b.WriteString(number)
	case textNode:
		writeString(b, n.text)
	case listNode:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			if !d.writeJSON(b, full, item) {
				return false
			}
		}
		b.WriteByte(']')
	case mapNode:
		b.WriteByte('{')
		for i, p := range n.pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, p.key)
			b.WriteByte(':')
			if !d.writeJSON(b, full, p.value) {
				return false
			}
		}
		b.WriteByte('}')
	}
	return true
}

// writeString appends a JSON string without the escapes that json.Marshal adds
// for the sake of HTML.
func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("config: a string has no JSON: " + err.Error())
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
}

// options fills the settings of a Go handler: string, bool, int64, float64, nil,
// []any and map[string]any.
func (d *decoder) options(full string, from *node, v reflect.Value) {
	if from.kind != mapNode {
		d.fail(from.at, full, show(from)+" stands where a mapping belongs")
		return
	}
	v.Set(reflect.ValueOf(d.plain(full, from)))
}

func (d *decoder) plain(full string, n *node) any {
	switch n.kind {
	case textNode:
		return n.text
	case boolNode:
		return strings.EqualFold(n.text, "true")
	case numberNode:
		clean := strings.ReplaceAll(n.text, "_", "")
		if i, err := strconv.ParseInt(clean, 0, 64); err == nil {
			return i
		}
		f, err := strconv.ParseFloat(clean, 64)
		if err != nil {
			d.fail(n.at, full, n.text+" is no number that fits")
		}
		return f
	case listNode:
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			list = append(list, d.plain(full, item))
		}
		return list
	case mapNode:
		m := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			m[p.key] = d.plain(full, p.value)
		}
		return m
	}
	return nil
}
