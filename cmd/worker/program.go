package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

const insideCategory = "Inside a task's program"

const insideText = `For programs in a shell: a child of the program speaks on its descriptor 3. The worker's answer is the exit status: 0 go on, 75 stop here (the output is cancel, pause, shutdown or lost), 66 not inside a task.`

// programVerbs are spoken by a task's program to the worker that runs it.
func programVerbs() []*cli.Command {
	return []*cli.Command{
		{
			Name: "checkpoint", Usage: "store, or print, where the work stands", ArgsUsage: "put|get", Category: insideCategory,
			Description: cmdline.Describe(insideText, `checkpoint put '{"n": 6000}' --progress 6000/10000`),
			Subcommands: []*cli.Command{
				{
					Name: "put", Usage: "store a checkpoint; it is durable when the command ends with 0", ArgsUsage: "[JSON]",
					Description: cmdline.Describe(
						`JSON is a business position (a cursor, a byte offset, an id); @FILE and - read it from a file and from standard input. Without it only the progress is told. `+insideText,
						`checkpoint put '{"offset": 612345}' --progress "6000/10000 lines"`, `checkpoint put --progress "still reading"`),
					Flags: []cli.Flag{&cli.StringFlag{Name: "progress", Usage: "one line of `TEXT` for people: how far it is"}},
					Action: verb(func(d *operator.Desk, c *cli.Context) error {
						args, err := cmdline.Args(c, 0, 1, "JSON")
						if err != nil {
							return err
						}
						if len(args) == 0 && c.String("progress") == "" {
							return &cmdline.UsageError{Message: "nightshift checkpoint put needs a checkpoint, a --progress, or both", Hint: `for example: nightshift checkpoint put '{"n": 6000}'`}
						}
						return d.CheckpointPut(append(args, "")[0], c.String("progress"))
					}),
				},
				{
					Name: "get", Usage: "print the last checkpoint; nothing when there is none",
					Description: cmdline.Describe(insideText, `checkpoint get`),
					Action:      plain(func(d *operator.Desk, _ *cli.Context) error { return d.CheckpointGet() }),
				},
			},
			Action: needsSubverb,
		},
		{
			Name: "still-mine", Usage: "ask whether the work should go on", Category: insideCategory,
			Description: cmdline.Describe(insideText, `still-mine`),
			Action:      plain(func(d *operator.Desk, _ *cli.Context) error { return d.StillMine() }),
		},
	}
}
