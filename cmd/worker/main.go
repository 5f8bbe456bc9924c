// Command worker is a worker process (`worker run`), and under its other name,
// nightshift, everything that an operator types.
//
// This package only says which verbs and flags there are. What they do is in
// pkg/operator, and the worker itself in pkg/worker.
package main

import (
	"io"
	"os"
	"path/filepath"
	"time"
	_ "time/tzdata" // named zones work without the system's files (case TI-13)

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the program with its streams given; it returns the exit status.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	program := filepath.Base(args[0])
	app := newApp(program, in, out, errOut)
	call, err := cmdline.Parse(app, commonFlags(), args)
	switch {
	case err != nil:
		return operator.Report(errOut, program, err)
	case call.Help:
		return operator.Report(errOut, program, cmdline.Help(out, app, commonFlags(), call, screen.Detect(out, os.Getenv).Width))
	case call.Verb == nil:
		_ = cmdline.Help(errOut, app, commonFlags(), call, screen.Detect(errOut, os.Getenv).Width) // the status tells it, too
		return operator.ExitUsage
	}
	return operator.Report(errOut, program, app.Run(call.Argv))
}

// newApp makes the tree of verbs. The library's own help, version and messages
// are off: cmdline and operator have them.
func newApp(program string, in io.Reader, out, errOut io.Writer) *cli.App {
	app := &cli.App{
		Name:  program,
		Usage: "the night-shift attendant of this machine: runs tasks and carries them to their end",
		Description: "Every reading verb takes --json and gives one document on standard output. " +
			"Exit statuses: 0 well, 64 wrong usage, 65 bad input, 66 no such task or file, 69 database not usable, " +
			"73 can't create, 74 I/O error, 75 try again, 77 no permission, 78 wrong configuration; " +
			"wait, cancel, status and doctor have more, which their help tells.",
		Version:                   version,
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true, // a comma may belong to a value; operator splits where it does not
		Reader:                    in,
		Writer:                    out,
		ErrWriter:                 errOut,
		ExitErrHandler:            func(*cli.Context, error) {}, // run reports it
	}
	for _, group := range [][]*cli.Command{taskVerbs(), controlVerbs(), nightVerbs(), scheduleVerbs(), databaseVerbs(), selfVerbs(), {runVerb()}, programVerbs()} {
		app.Commands = append(app.Commands, group...)
	}
	prepare(app.Commands)
	return app
}

// prepare gives every command what all of them have.
func prepare(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.Flags = append(c.Flags, commonFlags()...)
		prepare(c.Subcommands)
	}
}

// commonFlags may stand before or after every verb.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE` (else $NIGHTSHIFT_CONFIG, ./nightshift.yaml, /etc/nightshift/nightshift.yaml)"},
		&cli.StringFlag{Name: "data", Usage: "data directory `DIR` (else $NIGHTSHIFT_DATA, or data_dir of the configuration)"},
		&cli.BoolFlag{Name: "utc", Usage: "show times in UTC, as they are stored"},
	}
}

// jsonFlag is what every reading verb has.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON document (docs/json.md)"}
}

// verb makes an action of what a verb does at its desk.
func verb(act func(d *operator.Desk, c *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		d := deskOf(c)
		err := act(d, c)
		if closeErr := d.Close(); err == nil {
			return closeErr
		}
		return err
	}
}

// deskOf puts together what a verb works with.
func deskOf(c *cli.Context) *operator.Desk {
	style := screen.Detect(c.App.Writer, os.Getenv)
	style.UTC = c.Bool("utc")
	return &operator.Desk{
		Program:     c.App.Name,
		Version:     c.App.Version,
		ConfigFlag:  c.String("config"),
		DataFlag:    c.String("data"),
		In:          c.App.Reader,
		Out:         c.App.Writer,
		Err:         c.App.ErrWriter,
		Style:       style,
		JSON:        c.Bool("json"),
		ErrTerminal: isTerminal(c.App.ErrWriter),
		Asks:        isTerminal(c.App.Reader) && isTerminal(c.App.ErrWriter),
		Zone:        time.Local,
		Now:         time.Now,
		Getenv:      os.Getenv,
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
