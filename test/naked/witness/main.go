// Command witness is a task that bears witness. It holds a lock of its task's own
// for as long as anything of it lives, so that a second execution beside it shows
// itself at once, and it writes what it does, a line an event, into the effects
// file, each with one O_APPEND write:
//
//	<monotonic ns> <task> <attempt> <event> <n> <pid>
//
// The events are START, STEP, ACK (a checkpoint was answered), STOP (the answer
// was to stop), END, and OVERLAP (the lock was held).
//
//	witness DIR [outside|shadow]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// payload says what this task does.
type payload struct {
	Steps int    `json:"steps"`
	MS    int    `json:"ms"`    // how long a step takes
	Every int    `json:"every"` // a checkpoint each so many steps; 0: never speaks
	Mode  string `json:"mode"`
}

// The modes beside the plain one.
const (
	modeChild  = "child"  // leaves a child of its own session that closed all descriptors but the witness's
	modeEscape = "escape" // leaves one without our environment that keeps descriptors 3 and 4
	modeDeaf   = "deaf"   // ignores TERM
	modeFail   = "fail"   // ends with exit status 1
	modeFatal  = "fatal"  // ends with exit status 65
)

// exitOverlap is what a second execution beside the first ends with.
const exitOverlap = 99

type witness struct {
	dir, task, attempt string
	effects            *os.File
	lock               *os.File
	socket             *os.File
	answers            *bufio.Reader
	p                  payload
}

func main() {
	if len(os.Args) > 2 && os.Args[2] == "shadow" {
		time.Sleep(5 * time.Minute) // it is killed long before
		return
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
	}
	os.Exit(code)
}

func run() (int, error) {
	w := &witness{dir: os.Args[1], task: os.Getenv("NIGHTSHIFT_TASK_ID"), attempt: os.Getenv("NIGHTSHIFT_ATTEMPT")}
	if err := json.Unmarshal([]byte(os.Getenv("NIGHTSHIFT_PAYLOAD")), &w.p); err != nil {
		return 1, fmt.Errorf("payload: %w", err)
	}
	if w.p.Mode == modeDeaf {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	var err error
	if w.effects, err = os.OpenFile(filepath.Join(w.dir, "effects"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return 1, err
	}
	if ok, err := w.lockTask(); err != nil || !ok {
		return exitOverlap, err
	}
	from, err := resume()
	if err != nil {
		return 1, err
	}
	w.say("START", from)
	w.socket = os.NewFile(3, "socket")
	w.answers = bufio.NewReader(w.socket)
	if err := w.leaveBehind(); err != nil {
		return 1, err
	}
	return w.work(from)
}

// lockTask takes the task's own lock. Who holds it is another execution.
func (w *witness) lockTask() (bool, error) {
	var err error
	w.lock, err = os.OpenFile(filepath.Join(w.dir, "witness", w.task), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	err = unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		w.say("OVERLAP", 0)
		return false, nil
	}
	return err == nil, err
}

func resume() (int, error) {
	text := os.Getenv("NIGHTSHIFT_CHECKPOINT")
	if text == "" {
		return 0, nil
	}
	var c struct{ N int }
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return c.N, nil
}

func (w *witness) work(from int) (int, error) {
	for n := from + 1; n <= w.p.Steps; n++ {
		time.Sleep(time.Duration(w.p.MS) * time.Millisecond)
		w.say("STEP", n)
		if w.p.Every == 0 || (n%w.p.Every != 0 && n != w.p.Steps) {
			continue
		}
		goOn, err := w.checkpoint(n)
		if err != nil {
			return 1, err
		}
		if !goOn {
			w.say("STOP", n)
			return 0, nil
		}
		w.say("ACK", n)
	}
	switch w.p.Mode {
	case modeFail:
		return 1, errors.New("fails, as it was told to")
	case modeFatal:
		return 65, errors.New("fails for good, as it was told to")
	}
	w.say("END", w.p.Steps)
	fmt.Printf("{\"steps\":%d}\n", w.p.Steps)
	return 0, nil
}

func (w *witness) checkpoint(n int) (goOn bool, err error) {
	if _, err := fmt.Fprintf(w.socket, "{\"checkpoint\":{\"n\":%d},\"progress\":\"%d/%d\"}\n", n, n, w.p.Steps); err != nil {
		return false, fmt.Errorf("checkpoint %d: %w", n, err)
	}
	answer, err := w.answers.ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("answer to checkpoint %d: %w", n, err)
	}
	switch {
	case strings.Contains(answer, `"stop"`):
		return false, nil
	case strings.Contains(answer, `"ok":true`):
		return true, nil
	default:
		return false, fmt.Errorf("answer to checkpoint %d: %s", n, strings.TrimSpace(answer))
	}
}

// leaveBehind starts what must not outlive the task. It inherits the witness's
// lock, so that the next execution meets it if it does.
func (w *witness) leaveBehind() error {
	if w.p.Mode != modeChild && w.p.Mode != modeEscape {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	shadow := exec.Command(self, w.dir, "shadow")
	shadow.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	shadow.ExtraFiles = []*os.File{w.lock}
	if w.p.Mode == modeEscape { // as `env -i setsid command >/dev/null 2>&1 &` in a script
		shadow.Env = []string{"PATH=/usr/bin:/bin"}
		shadow.ExtraFiles = []*os.File{w.socket, os.NewFile(4, "slot lock"), w.lock}
	}
	return shadow.Start()
}

func (w *witness) say(event string, n int) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("witness: clock: " + err.Error())
	}
	line := fmt.Sprintf("%d %s %s %s %d %d\n", now.Nano(), w.task, w.attempt, event, n, os.Getpid())
	if _, err := w.effects.WriteString(line); err != nil {
		panic("witness: effects: " + err.Error())
	}
}
