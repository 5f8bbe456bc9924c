// Command proof runs everything that is to show that what is promised holds, in one
// go, and prints one table of what was done and what came of it:
//
//	make proof
//
// The parts with real processes come one after the other; the simulation and the
// random sequences run beside them, on what these leave of the machine. The exit
// status is 1 when a part failed, or did less than was asked of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// plan is how much is asked for.
type plan struct {
	seed                               uint64
	kills, stops, cuts, hours, repeats int
	duration, budget                   time.Duration
	pace                               time.Duration
}

func main() {
	var p plan
	only := flag.String("only", "", "real or virtual; both when empty")
	logs := flag.String("logs", "", "directory for what the parts print; one in the system's temporary place when empty")
	flag.Uint64Var(&p.seed, "seed", 0, "the first of each part; 0: by the clock")
	flag.IntVar(&p.kills, "kills", 1000, "at least so many kills in the naked test")
	flag.DurationVar(&p.duration, "duration", 5*time.Minute, "of the naked test's faults")
	flag.DurationVar(&p.pace, "pace", 100*time.Millisecond, "of the naked test")
	flag.IntVar(&p.cuts, "cuts", 200, "power cuts")
	flag.IntVar(&p.hours, "hours", 2000, "simulated hours; wanted are 50 faults in each")
	flag.IntVar(&p.repeats, "sequences", 20000, "random sequences of operations")
	flag.DurationVar(&p.budget, "budget", 0, "the simulation starts no night after this, and says how far it came; 0: as long as it takes")
	flag.Parse()
	p.stops = 200
	if p.seed == 0 {
		p.seed = uint64(time.Now().Unix()) // read by people: not too long
	}
	if err := run(p, *only, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func run(p plan, only, logs string) error {
	if logs == "" {
		dir, err := os.MkdirTemp("", "nightshift-proof-")
		if err != nil {
			return err
		}
		logs = dir
	} else if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	var all []*part
	var lanes sync.WaitGroup
	if only != "virtual" {
		real := p.realParts()
		all = append(all, real...)
		lanes.Go(func() {
			for _, x := range real {
				x.do(ctx, logs)
			}
		})
	}
	if only != "real" {
		for _, x := range p.virtualParts() {
			all = append(all, x)
			lanes.Go(func() { x.do(ctx, logs) })
		}
	}
	lanes.Wait()
	fmt.Print(table(all))
	bad := 0
	for _, x := range all {
		bad += len(x.wrong())
		for _, w := range x.wrong() {
			fmt.Printf("%s: %s (all of it: %s)\n", x.name, w, x.log)
		}
	}
	word := "ok"
	if bad > 0 {
		word = "FAILED"
	}
	fmt.Printf("proof: %s commit=%s seed=%d took=%v\n", word, commit(), p.seed, time.Since(began).Round(time.Second))
	if bad > 0 {
		return fmt.Errorf("%d things did not hold", bad)
	}
	return nil
}

// realParts need the machine: root and a loop device, too.
func (p *plan) realParts() []*part {
	seed := strconv.FormatUint(p.seed, 10)
	return []*part{
		{
			name:    "naked test",
			command: []string{"go", "run", "./test/naked/cmd", "-duration", p.duration.String(), "-pace", p.pace.String(), "-seed", seed},
			figures: []figure{
				{"kills", regexp.MustCompile(`verdict: \w+ seed=\d+ kills=(\d+)`), p.kills},
				{"tasks", regexp.MustCompile(`verdict: .* tasks=(\d+)`), 1},
			},
			harm: regexp.MustCompile(`verdict: .* lost=(\d+) overlaps=(\d+) illegal=(\d+)`),
		},
		{
			name:    "faults",
			command: []string{"go", "test", "-count=1", "-timeout", "0", "-v", "./test/faults", "-cuts", strconv.Itoa(p.cuts)},
			figures: []figure{
				{"power cuts", regexp.MustCompile(`(\d+) power cuts in`), p.cuts},
				{"SIGSTOPs through a takeover", regexp.MustCompile(`(\d+) SIGSTOPs through a takeover`), p.stops},
				{"failpoints, killed at each", regexp.MustCompile(`killed at each of (\d+) points`), 1},
			},
		},
	}
}

// virtualParts need nothing but time: they take what the others leave.
func (p *plan) virtualParts() []*part {
	seed := strconv.FormatUint(p.seed, 10)
	idle := []string{"chrt", "-i", "0"} // they give way at once, nice 19 only after a slice
	sim := &part{
		name: "simulation",
		// In its directory: there go test shows the report of a run that passes, too.
		dir: "test/sim",
		command: append(idle[:3:3], "go", "test", "-count=1", "-timeout", "0", "-run", "TestSimulate$",
			"-hours", strconv.Itoa(p.hours), "-seed", seed, "-budget", p.budget.String()),
		figures: []figure{
			{"simulated hours", regexp.MustCompile(`simulation: \w+ hours=(\d+)`), p.hours},
			{"faults", regexp.MustCompile(`simulation: .* faults=(\d+)`), 50 * p.hours},
			{"executions", regexp.MustCompile(`simulation: .* executions=(\d+)`), 1},
		},
		harm: regexp.MustCompile(`simulation: .* lost=(\d+) overlaps=(\d+) illegal=(\d+) others=(\d+)`),
	}
	if p.budget > 0 { // then it is the machine that decides how far it comes
		for i := range sim.figures {
			sim.figures[i].wanted = 1
		}
	}
	return []*part{sim, {
		name: "store and model",
		command: append(idle[:3:3], "go", "test", "-count=1", "-timeout", "0", "-v", "-run", "TestStoreAgainstModel$", "./pkg/store",
			"-rapid.checks="+strconv.Itoa(p.repeats), "-rapid.seed="+seed),
		figures: []figure{{"random sequences", regexp.MustCompile(`OK, passed (\d+) tests`), p.repeats}},
	}}
}

// table has one line for each figure.
func table(all []*part) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\twhat\tdone\tat least\tviolations\ttook") // a Builder takes everything; so below
	for _, x := range all {
		for i, f := range x.figures {
			name, harm, took := "", "", ""
			if i == 0 {
				name, harm, took = x.name, x.harmed(), x.took.Round(time.Second).String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", name, f.what, x.found(f), f.wanted, harm, took)
		}
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}
