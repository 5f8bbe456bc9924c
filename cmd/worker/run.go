package main

import (
	"math"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/worker"
)

// runVerb is the worker process itself.
func runVerb() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "be a worker: claim due tasks and carry them to their end", Category: upkeepCategory,
		Description: cmdline.Describe(
			`A supervisor starts it; by hand it is for trying things out. SIGTERM drains: nothing new is claimed, running tasks are told to stop at their next checkpoint, and go on from there at the next start. SIGHUP reads the configuration again.

Exit status: 0 drained, 64 usage, 69 the database can't be used now, 75 try again, 78 configuration (also: another worker bears this id).`,
			`run`, `run --id w3 --slots 4 --config nightshift.yaml --data ./data`),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "id", Usage: "worker `ID` (else $NIGHTSHIFT_WORKER_ID, or w1)"},
			&cli.StringFlag{Name: "slots", Usage: "run `N` tasks at a time (worker.slots)"},
		},
		Action: func(c *cli.Context) error {
			if _, err := cmdline.Args(c, 0, 0, ""); err != nil {
				return err
			}
			slots := int64(0)
			if c.IsSet("slots") {
				var err error
				if slots, err = operator.ParseNumber("--slots", c.String("slots"), 1); err != nil {
					return err
				}
			}
			return operator.Exit(worker.Run(c.Context, worker.Options{
				ConfigPath: c.String("config"), DataDir: c.String("data"), WorkerID: c.String("id"),
				Slots: int(min(slots, math.MaxInt32)), Version: c.App.Version, Stderr: c.App.ErrWriter,
			}))
		},
	}
}
