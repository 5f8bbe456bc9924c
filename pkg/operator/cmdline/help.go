package cmdline

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator/screen"
)

// examplesMark separates a command's description from its examples. The flag
// library has one text field for both.
const examplesMark = "\n\nExamples:\n"

// Describe makes the Description of a command of its text and its examples. An
// example is written without the program's name; "# " begins its comment.
func Describe(text string, examples ...string) string {
	return strings.TrimSpace(text) + examplesMark + strings.Join(examples, "\n")
}

// Examples gives the examples of a command, comments included.
func Examples(c *cli.Command) []string {
	_, list, found := strings.Cut(c.Description, examplesMark)
	if !found {
		return nil
	}
	return strings.Split(list, "\n")
}

// Text is a command's description without its examples.
func Text(c *cli.Command) string {
	text, _, _ := strings.Cut(c.Description, examplesMark)
	return text
}

// firstExample is the first example of c as it would be typed.
func firstExample(c *cli.Command, program string) string {
	for _, e := range Examples(c) {
		command, _, _ := strings.Cut(e, "  #")
		return typed(program, strings.TrimSpace(command))
	}
	return program + " help " + c.Name
}

// typed puts the program's name before an example. A pipe keeps what is left of it.
func typed(program, example string) string {
	if left, right, found := strings.Cut(example, "| "); found {
		return left + "| " + program + " " + right
	}
	return program + " " + example
}

// Help writes the help of a verb, or of the program when call names none.
func Help(w io.Writer, app *cli.App, common []cli.Flag, call *Call, width int) error {
	h := helper{app: app, width: width}
	if width <= 0 || width > 100 {
		h.width = 100
	}
	if call.Verb == nil {
		h.program()
	} else {
		h.verb(call, common)
	}
	_, err := io.WriteString(w, h.b.String())
	return err
}

type helper struct {
	app   *cli.App
	width int
	b     strings.Builder
}

func (h *helper) line(format string, args ...any) { fmt.Fprintf(&h.b, format+"\n", args...) }

func (h *helper) program() {
	h.wrap(0, h.app.Name+": "+h.app.Usage)
	h.line("")
	h.line("Usage: %s VERB [flags] [arguments]", h.app.Name)
	var category string
	rows := [][2]string{}
	flush := func() {
		h.pairs(rows)
		rows = nil
	}
	for _, c := range h.app.Commands {
		if c.Hidden {
			continue
		}
		if c.Category != category {
			flush()
			category = c.Category
			h.line("")
			h.line("%s", category)
		}
		rows = append(rows, [2]string{strings.TrimSpace(c.Name + " " + c.ArgsUsage), c.Usage})
	}
	flush()
	h.line("")
	h.wrap(0, fmt.Sprintf("%s VERB --help tells about one verb, with examples. Flags may stand before or after arguments; -- ends them.", h.app.Name))
	h.wrap(0, h.app.Description)
}

func (h *helper) verb(call *Call, common []cli.Flag) {
	name := h.app.Name + " " + strings.Join(call.Path, " ")
	h.wrap(0, name+": "+call.Verb.Usage)
	h.line("")
	usage := "Usage: " + name
	if len(call.Verb.Flags) > 0 {
		usage += " [flags]"
	}
	if call.Verb.ArgsUsage != "" {
		usage += " " + call.Verb.ArgsUsage
	}
	h.line("%s", usage)
	if text := Text(call.Verb); text != "" {
		h.line("")
		for i, paragraph := range strings.Split(text, "\n\n") {
			if i > 0 {
				h.line("")
			}
			h.paragraph(paragraph)
		}
	}
	if subs := visible(call.Verb.Subcommands); len(subs) > 0 {
		h.line("")
		h.line("Verbs")
		var rows [][2]string
		for _, s := range subs {
			rows = append(rows, [2]string{strings.TrimSpace(s.Name + " " + s.ArgsUsage), s.Usage})
		}
		h.pairs(rows)
	}
	h.flags("Flags", without(call.Verb.Flags, common))
	h.flags("Flags of every verb", common)
	if examples := Examples(call.Verb); len(examples) > 0 {
		h.line("")
		h.line("Examples")
		for _, e := range examples {
			h.line("  %s", typed(h.app.Name, e))
		}
	}
}

// without leaves out the flags that every verb has: a verb's own list holds them,
// too, because the flag library looks for them there.
func without(flags, common []cli.Flag) []cli.Flag {
	var own []cli.Flag
	for _, f := range flags {
		if !slices.ContainsFunc(common, func(c cli.Flag) bool { return c.Names()[0] == f.Names()[0] }) {
			own = append(own, f)
		}
	}
	return own
}

func visible(commands []*cli.Command) []*cli.Command {
	var shown []*cli.Command
	for _, c := range commands {
		if !c.Hidden {
			shown = append(shown, c)
		}
	}
	return shown
}

func (h *helper) flags(title string, flags []cli.Flag) {
	var rows [][2]string
	for _, f := range flags {
		rows = append(rows, [2]string{flagForm(f), Usage(f)})
	}
	if len(rows) > 0 {
		h.line("")
		h.line("%s", title)
		h.pairs(rows)
	}
}

// flagForm is how a flag is written: "-f, --follow", "--payload JSON|@FILE|-".
func flagForm(f cli.Flag) string {
	names := f.Names()
	form := "--" + names[0]
	for _, n := range names[1:] {
		form = dashed(n) + ", " + form
	}
	if TakesValue(f) {
		form += " " + Placeholder(f)
	}
	return form
}

// columnLimit is the widest first column of a list; longer entries push their
// text to the next line.
const columnLimit = 28

// pairs writes two columns.
func (h *helper) pairs(rows [][2]string) {
	column := 0
	for _, r := range rows {
		if w := screen.Width(r[0]); w <= columnLimit {
			column = max(column, w)
		}
	}
	for _, r := range rows {
		lines := wrapText(r[1], h.width-column-4)
		if screen.Width(r[0]) > column {
			h.line("  %s", r[0])
		} else {
			first := ""
			if len(lines) > 0 {
				first, lines = lines[0], lines[1:]
			}
			h.line("  %s  %s", screen.PadRight(r[0], column), first)
		}
		for _, l := range lines {
			h.line("  %s  %s", strings.Repeat(" ", column), l)
		}
	}
}

// paragraph writes a wrapped paragraph; one whose lines begin with two spaces is
// a table and stays as it is.
func (h *helper) paragraph(text string) {
	if strings.HasPrefix(text, "  ") {
		h.line("%s", text)
		return
	}
	h.wrap(0, text)
}

func (h *helper) wrap(indent int, text string) {
	for _, l := range wrapText(text, h.width-indent) {
		h.line("%s%s", strings.Repeat(" ", indent), l)
	}
}

// wrapText breaks text at spaces into lines of at most width columns; a longer
// word has a line of its own.
func wrapText(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case screen.Width(line)+1+screen.Width(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
