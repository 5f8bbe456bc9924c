package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestCL08NotATerminal(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   []string
		width int
		ascii bool
	}{
		{"a pipe has no width", []string{"LANG", "C.UTF-8"}, 0, false},
		{"an exported COLUMNS is obeyed", []string{"LANG", "C.UTF-8", "COLUMNS", "60"}, 60, false},
		{"a COLUMNS too narrow for any table", []string{"LANG", "C.UTF-8", "COLUMNS", "3"}, MinWidth, false},
		{"COLUMNS=0 is no width", []string{"LANG", "C.UTF-8", "COLUMNS", "0"}, 0, false},
		{"the C locale gets ASCII", []string{"LANG", "C"}, 0, true},
		{"LC_ALL wins", []string{"LC_ALL", "de_DE.utf8", "LANG", "C"}, 0, false},
		{"no locale at all", nil, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Detect(&bytes.Buffer{}, env(c.env...))
			if s.Width != c.width || s.ASCII != c.ascii || s.Color || s.Terminal {
				t.Errorf("got %+v, want width %d, ascii %v, no colour, no terminal", s, c.width, c.ascii)
			}
		})
	}
}

func TestPrintHasNoEscapesWithoutColor(t *testing.T) {
	lines := []Line{{{"FAILED", Red}, {" and more   ", Plain}}}
	for _, c := range []struct {
		name  string
		style Style
		want  string
	}{
		{"plain", Style{}, "FAILED and more\n"},
		{"colour", Style{Color: true}, "\x1b[31mFAILED\x1b[0m and more\n"},
		{"narrow", Style{Width: 8}, "FAILED …\n"},
		{"narrow, ASCII", Style{Width: 8, ASCII: true}, "FAILED ~\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.style.Print(&b, lines); err != nil || b.String() != c.want {
				t.Errorf("got %q, %v, want %q", b.String(), err, c.want)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "20261201T160405.123-ab", "20261201T160405.123-ab"},
		{"wide text stays", "清洗 ☾ é", "清洗 ☾ é"},
		{"an emoji held together stays", "👩\u200d🔧", "👩\u200d🔧"},
		{"clear the screen", "a\x1b[2Jb", `a\x1b[2Jb`},
		{"line ends and tabs", "a\nb\tc\rd", `a\nb\tc\rd`},
		{"C1 control that begins a sequence", "a\u009bb", `a\u009bb`},
		{"C1 control", "a\u0085b", `a\u0085b`},
		{"DEL", "a\x7fb", `a\x7fb`},
		{"right-to-left override", "a\u202eb", `a\u202eb`},
		{"zero-width space", "a\u200bb", `a\u200bb`},
		{"tag character", "a\U000e0041b", `a\U000e0041b`},
		{"a byte that is no UTF-8", "a\xffb", `a\xffb`},
		{"the replacement mark itself", "a\ufffdb", "a\ufffdb"},
		{"NUL", "a\x00b", `a\x00b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Escape(c.in); got != c.want {
				t.Errorf("Escape(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
	if got := EscapeText("a\x1b\n\tb\r\n"); got != `a\x1b`+"\n\tb"+`\r`+"\n" {
		t.Errorf("EscapeText keeps line ends and tabs only, got %q", got)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"abcdefghij", 10, "abcdefghij"},
		{"abcdefghij", 9, "abcd…ghij"},
		{"abcdefghij", 6, "abc…ij"},
		{"abcdefghij", 2, "a…"},
		{"abcdefghij", 1, "…"},
		{"abcdefghij", 0, ""},
		{"清洗数据文件", 12, "清洗数据文件"},
		{"清洗数据文件", 11, "清洗…文件"},
		{"清洗数据文件", 7, "清…件"},
		{"e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301"},
	} {
		got := Shorten(c.in, c.width, false)
		if got != c.want || Width(got) > c.width {
			t.Errorf("Shorten(%q, %d) = %q (%d columns), want %q", c.in, c.width, got, Width(got), c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0 s"}, {0, "0 s"}, {999 * time.Millisecond, "0 s"}, {95 * time.Second, "95 s"},
		{2 * time.Minute, "2 min"}, {119 * time.Minute, "119 min"}, {2 * time.Hour, "2 h"},
		{3*time.Hour + 12*time.Minute, "3 h 12 min"}, {48 * time.Hour, "2 d"}, {76 * time.Hour, "3 d 4 h"},
		{1204 * 24 * time.Hour, "1,204 d"},
	} {
		if got := Words(c.d); got != c.want {
			t.Errorf("Words(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

// TI-08: no age is shown negative after the clock was set back.
func TestTI08AgesAreNeverNegative(t *testing.T) {
	now := time.Date(2026, 12, 1, 16, 0, 0, 0, time.UTC)
	if got := Ago(now.Add(3*time.Hour), now); got != "just now" {
		t.Errorf("an age ahead of the clock is %q", got)
	}
	if got := Ago(now.Add(-95*time.Second), now); got != "95 s ago" {
		t.Errorf("Ago = %q", got)
	}
	if got := Until(now.Add(5*time.Minute), now); got != "in 5 min" {
		t.Errorf("Until = %q", got)
	}
	if got := Until(now.Add(-5*time.Minute), now); got != "5 min ago" {
		t.Errorf("Until = %q", got)
	}
	if Ago(time.Time{}, now) != "never" || Until(time.Time{}, now) != "never" {
		t.Error("no time is never")
	}
}

func TestTimesNameTheirZone(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Skip("no time zones here")
	}
	at := time.Date(2026, 12, 1, 16, 4, 5, 123e6, time.UTC)
	s := Style{Zone: shanghai}
	if got := s.Time(at); got != "2026-12-02 00:04:05 CST" {
		t.Errorf("local: %q", got)
	}
	if got := s.Clock(at, at); got != "00:04:05" {
		t.Errorf("today: %q", got)
	}
	if got := s.Clock(at, at.Add(48*time.Hour)); got != "2026-12-02 00:04" {
		t.Errorf("another day: %q", got)
	}
	s.UTC = true
	if got := s.Time(at); got != "2026-12-01T16:04:05.123Z" {
		t.Errorf("UTC: %q", got)
	}
	if got := s.Time(time.Time{}); got != "-" {
		t.Errorf("no time: %q", got)
	}
}

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567",
		Bytes(0): "0 B", Bytes(9999): "9,999 B", Bytes(10_000): "10 kB", Bytes(50_000_000): "50 MB",
		Bytes(1_500_000_000): "1.5 GB", Bytes(999_600): "1.0 MB", Bytes(1 << 62): "4.6 EB",
		Plural(1, "task"): "1 task", Plural(1204, "task"): "1,204 tasks",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFraction(t *testing.T) {
	for _, c := range []struct {
		in   string
		want float64
		ok   bool
	}{
		{"6000/10000", 0.6, true}, {"row 6,000/10,000 of x.csv", 0.6, true}, {"63%", 0.63, true}, {"63 % done", 0.63, true},
		{"page 7", 0, false}, {"", 0, false}, {"7/0", 0, false}, {"11/10", 0, false}, {"a/b", 0, false}, {"-3/10", 0, false},
		{"http://x/y 5/10", 0.5, true}, {"1e400%", 0, false}, {"NaN/3", 0, false}, {"NaN%", 0, false},
	} {
		if got, ok := Fraction(c.in); got != c.want || ok != c.ok {
			t.Errorf("Fraction(%q) = %v, %v, want %v, %v", c.in, got, ok, c.want, c.ok)
		}
	}
	if got := Bar(0.6, 12, true); got != "[######----]" {
		t.Errorf("bar: %q", got)
	}
	if got := Bar(1, 7, false); got != "[█████]" || Width(got) != 7 {
		t.Errorf("bar: %q", got)
	}
}

func table(width int) *Table {
	return &Table{
		Style: Style{Width: width},
		Columns: []Column{
			{Title: "ID", Min: 9, Keep: 9}, {Title: "STATUS", Keep: 8}, {Title: "PRIO", Right: true, Keep: 2},
			{Title: "PROGRESS", Min: 8, Keep: 5},
		},
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	for width := MinWidth; width < 100; width++ {
		tb := table(width)
		tb.Row(Cell{"20261201T160405.123-ab12cd34ef", Plain}, Cell{"RUNNING", Green}, Cell{"100", Plain}, Cell{"清洗 6000/10000 行", Plain})
		tb.Row(Cell{"nightly@2026-12-01T18:00:00.000Z", Plain}, Cell{"FAILED", Red}, Cell{"-5", Plain}, Cell{"", Plain})
		for _, l := range tb.Lines() {
			if l.Width() > width {
				t.Fatalf("width %d: a line of %d columns: %q", width, l.Width(), l.Plain())
			}
		}
	}
}

func TestTableShortensInTheMiddleThenDropsColumns(t *testing.T) {
	draw := func(width int) string {
		tb := table(width)
		tb.Row(Cell{"20261201T160405.123-ab12cd34ef", Plain}, Cell{"RUNNING", Plain}, Cell{"100", Plain}, Cell{"6000/10000", Plain})
		var b bytes.Buffer
		if err := tb.Flush(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for width, want := range map[int]string{
		0: "ID                              STATUS   PRIO  PROGRESS\n" +
			"20261201T160405.123-ab12cd34ef  RUNNING   100  6000/10000\n",
		40: "ID             STATUS   PRIO  PROGRESS\n" +
			"202612…cd34ef  RUNNING   100  6000/10000\n",
		30: "ID         STATUS   PROGRESS\n" +
			"2026…34ef  RUNNING  6000/10000\n",
	} {
		if got := draw(width); got != want {
			t.Errorf("width %d:\n%swant\n%s", width, got, want)
		}
	}
}

func TestLongTableKeepsTheWidthsOfItsFirstPart(t *testing.T) {
	tb := table(60)
	tb.Row(Cell{"short", Plain}, Cell{"PENDING", Plain}, Cell{"1", Plain}, Cell{"", Plain})
	var b bytes.Buffer
	if err := tb.Flush(&b); err != nil {
		t.Fatal(err)
	}
	tb.Row(Cell{"a-very-much-longer-id-than-before", Plain}, Cell{"PENDING", Plain}, Cell{"1", Plain}, Cell{"", Plain})
	if err := tb.Flush(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "PENDING") {
		t.Fatalf("got %q", lines)
	}
	if Width(lines[1][:strings.Index(lines[1], "PENDING")]) != Width(lines[2][:strings.Index(lines[2], "PENDING")]) {
		t.Errorf("the columns moved:\n%s", b.String())
	}
}

// TestWrapLosesNothing: a word wider than the line is broken, not cut: ids are
// copied from there.
func TestWrapLosesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		width, indent int
		line          Line
		want          []string
	}{
		"words":             {20, 2, Text("one two three four five six"), []string{"one two three four ", "  five six"}},
		"a long word":       {20, 2, Line{{Text: "Task 0123456789012345678901234567890"}, {Text: "  FAILED", Color: Red}}, []string{"Task 012345678901234", "  5678901234567890  ", "  FAILED"}},
		"wide characters":   {9, 1, Text("盘点仓库和摄像头"), []string{"盘点仓库", " 和摄像头"}},
		"no room for them":  {1, 1, Text("盘点"), []string{"盘点"}},
		"fits as it stands": {40, 2, Text("one two"), []string{"one two"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range (Style{Width: c.width}).Wrap(c.line, c.indent) {
				got = append(got, l.Plain())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
