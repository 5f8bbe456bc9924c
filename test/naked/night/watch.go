package night

import (
	"database/sql"
	"fmt"
	"sort"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // a reader from outside
	"golang.org/x/sys/unix"
)

// row is what the watch remembers of an unfinished task.
type row struct {
	status, updated string
	execID          int64
	executions      int64
	control         bool
	before, after   int64 // the effects' size before and after the look
}

// still: nothing can have run between two looks that saw these.
func (r row) still(next row) bool {
	return r.status == next.status && r.updated == next.updated && r.execID == next.execID && r.executions == next.executions &&
		(r.status == "PENDING" || r.status == "RETRYING" || r.status == "PAUSED")
}

// watch looks into the database as a stranger, several times a second.
type watch struct {
	n  *night
	db *sql.DB

	mu      sync.Mutex
	live    map[string]row
	final   map[string]string // task → final status, once seen
	looked  time.Time
	wrong   []string
	lastErr error
}

func newWatch(n *night) (*watch, error) {
	db, err := sql.Open("sqlite3", "file:"+n.g.database()+"?mode=ro&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &watch{n: n, db: db, live: map[string]row{}, final: map[string]string{}}, nil
}

func (w *watch) run(stop <-chan struct{}) {
	t := time.NewTicker(150 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		w.n.cut.RLock()
		err := w.look()
		w.n.cut.RUnlock()
		w.mu.Lock()
		w.lastErr = err
		w.mu.Unlock()
	}
}

// detach closes the connection, so that the disk can be taken off; the next look
// opens another. Only under cut.
func (w *watch) detach() error {
	err := w.db.Close()
	db, err2 := sql.Open("sqlite3", "file:"+w.n.g.database()+"?mode=ro&_busy_timeout=5000")
	if err2 != nil {
		return err2
	}
	db.SetMaxOpenConns(1)
	w.db = db
	return err
}

// look reads the unfinished tasks, and what became of those that are no longer.
func (w *watch) look() error {
	w.n.eff.read()
	before := w.n.eff.size()
	rows, err := w.db.Query(`SELECT task_id, status, updated_at, coalesce(exec_id,0), executions, control IS NOT NULL
		FROM tasks WHERE status IN ('PENDING','RUNNING','RETRYING','PAUSED','LOST')`)
	if err != nil {
		return err
	}
	now := map[string]row{}
	for rows.Next() {
		var id string
		var r row
		if err := rows.Scan(&id, &r.status, &r.updated, &r.execID, &r.executions, &r.control); err != nil {
			return err
		}
		now[id] = r
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	after := w.n.eff.size()
	w.n.eff.read()
	return w.compare(now, before, after)
}

func (w *watch) compare(now map[string]row, before, after int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range now {
		r.before, r.after = before, after
		now[id] = r
		if was, ended := w.final[id]; ended {
			w.wrong = append(w.wrong, fmt.Sprintf("I14 %s: %s after it was %s", id, r.status, was))
		}
		if old, known := w.live[id]; known && old.still(r) {
			w.n.eff.still(id, r.status, old.after, before)
		}
	}
	for id := range w.live {
		if _, alive := now[id]; alive {
			continue
		}
		if err := w.end(id); err != nil {
			return err
		}
	}
	w.live, w.looked = now, time.Now()
	return nil
}

// end notes how a task ended.
func (w *watch) end(id string) error {
	var status string
	err := w.db.QueryRow("SELECT status FROM tasks WHERE task_id=?", id).Scan(&status)
	if err == sql.ErrNoRows && w.n.o.Pruned {
		w.final[id] = "pruned"
		return nil
	}
	if err == sql.ErrNoRows {
		w.wrong = append(w.wrong, fmt.Sprintf("I1 %s: its row is gone", id))
		return nil
	}
	if err != nil {
		return err
	}
	if isFinal(status) {
		w.final[id] = status
		w.n.eff.hasEnded(id, w.n.eff.size())
	}
	return nil
}

func isFinal(status string) bool {
	switch status {
	case "SUCCESS", "FAILED", "DEAD", "CANCELLED":
		return true
	}
	return false
}

func (w *watch) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.live)
}

// unfinished lists the tasks that have not ended.
func (w *watch) unfinished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for id, r := range w.live {
		list = append(list, id+" "+r.status)
	}
	sort.Strings(list)
	return list
}

// fresh reports that the last look is young and went well.
func (w *watch) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastErr == nil && time.Since(w.looked) < time.Second
}

// anyHeld reports tasks that wait for a person.
func (w *watch) anyHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.live {
		if r.status == "PAUSED" || r.control {
			return true
		}
	}
	return false
}

// some gives the ids of live tasks in a fixed order.
func (w *watch) some() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]string, 0, len(w.live))
	for id := range w.live {
		list = append(list, id)
	}
	sort.Strings(list)
	return list
}

func (w *watch) figures() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := 0
	for _, r := range w.live {
		if r.status == "RUNNING" {
			running++
		}
	}
	return fmt.Sprintf("done=%d running=%d open=%d", len(w.final), running, len(w.live))
}

// monotonic is the clock that the witnesses use; one machine has one.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("night: clock: " + err.Error())
	}
	return t.Nano()
}
