// Command supervisor starts Nightshift's workers, watches them and starts them anew.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/supervisor"
)

var version = "dev"

//go:embed help.txt
var help string

func init() { runtime.LockOSThread() } // supervisor.Run says why

func main() {
	o := supervisor.Options{Version: version}
	app := &cli.App{Name: "supervisor", Version: version, HideHelpCommand: true, Description: help,
		Usage: "start Nightshift's workers, watch them, start them anew", UsageText: "supervisor [options] -- WORKER [ARGUMENT…]",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "workers", Value: 1, Destination: &o.Workers, Usage: "how many `N`, 1 to 64"},
			&cli.StringFlag{Name: "run-dir", Value: "data/run", Destination: &o.RunDir, Usage: "`DIR` of the locks and status.json: run/ of the workers' data directory"},
			&cli.DurationFlag{Name: "boot-limit", Value: time.Minute, Destination: &o.Limits.Boot, Usage: "kill a worker that is not ready after `TIME`"},
			&cli.DurationFlag{Name: "silence-limit", Value: 15 * time.Second, Destination: &o.Limits.Steady, Usage: "kill a ready worker that says nothing for `TIME`, at least 5s"},
			&cli.DurationFlag{Name: "stop-timeout", Value: 75 * time.Second, Destination: &o.Limits.Stop, Usage: "kill a worker that has not drained after `TIME`"},
		},
		Action: func(c *cli.Context) (err error) {
			o.Command = c.Args().Slice()
			if o.RunDir, err = filepath.Abs(o.RunDir); err != nil {
				return err
			}
			for flag, fits := range map[string]bool{"workers": o.Workers >= 1 && o.Workers <= 64, "stop-timeout": o.Limits.Stop >= 0,
				"boot-limit": o.Limits.Boot >= time.Second, "silence-limit": o.Limits.Steady >= 5*time.Second} {
				if !fits {
					return fmt.Errorf("--%s %v is out of range", flag, c.Value(flag))
				}
			}
			if len(o.Command) == 0 {
				return fmt.Errorf("the worker's command is missing: supervisor [options] -- bin/worker run --config nightshift.yaml")
			}
			return cli.Exit("", supervisor.Run(o))
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: %v (supervisor --help tells more)\n", err)
		os.Exit(64)
	}
}
