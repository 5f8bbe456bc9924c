// Command bench measures Nightshift beside the limits of the machine it runs on:
// the disk's flushes, SQLite without us, processes without us. It prints one table
// and writes JSON. docs/performance.md says how each figure is taken.
//
// Called as `bench run …` it is a worker of its own, with the handlers that the
// measures use: so the figures are those of real processes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bench is one run: where it works, how thoroughly, and what it has found.
type bench struct {
	report
	dir    string // scratch, on a real disk
	bin    string // supervisor, worker and nightshift
	self   string // this program: the worker with the measures' handlers
	quick  bool
	rounds int

	mu      sync.Mutex
	systems map[*system]bool // those that run, to be ended when we are interrupted
}

// measure is one subject of the run.
type measure struct {
	name string
	run  func(b *bench) error
}

var measures = []measure{
	{"limits", (*bench).limits},
	{"insert", (*bench).inserts},
	{"drain", (*bench).drains},
	{"checkpoint", (*bench).checkpoints},
	{"wake", (*bench).wakes},
	{"depth", (*bench).depths},
	{"recovery", (*bench).recoveries},
	{"idle", (*bench).idles},
	{"programs", (*bench).programs},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		os.Exit(work(os.Args[2:]))
	}
	b := &bench{systems: map[*system]bool{}}
	jsonFile := flag.String("json", "", "write the figures to this file too")
	only := flag.String("only", "", "regular expression of the measures to take: limits insert drain checkpoint wake depth recovery idle programs")
	dir := flag.String("dir", "/var/tmp", "where to work: a directory on the disk that is to be measured")
	flag.StringVar(&b.bin, "bin", "bin", "directory of supervisor, worker and nightshift")
	flag.BoolVar(&b.quick, "quick", false, "a smoke test of under 20 s: figures without weight")
	flag.IntVar(&b.rounds, "rounds", 3, "how often ours and its limit are measured, in turns")
	flag.Parse()
	if flag.NArg() > 0 {
		fatal(64, fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fatal(64, err)
	}
	if err := b.prepare(*dir); err != nil {
		fatal(69, err)
	}
	err = b.takeAll(pattern)
	b.clear()
	b.print(os.Stdout)
	if *jsonFile != "" {
		err = errors.Join(err, b.write(*jsonFile))
	}
	if err != nil {
		fatal(1, err)
	}
}

func fatal(code int, err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(code)
}

// prepare finds the binaries and makes the scratch directory.
func (b *bench) prepare(dir string) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.bin, err = filepath.Abs(b.bin); err != nil {
		return err
	}
	for _, name := range []string{"supervisor", "worker", "nightshift"} {
		if _, err := os.Stat(filepath.Join(b.bin, name)); err != nil {
			return fmt.Errorf("%w: run `make build` first, or name the directory with --bin", err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if fs.Type == unix.TMPFS_MAGIC {
		return fmt.Errorf("%s lies in memory (tmpfs), where nothing is durable: name a directory on a disk with --dir", dir)
	}
	if b.dir, err = os.MkdirTemp(dir, "nightshift-bench-"); err != nil {
		return err
	}
	if b.quick {
		b.rounds = 1
	}
	b.report.describe(b.quick, b.rounds)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		b.clear()
		os.Exit(130)
	}()
	return nil
}

// clear ends what still runs and removes the scratch directory.
func (b *bench) clear() {
	b.mu.Lock()
	running := b.systems
	b.systems = map[*system]bool{}
	b.mu.Unlock()
	for s := range running {
		s.end()
	}
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench: scratch directory not removed:", err)
	}
}

func (b *bench) takeAll(pattern *regexp.Regexp) error {
	for _, m := range measures {
		if !pattern.MatchString(m.name) {
			continue
		}
		began := time.Now()
		b.group = m.name
		if err := m.run(b); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %s\n", m.name, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// scale picks how much is done: in full, or for a smoke test.
func scale[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
