package cmdline

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// ManSection is a section of the manual page that no command can tell: exit
// statuses, files, environment.
type ManSection struct {
	Title string
	Pairs [][2]string // term and text
	Text  string
}

// Man writes the manual page, section 1, in the man macros that both groff and
// mandoc read.
func Man(w io.Writer, app *cli.App, common []cli.Flag, sections []ManSection) error {
	m := manual{name: app.Name}
	m.line(`.TH %s 1 "" "nightshift %s" "Nightshift"`, strings.ToUpper(app.Name), roff(app.Version))
	m.line(".SH NAME\n%s \\- %s", roff(app.Name), roff(app.Usage))
	m.line(".SH SYNOPSIS\n.B %s\n.I verb\n[flags] [arguments]", roff(app.Name))
	m.line(".SH DESCRIPTION\n%s", roff(app.Description))
	category := ""
	for _, c := range visible(app.Commands) {
		if c.Category != category {
			category = c.Category
			m.line(".SH %s", roff(strings.ToUpper(category)))
		}
		m.command(app.Name, c)
	}
	m.line(".SH FLAGS OF EVERY VERB")
	m.flags(common)
	for _, s := range sections {
		m.line(".SH %s", roff(strings.ToUpper(s.Title)))
		if s.Text != "" {
			m.line("%s", roff(s.Text))
		}
		for _, p := range s.Pairs {
			m.line(".TP\n.B %s\n%s", roff(p[0]), roff(p[1]))
		}
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

type manual struct {
	name string
	b    strings.Builder
}

func (m *manual) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

func (m *manual) command(parent string, c *cli.Command) {
	name := parent + " " + c.Name
	m.line(".SS %s", roff(strings.TrimSpace(name+" "+c.ArgsUsage)))
	m.line("%s.", roff(upperFirst(c.Usage)))
	if text := Text(c); text != "" {
		for _, paragraph := range strings.Split(text, "\n\n") {
			if strings.HasPrefix(paragraph, "  ") {
				m.line(".PP\n.nf\n%s\n.fi", roff(paragraph))
			} else {
				m.line(".PP\n%s", roff(paragraph))
			}
		}
	}
	m.flags(c.Flags)
	if examples := Examples(c); len(examples) > 0 {
		m.line(".PP\nExamples:\n.PP\n.RS 4\n.nf")
		for _, e := range examples {
			m.line("%s", roff(typed(m.name, e)))
		}
		m.line(".fi\n.RE")
	}
	for _, s := range visible(c.Subcommands) {
		m.command(name, s)
	}
}

func (m *manual) flags(flags []cli.Flag) {
	for _, f := range flags {
		m.line(".TP\n.B %s\n%s", roff(flagForm(f)), roff(Usage(f)))
	}
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// roff escapes text for the formatter: a backslash, a hyphen that must be copied
// as typed, and a dot or quote that would begin a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "→", `\(->`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
