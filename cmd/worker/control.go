package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

const controlCategory = "What a person wants"

// controlVerbs say what is to become of tasks.
func controlVerbs() []*cli.Command {
	return []*cli.Command{cancelVerb(), pauseVerb(), resumeVerb(), rerunVerb(), takeoverVerb(), drainVerb()}
}

// bulkFlags are the flags of verbs that act on ids or on a selection.
func bulkFlags(more ...cli.Flag) []cli.Flag {
	return append(append(selectionFlags(),
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "act on a selection without asking"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say what a selection is, and do nothing"}), more...)
}

func controlOptions(c *cli.Context) operator.ControlOptions {
	return operator.ControlOptions{
		IDs: c.Args().Slice(), Selection: selection(c), Yes: c.Bool("yes"), DryRun: c.Bool("dry-run"),
		Kill: c.Bool("now"), Wait: c.Bool("wait"), Timeout: c.String("timeout"),
	}
}

const bulkText = ` A selection is shown first: a person at a terminal is asked, a script says --yes.`

func cancelVerb() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "end tasks: waiting ones at once, running ones at their next checkpoint", ArgsUsage: "ID...", Category: controlCategory,
		Description: cmdline.Describe(
			`A running program that has spoken on descriptor 3 is told at its next checkpoint and has the grace time (30 s) from then on to undo what it must; one that never spoke gets TERM. --now does not wait for the batch in hand: TERM, and KILL after 5 s. The answer says which of these will happen, and when the last checkpoint was.`+bulkText+`

Exit status: 0 cancelled, or asked to; 1 it had already finished (with --wait: it ended otherwise); 124 --timeout of --wait passed; 66 no such task.`,
			`cancel 20261201T160405.123-ab12cd34ef`,
			`cancel --now --wait --timeout 1m 20261201T160405.123-ab12cd34ef`,
			`cancel --type clean_csv --status PENDING --yes`,
			`cancel --schedule nightly --executor w1 --since 1h --before 5m --key k --dry-run`,
			`cancel -- -rf`),
		Flags: bulkFlags(
			&cli.BoolFlag{Name: "now", Usage: "do not wait for the batch in hand: TERM, then KILL after 5 s"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until they have ended"},
			&cli.StringFlag{Name: "timeout", Usage: "give up waiting after `DURATION`"}),
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			o := controlOptions(c)
			if !o.Wait {
				return d.Cancel(c.Context, o) // Ctrl-C ends it as it ends any program
			}
			ctx, stop := untilInterrupt(c)
			defer stop()
			return d.Cancel(ctx, o)
		}),
	}
}

func pauseVerb() *cli.Command {
	return &cli.Command{
		Name: "pause", Usage: "hold tasks until resume: running ones from their next checkpoint on", ArgsUsage: "ID...", Category: controlCategory,
		Description: cmdline.Describe(
			`A running program leaves at its next checkpoint, frees its slot, and goes on from there when it is resumed. One that never made a checkpoint gets TERM and starts from the beginning later; the answer says so. Waiting tasks are held as they are. Paused time counts towards no timeout.`+bulkText+`

Exit status: 0 held, or asked to; 1 it had already finished; 66 no such task.`,
			`pause 20261201T160405.123-ab12cd34ef`,
			`pause --type clean_csv --status RUNNING --yes`,
			`pause --schedule nightly --executor w1 --since 1h --before 5m --key k --dry-run`),
		Flags:  bulkFlags(),
		Action: verb(func(d *operator.Desk, c *cli.Context) error { return d.Pause(controlOptions(c)) }),
	}
}

func resumeVerb() *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "let paused and held tasks go on", ArgsUsage: "ID...", Category: controlCategory,
		Description: cmdline.Describe(
			`A paused task goes on from its last checkpoint as soon as an executor is idle.`+bulkText+`

Exit status: 0 released; 1 it had already finished; 66 no such task.`,
			`resume 20261201T160405.123-ab12cd34ef`,
			`resume --status PAUSED --type clean_csv --yes`,
			`resume --schedule nightly --executor w1 --since 1h --before 5m --key k --dry-run`),
		Flags:  bulkFlags(),
		Action: verb(func(d *operator.Desk, c *cli.Context) error { return d.Resume(controlOptions(c)) }),
	}
}

func rerunVerb() *cli.Command {
	return &cli.Command{
		Name: "rerun", Usage: "make new tasks of finished ones and print their ids", ArgsUsage: "ID...", Category: controlCategory,
		Description: cmdline.Describe(
			`A finished task never changes again. rerun makes a new one of it that names it (rerun_of) and starts from its checkpoint, unless --fresh. A selection without --status means FAILED and DEAD.`+bulkText,
			`rerun 20261201T160405.123-ab12cd34ef`,
			`rerun --fresh 20261201T160405.123-ab12cd34ef`,
			`rerun --status DEAD --since 24h --yes`,
			`rerun --type clean_csv --schedule nightly --executor w1 --before 5m --key k --dry-run`),
		Flags:  bulkFlags(&cli.BoolFlag{Name: "fresh", Usage: "start from the beginning, not from the checkpoint"}),
		Action: verb(func(d *operator.Desk, c *cli.Context) error { return d.Rerun(controlOptions(c), c.Bool("fresh")) }),
	}
}

func takeoverVerb() *cli.Command {
	return &cli.Command{
		Name: "takeover", Usage: "give the tasks of a dead worker to the others", ArgsUsage: "WORKER|ID", Category: controlCategory,
		Description: cmdline.Describe(
			`Workers do this by themselves once the death of another is proven. This verb is for the case in which proof cannot be had: a process that cannot be killed still holds the dead worker's lock. Without --force it does what proof allows, and names who stands in the way. With --force it kills what it can of the dead worker's tree, and then gives the tasks on: should something of it still run, its work may be done twice. The task's fence keeps what it writes out of the record.

Exit status: 0 given on, or nothing to give; 75 the worker lives, or somebody holds its lock.`,
			`takeover w2`,
			`takeover --force 20261201T160405.123-ab12cd34ef`),
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "go on without proof of death"}},
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			args, err := cmdline.Args(c, 1, 1, "WORKER or ID")
			if err != nil {
				return err
			}
			return d.TakeOver(args[0], c.Bool("force"))
		}),
	}
}

func drainVerb() *cli.Command {
	set := func(name string, on bool, usage, example string) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, Description: cmdline.Describe("", example),
			Action: verb(func(d *operator.Desk, c *cli.Context) error {
				if _, err := cmdline.Args(c, 0, 0, ""); err != nil {
					return err
				}
				return d.DrainSet(on)
			})}
	}
	return &cli.Command{
		Name: "drain", Usage: "before maintenance: let running tasks finish, start no more", ArgsUsage: "[on|off]", Category: controlCategory,
		Description: cmdline.Describe(
			`drain on holds for all workers and through their restarts, until drain off. status shows it. Without a sub-verb it says whether it is on.`,
			`drain on`, `drain off`, `drain --json`),
		Flags: []cli.Flag{jsonFlag()},
		Subcommands: []*cli.Command{
			set("on", true, "start no more tasks", "drain on"),
			set("off", false, "start tasks again", "drain off"),
		},
		Action: verb(func(d *operator.Desk, _ *cli.Context) error { return d.DrainShow() }),
	}
}
