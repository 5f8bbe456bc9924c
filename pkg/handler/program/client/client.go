// Package client speaks to Nightshift from inside a task's program: it is what
// `nightshift checkpoint` and `nightshift still-mine` are made of, and a Go program
// may use it, too.
//
// A child of the program inherits descriptor 3 and speaks on it as the program
// does. Several may speak at a time: the turn is a lock on the task's directory.
package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// What a stop reply says: the program should come to its end now, after undoing
// what it must.
var (
	ErrCancelled = &Stop{"cancel"}
	ErrPaused    = &Stop{"pause"}
	ErrStopping  = &Stop{"shutdown"}
	ErrLost      = &Stop{"lost"}
)

// Stop is the error of a stop reply; compare with errors.Is.
type Stop struct{ Word string }

func (s *Stop) Error() string {
	switch s.Word {
	case "cancel":
		return "stop: the task was cancelled"
	case "pause":
		return "stop: the task was paused"
	case "shutdown":
		return "stop: the worker is stopping, the task goes on from its checkpoint later"
	default:
		return "stop: the task is no longer this program's"
	}
}

// Is compares by the word.
func (s *Stop) Is(target error) bool {
	t, ok := target.(*Stop)
	return ok && t.Word == s.Word
}

// ErrNoTask says that this process does not run inside a task.
var ErrNoTask = errors.New("not inside a task: NIGHTSHIFT_FD is not set, or its descriptor is not Nightshift's socket " +
	"(a Python program must start this command with pass_fds=(3,), Node with stdio: [0, 1, 2, 3])")

// Client is the connection to the worker. Its methods may be called from several
// goroutines.
type Client struct {
	fd   int
	turn *os.File // the task's directory, for the lock; nil: nobody else speaks
}

// Connect finds the socket that this process has inherited.
func Connect() (*Client, error) {
	fd, err := strconv.Atoi(os.Getenv("NIGHTSHIFT_FD"))
	if err != nil || fd < 3 {
		return nil, ErrNoTask
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, ErrNoTask
	}
	syscall.CloseOnExec(fd)
	c := &Client{fd: fd}
	if dir := os.Getenv("NIGHTSHIFT_TASK_DIR"); dir != "" {
		if c.turn, err = os.Open(dir); err != nil {
			return nil, fmt.Errorf("the task's directory: %w", err)
		}
	}
	return c, nil
}

// Put stores a checkpoint, any JSON value, and a line of progress for people;
// either may be empty. It is durable when Put returns nil or a *Stop.
func (c *Client) Put(state []byte, progress string) error {
	var b bytes.Buffer
	b.WriteByte('{')
	if len(state) > 0 {
		if !json.Valid(state) {
			return fmt.Errorf("the checkpoint is not valid JSON: %.100s", state)
		}
		b.WriteString(`"checkpoint":`)
		for _, ch := range bytes.TrimSpace(state) { // a line break stands between tokens only
			if ch == '\n' || ch == '\r' {
				ch = ' '
			}
			b.WriteByte(ch)
		}
	}
	if progress != "" {
		text, err := json.Marshal(progress)
		if err != nil {
			return fmt.Errorf("progress: %w", err)
		}
		if len(state) > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"progress":`)
		b.Write(text)
	}
	b.WriteByte('}')
	_, err := c.say(b.Bytes())
	return err
}

// Get returns the last stored checkpoint; nil: there is none.
func (c *Client) Get() ([]byte, error) {
	r, err := c.say([]byte(`{"ask":"checkpoint"}`))
	if err != nil || string(r.Checkpoint) == "null" {
		return nil, err
	}
	return r.Checkpoint, nil
}

// StillMine asks whether the work should go on: nil, or a *Stop.
func (c *Client) StillMine() error {
	_, err := c.say([]byte(`{"ask":"still-mine"}`))
	return err
}

// reply is one line of the worker's.
type reply struct {
	OK         bool
	Stop       string
	Error      string
	Checkpoint json.RawMessage
}

// say sends a line and reads the line that answers it.
func (c *Client) say(line []byte) (r reply, err error) {
	if c.turn != nil {
		if err := flock(c.turn, syscall.LOCK_EX); err != nil {
			return r, fmt.Errorf("wait for the turn to speak: %w", err)
		}
		defer func() {
			// It fails only on a closed file; the end of the process frees it, too.
			_ = flock(c.turn, syscall.LOCK_UN)
		}()
	}
	if err := c.write(append(line, '\n')); err != nil {
		return r, fmt.Errorf("descriptor %d: %w", c.fd, err)
	}
	answer, err := c.readLine()
	if err != nil {
		return r, fmt.Errorf("descriptor %d: %w", c.fd, err)
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("descriptor %d: %.100q is no reply: %w", c.fd, answer, err)
	}
	switch {
	case r.Error != "":
		return r, errors.New(r.Error)
	case r.Stop != "":
		return r, &Stop{r.Stop}
	}
	return r, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

func (c *Client) write(p []byte) error {
	for len(p) > 0 {
		n, err := syscall.Write(c.fd, p)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// readLine reads to the end of one line and not a byte further: what follows is the
// answer to somebody else's.
func (c *Client) readLine() ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := syscall.Read(c.fd, one)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return nil, errors.New("the worker is gone")
		case one[0] == '\n':
			return line, nil
		default:
			line = append(line, one[0])
		}
	}
}
