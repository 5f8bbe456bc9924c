package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

// taskVerbs put tasks in and look at them.
func taskVerbs() []*cli.Command {
	return []*cli.Command{addVerb(), listVerb(), showVerb(), logsVerb(), waitVerb(), whyVerb()}
}

const tasksCategory = "Tasks"

func addVerb() *cli.Command {
	return &cli.Command{
		Name: "add", Usage: "add a task and print its id", ArgsUsage: "TYPE", Category: tasksCategory,
		Description: cmdline.Describe(
			`TYPE is a task type of the configuration. The payload is JSON and reaches the program byte for byte; it can never choose a command. A smaller priority runs first. A time without a zone is in the zone of this terminal, and the answer shows it in UTC as well. A timeout of 0 is none.

With --batch each line of a file (or of standard input for -) is a JSON object: {"type": "clean_csv", "payload": {...}, "priority": 10, "at": "22:30", "in": "1h", "max_retry": 3, "timeout": "2h", "key": "x", "hold": false, "id": "y"}. All of them are added, or none; a mistake is named by line and column. The ids are printed one a line, their number on a terminal.

Exit status: 73 when --key is taken by an unfinished task (the message names it) or --id exists.`,
			`add clean_csv --payload '{"file": "in.csv"}'`,
			`add clean_csv --payload @job.json --priority -5 --max-retry 2 --timeout 2h`,
			`echo '{"day": 1}' | add report --payload - --at 22:30 --key night --quiet`,
			`add inspect --in 1h30m --hold --id check-1`,
			`add --batch tasks.jsonl`),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "payload", Usage: "`JSON`, @FILE, or - for standard input; {} when it is not given"},
			&cli.StringFlag{Name: "priority", Usage: "whole number `N`, smaller runs first (100)"},
			&cli.StringFlag{Name: "at", Usage: "due at `TIME`: 22:30, \"2026-12-01 22:30\", 2026-12-01T14:30:00Z, @1796135400"},
			&cli.StringFlag{Name: "in", Usage: "due after `DURATION`: 90s, 1h30m, \"1 day\""},
			&cli.StringFlag{Name: "max-retry", Usage: "retries after the first attempt, `N` (that of the type)"},
			&cli.StringFlag{Name: "timeout", Usage: "limit of one attempt, `DURATION` (that of the type)"},
			&cli.StringFlag{Name: "key", Usage: "refuse when an unfinished task bears this `KEY`"},
			&cli.StringFlag{Name: "id", Usage: "the task's own `ID` instead of a new one"},
			&cli.BoolFlag{Name: "hold", Usage: "add it PAUSED; resume lets it go"},
			&cli.StringFlag{Name: "batch", Usage: "add a task for each line of `FILE` (- for standard input)"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no warnings, no progress bar"},
		},
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			if c.IsSet("batch") {
				if _, err := cmdline.Args(c, 0, 0, "TYPE"); err != nil {
					return err
				}
				if err := onlyWith(c, "batch", "payload", "priority", "at", "in", "max-retry", "timeout", "key", "id", "hold"); err != nil {
					return err
				}
				return d.AddBatch(c.String("batch"), c.Bool("quiet"))
			}
			args, err := cmdline.Args(c, 1, 1, "TYPE")
			if err != nil {
				return err
			}
			if err := notEmpty(c, "payload", "priority", "at", "in", "max-retry", "timeout", "key", "id"); err != nil {
				return err
			}
			return d.Add(operator.AddOptions{
				Type: args[0], ID: c.String("id"), Payload: c.String("payload"), Priority: c.String("priority"),
				At: c.String("at"), In: c.String("in"), MaxRetry: c.String("max-retry"), Timeout: c.String("timeout"),
				Key: c.String("key"), Hold: c.Bool("hold"), Quiet: c.Bool("quiet"),
			})
		}),
	}
}

// notEmpty refuses flags that were given with an empty value: --payload= is a
// slip, not a wish for the default.
func notEmpty(c *cli.Context, names ...string) error {
	for _, n := range names {
		if c.IsSet(n) && c.String(n) == "" {
			return cmdline.Usagef("--%s was given an empty value", n)
		}
	}
	return nil
}

// onlyWith refuses flags that mean nothing beside another.
func onlyWith(c *cli.Context, flag string, others ...string) error {
	for _, n := range others {
		if c.IsSet(n) {
			return cmdline.Usagef("--%s and --%s exclude each other", flag, n)
		}
	}
	return nil
}

// selectionFlags narrow a selection of tasks.
func selectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "status", Aliases: []string{"s"}, Usage: "only tasks in `STATUS` (repeat it, or A,B; unfinished and finished are short for several)"},
		&cli.StringSliceFlag{Name: "type", Aliases: []string{"t"}, Usage: "only tasks of `TYPE` (repeat it, or A,B)"},
		&cli.StringFlag{Name: "schedule", Usage: "only tasks of the schedule `NAME`"},
		&cli.StringFlag{Name: "key", Usage: "only tasks that bear this `KEY`"},
		&cli.StringFlag{Name: "executor", Usage: "only tasks of the executor `ID`"},
		&cli.StringFlag{Name: "since", Usage: "only tasks that changed since `TIME`, or within a duration"},
		&cli.StringFlag{Name: "before", Usage: "only tasks that changed before `TIME`, or longer ago than a duration"},
	}
}

func selection(c *cli.Context) operator.Selection {
	return operator.Selection{
		Statuses: c.StringSlice("status"), Types: c.StringSlice("type"), Schedule: c.String("schedule"), Key: c.String("key"),
		Executor: c.String("executor"), Since: c.String("since"), Before: c.String("before"), Due: c.Bool("due"),
	}
}

func listVerb() *cli.Command {
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"}, Usage: "list tasks, the newest first", Category: tasksCategory,
		Description: cmdline.Describe(
			`Shows 50 tasks, and says on standard error how many there are; with --json all of them, as one array, in bounded memory. The column PRIO: smaller runs first.`,
			`list`,
			`list --status FAILED,DEAD --since 24h`,
			`list --type clean_csv --sort priority --limit 20 --page 2`,
			`list --status unfinished --schedule nightly --executor w1 --before 1h --reverse`,
			`list --due --key night --json`),
		Flags: append(selectionFlags(),
			&cli.BoolFlag{Name: "due", Usage: "only waiting tasks whose time has come"},
			&cli.StringFlag{Name: "sort", Usage: "order by `FIELD`: created, due, priority, status, type, updated"},
			&cli.BoolFlag{Name: "reverse", Aliases: []string{"r"}, Usage: "the other way round"},
			&cli.StringFlag{Name: "limit", Aliases: []string{"n"}, Usage: "show at most `N` tasks (50; 0: all)"},
			&cli.StringFlag{Name: "page", Usage: "show page `N`, from 1"},
			jsonFlag()),
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			if _, err := cmdline.Args(c, 0, 0, ""); err != nil {
				return err
			}
			return d.List(operator.ListOptions{
				Selection: selection(c), Sort: c.String("sort"), Reverse: c.Bool("reverse"), Limit: c.String("limit"), Page: c.String("page"),
			})
		}),
	}
}

func showVerb() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show everything that is known of a task", ArgsUsage: "ID", Category: tasksCategory,
		Description: cmdline.Describe(
			`State, times, payload, checkpoint, result, every execution and every change of state. Whether its owner lives is asked of the kernel.`,
			`show 20261201T160405.123-ab12cd34ef`,
			`show nightly@2026-12-01T18:00:00Z --json`),
		Flags:  []cli.Flag{jsonFlag()},
		Action: withID(func(d *operator.Desk, _ *cli.Context, id string) error { return d.Show(id) }),
	}
}

// withID makes the action of a verb that takes one id.
func withID(act func(d *operator.Desk, c *cli.Context, id string) error) cli.ActionFunc {
	return verb(func(d *operator.Desk, c *cli.Context) error {
		args, err := cmdline.Args(c, 1, 1, "ID")
		if err != nil {
			return err
		}
		return act(d, c, args[0])
	})
}

func logsVerb() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "print what a task's program has printed", ArgsUsage: "ID", Category: tasksCategory,
		Description: cmdline.Describe(
			`The log of the last execution, unless the flags say otherwise. Into a file or pipe it comes byte for byte; on a terminal control characters are shown, not obeyed. With --follow it goes on with the next execution after a crash or a retry, and ends when the task does.`,
			`logs 20261201T160405.123-ab12cd34ef`,
			`logs -f --tail 20 20261201T160405.123-ab12cd34ef`,
			`logs 20261201T160405.123-ab12cd34ef --attempt -2`,
			`logs 20261201T160405.123-ab12cd34ef --all --json`),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as it grows, across executions, until the task ends"},
			&cli.StringFlag{Name: "attempt", Usage: "the execution with this number, `N`; -1 is the last, -2 the one before"},
			&cli.BoolFlag{Name: "all", Usage: "every execution, one after the other"},
			&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Usage: "only the last `N` lines"},
			jsonFlag(),
		},
		Action: withID(func(d *operator.Desk, c *cli.Context, id string) error {
			ctx, stop := untilInterrupt(c)
			defer stop()
			return d.Logs(ctx, operator.LogsOptions{ID: id, Follow: c.Bool("follow"), Attempt: c.String("attempt"), All: c.Bool("all"), Tail: c.String("tail")})
		}),
	}
}

// untilInterrupt is the life of a verb that waits: Ctrl-C ends it in order.
func untilInterrupt(c *cli.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
}

func waitVerb() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait for the end of tasks; the exit status is theirs", ArgsUsage: "ID...", Category: tasksCategory,
		Description: cmdline.Describe(
			`Exit status, the largest of several tasks:

  0    all ended SUCCESS
  1    one FAILED
  2    one is DEAD
  3    one is CANCELLED
  124  --timeout passed
  130  Ctrl-C, which ends only the waiting
  66   there is no such task (at once)

With --program-status it is the exit status of the program's last execution instead, or 128 + n when signal n killed it.`,
			`wait 20261201T160405.123-ab12cd34ef`,
			`wait --timeout 10m a b c`,
			`wait job-1 --program-status --quiet`,
			`wait job-1 job-2 --json`),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "timeout", Usage: "give up after `DURATION`"},
			&cli.BoolFlag{Name: "program-status", Usage: "end with the program's own exit status"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing"},
			jsonFlag(),
		},
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			args, err := cmdline.Args(c, 1, -1, "ID")
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupt(c)
			defer stop()
			return d.Wait(ctx, operator.WaitOptions{IDs: args, Timeout: c.String("timeout"), ProgramStatus: c.Bool("program-status"), Quiet: c.Bool("quiet")})
		}),
	}
}

func whyVerb() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "say why a task is, or is not, running", ArgsUsage: "ID", Category: tasksCategory,
		Description: cmdline.Describe(
			`Looks at everything that a claim looks at: its time, holds, the drain, whether its type is known, limits, workers, locks; and at the record of an occurrence that was skipped.`,
			`why 20261201T160405.123-ab12cd34ef`,
			`why nightly@2026-12-01T18:00:00Z --json`),
		Flags:  []cli.Flag{jsonFlag()},
		Action: withID(func(d *operator.Desk, _ *cli.Context, id string) error { return d.Why(id) }),
	}
}
