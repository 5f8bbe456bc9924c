package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

// scheduleVerbs look at schedules, which are declared in the configuration.
func scheduleVerbs() []*cli.Command {
	name := func(required int, act func(d *operator.Desk, c *cli.Context, name string) error) cli.ActionFunc {
		return verb(func(d *operator.Desk, c *cli.Context) error {
			args, err := cmdline.Args(c, required, 1, "NAME")
			if err != nil {
				return err
			}
			return act(d, c, append(args, "")[0])
		})
	}
	return []*cli.Command{{
		Name: "schedules", Usage: "list schedules: next runs, last run, what was skipped and why", Category: nightCategory,
		Description: cmdline.Describe(
			`Schedules are declared in the section schedules of the configuration. Times are shown in the schedule's own zone, with its offset.`,
			`schedules`, `schedules --json`),
		Flags: []cli.Flag{jsonFlag()},
		Subcommands: []*cli.Command{
			{
				Name: "next", Usage: "show the next runs of a schedule, or of all", ArgsUsage: "[NAME]",
				Description: cmdline.Describe("", `schedules next nightly -n 5`, `schedules next --json`),
				Flags:       []cli.Flag{&cli.StringFlag{Name: "count", Aliases: []string{"n"}, Usage: "show `N` runs (10)"}, jsonFlag()},
				Action: name(0, func(d *operator.Desk, c *cli.Context, name string) error {
					return d.SchedulesNext(name, c.String("count"))
				}),
			},
			{
				Name: "simulate", Usage: "show what would run in a span of time", ArgsUsage: "[NAME]",
				Description: cmdline.Describe(
					`From now on, for a day, unless the flags say otherwise. --to may be a duration from --from on.`,
					`schedules simulate`, `schedules simulate nightly --from "2026-10-24 00:00" --to 3d`, `schedules simulate --from 2027-01-01 --to 2027-02-01 --json`),
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "from", Usage: "from `TIME` on (now)"},
					&cli.StringFlag{Name: "to", Usage: "until `TIME`, or for a duration (24h)"},
					jsonFlag(),
				},
				Action: name(0, func(d *operator.Desk, c *cli.Context, name string) error {
					return d.SchedulesSimulate(name, c.String("from"), c.String("to"))
				}),
			},
			{
				Name: "enable", Usage: "let a schedule run again from now on", ArgsUsage: "NAME",
				Description: cmdline.Describe("What was due while it was disabled is not caught up.", `schedules enable nightly`),
				Action:      name(1, func(d *operator.Desk, _ *cli.Context, name string) error { return d.SchedulesEnable(name, true) }),
			},
			{
				Name: "disable", Usage: "let a schedule rest; its occurrences are recorded as skipped", ArgsUsage: "NAME",
				Description: cmdline.Describe("It holds through restarts, until enable.", `schedules disable nightly`),
				Action:      name(1, func(d *operator.Desk, _ *cli.Context, name string) error { return d.SchedulesEnable(name, false) }),
			},
			{
				Name: "run", Usage: "add the task of a schedule now, and print its id", ArgsUsage: "NAME",
				Description: cmdline.Describe(
					`It is a run beside the schedule's occurrences: the next one comes all the same, unless the schedule's overlap rule skips it because this run is unfinished.`,
					`schedules run nightly`),
				Action: name(1, func(d *operator.Desk, _ *cli.Context, name string) error { return d.SchedulesRun(name) }),
			},
		},
		Action: plain(func(d *operator.Desk, _ *cli.Context) error { return d.Schedules() }),
	}}
}
