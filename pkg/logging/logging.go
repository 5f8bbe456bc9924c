// Package logging is a worker's own log: hclog lines into rotating files.
//
// Each worker has files of its own: w1.log tells the story of a night at info and
// worse, w1.debug.log holds everything while the level is debug or trace. Its
// promises:
//
//   - A caller is never held up by a disk. Lines go through a bounded queue; when
//     the disk does not follow, they are dropped, counted, and the log says how
//     many as soon as it can.
//   - One line an event: control characters are escaped, a line has at most 8 KiB.
//   - A file never grows beyond max_size, the whole never beyond
//     (max_backups + 1) × max_size, and while the disk follows no line is lost.
//   - What somebody deletes, moves or truncates is made anew within seconds.
//   - Two processes never write one file.
//
// Level, place and rotation change by Reload, without a restart. The keys of the
// lines are listed in docs/logs.md.
package logging

import (
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/config"
)

// Options say what to open.
type Options struct {
	Worker  string     // "w1": the stem of the files' names
	Config  config.Log // level, place, rotation
	Console io.Writer  // nil: none; lines at warn and worse go there too

	tick time.Duration // tests are in more of a hurry than tickEvery
}

// Log owns a worker's log files. Its methods may be called from any goroutine.
type Log struct {
	worker  string
	logger  hclog.Logger
	main    *sink
	debug   *sink
	console *sink // nil: none
	verbose atomic.Bool
}

// timeFormat is how a line begins: UTC with milliseconds, as in the database.
const timeFormat = "2006-01-02T15:04:05.000Z"

// closeWithin bounds Close: a disk that hangs must not hold up a worker's end.
const closeWithin = 2 * time.Second

// Open makes the directory and the files. It refuses what a person must put
// right: a file that another process writes (*HeldError), a directory that others
// can write to, a path that is no plain file. A full disk is no error: lines are
// dropped and counted until there is room.
func Open(o Options) (*Log, error) {
	if o.Worker == "" || filepath.Base(o.Worker) != o.Worker {
		return nil, fmt.Errorf("worker id %q cannot be the name of a log file", o.Worker)
	}
	level, err := levelOf(o.Config.Level)
	if err != nil {
		return nil, err
	}
	l := &Log{worker: o.Worker}
	mainFile := newFile(l.mainPath(o.Config), o.Config.MaxSize, o.Config.MaxBackups)
	if err := mainFile.open(); err != nil && !passing(err) {
		return nil, err
	}
	every := o.tick
	if every == 0 {
		every = tickEvery
	}
	l.main = startSink(mainFile, every)
	l.debug = startSink(newFile(l.debugPath(o.Config), o.Config.MaxSize, o.Config.MaxBackups), every)
	if o.Console != nil {
		l.console = startSink(stream{o.Console}, every)
	}
	l.verbose.Store(level <= hclog.Debug)
	l.logger = hclog.New(&hclog.LoggerOptions{
		Level:      level,
		Output:     output{l},
		TimeFormat: timeFormat,
		TimeFn:     func() time.Time { return time.Now().UTC() },
	})
	return l, nil
}

// Logger is the root logger; name its rooms with Named.
func (l *Log) Logger() hclog.Logger { return l.logger }

// Reload puts a changed configuration into force. When the new place can't be
// used, nothing changes and the error says why.
func (l *Log) Reload(c config.Log) error {
	level, err := levelOf(c.Level)
	if err != nil {
		return err
	}
	if err := l.main.reconfigure(l.mainPath(c), c.MaxSize, c.MaxBackups); err != nil {
		return fmt.Errorf("log stays at %s: %w", l.main.path(), err)
	}
	if err := l.debug.reconfigure(l.debugPath(c), c.MaxSize, c.MaxBackups); err != nil {
		return fmt.Errorf("debug log stays at %s: %w", l.debug.path(), err)
	}
	l.verbose.Store(level <= hclog.Debug)
	l.logger.SetLevel(level)
	return nil
}

// Path is the file that holds info and worse now.
func (l *Log) Path() string { return l.main.path() }

// Dropped is how many lines could not be written since Open.
func (l *Log) Dropped() int64 { return l.main.dropped.Load() + l.debug.dropped.Load() }

// Flush waits until what was logged before the call is written or dropped, at
// most for d; it reports whether it is.
func (l *Log) Flush(d time.Duration) bool {
	deadline := time.Now().Add(d)
	ok := l.main.flush(time.Until(deadline))
	ok = l.debug.flush(time.Until(deadline)) && ok
	if l.console != nil {
		ok = l.console.flush(time.Until(deadline)) && ok
	}
	return ok
}

// Close writes what is queued, at most for two seconds, and closes the files.
// Lines logged afterwards are dropped.
func (l *Log) Close() error {
	deadline := time.Now().Add(closeWithin)
	var stuck []string
	for _, s := range []*sink{l.main, l.debug, l.console} {
		if s != nil && !s.close(time.Until(deadline)) {
			stuck = append(stuck, s.path())
		}
	}
	if len(stuck) > 0 {
		return fmt.Errorf("log not written to its end within %s: %v", closeWithin, stuck)
	}
	return nil
}

func (l *Log) mainPath(c config.Log) string { return filepath.Join(c.Dir, l.worker+".log") }

func (l *Log) debugPath(c config.Log) string { return filepath.Join(c.Dir, l.worker+".debug.log") }

func levelOf(name string) (hclog.Level, error) {
	level := hclog.LevelFromString(name)
	if level == hclog.NoLevel {
		return level, fmt.Errorf("log level %q is not one of error, warn, info, debug, trace", name)
	}
	return level, nil
}

// output is what hclog writes to: it sorts lines to the sinks by their level.
type output struct{ l *Log }

// LevelWrite is called by hclog with one whole event, under hclog's own lock.
func (o output) LevelWrite(level hclog.Level, p []byte) (int, error) {
	line := Line(p)
	if level >= hclog.Info {
		o.l.main.put(line)
	}
	if o.l.verbose.Load() {
		o.l.debug.put(line)
	}
	if o.l.console != nil && level >= hclog.Warn {
		o.l.console.put(line)
	}
	return len(p), nil
}

// Write serves what has no level; hclog itself always calls LevelWrite.
func (o output) Write(p []byte) (int, error) { return o.LevelWrite(hclog.Info, p) }
