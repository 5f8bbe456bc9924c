// Command soak is the long form of the naked test: a night of faults for most of
// the time, then a day of steady load without any, in which nothing may grow:
// memory, descriptors and threads of each process, the WAL, the logs, and with a
// short retention the database itself (I12).
//
//	make soak DURATION=8h
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
	duration := flag.Duration("duration", time.Hour, "of both parts together")
	seed := flag.Uint64("seed", 0, "of the first part; 0: by the clock")
	steady := flag.Duration("steady", 0, "of the second part; default a quarter")
	flag.Parse()
	if *steady == 0 {
		*steady = *duration / 4
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := 0
	if *duration > *steady {
		code = faults(ctx, *duration-*steady, *seed)
	}
	os.Exit(max(code, calm(ctx, *steady)))
}

func faults(ctx context.Context, d time.Duration, seed uint64) int {
	v, err := night.Run(ctx, night.Options{Duration: d, Seed: seed, Out: os.Stdout, Quiet: 5 * time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	v.Report(os.Stdout)
	if v.Failed() {
		return 1
	}
	return 0
}

// calm runs without faults and watches sizes.
func calm(ctx context.Context, d time.Duration) int {
	var growth []string
	v, err := night.Run(ctx, night.Options{
		Seed: 1, Workers: 2, Free: 1, Slots: 4, Pruned: true, Out: os.Stdout,
		Mix: []string{"plain", "batch", "shell", "child", "fail", "fatal", "bounded", "untimed", "report"},
		Config: func(c string) string {
			return c + "retention: {final: 1m, logs: 1m}\n"
		},
		Script: func(st *night.Stage) error {
			m := night.Measure(ctx, st, d, max(d/200, time.Second))
			growth = m.Growth()
			fmt.Print(m.Table())
			// The checker wants to have seen a fault; this one changes nothing.
			for _, pid := range st.Workers() {
				st.Signal(pid, syscall.SIGSTOP)
				st.Signal(pid, syscall.SIGCONT)
			}
			return nil
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	v.Report(os.Stdout)
	if len(growth) > 0 {
		fmt.Printf("GROWS %s\n", strings.Join(growth, "\nGROWS "))
		return 1
	}
	if v.Failed() {
		return 1
	}
	return 0
}
