package night

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// effects reads the file in which the tasks testify, and judges it: overlaps (I2),
// resumes (I6) and steps (I7), and that nothing happens to a task that the
// database says is not running (I2, I14).
type effects struct {
	path  string
	tally *tally

	mu      sync.Mutex
	offset  int64
	rest    []byte
	tasks   map[string]*testimony
	unsure  bool // the power is off or going: an answer may be a lie of the disk
	wrong   []string
	overlap int
	late    int
	repeats int
	kills   map[string]int64 // task → when its worker was killed
	again   []int64          // ns from a worker's kill to the task's next start
}

// testimony is what one task has said.
type testimony struct {
	attempts int
	attempt  int64
	from     int // where this attempt began
	last     int // the last step of this attempt
	reached  int // the furthest step ever
	acked    int // the last step known to be on disk
	done     []bool
	repeats  int
	ends     int
	finalAt  int64 // size of the file when the task was seen to have ended; 0: not yet
	lines    []int64
}

func newEffects(path string, t *tally) *effects {
	return &effects{path: path, tally: t, tasks: map[string]*testimony{}, kills: map[string]int64{}}
}

// size is how much has been said until now.
func (e *effects) size() int64 {
	st, err := os.Stat(e.path)
	if err != nil {
		return 0 // nothing yet
	}
	return st.Size()
}

// read takes in what is new.
func (e *effects) read() {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, err := os.Open(e.path)
	if err != nil {
		return // nothing yet
	}
	defer f.Close() // opened for reading
	buf := make([]byte, 1<<20)
	for {
		n, err := f.ReadAt(buf, e.offset+int64(len(e.rest)))
		e.rest = append(e.rest, buf[:n]...)
		e.take()
		if err != nil || n == 0 {
			return
		}
	}
}

// take judges the whole lines of rest.
func (e *effects) take() {
	for {
		i := bytes.IndexByte(e.rest, '\n')
		if i < 0 {
			return
		}
		e.line(string(e.rest[:i]), e.offset)
		e.rest = e.rest[i+1:]
		e.offset += int64(i + 1)
	}
}

func (e *effects) line(text string, at int64) {
	f := strings.Fields(text)
	if len(f) != 6 {
		e.bad("I7 a line of the effects is not whole: %q", text)
		return
	}
	ns, err1 := strconv.ParseInt(f[0], 10, 64)
	attempt, err2 := strconv.ParseInt(f[2], 10, 64)
	n, err3 := strconv.Atoi(f[4])
	if err1 != nil || err2 != nil || err3 != nil {
		e.bad("I7 a line of the effects is not whole: %q", text)
		return
	}
	switch f[3] {
	case "CUT":
		e.unsure = true
		return
	case "UP":
		e.unsure = false
		return
	}
	t := e.tasks[f[1]]
	if t == nil {
		t = &testimony{}
		e.tasks[f[1]] = t
	}
	t.lines = append(t.lines, at)
	if t.finalAt > 0 && at >= t.finalAt {
		e.late++
		e.bad("I2 %s: %q after the database said that it had ended", f[1], text)
	}
	e.judge(f[1], t, f[3], ns, attempt, n)
}

func (e *effects) judge(id string, t *testimony, event string, ns, attempt int64, n int) {
	switch event {
	case "OVERLAP":
		e.overlap++
		e.bad("I2 %s: attempt %d met another execution", id, attempt)
	case "START":
		e.start(id, t, ns, attempt, n)
	case "STEP":
		e.step(id, t, attempt, n)
	case "ACK", "STOP": // a stop's state is durable, too
		if n != t.last {
			e.bad("I7 %s: checkpoint %d answered after step %d", id, n, t.last)
		}
		if !e.unsure {
			t.acked = max(t.acked, n)
		}
	case "END":
		t.ends++
	default:
		e.bad("I7 %s: unknown event %s", id, event)
	}
}

func (e *effects) start(id string, t *testimony, ns, attempt int64, n int) {
	t.attempts++
	if attempt <= t.attempt {
		e.bad("I4 %s: attempt %d after attempt %d", id, attempt, t.attempt)
	}
	if n < t.acked {
		e.bad("I6 %s: attempt %d begins at %d, though checkpoint %d was acknowledged", id, attempt, n, t.acked)
	}
	if n > t.reached {
		e.bad("I6 %s: attempt %d begins at %d, though only %d steps were made", id, attempt, n, t.reached)
	}
	t.attempt, t.from, t.last = attempt, n, n
	if killed, ok := e.kills[id]; ok && ns > killed {
		e.again = append(e.again, ns-killed)
		delete(e.kills, id)
	}
}

func (e *effects) step(id string, t *testimony, attempt int64, n int) {
	if attempt != t.attempt {
		e.bad("I2 %s: attempt %d makes step %d while attempt %d has begun", id, attempt, n, t.attempt)
		return
	}
	if n != t.last+1 {
		e.bad("I7 %s: step %d after step %d", id, n, t.last)
	}
	for len(t.done) <= n {
		t.done = append(t.done, false)
	}
	if t.done[n] {
		t.repeats++
		e.repeats++
	}
	t.done[n] = true
	t.last = n
	t.reached = max(t.reached, n)
}

// bad notes a violation; a flood is cut off.
func (e *effects) bad(format string, args ...any) {
	if len(e.wrong) < 200 {
		e.wrong = append(e.wrong, fmt.Sprintf(format, args...))
	}
}

// hasEnded tells that the task was seen to have ended when the file had this size.
func (e *effects) hasEnded(id string, size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[id]
	if t == nil {
		t = &testimony{}
		e.tasks[id] = t
	}
	t.finalAt = max(size, 1)
	delete(e.kills, id) // it ended before its worker was killed: there is nothing to time
}

// still tells that a task did not run between two looks, when the file had these
// sizes: nothing of it may lie between them.
func (e *effects) still(id, status string, from, to int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[id]
	if t == nil || from >= to {
		return
	}
	i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i] >= from })
	if i < len(t.lines) && t.lines[i] < to {
		e.late++
		e.bad("I2 %s: an effect at byte %d, while it was %s from %d to %d", id, t.lines[i], status, from, to)
	}
}

// killed notes that the worker of these tasks was killed now.
func (e *effects) killed(now int64, tasks []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range tasks {
		if _, waiting := e.kills[id]; !waiting {
			e.kills[id] = now
		}
	}
}

// mark writes a line of the night's own.
func (e *effects) mark(event string) {
	f, err := os.OpenFile(e.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic("night: effects: " + err.Error())
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d - 0 %s 0 0\n", monotonic(), event); err != nil {
		panic("night: effects: " + err.Error())
	}
}
