package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAPartThatProvesTooLittleFails: what a part prints is believed only as far as
// it goes, and a part that says nothing has proved nothing.
func TestAPartThatProvesTooLittleFails(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   string // in the complaints; empty: none
	}{
		"all is well":            {"echo 'kills=12 lost=0 overlaps=0'", ""},
		"the last figure counts": {"echo 'kills=12 lost=0 overlaps=0'; echo 'kills=3 lost=0 overlaps=0'", "kills: 3, wanted 10"},
		"too few":                {"echo 'kills=9 lost=0 overlaps=0'", "kills: 9, wanted 10"},
		"something was lost":     {"echo 'kills=12 lost=1 overlaps=2'", "violations: 3"},
		"silence":                {"true", "kills: -, wanted 10"},
		"it failed":              {"echo 'kills=12 lost=0 overlaps=0'; exit 3", "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &part{
				name: "a part", command: []string{"sh", "-c", c.script},
				figures: []figure{{"kills", regexp.MustCompile(`kills=(\d+)`), 10}},
				harm:    regexp.MustCompile(`lost=(\d+) overlaps=(\d+)`),
			}
			x.do(t.Context(), t.TempDir())
			got := x.wrong()
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			if c.want == "" && !strings.Contains(table([]*part{x}), "a part  kills  12    10        0") {
				t.Errorf("the table is\n%s", table([]*part{x}))
			}
		})
	}
}
