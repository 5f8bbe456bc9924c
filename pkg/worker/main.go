package worker

import (
	"context"
	"flag"
	"fmt"
	"os"

	"nightshift/pkg/handler"
)

// Main is the whole main function of a user's own worker: it reads the flags of
// `worker run`, runs with the given handlers beside those of the configuration,
// and exits.
//
//	func main() {
//		worker.Main(handler.Registry{"resize_images": handler.Func(resize)})
//	}
//
// Start it under the supervisor like the stock worker:
//
//	supervisor --workers 2 --run-dir data/run -- ./myworker run --config nightshift.yaml
func Main(handlers handler.Registry) {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	}
	o := Options{Handlers: handlers, Version: "own"}
	f := flag.NewFlagSet("run", flag.ExitOnError)
	f.Usage = func() {
		_, _ = fmt.Fprintf(f.Output(), "Usage: %s run [--config FILE] [--data DIR] [--id ID] [--slots N]\n", os.Args[0]) // nobody to tell
		f.PrintDefaults()
	}
	f.StringVar(&o.ConfigPath, "config", "", "configuration file")
	f.StringVar(&o.DataDir, "data", "", "data directory, instead of the configuration's")
	f.StringVar(&o.WorkerID, "id", "", "worker id (default $NIGHTSHIFT_WORKER_ID, or w1)")
	f.IntVar(&o.Slots, "slots", 0, "tasks at a time (default: the configuration's)")
	if err := f.Parse(args); err != nil {
		os.Exit(ExitUsage) // flag.ExitOnError has ended the process before
	}
	if f.NArg() > 0 {
		_, _ = fmt.Fprintf(os.Stderr, "%s: unexpected argument %q\n", os.Args[0], f.Arg(0)) // nobody to tell
		os.Exit(ExitUsage)
	}
	os.Exit(Run(context.Background(), o))
}
