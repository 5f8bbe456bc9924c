package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

const upkeepCategory = "Upkeep"

// databaseVerbs look after the database and the configuration.
func databaseVerbs() []*cli.Command {
	return []*cli.Command{
		{
			Name: "db", Usage: "make, check, back up, prune or migrate the database", ArgsUsage: "init|check|backup|prune|migrate", Category: upkeepCategory,
			Description: cmdline.Describe("", `db check`),
			Subcommands: []*cli.Command{dbInit(), dbCheck(), dbBackup(), dbPrune(), dbMigrate()},
			Action:      needsSubverb,
		},
		{
			Name: "config", Usage: "check the configuration", ArgsUsage: "check", Category: upkeepCategory,
			Description: cmdline.Describe("", `config check`),
			Subcommands: []*cli.Command{{
				Name: "check", Usage: "read the configuration as a worker would, and look at the programs it names",
				Description: cmdline.Describe(
					`Names every mistake by line and column, programs that can't be executed and why, and cron expressions that mean something else than they seem to.

Exit status: 0 nothing is bad, 1 a program can't be run, 78 the file has a mistake.`,
					`config check`, `config check --config /etc/nightshift/nightshift.yaml --json`),
				Flags:  []cli.Flag{jsonFlag()},
				Action: plain(func(d *operator.Desk, _ *cli.Context) error { return d.ConfigCheck() }),
			}},
			Action: needsSubverb,
		},
	}
}

// needsSubverb answers a verb that only groups others.
func needsSubverb(c *cli.Context) error {
	return &cmdline.UsageError{Message: c.Command.HelpName + " needs one of " + c.Command.ArgsUsage, Hint: "see " + c.Command.HelpName + " --help"}
}

func dbInit() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "make the database; never over one that exists",
		Description: cmdline.Describe(
			`Exit status: 73 when a file exists already, unless --if-missing is given and it is a good database.`,
			`db init`, `db init --if-missing`),
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "if-missing", Usage: "a good database that exists is no error"}},
		Action: plain(func(d *operator.Desk, c *cli.Context) error { return d.DBInit(c.Bool("if-missing")) }),
	}
}

func dbCheck() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check the database, its file and who holds its locks",
		Description: cmdline.Describe(`Exit status: 0 nothing is bad, 1 something is.`, `db check`, `db check --deep`, `db check --json`),
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "deep", Usage: "compare every index with its table as well"}, jsonFlag()},
		Action:      plain(func(d *operator.Desk, c *cli.Context) error { return d.DBCheck(c.Bool("deep")) }),
	}
}

func dbBackup() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "copy the database while it is in use, and check the copy", ArgsUsage: "FILE",
		Description: cmdline.Describe(
			`FILE must not exist; in a directory the copy gets a name with the time. To restore: stop the service, put the copy in the place of the database, remove the files beside it that end in -wal and -shm, start.`,
			`db backup /var/backups/nightshift.db`),
		Action: verb(func(d *operator.Desk, c *cli.Context) error {
			args, err := cmdline.Args(c, 1, 1, "FILE")
			if err != nil {
				return err
			}
			return d.DBBackup(args[0])
		}),
	}
}

func dbPrune() *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "remove finished tasks that are older than they need be, with their logs",
		Description: cmdline.Describe(
			`Workers do this by themselves as the section retention says. Unfinished tasks never go.`,
			`db prune`, `db prune --keep 7d --dry-run`, `db prune --keep 30d --budget`),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "keep", Usage: "keep what finished within `DURATION` (retention.final)"},
			&cli.BoolFlag{Name: "budget", Usage: "then the oldest, until the database is within retention.disk_budget"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say how many would go"},
		},
		Action: plain(func(d *operator.Desk, c *cli.Context) error {
			if err := notEmpty(c, "keep"); err != nil {
				return err
			}
			return d.DBPrune(operator.PruneOptions{Keep: c.String("keep"), Budget: c.Bool("budget"), DryRun: c.Bool("dry-run")})
		}),
	}
}

func dbMigrate() *cli.Command {
	return &cli.Command{
		Name: "migrate", Usage: "bring an older database to the schema of this program",
		Description: cmdline.Describe(`A worker does this at its start. The file as it was is kept beside it.`, `db migrate`),
		Action:      plain(func(d *operator.Desk, _ *cli.Context) error { return d.DBMigrate() }),
	}
}
