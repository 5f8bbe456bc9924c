// Command naked runs the naked test:
//
//	make naked DURATION=10m SEED=42
//
// A line a second tells how it goes; the last line is the verdict, and the exit
// status is 1 when anything that was promised did not hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"nightshift/test/naked/night"
)

func main() {
	o := night.Options{Out: os.Stdout}
	only := flag.String("only", "", "comma-separated `acts` of the nemesis; default all")
	flag.DurationVar(&o.Duration, "duration", 5*time.Minute, "how long the faults last")
	flag.Uint64Var(&o.Seed, "seed", 0, "what happens in which order; 0: by the clock")
	flag.IntVar(&o.Workers, "workers", 3, "workers under the supervisor; -1: none")
	flag.IntVar(&o.Free, "free", 2, "workers started by hand; -1: none")
	flag.IntVar(&o.Slots, "slots", 2, "slots of each worker")
	flag.DurationVar(&o.Pace, "pace", 200*time.Millisecond, "mean time between two acts")
	flag.IntVar(&o.Backlog, "backlog", 40, "unfinished tasks to keep in the queue")
	flag.DurationVar(&o.Quiet, "quiet", 3*time.Minute, "the queue must be empty so long after the faults")
	flag.BoolVar(&o.Race, "race", false, "build the worker with the race detector")
	flag.BoolVar(&o.NoLoop, "no-loop", false, "no disk of its own")
	flag.BoolVar(&o.Keep, "keep", false, "keep the scratch directory")
	flag.Parse()
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	// The first Ctrl-C ends the faults and goes on to the verdict, the second ends all.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	v, err := night.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "naked:", err)
		os.Exit(2)
	}
	v.Report(os.Stdout)
	if v.Failed() {
		os.Exit(1)
	}
}
