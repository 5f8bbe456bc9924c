// Package night is the naked test: a night in which everything goes wrong.
//
// It runs the real binaries in a scratch directory on a small disk of their own,
// feeds them real tasks from outside, and lets a seeded nemesis kill, stop, starve
// and confuse whatever it finds. Then it takes the faults away, waits for the
// queue to empty, and checks from outside what was promised: by the effects that
// the tasks left, by the log of what was accepted, by the database's columns, and
// by /proc. It imports nothing of the product.
//
// The invariants are numbered as in docs/reliability.md.
package night

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options say how long and how hard the night is. The zero values are the
// defaults of `make naked`.
type Options struct {
	Duration time.Duration // of the faults; the quiet phase comes after it
	Seed     uint64        // 0: by the clock
	Workers  int           // under the supervisor; default 3, -1: no supervisor
	Free     int           // started by hand, without a supervisor; default 2, -1: none
	Slots    int           // of each worker; default 2
	Pace     time.Duration // mean time between two acts of the nemesis; default 200 ms
	Backlog  int           // unfinished tasks that the submitter keeps; default 40
	Quiet    time.Duration // within which the queue must be empty after the faults; default 3 min
	Only     []string      // names of the acts to use; nil: all
	Race     bool          // build the worker with the race detector
	NoLoop   bool          // no disk of its own, even as root
	Keep     bool          // leave the scratch directory
	Bin      string        // directory with binaries that Build made; "": build them
	Out      io.Writer     // the story, a line a second

	// Script takes the nemesis's place: the night then has the faults that it makes,
	// and the same checks.
	Script func(s *Stage) error
	Tags   []string            // build tags of the worker beside testclock
	Env    []string            // of supervisor and workers, beside their own
	Config func(string) string // changes the configuration
	Mix    []string            // names of the kinds of tasks; nil: all
	Still  bool                // nothing is submitted by itself
	Level  bool                // all tasks have one priority: one that was taken over is the next
	Pruned bool                // the configuration lets finished tasks go
}

func (o *Options) defaults() {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Workers, 3)
	set(&o.Slots, 2)
	set(&o.Backlog, 40)
	set(&o.Free, 2)
	o.Workers, o.Free = max(o.Workers, 0), max(o.Free, 0)
	if o.Pace == 0 {
		o.Pace = 200 * time.Millisecond
	}
	if o.Quiet == 0 {
		o.Quiet = 3 * time.Minute
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
}

// night is one run.
type night struct {
	o     Options
	g     *ground
	sys   *system
	sub   *submitter
	eff   *effects
	watch *watch
	nem   *nemesis
	tally tally
	story *story
	begun time.Time

	// cut is held for reading by whoever talks to the database from outside, and
	// for writing while the power is off.
	cut sync.RWMutex
}

// Run makes a night and returns its verdict. An error means that the night could
// not be had, not that something was found.
func Run(ctx context.Context, o Options) (*Verdict, error) {
	o.defaults()
	n := &night{o: o, begun: time.Now(), story: &story{out: o.Out, begun: time.Now()}}
	var err error
	if n.g, err = newGround(o, n.story); err != nil {
		return nil, err
	}
	defer n.g.remove()
	if err := n.prepare(); err != nil {
		return nil, err
	}
	defer n.sys.abandon()
	return n.live(ctx)
}

func (n *night) prepare() error {
	bin := n.o.Bin
	if bin == "" {
		n.story.say("building")
		bin = filepath.Join(n.g.root, "bin")
		if err := Build(bin, n.o.Race, n.o.Tags...); err != nil {
			return err
		}
	}
	n.g.bin = bin
	n.g.change = n.o.Config
	if err := n.g.writeScript(); err != nil {
		return err
	}
	if err := n.g.writeConfig("info"); err != nil {
		return err
	}
	if out, err := n.g.cli("db", "init"); err != nil {
		return fmt.Errorf("db init: %w: %s", err, out)
	}
	n.eff = newEffects(n.g.effects(), &n.tally)
	n.sys = newSystem(n.g, n.o)
	n.sub = newSubmitter(n)
	var err error
	if n.watch, err = newWatch(n); err != nil {
		return err
	}
	n.nem = newNemesis(n)
	return nil
}

func (n *night) live(ctx context.Context) (*Verdict, error) {
	n.story.say("seed %d, %v of faults; %s", n.o.Seed, n.o.Duration, n.g.describe())
	for _, s := range n.nem.skipped {
		n.story.say("not done here: %s", s)
	}
	n.sys.up()
	stop := make(chan struct{})
	var loops sync.WaitGroup
	for _, f := range []func(<-chan struct{}){n.sub.run, n.watch.run, n.tell} {
		loops.Add(1)
		go func() { defer loops.Done(); f(stop) }()
	}
	var scriptErr error
	if n.o.Script != nil {
		if !n.o.Still {
			n.nem.warmUp(ctx)
		}
		scriptErr = n.o.Script(&Stage{n})
	} else {
		n.nem.rage(ctx, n.o.Duration, rand.New(rand.NewPCG(n.o.Seed, 1)))
	}
	n.story.say("quiet: %d acts, %d kills; waiting for the queue to empty", n.nem.acts(), n.tally.kills())
	n.sub.stop()
	n.nem.calm()
	v := &Verdict{Seed: n.o.Seed, Faults: n.nem.counts(), Skipped: n.nem.skipped}
	if scriptErr != nil {
		v.add("script: " + scriptErr.Error())
	}
	v.add(n.waitForEmpty(ctx)...)
	close(stop)
	loops.Wait()
	v.add(n.sys.down(2 * time.Minute)...)
	v.add(n.g.leftovers()...)
	n.eff.read()
	v.add(n.check(v)...)
	if err := n.watch.db.Close(); err != nil {
		v.add("reader: " + err.Error())
	}
	v.conclude(n)
	if v.Failed() {
		n.g.keep = true
		n.story.say("everything of this night stays in %s", n.g.root)
	}
	return v, nil
}

// tell says once a second how the night goes.
func (n *night) tell(stop <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			n.story.say("%s %s kills=%d (workers %d, supervisors %d, scripts %d) stops=%d  %s",
				n.sub.figures(), n.watch.figures(), n.tally.kills(), n.tally.workers.Load(), n.tally.supervisors.Load(),
				n.tally.scripts.Load(), n.tally.stops.Load(), n.nem.last())
		}
	}
}

// waitForEmpty waits until every task has ended (I1, I9, I13).
func (n *night) waitForEmpty(ctx context.Context) []string {
	deadline := time.Now().Add(n.o.Quiet)
	for {
		left := n.watch.unfinished()
		if len(left) == 0 && n.watch.fresh() {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			n.sys.dumpStacks()
			return []string{fmt.Sprintf("I9 %d tasks have not ended %v after the faults: %v", len(left), n.o.Quiet, first(left, 5))}
		}
		n.releasePaused()
		time.Sleep(200 * time.Millisecond)
	}
}

// releasePaused takes back what people's wishes of the night hold.
func (n *night) releasePaused() {
	if !n.watch.anyHeld() {
		return
	}
	_, err := n.g.sql("UPDATE tasks SET control='resume' WHERE status='PAUSED' AND control IS NULL OR control='pause'")
	if err != nil {
		n.g.log("acts.log", "resume: "+err.Error()) // tried again
	}
}

func first(list []string, n int) []string {
	if len(list) > n {
		return append(list[:n:n], "…")
	}
	return list
}

// story writes lines with the time since the beginning.
type story struct {
	mu    sync.Mutex
	out   io.Writer
	begun time.Time
}

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The story is for whoever listens; a reader that has gone does not end the night.
	_, _ = fmt.Fprintf(s.out, "%5.0fs  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

// exists reports a file's existence.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
