package logging

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"
)

func TestLineEscapes(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "task done: task=a\n", "task done: task=a\n"},
		{"forged line", "a\n2026-12-01T00:00:00.000Z [ERROR] b", `a\n2026-12-01T00:00:00.000Z [ERROR] b` + "\n"},
		{"terminal", "\x1b[2Jgone\x07\x7f", `\x1b[2Jgone\x07\x7f` + "\n"},
		{"tab, return, NUL", "a\tb\rc\x00", `a\tb\rc\x00` + "\n"},
		{"C1", "a\u009bb", `a\u009bb` + "\n"},
		{"no UTF-8", "a\xff\x88b", `a\xff\x88b` + "\n"},
		{"right to left override", "a\u202eb", `a\u202eb` + "\n"},
		{"line separator", "a\u2028b", `a\u2028b` + "\n"},
		{"other scripts", "日报 ☾ 👩‍👩‍👧", "日报 ☾ 👩‍👩‍👧\n"},
		{"empty", "", "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(Line([]byte(tc.in))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLineIsOneLineOfAtMost8KiB(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "in")
		in = []byte(strings.Repeat(string(in), rapid.IntRange(1, 200).Draw(t, "times")))
		got := Line(in)
		if len(got) > MaxLine || got[len(got)-1] != '\n' || strings.Count(string(got), "\n") != 1 || !utf8.Valid(got) {
			t.Fatalf("%d bytes, %q", len(got), got)
		}
	})
	if got := string(Line([]byte(strings.Repeat("☾", 1<<20)))); !strings.HasSuffix(got, "☾ … [3137577 more bytes]\n") {
		t.Errorf("a cut line ends %q", got[len(got)-60:])
	}
}

func TestValuesOfSeveralLinesStayInTheLine(t *testing.T) {
	var got strings.Builder
	logger := hclog.New(&hclog.LoggerOptions{Output: &got, DisableTime: true})
	logger.Error("task failed", "task", "a b", "err", "first \"x\"\nsecond err=forged\n  | third", "exec", 7)
	want := `[ERROR] task failed: task="a b" err="first \"x\"\nsecond err=forged\n  | third" exec=7` + "\n"
	if line := string(Line([]byte(got.String()))); line != want {
		t.Errorf("got  %swant %s", line, want)
	}
}
