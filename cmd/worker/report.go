package main

import (
	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator"
	"nightshift/pkg/operator/cmdline"
)

func reportVerb() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write the shift report, the hand-over to the morning, as one HTML page", Category: nightCategory,
		Description: cmdline.Describe(
			`The last twelve hours, unless the flags say otherwise. Into a pipe or file it goes to standard output; at a terminal a file is made here, and named. --json gives the facts that the page shows (docs/json.md).`,
			`report`, `report --since 24h --until "2026-12-01 08:00" -o night.html`, `report --zone Asia/Shanghai --title "Night of the 1st" --json`),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "from `TIME` on, or a duration before the end (12h)"},
			&cli.StringFlag{Name: "until", Usage: "until `TIME` (now)"},
			&cli.StringFlag{Name: "zone", Usage: "show times in the zone `NAME`, as Europe/Berlin"},
			&cli.StringFlag{Name: "title", Usage: "head the page with `TEXT`"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` (- for standard output)"},
			jsonFlag(),
		},
		Action: plain(func(d *operator.Desk, c *cli.Context) error {
			return d.ShiftReport(c.Context, operator.ReportOptions{
				Since: c.String("since"), Until: c.String("until"), Zone: c.String("zone"), Title: c.String("title"), Output: c.String("output"),
			})
		}),
	}
}
