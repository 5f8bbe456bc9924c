package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"nightshift/pkg/execlog"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// LogsOptions is what the flags of `logs` say.
type LogsOptions struct {
	ID      string
	Follow  bool
	Attempt string // an execution's number, or -1 for the last, -2 for the one before it …
	All     bool   // every execution, one after the other
	Tail    string // only the last lines
}

// Logs prints what a task's program has printed. Bytes come through as they are
// into a file or pipe; on a terminal control characters are shown, not obeyed.
func (d *Desk) Logs(ctx context.Context, o LogsOptions) error {
	tail := int64(0)
	if o.Tail != "" {
		var err error
		if tail, err = ParseNumber("--tail", o.Tail, 1); err != nil {
			return err
		}
	}
	switch {
	case o.Follow && d.JSON:
		return cmdline.Usagef("--follow and --json exclude each other: a document has an end")
	case o.Attempt != "" && o.All:
		return cmdline.Usagef("--attempt and --all exclude each other")
	}
	if err := d.open(reads); err != nil {
		return err
	}
	t, err := d.get(o.ID)
	if err != nil {
		return err
	}
	history, err := d.Store.History(o.ID)
	if err != nil {
		return err
	}
	d.fillPaths(history)
	chosen, err := choose(history, o)
	if err != nil {
		return err
	}
	if d.JSON {
		return d.logsObject(o.ID, chosen, tail)
	}
	if o.Follow {
		return d.follow(ctx, o.ID, chosen, tail)
	}
	if len(history) == 0 {
		d.note("task %s has not run yet; it is %s", esc(o.ID), t.Status)
		return nil
	}
	for i, x := range chosen {
		if o.All {
			d.logHeader(i > 0, &x)
		}
		if err := d.printLog(&x, tail); err != nil {
			return err
		}
	}
	return nil
}

// fillPaths says where the logs of executions are that still run: history has the
// path from their end on.
func (d *Desk) fillPaths(history []store.Execution) {
	for i := range history {
		if x := &history[i]; x.LogPath == "" && x.End.IsZero() {
			x.LogPath = d.logPath(x.ExecID)
		}
	}
}

// logPath is where an execution's log is made.
func (d *Desk) logPath(execID int64) string {
	return execlog.PathIn(d.Config.ExecLogDir(), execID)
}

// choose picks the executions that are meant: the last one that has printed
// something, unless the flags say otherwise.
func choose(history []store.Execution, o LogsOptions) ([]store.Execution, error) {
	if o.All || len(history) == 0 {
		return history, nil
	}
	if o.Attempt == "" {
		return history[len(history)-1:], nil
	}
	n, err := ParseNumber("--attempt", o.Attempt, -1<<62)
	if err != nil {
		return nil, err
	}
	if n < 0 && -n <= int64(len(history)) {
		i := int64(len(history)) + n
		return history[i : i+1], nil
	}
	var numbers []string
	for i, x := range history {
		if x.ExecID == n {
			return history[i : i+1], nil
		}
		numbers = append(numbers, fmt.Sprint(x.ExecID))
	}
	if len(numbers) > 20 {
		numbers = append(append([]string{}, numbers[:10]...), append([]string{"…"}, numbers[len(numbers)-10:]...)...)
	}
	return nil, fail(ExitNoInput, "its executions are "+strings.Join(numbers, ", ")+"; -1 is the last", "task %s has no execution %d", quote(o.ID), n)
}

// logHeader separates executions, on the error stream: the output stays the
// programs' own.
func (d *Desk) logHeader(blank bool, x *store.Execution) {
	if blank {
		d.note("")
	}
	d.note("==> execution %d on %s, %s <==", x.ExecID, esc(x.ExecutorID), d.Style.Time(x.Start))
}

// printLog prints one log, or says why there is none.
func (d *Desk) printLog(x *store.Execution, tail int64) error {
	f, err := openLog(x)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note("execution %d has printed nothing, or its log has gone with age (%s)", x.ExecID, esc(x.LogPath))
		return nil
	case err != nil:
		return fmt.Errorf("read the log of execution %d: %w", x.ExecID, err)
	}
	defer f.Close() // it was only read
	if tail > 0 {
		if err := seekLines(f, tail); err != nil {
			return fmt.Errorf("read the log of execution %d: %w", x.ExecID, err)
		}
	}
	out := d.logWriter()
	if _, err := io.Copy(out, f); err != nil {
		return fmt.Errorf("show the log of execution %d: %w", x.ExecID, err)
	}
	return out.flush()
}

// openLog opens a log for reading: a plain file only, so that a fifo laid in its
// place can't hang a terminal.
func openLog(x *store.Execution) (*os.File, error) {
	if x.LogPath == "" {
		return nil, fs.ErrNotExist
	}
	info, err := os.Lstat(x.LogPath)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file", x.LogPath)
	}
	return os.Open(x.LogPath)
}

// seekLines moves f to the start of its last n lines, reading it backwards.
func seekLines(f *os.File, n int64) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for at := end; at > 0; {
		size := min(int64(len(buf)), at)
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil {
			return err
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] != '\n' || at+i == end-1 { // the last line's own end
				continue
			}
			if n--; n == 0 {
				_, err := f.Seek(at+i+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// follow prints a log as it grows, and goes on with the next execution of the
// task when there is one, until the task has ended.
func (d *Desk) follow(ctx context.Context, id string, history []store.Execution, tail int64) error {
	f := follower{d: d, id: id, out: d.logWriter()}
	if len(history) > 0 {
		f.begin(history[len(history)-1])
		if err := f.skip(tail); err != nil {
			return err
		}
	}
	for {
		over, err := f.look()
		if err != nil || over {
			return errors.Join(err, f.out.flush())
		}
		if !sleep(ctx, followPoll) {
			return Exit(ExitInterrupted)
		}
	}
}

// follower is the state of logs -f.
type follower struct {
	d       *Desk
	id      string
	out     *logWriter
	current *store.Execution
	log     *execlog.Follower
	dst     io.Writer
	told    task.Status // what was last said of the task's state
}

// begin goes on with an execution's log.
func (f *follower) begin(x store.Execution) {
	if f.current != nil {
		f.d.logHeader(true, &x)
	}
	f.current, f.dst, f.log = &x, f.out, execlog.Follow(x.LogPath, f.d.Config.Log.ExecMaxSize)
}

// print shows what is new of the current log.
func (f *follower) print() error {
	if f.log == nil {
		return nil
	}
	if _, err := f.log.Next(f.dst); err != nil {
		return fmt.Errorf("show the log of execution %d: %w", f.current.ExecID, err)
	}
	return nil
}

// skip leaves out all but the last lines of what the log has now.
func (f *follower) skip(tail int64) error {
	if tail == 0 {
		return nil
	}
	file, err := openLog(f.current)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	if err := seekLines(file, tail); err != nil {
		return err
	}
	at, err := file.Seek(0, io.SeekCurrent)
	f.dst = &skipWriter{w: f.out, left: at}
	return err
}

// look prints what is new, and reports that nothing more will come.
func (f *follower) look() (over bool, err error) {
	// The state first, the log second: what was printed before the end is there
	// when the end is seen.
	t, err := f.d.get(f.id)
	if err != nil {
		return false, err
	}
	if err := f.print(); err != nil {
		return false, err
	}
	next, more, err := f.d.nextExecution(f.id, f.current)
	if err != nil {
		return false, err
	}
	if more {
		if err := f.out.flush(); err != nil {
			return false, err
		}
		f.begin(next)
		return f.look()
	}
	if t.Status.Final() {
		return true, nil
	}
	if t.Status != f.told && t.Status != task.Running {
		f.d.note("==> %s is %s, %s <==", esc(f.id), t.Status, when(&t, time.Time{}, f.d.Now()))
	}
	f.told = t.Status
	return false, nil
}

// followPoll is how often a followed log is looked at.
const followPoll = 250 * time.Millisecond

// nextExecution is the one after current in the task's history.
func (d *Desk) nextExecution(id string, current *store.Execution) (store.Execution, bool, error) {
	history, err := d.Store.History(id)
	if err != nil {
		return store.Execution{}, false, err
	}
	d.fillPaths(history)
	for _, x := range history {
		if current == nil || x.ExecID > current.ExecID {
			return x, true, nil
		}
	}
	return store.Execution{}, false, nil
}

// skipWriter swallows the first bytes of what is written to it.
type skipWriter struct {
	w    io.Writer
	left int64
}

func (s *skipWriter) Write(p []byte) (int, error) {
	n := min(s.left, int64(len(p)))
	s.left -= n
	if n == int64(len(p)) {
		return len(p), nil
	}
	if _, err := s.w.Write(p[n:]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (d *Desk) logsObject(id string, chosen []store.Execution, tail int64) error {
	logs := []object{}
	for _, x := range chosen {
		o := object{{"exec_id", x.ExecID}, {"executor_id", x.ExecutorID}, {"start_time", x.Start}, {"end_time", x.End}, {"log_path", orNull(x.LogPath)}}
		f, err := openLog(&x)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("read the log of execution %d: %w", x.ExecID, err)
			}
			logs = append(logs, append(o, field{"text", nil}))
			continue
		}
		if tail > 0 {
			err = seekLines(f, tail)
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(f)
		}
		f.Close() // it was only read
		if err != nil {
			return fmt.Errorf("read the log of execution %d: %w", x.ExecID, err)
		}
		logs = append(logs, append(o, field{"text", string(text)}))
	}
	return WriteJSON(d.Out, object{{"task_id", id}, {"executions", logs}})
}

// logWriter is where log bytes go: as they are, or escaped for a terminal.
func (d *Desk) logWriter() *logWriter { return &logWriter{w: d.Out, escape: d.Style.Terminal} }

// logWriter escapes control characters for a terminal, line ends and tabs
// excepted, so that a log can't do with it what it likes.
type logWriter struct {
	w       io.Writer
	escape  bool
	partial []byte // the beginning of a character whose rest has not come yet
}

func (l *logWriter) Write(p []byte) (int, error) {
	if !l.escape {
		return l.w.Write(p)
	}
	text := append(l.partial, p...)
	whole := wholeRunes(text)
	l.partial = append([]byte(nil), text[whole:]...)
	text = bytes.ReplaceAll(text[:whole], []byte("\r\n"), []byte("\n"))
	if _, err := io.WriteString(l.w, screen.EscapeText(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what is left of a character that will not be completed.
func (l *logWriter) flush() error {
	if len(l.partial) == 0 {
		return nil
	}
	_, err := io.WriteString(l.w, screen.EscapeText(string(l.partial)))
	l.partial = nil
	return err
}

// wholeRunes is the length of text without a character that is cut at its end,
// and without a final \r whose \n may be still to come.
func wholeRunes(text []byte) int {
	end := len(text)
	if end > 0 && text[end-1] == '\r' {
		return end - 1
	}
	for i := 1; i <= utf8.UTFMax && i <= end; i++ {
		if b := text[end-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[end-i:]) {
				return end - i
			}
			break
		}
	}
	return end
}
