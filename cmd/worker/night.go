package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

const nightCategory = "The night shift"

// nightVerbs tell how the whole does.
func nightVerbs() []*cli.Command {
	return []*cli.Command{statusVerb(), workersVerb(), reportVerb(), metricsVerb(), doctorVerb()}
}

// plain makes the action of a verb without arguments.
func plain(act func(d *operator.Desk, c *cli.Context) error) cli.ActionFunc {
	return verb(func(d *operator.Desk, c *cli.Context) error {
		if _, err := cmdline.Args(c, 0, 0, ""); err != nil {
			return err
		}
		return act(d, c)
	})
}

func statusVerb() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "one screen: workers, counts, what waits, what failed, what comes", Category: nightCategory,
		Description: cmdline.Describe(
			`Which worker lives is asked of the kernel (its lock), not read from a table. With --watch the screen is drawn anew each second; q or Ctrl-C ends it.

Exit status: 0 when a worker is alive, 3 when none is; 69 when the database can't be used.`,
			`status`, `status --watch`, `status --json`),
		Flags: []cli.Flag{&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "draw it anew each second until q or Ctrl-C"}, jsonFlag()},
		Action: plain(func(d *operator.Desk, c *cli.Context) error {
			if c.Bool("watch") {
				return d.StatusWatch(c.Context)
			}
			return d.Status()
		}),
	}
}

func workersVerb() *cli.Command {
	return &cli.Command{
		Name: "workers", Usage: "list the workers, whether they live, and what they run", Category: nightCategory,
		Description: cmdline.Describe(
			`States: alive; draining; suspect and offline (its process is there, but silent beyond suspect_after and offline_after); stopped (in good order); dead (proven: its lock is free, or the machine was restarted); unknown.`,
			`workers`, `workers --json`),
		Flags:  []cli.Flag{jsonFlag()},
		Action: plain(func(d *operator.Desk, _ *cli.Context) error { return d.Workers() }),
	}
}

func metricsVerb() *cli.Command {
	return &cli.Command{
		Name: "metrics", Usage: "print figures in the Prometheus text format", Category: nightCategory,
		Description: cmdline.Describe(
			`With --textfile they go into a file for node_exporter's textfile collector, put in place by rename.`,
			`metrics`, `metrics --textfile /var/lib/node_exporter/nightshift.prom`, `metrics --json`),
		Flags:  []cli.Flag{&cli.StringFlag{Name: "textfile", Usage: "write to `FILE` instead"}, jsonFlag()},
		Action: plain(func(d *operator.Desk, c *cli.Context) error { return d.Metrics(c.String("textfile")) }),
	}
}

func doctorVerb() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look for what is wrong, and say what to do", Category: nightCategory,
		Description: cmdline.Describe(
			`Looks at the configuration, owners and modes of files, the clock, the disk, the database, who holds its locks, the workers, and tasks that nobody carries on.

Exit status: 0 nothing is bad, 1 something is.`,
			`doctor`, `doctor --deep`, `doctor --json`),
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "deep", Usage: "read the whole database, and compare its indexes"}, jsonFlag()},
		Action: plain(func(d *operator.Desk, c *cli.Context) error { return d.Doctor(c.Bool("deep")) }),
	}
}
