// Package program runs a task's work as a program in any language.
//
// The program gets a small fixed environment, its payload on stdin and in a file,
// and a socket on descriptor 3 on which it reports checkpoints and hears that it
// should stop (docs/writing-tasks.md is the contract as its users read it). What
// it prints goes to the execution's log; the last line of its stdout is its result.
//
// Invariants: a command is an argv and never passes a shell; nothing of a payload
// can become part of it; all programs are forked by one thread that never ends,
// because the kernel kills them when the thread that forked them does; a program
// that was told to end is gone, with everything it started, before Run returns;
// Run never waits for a descriptor that a grandchild keeps open.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/liveness"
)

// Defaults of the fields of Config (DESIGN §7).
const (
	DefaultGrace     = 30 * time.Second // from the stop reply, or from TERM, to KILL
	DefaultKillGrace = 5 * time.Second  // the same when it must not wait for the batch
	DefaultUmask     = 0o022
)

// DefaultFatal are the exit statuses that no retry can cure: EX_USAGE, EX_DATAERR,
// EX_NOPERM, EX_CONFIG, and the shell's "not executable" and "not found".
func DefaultFatal() []int { return []int{64, 65, 77, 78, 126, 127} }

// Config says what a task type runs, and how.
type Config struct {
	Command   []string          // program and arguments; a name without a slash is looked up in PATH
	Dir       string            // working directory; "": the task's own
	Env       map[string]string // additions to the environment; PATH, HOME … may be replaced, NIGHTSHIFT_* not
	Umask     *int              // nil: DefaultUmask
	Fatal     []int             // exit statuses that end the task FAILED; nil: DefaultFatal
	Retryable []int             // taken out of the default of Fatal
	Grace     time.Duration     // 0: DefaultGrace
	KillGrace time.Duration     // 0: DefaultKillGrace
	Reaper    *Reaper           // the worker's; required
}

// Program is the handler of a task type whose work is a program. It is safe for
// concurrent use.
type Program struct {
	cfg     Config
	fatal   map[int]bool
	environ []string // what is the same for every task of the type
	path    string   // PATH in that environment
}

var _ handler.SelfStopping = (*Program)(nil)

// New checks what can be checked without the program (Check looks at the program).
func New(cfg Config) (*Program, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("the command is empty")
	}
	if cfg.Reaper == nil {
		return nil, errors.New("a program needs the worker's Reaper")
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.KillGrace <= 0 {
		cfg.KillGrace = DefaultKillGrace
	}
	if cfg.Umask == nil {
		umask := DefaultUmask
		cfg.Umask = &umask
	}
	environ, err := baseEnviron(cfg.Env, cfg.Reaper.opt.BinDir)
	if err != nil {
		return nil, err
	}
	p := &Program{cfg: cfg, fatal: map[int]bool{}, environ: environ, path: lookup(environ, "PATH")}
	codes := cfg.Fatal
	if codes == nil {
		codes = DefaultFatal()
	}
	for _, code := range codes {
		p.fatal[code] = true
	}
	if cfg.Fatal == nil {
		for _, code := range cfg.Retryable {
			delete(p.fatal, code)
		}
	}
	return p, nil
}

// StopsItself marks a handler that obeys Task.Stop.
func (p *Program) StopsItself() {}

// Run runs the program once. The result is always a handler.Report.
func (p *Program) Run(ctx context.Context, t *handler.Task) (any, error) {
	if o, ok := pending(t.Stop); ok {
		return handler.Report{Summary: "not started: " + reason(o.Err)}, o.Err
	}
	path, err := resolve(p.cfg.Command[0], p.cfg.Dir, p.path)
	if err != nil {
		return report(handler.Report{}, handler.Fatal(err))
	}
	x := &execution{p: p, t: t, path: path}
	if err := x.start(ctx); err != nil {
		return report(handler.Report{Program: x.program}, err)
	}
	x.attend(ctx)
	x.settle(ctx)
	return x.verdict()
}

// report makes err the summary of r.
func report(r handler.Report, err error) (any, error) {
	if err != nil {
		r.Summary = err.Error()
	}
	return r, err
}

// pending takes an order that came before the program was started.
func pending(stop <-chan handler.StopOrder) (handler.StopOrder, bool) {
	select {
	case o, ok := <-stop:
		return o, ok
	default:
		return handler.StopOrder{}, false
	}
}

// execution is one run of a program.
type execution struct {
	p       *Program
	t       *handler.Task
	path    string // what is executed
	program string // the same with its time of change, for the history

	child  *child
	out    *stream
	errout *stream
	speech *speech

	listening bool

	dir string // the task's own

	order error       // what the program is being ended for; nil: nothing yet
	how   []string    // what that took, for the history
	kill  *time.Timer // when patience ends
	force bool        // patience is KillGrace, not Grace

	cleared bool               // nothing of it is alive, except:
	left    []liveness.Process // what could not be killed
}

// start gives the program its directory's files, its descriptors and its life.
func (x *execution) start(ctx context.Context) error {
	var err error
	if x.dir, err = x.t.Dir(); err != nil {
		return err
	}
	stdin, err := x.writeFiles()
	if err != nil {
		return handler.WorkerTrouble(fmt.Errorf("files of the task: %w", err))
	}
	defer stdin.Close() // the program has its own copy
	ch, err := openChannels()
	if err != nil {
		return handler.WorkerTrouble(fmt.Errorf("descriptors for the program: %w", withLimit(err)))
	}
	defer ch.closeTheirs()
	dir := x.p.cfg.Dir
	if dir == "" {
		dir = x.dir
	}
	x.program = describe(x.path, x.p.cfg.Command, dir)
	x.child, err = x.p.cfg.Reaper.spawn(ctx, spawnOrder{
		path: x.path, argv: x.p.cfg.Command, dir: dir, env: x.environ(), umask: *x.p.cfg.Umask,
		attempt: x.t.Attempt, stdin: stdin.Fd(), channels: ch,
	})
	if err != nil {
		ch.closeOurs()
		return spawnFailure(err, x.path, dir, x.p.path)
	}
	log := &sharedLog{w: x.t.Log}
	x.out = newStream(ch.ours[0], log, resultBytes)
	x.errout = newStream(ch.ours[1], log, lastWordsBytes)
	x.speech = newSpeech(ctx, ch.ours[2], x.t)
	return nil
}

// listen starts to read what the program prints and says.
func (x *execution) listen() {
	if x.listening {
		return
	}
	x.listening = true
	x.out.listen()
	x.errout.listen()
	x.speech.listen()
}

// writeFiles puts payload and checkpoint into the task's directory and returns
// the payload, opened: a file as stdin can't block anybody, read or not.
func (x *execution) writeFiles() (*os.File, error) {
	stdin, err := writeFile(x.dir, payloadFile, x.t.Payload)
	if err != nil {
		return nil, err
	}
	if state := x.t.LastCheckpoint(); state != nil {
		f, err := writeFile(x.dir, checkpointFile, state)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			stdin.Close() // nothing was read from it
			return nil, err
		}
	}
	return stdin, nil
}
