package cmdline

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// tried is a small tree with every kind of flag and verb.
func tried(ran *[]string) *cli.App {
	action := func(c *cli.Context) error {
		*ran = []string{c.Command.Name, c.String("payload"), c.String("priority"), c.String("in"), c.String("config")}
		if c.Bool("hold") {
			*ran = append(*ran, "hold")
		}
		for _, s := range c.StringSlice("status") {
			*ran = append(*ran, "status="+s)
		}
		*ran = append(*ran, c.Args().Slice()...)
		return nil
	}
	add := &cli.Command{
		Name: "add", Usage: "add a task", ArgsUsage: "TYPE", Category: "Tasks", HideHelp: true, Action: action,
		Description: Describe("Adds one task.\n\n  --at    a table\n\nOf two paragraphs.", "add clean_csv --priority -5", "echo '{}' | add t --payload -"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "payload", Usage: "`JSON` that the program gets"},
			&cli.StringFlag{Name: "priority", Usage: "smaller runs first (`N`)"},
			&cli.StringFlag{Name: "in", Usage: "due after `DURATION`"},
			&cli.BoolFlag{Name: "hold", Aliases: []string{"H"}, Usage: "hold it"},
			&cli.StringSliceFlag{Name: "status", Usage: "`STATUS` to look for"},
		},
	}
	schedules := &cli.Command{
		Name: "schedules", Usage: "list schedules", Category: "Schedules", HideHelp: true, Action: action,
		Subcommands: []*cli.Command{{Name: "next", Usage: "next runs", ArgsUsage: "[NAME]", HideHelp: true, Action: action,
			Flags: []cli.Flag{&cli.StringFlag{Name: "n", Usage: "how many (`N`)"}}}},
	}
	hidden := &cli.Command{Name: "complete", Hidden: true, HideHelp: true, Action: action}
	app := &cli.App{
		Name: "nightshift", Usage: "the night shift", Version: "1.0", Description: "A -- B.\n.dot",
		HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Commands: []*cli.Command{add, schedules, hidden}, Writer: io.Discard, ErrWriter: io.Discard,
	}
	common := []cli.Flag{&cli.StringFlag{Name: "config", Usage: "configuration `FILE`"}}
	for _, c := range []*cli.Command{add, schedules, schedules.Subcommands[0], hidden} {
		c.Flags = append(c.Flags, common...)
	}
	return app
}

func TestCL07OptionsThatEatArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		line []string
		want []string // verb, payload, priority, in, config, then the rest
	}{
		{"flags first", []string{"add", "--priority", "7", "t"}, []string{"add", "", "7", "", "", "t"}},
		{"flags after the argument", []string{"add", "t", "--priority", "7"}, []string{"add", "", "7", "", "", "t"}},
		{"a negative number", []string{"add", "t", "--priority", "-5"}, []string{"add", "", "-5", "", "", "t"}},
		{"a negative duration", []string{"add", "t", "--in", "-5m"}, []string{"add", "", "", "-5m", "", "t"}},
		{"a payload that looks like a flag", []string{"add", "t", "--payload", "-1"}, []string{"add", "-1", "", "", "", "t"}},
		{"standard input as payload", []string{"add", "--payload", "-", "t"}, []string{"add", "-", "", "", "", "t"}},
		{"an empty value", []string{"add", "t", "--payload="}, []string{"add", "", "", "", "", "t"}},
		{"a value with = and spaces", []string{"add", "t", "--payload", `{"a b":"c=d"}`}, []string{"add", `{"a b":"c=d"}`, "", "", "", "t"}},
		{"a value with commas is one", []string{"add", "t", "--status", "A,B", "--status=C"}, []string{"add", "", "", "", "", "status=A,B", "status=C", "t"}},
		{"one dash for a long flag", []string{"add", "-priority", "3", "t"}, []string{"add", "", "3", "", "", "t"}},
		{"a short switch", []string{"add", "t", "-H"}, []string{"add", "", "", "", "", "hold", "t"}},
		{"a switch set to false", []string{"add", "t", "--hold=false"}, []string{"add", "", "", "", "", "t"}},
		{"-- ends the flags", []string{"add", "--", "-rf"}, []string{"add", "", "", "", "", "-rf"}},
		{"-- between", []string{"add", "--hold", "--", "--hold", "--"}, []string{"add", "", "", "", "", "hold", "--hold", "--"}},
		{"a lone dash is an argument", []string{"add", "-"}, []string{"add", "", "", "", "", "-"}},
		{"a common flag before the verb", []string{"--config", "x.yaml", "add", "t"}, []string{"add", "", "", "", "x.yaml", "t"}},
		{"a common flag after it", []string{"add", "t", "--config=x.yaml"}, []string{"add", "", "", "", "x.yaml", "t"}},
		{"a sub-verb", []string{"schedules", "next", "nightly", "--n", "3"}, []string{"next", "", "", "", "", "nightly"}},
		{"the verb above it", []string{"schedules", "--config", "x"}, []string{"schedules", "", "", "", "x"}},
		{"an argument named like a verb", []string{"add", "add"}, []string{"add", "", "", "", "", "add"}},
		{"an argument named help", []string{"add", "help"}, []string{"add", "", "", "", "", "help"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran []string
			app := tried(&ran)
			call, err := Parse(app, []cli.Flag{&cli.StringFlag{Name: "config", Usage: "`FILE`"}}, append([]string{"nightshift"}, c.line...))
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Run(call.Argv); err != nil {
				t.Fatalf("%q: %v", call.Argv, err)
			}
			if !reflect.DeepEqual(ran, c.want) {
				t.Errorf("ran %q, want %q", ran, c.want)
			}
		})
	}
}

func TestUsageErrorsNameTheNearestRightForm(t *testing.T) {
	for _, c := range []struct {
		name string
		line []string
		want string
	}{
		{"a misspelt verb", []string{"ad"}, `unknown verb "ad" of nightshift; did you mean "add"?`},
		{"no verb is near", []string{"zzzzzzz"}, `unknown verb "zzzzzzz" of nightshift; there are: add, schedules`},
		{"a misspelt sub-verb", []string{"schedules", "nxet"}, `unknown verb "nxet" of nightshift schedules; did you mean "next"?`},
		{"a misspelt flag", []string{"add", "t", "--payloda", "1"}, `unknown flag "--payloda" of nightshift add; did you mean --payload?`},
		{"an id that looks like a flag", []string{"add", "-rf"}, `unknown flag "-rf" of nightshift add; if it is meant as an argument, write nightshift add -- -rf`},
		{"no flag is near, no arguments", []string{"complete", "--zzz=1"}, `unknown flag "--zzz" of nightshift complete; see nightshift complete --help`},
		{"a flag without its value", []string{"add", "t", "--payload"}, `--payload needs a value: --payload JSON`},
		{"a flag instead of a value", []string{"add", "t", "--payload", "--hold"}, `--payload needs a value, but "--hold" follows; if that is the value, write --payload=--hold`},
		{"-- instead of a value", []string{"add", "--in", "--", "t"}, `--in needs a value, but "--" follows; if that is the value, write --in=--`},
		{"a switch with a value", []string{"add", "--hold=maybe", "t"}, `--hold takes no value, but was given "maybe"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			app := tried(new([]string))
			_, err := Parse(app, nil, append([]string{"nightshift"}, c.line...))
			var usage *UsageError
			if !errors.As(err, &usage) || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestHelpIsFoundWhereverItIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		line []string
		verb string
	}{
		{[]string{"--help"}, ""}, {[]string{"-h"}, ""}, {[]string{"help"}, ""}, {[]string{"help", "add"}, "add"},
		{[]string{"add", "--help"}, "add"}, {[]string{"add", "t", "-h"}, "add"}, {[]string{"help", "schedules", "next"}, "next"},
		{[]string{"schedules", "next", "--help"}, "next"}, {[]string{"schedules", "--help"}, "schedules"},
	} {
		app := tried(new([]string))
		call, err := Parse(app, nil, append([]string{"nightshift"}, c.line...))
		if err != nil || !call.Help {
			t.Errorf("%q: %+v, %v", c.line, call, err)
			continue
		}
		if got := call.Verb; (got == nil) != (c.verb == "") || got != nil && got.Name != c.verb {
			t.Errorf("%q: help of %v, want %q", c.line, got, c.verb)
		}
	}
}

func TestHelpAndManTellEveryFlagAndExample(t *testing.T) {
	app := tried(new([]string))
	call, err := Parse(app, nil, []string{"nightshift", "help", "add"})
	if err != nil {
		t.Fatal(err)
	}
	var help, page bytes.Buffer
	if err := Help(&help, app, nil, call, 60); err != nil {
		t.Fatal(err)
	}
	if err := Man(&page, app, nil, []ManSection{{Title: "Exit status", Pairs: [][2]string{{"0", "well"}}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--priority N", "-H, --hold", "nightshift add clean_csv --priority -5", "echo '{}' | nightshift add t --payload -", "Of two paragraphs."} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, help.String())
		}
		if !strings.Contains(page.String(), strings.ReplaceAll(want, "-", `\-`)) {
			t.Errorf("the manual lacks %q:\n%s", want, page.String())
		}
	}
	for _, l := range strings.Split(help.String(), "\n") {
		if len(l) > 60 {
			t.Errorf("a line of help wider than 60: %q", l)
		}
	}
	if strings.Contains(page.String(), "\n.dot") {
		t.Error("text at the start of a line became a request of the formatter")
	}
	if strings.Contains(page.String(), "complete") {
		t.Error("a hidden verb is in the manual")
	}
}

func TestComplete(t *testing.T) {
	values := func(placeholder string) []Candidate {
		switch placeholder {
		case "TYPE":
			return []Candidate{{"clean_csv", ""}, {"fetch_data", ""}}
		case "STATUS":
			return []Candidate{{"DEAD", ""}, {"FAILED", ""}}
		case "FILE":
			return []Candidate{{Files, ""}}
		case "NAME":
			return []Candidate{{"nightly", ""}}
		}
		return nil
	}
	for _, c := range []struct {
		name  string
		words []string
		want  string
	}{
		{"verbs", []string{""}, "add schedules"},
		{"a verb in the making", []string{"ad"}, "add"},
		{"types", []string{"add", ""}, "clean_csv fetch_data"},
		{"a type in the making", []string{"add", "--hold", "cl"}, "clean_csv"},
		{"flags", []string{"add", "--p"}, "--payload --priority"},
		{"the value of a flag", []string{"add", "--status", "D"}, "DEAD"},
		{"the value in one word", []string{"add", "--status=F"}, "--status=FAILED"},
		{"after the value", []string{"add", "--payload", "{}", "f"}, "fetch_data"},
		{"after --", []string{"add", "--", "-"}, ""},
		{"sub-verbs", []string{"schedules", ""}, "next"},
		{"arguments of a sub-verb", []string{"schedules", "next", ""}, "nightly"},
		{"a file", []string{"add", "--config", "x"}, Files},
		{"nothing known of a word", []string{"bogus", ""}, ""},
		{"no word at all", nil, "add schedules"},
	} {
		t.Run(c.name, func(t *testing.T) {
			app := tried(new([]string))
			var got []string
			for _, cand := range Complete(app, nil, c.words, values) {
				got = append(got, cand.Word)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestScripts(t *testing.T) {
	for _, shell := range Shells() {
		text, err := Script(shell, "night-shift")
		if err != nil || !strings.Contains(text, "_night_shift") || strings.Contains(text, "PROGRAM") || strings.Contains(text, "FUNCTION") {
			t.Errorf("%s: %v\n%s", shell, err, text)
		}
	}
	if _, err := Script("bsah", "nightshift"); err == nil || !strings.Contains(err.Error(), `did you mean "bash"?`) {
		t.Errorf("got %v", err)
	}
}
