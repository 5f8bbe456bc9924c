package operator

import (
	"fmt"
	"strings"
	"testing"

	"nightshift/pkg/operator/screen"
)

// sizes are the two terminals that screens are made for.
var sizes = []struct{ width, height int }{{80, 24}, {200, 60}}

func TestGoldenScreens(t *testing.T) {
	n := newNight(t)
	n.work()
	verbs := []struct {
		name string
		run  func(d *Desk) error
	}{
		{"status", (*Desk).Status},
		{"workers", (*Desk).Workers},
		{"list", func(d *Desk) error { return d.List(ListOptions{}) }},
		{"list-failed", func(d *Desk) error {
			return d.List(ListOptions{Selection: Selection{Statuses: []string{"failed,dead"}}, Sort: "updated"})
		}},
		{"show-running", func(d *Desk) error { return d.Show("20261201T100000.000-0000000000000005") }},
		{"show-lost", func(d *Desk) error { return d.Show("20261201T100000.000-0000000000000007") }},
		{"show-failed", func(d *Desk) error { return d.Show("20261201T100000.000-0000000000000002") }},
		{"schedules", (*Desk).Schedules},
		{"schedules-next", func(d *Desk) error { return d.SchedulesNext("", "6") }},
		{"why-lost", func(d *Desk) error { return d.Why("20261201T100000.000-0000000000000007") }},
		{"why-retrying", func(d *Desk) error { return d.Why("20261201T100000.000-0000000000000004") }},
		{"why-limit", func(d *Desk) error { return d.Why("20261201T120000.000-0000000000000020") }},
	}
	for _, size := range sizes {
		for _, v := range verbs {
			name := fmt.Sprintf("%s-%dx%d", v.name, size.width, size.height)
			t.Run(name, func(t *testing.T) {
				d, out, errOut := n.desk(size.width, size.height)
				if err := v.run(d); err != nil {
					t.Fatal(err)
				}
				text := out.String()
				if errOut.Len() > 0 {
					text += "--- on standard error ---\n" + errOut.String()
				}
				for i, l := range strings.Split(out.String(), "\n") {
					if screen.Width(l) > size.width {
						t.Errorf("line %d is %d columns wide: %q", i+1, screen.Width(l), l)
					}
				}
				if strings.ContainsAny(text, "\x1b\x07\r") {
					t.Error("a control character reaches the screen")
				}
				golden(t, name, n.steady(text))
			})
		}
	}
}

// One screen is one screen: nothing scrolls away.
func TestStatusFitsItsTerminal(t *testing.T) {
	n := newNight(t)
	n.work()
	for _, height := range []int{12, 16, 20, 24, 40, 60} {
		d, out, _ := n.desk(80, height)
		if err := d.Status(); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines > max(height-1, 16) {
			t.Errorf("%d lines on a terminal of %d:\n%s", lines, height, out.String())
		}
	}
}

func TestColoursCarryNoMeaningAlone(t *testing.T) {
	n := newNight(t)
	n.work()
	plain, text, _ := n.desk(120, 60)
	if err := plain.Status(); err != nil {
		t.Fatal(err)
	}
	coloured, colours, _ := n.desk(120, 60)
	coloured.Style.Color = true
	if err := coloured.Status(); err != nil {
		t.Fatal(err)
	}
	if strip(colours.String()) != text.String() {
		t.Errorf("without its colours the screen differs:\n%s\n%s", strip(colours.String()), text.String())
	}
	if !strings.Contains(colours.String(), "\x1b[31m") {
		t.Error("nothing is red, though a worker is dead")
	}
}

// strip removes colours.
func strip(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}

func TestCL08NothingIsCutInAFile(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, _ := n.desk(0, 0)
	if err := d.List(ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if long := "清洗-" + strings.Repeat("很长的名字", 8); !strings.Contains(out.String(), long) {
		t.Errorf("an id was cut:\n%s", out.String())
	}
	if strings.Contains(out.String(), "…") {
		t.Errorf("something was cut:\n%s", out.String())
	}
}
