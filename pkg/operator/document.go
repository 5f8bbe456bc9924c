package operator

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"nightshift/pkg/task"
)

// object is a JSON object whose fields come in the order in which they were
// written down. The documents of --json are made of it rather than of structs,
// because encoding/json rewrites embedded JSON (it drops its spaces), and what a
// task was given must come out byte for byte.
type object []field

type field struct {
	Name  string
	Value any // string, bool, int, int64, float64, raw, object, []object, []string, time.Time, nil
}

// raw is JSON text that is copied as it is; empty is null.
type raw string

// orNull makes the empty string null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// WriteJSON writes one document and a line end.
func WriteJSON(w io.Writer, doc any) error {
	var b bytes.Buffer
	encode(&b, doc)
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

func encode(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case raw:
		encodeRaw(b, string(v))
	case time.Time:
		if v.IsZero() {
			b.WriteString("null")
			return
		}
		encodeText(b, task.FormatTime(v))
	case *int:
		if v == nil {
			b.WriteString("null")
			return
		}
		b.WriteString(strconv.Itoa(*v))
	case *int64:
		if v == nil {
			b.WriteString("null")
			return
		}
		b.WriteString(strconv.FormatInt(*v, 10))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case int:
		b.WriteString(strconv.Itoa(v))
	case string:
		encodeText(b, v)
	case object:
		encodeObject(b, v)
	case []object:
		encodeList(b, len(v), func(i int) { encodeObject(b, v[i]) })
	case []string:
		encodeList(b, len(v), func(i int) { encodeText(b, v[i]) })
	default: // bool, float64
		text, err := json.Marshal(v)
		if err != nil {
			panic("operator: a document holds a " + err.Error())
		}
		b.Write(text)
	}
}

// encodeRaw copies JSON text. A row that holds none (only a damaged database
// does) is shown as a string, so that the document stays one.
func encodeRaw(b *bytes.Buffer, text string) {
	switch {
	case text == "":
		b.WriteString("null")
	case json.Valid([]byte(text)):
		b.WriteString(text)
	default:
		encodeText(b, text)
	}
}

// encodeText writes a string as JSON without making <, > and & unreadable.
func encodeText(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("operator: a string that is no JSON: " + err.Error()) // no string is refused
	}
	b.Truncate(b.Len() - 1) // Encode ends its line
}

func encodeObject(b *bytes.Buffer, o object) {
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		encodeText(b, f.Name)
		b.WriteByte(':')
		encode(b, f.Value)
	}
	b.WriteByte('}')
}

func encodeList(b *bytes.Buffer, n int, item func(i int)) {
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item(i)
	}
	b.WriteByte(']')
}

// listWriter writes an array of objects one a line, in bounded memory.
type listWriter struct {
	w io.Writer
	n int
}

func (l *listWriter) add(o object) error {
	var b bytes.Buffer
	if l.n == 0 {
		b.WriteString("[\n")
	} else {
		b.WriteString(",\n")
	}
	l.n++
	encodeObject(&b, o)
	_, err := l.w.Write(b.Bytes())
	return err
}

func (l *listWriter) close() error {
	end := "\n]\n"
	if l.n == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(l.w, end)
	return err
}
