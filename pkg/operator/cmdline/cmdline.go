// Package cmdline reads the operator's command line, and writes what can be
// generated from the tree of commands: help, a manual page, shell completion.
//
// The flag library stops at the first positional argument, so that
// `add clean_csv --priority -5` would lose its flag. Parse reads the line as a
// person means it and hands the library one that it cannot misread: the verb,
// then every flag with its value in one word, then "--", then the rest.
package cmdline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/config"
)

// UsageError says that the command line itself is wrong (exit status 64).
type UsageError struct {
	Message string // what was wrong, with the value
	Hint    string // what to do; may be empty
}

func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// Usagef makes a UsageError without a hint.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Call is a command line that was understood.
type Call struct {
	Argv []string     // what the flag library is given
	Path []string     // the verb and, where there is one, its sub-verb
	Verb *cli.Command // nil: no verb was named
	Help bool         // help was asked for, of Verb or of the program
}

// Parse reads args (args[0] is the program). common are the flags that every
// verb takes; they may stand before the verb as well.
func Parse(app *cli.App, common []cli.Flag, args []string) (*Call, error) {
	p := parser{program: app.Name, common: common}
	rest, err := p.verb(app.Commands, args[1:])
	if err != nil {
		return nil, err
	}
	if err := p.arguments(rest); err != nil {
		return nil, err
	}
	call := &p.call
	call.Argv = append([]string{args[0]}, call.Path...)
	call.Argv = append(call.Argv, p.flags...)
	if len(p.positional) > 0 {
		call.Argv = append(append(call.Argv, "--"), p.positional...)
	}
	return call, nil
}

type parser struct {
	program    string
	common     []cli.Flag
	call       Call
	flags      []string
	positional []string
}

// verb finds the verb and its sub-verb, and returns what follows. Flags before
// the verb are kept for it.
func (p *parser) verb(commands []*cli.Command, args []string) ([]string, error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		n, err := p.flag(args)
		if err != nil {
			return nil, err
		}
		args = args[n:]
	}
	if len(args) > 0 && args[0] == "help" {
		p.call.Help, args = true, args[1:]
	}
	for level := 0; len(args) > 0 && len(commands) > 0; level++ {
		word := args[0]
		if level > 0 && strings.HasPrefix(word, "-") {
			break
		}
		found := find(commands, word)
		if found == nil {
			return nil, p.unknownVerb(commands, word)
		}
		p.call.Path = append(p.call.Path, found.Name)
		p.call.Verb, commands, args = found, found.Subcommands, args[1:]
	}
	return args, nil
}

func find(commands []*cli.Command, word string) *cli.Command {
	for _, c := range commands {
		if c.HasName(word) {
			return c
		}
	}
	return nil
}

func (p *parser) unknownVerb(commands []*cli.Command, word string) error {
	parent := p.program
	if len(p.call.Path) > 0 {
		parent += " " + strings.Join(p.call.Path, " ")
	}
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	e := &UsageError{Message: fmt.Sprintf("unknown verb %q of %s", word, parent)}
	if near := config.Nearest(word, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	} else {
		e.Hint = fmt.Sprintf("there are: %s", strings.Join(names, ", "))
	}
	return e
}

// arguments sorts what follows the verb into flags and positional arguments.
func (p *parser) arguments(args []string) error {
	for len(args) > 0 {
		switch word := args[0]; {
		case word == "--":
			p.positional = append(p.positional, args[1:]...)
			return nil
		case len(word) > 1 && word[0] == '-':
			n, err := p.flag(args)
			if err != nil {
				return err
			}
			args = args[n:]
		default:
			p.positional = append(p.positional, word)
			args = args[1:]
		}
	}
	return nil
}

// flag reads the flag at args[0], with its value, and says how many words it took.
func (p *parser) flag(args []string) (int, error) {
	name, value, inline := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	if name == "help" || name == "h" {
		p.call.Help = true
		return 1, nil
	}
	f := p.lookup(name)
	if f == nil {
		return 0, p.unknownFlag(args[0], name)
	}
	long := "--" + f.Names()[0]
	switch takes := TakesValue(f); {
	case !takes && inline && value != "true" && value != "false":
		return 0, Usagef("%s takes no value, but was given %q", long, value)
	case !takes && inline:
		p.flags = append(p.flags, long+"="+value)
		return 1, nil
	case !takes:
		p.flags = append(p.flags, long)
		return 1, nil
	case inline:
		p.flags = append(p.flags, long+"="+value)
		return 1, nil
	case len(args) == 1:
		return 0, Usagef("%s needs a value: %s %s", long, long, Placeholder(f))
	case p.isFlag(args[1]):
		return 0, &UsageError{
			Message: fmt.Sprintf("%s needs a value, but %q follows", long, args[1]),
			Hint:    fmt.Sprintf("if that is the value, write %s=%s", long, args[1]),
		}
	}
	// Whatever else follows is the value, also when it begins with "-":
	// --priority -5, --in -5m, --payload '-1'.
	p.flags = append(p.flags, long+"="+args[1])
	return 2, nil
}

// isFlag reports that word can only be meant as a flag of this verb.
func (p *parser) isFlag(word string) bool {
	if word == "--" {
		return true
	}
	name, isLong := strings.CutPrefix(word, "--")
	if !isLong {
		return false // "-5", "-f": a value as likely as a flag
	}
	name, _, _ = strings.Cut(name, "=")
	return p.lookup(name) != nil
}

// lookup finds a flag of the verb or one that all verbs take.
func (p *parser) lookup(name string) cli.Flag {
	for _, f := range p.known() {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

func (p *parser) known() []cli.Flag {
	flags := append([]cli.Flag(nil), p.common...)
	if p.call.Verb != nil {
		flags = append(flags, p.call.Verb.Flags...)
	}
	return flags
}

func (p *parser) unknownFlag(word, name string) error {
	of := strings.Join(append([]string{p.program}, p.call.Path...), " ")
	shown, _, _ := strings.Cut(word, "=")
	e := &UsageError{Message: fmt.Sprintf("unknown flag %q of %s", shown, of)}
	var names []string
	for _, f := range p.known() {
		names = append(names, f.Names()[0])
	}
	switch near := config.Nearest(name, names); {
	case near != "" && len(name) > 1:
		e.Hint = fmt.Sprintf("did you mean --%s?", near)
	case p.call.Verb != nil && p.call.Verb.ArgsUsage != "":
		e.Hint = fmt.Sprintf("if it is meant as an argument, write %s -- %s", of, word)
	default:
		e.Hint = fmt.Sprintf("see %s --help", of)
	}
	return e
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// TakesValue reports that a flag is not a switch.
func TakesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// Placeholder is the word that stands for a flag's value in help: the part of
// its usage between backquotes.
func Placeholder(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return "VALUE"
	}
	if parts := strings.SplitN(d.GetUsage(), "`", 3); len(parts) == 3 {
		return parts[1]
	}
	return "VALUE"
}

// Usage is a flag's usage without backquotes.
func Usage(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	return strings.ReplaceAll(d.GetUsage(), "`", "")
}

// Args checks how many positional arguments a verb was given, and returns them.
// most < 0 is no limit. what names one of them ("TYPE", "ID").
func Args(c *cli.Context, least, most int, what string) ([]string, error) {
	args := c.Args().Slice()
	verb := strings.TrimSpace(c.Command.HelpName)
	switch {
	case len(args) < least:
		return nil, &UsageError{
			Message: fmt.Sprintf("%s needs %s", verb, article(least, what)),
			Hint:    fmt.Sprintf("for example: %s", firstExample(c.Command, c.App.Name)),
		}
	case most == 0 && len(args) > 0:
		return nil, Usagef("%s takes no arguments, but was given %q", verb, args[0])
	case most > 0 && len(args) > most:
		return nil, Usagef("%s takes %s, but was given %q as well", verb, article(most, what), args[most])
	}
	for _, a := range args {
		if a == "" {
			return nil, Usagef("%s was given an empty %s", verb, what)
		}
	}
	return args, nil
}

func article(n int, what string) string {
	switch {
	case n == 1 && strings.ContainsAny(what[:1], "AEIO"):
		return "an " + what
	case n == 1:
		return "a " + what
	}
	return fmt.Sprintf("%d of %s", n, what)
}
