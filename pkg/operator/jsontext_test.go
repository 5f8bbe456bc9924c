package operator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// IN-01, IN-04: broken JSON is refused with its place; what is JSON passes
// unread, odd as it may be.
func TestIN01BrokenJSONIsRefusedWithItsPlace(t *testing.T) {
	for _, good := range []string{
		`{}`, ` {"a": 1.10}` + "\n", `123`, `"x"`, `null`, `{"a":1,"a":2}`, `"\ud800"`, `"\u0000"`, `[1e400,18446744073709551615]`,
		`{"k":"O'Brien $HOME ` + "`id`" + ` \"x\" \\ ☾"}`, strings.Repeat("[", 900) + strings.Repeat("]", 900),
	} {
		if err := CheckJSON("payload", []byte(good)); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, c := range []struct{ name, in, want string }{
		{"a missing quote", `{"a: 1}`, "payload is not valid JSON at line 1, column 8: the text ends too early"},
		{"on a later line", "{\n  \"é\": tru\n}", "payload is not valid JSON at line 2, column 11: "},
		{"single quotes", `{'a': 1}`, "line 1, column 2: invalid character '\\''"},
		{"two values", `{} {}`, "line 1, column 4: text after the value"},
		{"empty", "", "payload: it is empty; an empty object is {}"},
		{"blank", " \n", "payload: it is empty"},
		{"a raw NUL", "{\"a\":\"\x00b\"}", `column 7: a NUL byte; write it as \u0000`},
		{"Latin-1", "{\"a\":\"\xe9\"}", "column 7: byte 0xe9 is not valid UTF-8"},
		{"a raw line end in a string", "\"a\nb\"", "line 1, column 3: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckJSON("payload", []byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// IN-06: the limit is exact and named.
func TestIN06TheLimitIsExact(t *testing.T) {
	text := []byte(`"` + strings.Repeat("x", task.MaxJSONBytes-2) + `"`)
	if err := CheckJSON("payload", text); err != nil {
		t.Errorf("exactly 1 MiB is refused: %v", err)
	}
	if err := CheckJSON("payload", append(text, ' ')); err == nil || !strings.Contains(err.Error(), "1048576 bytes (1 MiB)") {
		t.Errorf("one byte more: %v", err)
	}
}

// IN-05: what was stored comes out byte for byte.
func TestIN05DocumentsDoNotReencode(t *testing.T) {
	payload := ` {"id":9007199254740993, "u":18446744073709551615,"f":1.10,"e":1e400,"s":"<&>\ud800"}` + "\n"
	code, none := 3, (*int)(nil)
	var b bytes.Buffer
	err := WriteJSON(&b, object{
		{"payload", raw(payload)}, {"checkpoint", raw("")}, {"damaged", raw("{")}, {"id", "a\x1b<&>\u2028"}, {"n", int64(1<<63 - 1)},
		{"at", time.Date(2026, 12, 1, 16, 4, 5, 123e6, time.UTC)}, {"never", time.Time{}}, {"code", &code}, {"none", none},
		{"ok", true}, {"list", []object{{{"a", 1}}}}, {"names", []string{"x", "y"}}, {"empty", []object(nil)}, {"maybe", orNull("")},
	})
	want := `{"payload":` + payload + `,"checkpoint":null,"damaged":"{","id":"a\u001b<&>\u2028","n":9223372036854775807,` +
		`"at":"2026-12-01T16:04:05.123Z","never":null,"code":3,"none":null,"ok":true,"list":[{"a":1}],"names":["x","y"],"empty":[],"maybe":null}` + "\n"
	if err != nil || b.String() != want {
		t.Errorf("got\n%s%v\nwant\n%s", b.String(), err, want)
	}
}

func TestListsAreOneDocument(t *testing.T) {
	for n, want := range map[int]string{0: "[]\n", 1: "[\n{\"i\":0}\n]\n", 2: "[\n{\"i\":0},\n{\"i\":1}\n]\n"} {
		var b bytes.Buffer
		l := listWriter{w: &b}
		for i := range n {
			if err := l.add(object{{"i", i}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.close(); err != nil || b.String() != want {
			t.Errorf("%d: %q, %v", n, b.String(), err)
		}
	}
}
