package sim

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Break is a rule that a run breaks on purpose: the checker has to see it.
type Break int

// The broken rules.
const (
	Nothing         Break = iota
	LyingLock             // the kernel calls every lock free, and hunts nobody
	LazyHunt              // the kernel hunts nobody, and says that nobody is left
	RecoverLate           // recovery comes after the first claims
	LyingCheckpoint       // checkpoints are acknowledged and not written
	LosingInsert          // one task in ten is accepted and not written
	ChargedStop           // a task that was told to stop has failed
	ForgottenType         // no worker knows a type any more
)

// Options say what a night is like.
type Options struct {
	Seed   uint64
	Hours  float64 // of faults; the quiet after them comes on top
	Dir    string  // for the database
	Break  Break
	Calm   bool // no fault at all: such a night proves nothing, and fails
	Follow int  // how many lines of the trace a verdict keeps
}

// crew is who works on the machine: workers under the supervisor, and perhaps one
// that a person starts.
type crew struct {
	supervised []string
	byHand     bool
}

// crews: each night's seed draws one of them. What three workers hide from two, the
// other nights show (swarm testing, Groce et al., ISSTA 2012).
var crews = []crew{
	{[]string{"w1", "w2"}, true},
	{[]string{"w1", "w2"}, false},
	{[]string{"w1"}, true},
}

const (
	byHand       = "w3"
	maxCrashes   = 3
	pollInterval = 5 * time.Second
	quietLimit   = 4 * time.Hour   // for the queue to empty once the faults have ended
	stopLimit    = 5 * time.Minute // for everything to end then
)

// night is one run.
type night struct {
	o Options
	crew
	m   *machine
	db  *database
	eff *effects

	mu           sync.Mutex
	sup          *supervisor
	programLimit int
	calm         bool // the faults are over
	stopping     bool // nothing is started any more
	draws        uint64
	faults       map[string]int
	counts       map[string]int
	moves        map[task.Transition]int // of the checker alone
	wrongs       []string
	overlaps     int
	hash         hash.Hash64
	tail         []string
}

// newNight makes the machine and its world, empty.
func newNight(o Options) *night {
	n := &night{
		o: o, programLimit: 2, hash: fnv.New64a(),
		faults: map[string]int{}, counts: map[string]int{}, moves: map[task.Transition]int{},
	}
	n.crew = crews[rand.New(rand.NewPCG(o.Seed, 1)).IntN(len(crews))]
	n.m = newMachine(n)
	n.eff = newEffects(n)
	n.db = &database{n: n, path: filepath.Join(o.Dir, "nightshift.db"), watchers: map[*proc]chan struct{}{}}
	return n
}

// Run lives through one night. Call it in a bubble of testing/synctest.
func Run(o Options) Verdict {
	n := newNight(o)
	if err := store.Init(n.db.path); err != nil {
		return Verdict{Seed: o.Seed, Wrong: []string{"I8 " + err.Error()}}
	}
	u, err := n.newUsers()
	if err != nil {
		return Verdict{Seed: o.Seed, Wrong: []string{"I8 " + err.Error()}}
	}
	n.startSupervisor()
	if n.byHand {
		n.after(10*time.Millisecond, n.startByHand) // not at one instant: the order of births is the run's
	}
	u.begin()
	if !o.Calm {
		n.rage(u)
	} else {
		time.Sleep(time.Duration(o.Hours * float64(time.Hour)))
	}
	n.quiet(u)
	n.stop()
	v := n.check(u)
	u.close()
	time.Sleep(time.Second) // time ends with this goroutine: until then the dead can wake, and end
	return v
}

// quiet ends all troubles and waits until the queue is empty.
func (n *night) quiet(u *users) {
	n.mu.Lock()
	n.calm = true
	n.mu.Unlock()
	n.m.setClock(n.m.latest()) // what was stamped under a fast clock is due, too
	n.db.setTrouble(healthy)
	for _, p := range n.m.living() {
		n.m.unwedge(p)
	}
	n.trace("quiet")
	u.calm()
	for began := n.m.at(); ; {
		left := u.unfinished()
		if len(left) == 0 && n.m.at()-began > time.Minute {
			return
		}
		if n.m.at()-began > quietLimit {
			for _, t := range left {
				n.wrong("I9 %s has not ended: %s (%s), executor %q, crashes %d, control %q", t.ID, t.Status, t.Reason, t.ExecutorID, t.CrashCount, t.Control)
			}
			return
		}
		u.release(left)
		time.Sleep(place(20*time.Second, lanes-1, grain-1))
	}
}

// stop ends the system as an operator does.
func (n *night) stop() {
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	for _, p := range n.m.living("worker") {
		n.m.terminate(p)
	}
	began := n.m.at()
	for len(n.m.living("worker", "supervisor", "program", "grandchild")) > 0 {
		if n.m.at()-began > stopLimit {
			for _, p := range n.m.living("worker", "supervisor", "program", "grandchild") {
				n.wrong("I11 %s is still there %v after the stop", p.name, stopLimit)
			}
			break
		}
		time.Sleep(place(time.Second, lanes-1, grain-1))
	}
	for _, p := range n.m.living("worker", "supervisor", "program", "grandchild", "stranger") {
		n.m.kill(p)
	}
	time.Sleep(time.Minute)
}

// raging reports that the faults are not over.
func (n *night) raging() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.calm
}

func (n *night) stopAsked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopping
}

// after does f later, unless the night is over by then.
func (n *night) after(d time.Duration, f func()) {
	n.mu.Lock()
	n.draws++
	owner := int(n.draws % grain)
	n.mu.Unlock()
	time.AfterFunc(place(d, lanes-2, owner), func() {
		if !n.stopAsked() {
			f()
		}
	})
}

// supervisorDied: the service manager starts the next one.
func (n *night) supervisorDied() {
	n.after(time.Duration(n.draw(20_000))*time.Millisecond, n.startSupervisor)
}

// died tells who waits for a worker that it has ended. A person looks after the
// one started by hand now and then.
func (n *night) died(w *worker) {
	n.mu.Lock()
	s := n.sup
	n.mu.Unlock()
	if w.p.parent != nil && s != nil && w.p.parent == s.p {
		s.childDied()
	}
	if w.id == byHand {
		n.after(time.Second+time.Duration(n.draw(600))*time.Second, n.startByHand)
	}
}

func (n *night) startByHand() { go n.newWorker(byHand, nil).run() }

// draw gives a number below k, from the seed and how many were drawn before.
func (n *night) draw(k uint64) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.draws++
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d", n.o.Seed, n.draws) // a hash takes everything
	return h.Sum64() % k
}

// latest is the offset at which the wall clock shows the highest time it ever did.
func (m *machine) latest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ahead := time.Until(m.highest); ahead > 0 {
		return ahead + time.Second
	}
	return 0
}

func (n *night) jumpCount() int {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	return n.m.jumps
}

// fault counts a fault that took place.
func (n *night) fault(kind string) {
	n.mu.Lock()
	n.faults[kind]++
	n.mu.Unlock()
	n.trace("fault %s", kind)
}

func (n *night) tally(what string, k int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k > 0 {
		n.counts[what] += k
	}
}

// trace adds a line to the run's hash.
func (n *night) trace(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line := fmt.Sprintf("%d ", n.m.at()) + fmt.Sprintf(format, args...)
	_, _ = n.hash.Write([]byte(line)) // a hash takes everything
	if n.o.Follow > 0 {
		n.tail = append(n.tail, line)
		if len(n.tail) > n.o.Follow {
			n.tail = slices.Delete(n.tail, 0, len(n.tail)/2)
		}
	}
}

// wrong notes a violation; a flood is cut off.
func (n *night) wrong(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.wrongs) < 100 {
		n.wrongs = append(n.wrongs, fmt.Sprintf("%s [at %v]", fmt.Sprintf(format, args...), n.m.at().Round(time.Millisecond)))
	}
}

func (n *night) overlap(format string, args ...any) {
	n.wrong(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.overlaps++
}

// Verdict is what a night came to.
type Verdict struct {
	Seed       uint64
	Hours      time.Duration // in virtual time, the quiet included
	Faults     map[string]int
	Counts     map[string]int // what the system did about them
	Tasks      int            // accepted
	Executions int
	Repeats    int // steps made more than once
	Ended      map[string]int
	Moves      map[task.Transition]int // how often each change of the table came about
	Lost       int
	Overlaps   int
	Illegal    int
	Wrong      []string
	Hash       uint64
	Tail       []string // the last lines of the trace
}

// Injected is the number of faults.
func (v *Verdict) Injected() (k int) {
	for _, c := range v.Faults {
		k += c
	}
	return k
}

// conclude files the violations under the figures that they belong to.
func (n *night) conclude(v *Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v.Faults, v.Counts, v.Moves = n.faults, n.counts, n.moves
	v.Overlaps, v.Hash = n.overlaps, n.hash.Sum64()
	v.Executions, v.Repeats = n.eff.starts, n.eff.again
	if v.Injected() == 0 {
		n.wrongs = append(n.wrongs, "nothing was injected: this night proves nothing")
	}
	if v.Tasks == 0 || v.Executions == 0 {
		n.wrongs = append(n.wrongs, "nothing was done: this night proves nothing")
	}
	v.Wrong, v.Tail = n.wrongs, n.tail
	for _, w := range v.Wrong {
		switch {
		case strings.HasPrefix(w, "I1 "), strings.HasPrefix(w, "I9 "):
			v.Lost++
		case strings.HasPrefix(w, "I3 "), strings.HasPrefix(w, "I4 "), strings.HasPrefix(w, "I14 "):
			v.Illegal++
		}
	}
}
