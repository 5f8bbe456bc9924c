package main

import (
	"io"
	"runtime"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

// selfVerbs are about the program itself.
func selfVerbs() []*cli.Command {
	return []*cli.Command{
		{
			Name: "version", Usage: "print the version", Category: upkeepCategory,
			Description: cmdline.Describe("", `version`, `version --json`),
			Flags:       []cli.Flag{jsonFlag()},
			Action:      plain(func(d *operator.Desk, _ *cli.Context) error { return d.ShowVersion(runtime.Version()) }),
		},
		{
			Name: "completion", Usage: "print the completion script of a shell", ArgsUsage: "SHELL", Category: upkeepCategory,
			Description: cmdline.Describe(
				`SHELL is bash, zsh or fish. Verbs, flags, task types, ids and schedules are completed.

  bash  source <(nightshift completion bash)
  zsh   nightshift completion zsh > "${fpath[1]}/_nightshift"
  fish  nightshift completion fish > ~/.config/fish/completions/nightshift.fish`,
				`completion bash`),
			Action: func(c *cli.Context) error {
				args, err := cmdline.Args(c, 1, 1, "SHELL")
				if err != nil {
					return err
				}
				text, err := cmdline.Script(args[0], c.App.Name)
				if err != nil {
					return err
				}
				_, err = io.WriteString(c.App.Writer, text)
				return err
			},
		},
		{
			Name: "man", Usage: "print the manual page", Category: upkeepCategory,
			Description: cmdline.Describe(`In the format of man(7): man -l reads it, and make install puts it in place.`, `man`),
			Action: func(c *cli.Context) error {
				if _, err := cmdline.Args(c, 0, 0, ""); err != nil {
					return err
				}
				return cmdline.Man(c.App.Writer, c.App, commonFlags(), operator.ManSections())
			},
		},
		{
			Name: "complete", Usage: "answer a completion script", ArgsUsage: "-- WORD...", Hidden: true,
			Action: verb(func(d *operator.Desk, c *cli.Context) error {
				return d.Complete(c.App, commonFlags(), c.Args().Slice())
			}),
		},
	}
}
