package night

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// transitions is the table of the state machine, written down here a second time,
// so that a mistake in the product's own table shows.
var transitions = map[string]string{
	"PENDING>RUNNING": "claimed", "PENDING>CANCELLED": "user_cancel",
	"RUNNING>SUCCESS": "done", "RUNNING>FAILED": "fatal_error",
	"RUNNING>RETRYING": "retryable_error timeout lease_expired",
	"RUNNING>PAUSED":   "user_pause", "RUNNING>CANCELLED": "user_cancel",
	"RUNNING>LOST":     "worker_crash worker_offline",
	"RETRYING>RUNNING": "claimed", "RETRYING>DEAD": "retries_exhausted", "RETRYING>CANCELLED": "user_cancel",
	"PAUSED>RUNNING": "user_resume", "PAUSED>CANCELLED": "user_cancel",
	"LOST>PENDING": "takeover", "LOST>RUNNING": "worker_back", "LOST>DEAD": "crashes_exhausted",
}

// final is a task as it stands at the end.
type final struct {
	status, reason               string
	retries, executions, crashes int64
	maxRetry                     int64
}

// check looks at what is left when all is quiet and every process is gone.
func (n *night) check(v *Verdict) []string {
	db, err := sql.Open("sqlite3", "file:"+n.g.database()+"?_busy_timeout=5000&_synchronous=FULL")
	if err != nil {
		return []string{"I8 " + err.Error()}
	}
	defer db.Close() // a checker's connection; nothing was written
	wrong := n.checkFile(db)
	n.nem.mu.Lock()
	wrong = append(wrong, n.nem.wrong...)
	n.nem.mu.Unlock()
	tasks, err := readFinals(db)
	if err != nil {
		return append(wrong, "I8 "+err.Error())
	}
	accepted := n.sub.all()
	v.Tasks = len(accepted)
	if n.o.Still {
		v.Tasks = len(tasks)
	}
	v.Ended = map[string]int{}
	for id, t := range tasks {
		v.Ended[t.status]++
		if !isFinal(t.status) {
			wrong = append(wrong, fmt.Sprintf("I1 %s has not ended: %s", id, t.status))
		}
		if t.status == "DEAD" && t.reason == "crashes_exhausted" {
			v.Condemned++
			if t.crashes < maxCrashes {
				wrong = append(wrong, fmt.Sprintf("I5 %s: condemned after %d crashes of %d", id, t.crashes, maxCrashes))
			}
		}
	}
	for i := range accepted {
		wrong = append(wrong, n.checkAccepted(&accepted[i], tasks)...)
	}
	wrong = append(wrong, n.checkEvents(db, tasks, v)...)
	n.eff.mu.Lock()
	wrong = append(wrong, n.eff.wrong...)
	n.eff.mu.Unlock()
	n.watch.mu.Lock()
	wrong = append(wrong, n.watch.wrong...)
	for id, was := range n.watch.final {
		if t, ok := tasks[id]; ok && t.status != was || !ok && !n.o.Pruned {
			wrong = append(wrong, fmt.Sprintf("I14 %s: %s after it was %s", id, t.status, was))
		}
	}
	n.watch.mu.Unlock()
	return wrong
}

// maxWAL is what the log may take after a clean end: it is checkpointed at 1,000 pages.
const maxWAL = 64 << 20

// checkFile: the file itself (I8).
func (n *night) checkFile(db *sql.DB) []string {
	var wrong []string
	var word string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&word); err != nil || word != "ok" {
		wrong = append(wrong, fmt.Sprintf("I8 integrity_check: %s %v", word, err))
	}
	var table sql.NullString
	if err := db.QueryRow("PRAGMA foreign_key_check").Scan(&table); err != sql.ErrNoRows {
		wrong = append(wrong, fmt.Sprintf("I8 foreign_key_check: %s %v", table.String, err))
	}
	if st, err := os.Stat(n.g.database() + "-wal"); err == nil && st.Size() > maxWAL {
		wrong = append(wrong, fmt.Sprintf("I8 the WAL has %d bytes", st.Size()))
	}
	return wrong
}

func readFinals(db *sql.DB) (map[string]final, error) {
	rows, err := db.Query("SELECT task_id, status, coalesce(reason,''), retry_count, executions, crash_count, max_retry FROM tasks")
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Err is looked at
	tasks := map[string]final{}
	for rows.Next() {
		var id string
		var t final
		if err := rows.Scan(&id, &t.status, &t.reason, &t.retries, &t.executions, &t.crashes, &t.maxRetry); err != nil {
			return nil, err
		}
		tasks[id] = t
	}
	return tasks, rows.Err()
}

// checkAccepted: what was accepted is there, ended as it had to, and did its work
// (I1, I5, I7).
func (n *night) checkAccepted(a *accepted, tasks map[string]final) []string {
	t, ok := tasks[a.id]
	if !ok && n.o.Pruned && n.watch.final[a.id] != "" {
		return nil // it had ended, and its time was up
	}
	if !ok {
		return []string{fmt.Sprintf("I1 %s (%s, by %s) was accepted and is not there", a.id, a.kind.name, a.via)}
	}
	var wrong []string
	condemned := t.status == "DEAD" && t.reason == "crashes_exhausted"
	if isFinal(t.status) && t.status != a.kind.want && !condemned && (t.status != "CANCELLED" || !n.nem.cancelled(a.id)) {
		wrong = append(wrong, fmt.Sprintf("I1 %s (%s) ended %s (%s), not %s", a.id, a.kind.name, t.status, t.reason, a.kind.want))
	}
	// The count rises with the change to RETRYING, DEAD is one change further on.
	if t.status == "DEAD" && !condemned && t.retries != t.maxRetry+1 {
		wrong = append(wrong, fmt.Sprintf("I5 %s: DEAD with retry_count %d of %d", a.id, t.retries, t.maxRetry))
	}
	if a.kind.steps > 0 {
		wrong = append(wrong, n.eff.checkTask(a, &t)...)
	}
	if a.kind.typ == "fetch_data" && t.status == "SUCCESS" {
		wrong = append(wrong, n.g.checkFetched(a.id)...)
	}
	return wrong
}

// checkTask: the whole testimony of one task.
func (e *effects) checkTask(a *accepted, f *final) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[a.id]
	if t == nil {
		t = &testimony{}
	}
	var wrong []string
	if int64(t.attempts) > f.executions {
		wrong = append(wrong, fmt.Sprintf("I5 %s: %d starts, %d executions counted", a.id, t.attempts, f.executions))
	}
	if a.kind.every > 0 {
		if most := a.kind.every * max(t.attempts-1, 0); t.repeats > most {
			wrong = append(wrong, fmt.Sprintf("I7 %s: %d steps repeated in %d attempts, at most %d", a.id, t.repeats, t.attempts, most))
		}
	}
	if f.status != "SUCCESS" {
		return wrong
	}
	for k := 1; k <= a.kind.steps; k++ {
		if k >= len(t.done) || !t.done[k] {
			wrong = append(wrong, fmt.Sprintf("I7 %s: SUCCESS without step %d", a.id, k))
			break
		}
	}
	if t.ends == 0 {
		wrong = append(wrong, fmt.Sprintf("I7 %s: SUCCESS without an end", a.id))
	}
	return wrong
}

// checkFetched: every item once, in order.
func (g *ground) checkFetched(id string) []string {
	files, err := filepath.Glob(filepath.Join(g.data, "*", id+".jsonl"))
	if err != nil || len(files) != 1 {
		return []string{fmt.Sprintf("I7 %s: %d files of its own, %v", id, len(files), err)}
	}
	f, err := os.Open(files[0])
	if err != nil {
		return []string{"I7 " + err.Error()}
	}
	defer f.Close() // opened for reading
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var item struct{ ID int64 }
		if err := json.Unmarshal(s.Bytes(), &item); err != nil || item.ID != firstID+2*int64(n) {
			return []string{fmt.Sprintf("I7 %s: line %d is item %d (%v), not %d", id, n+1, item.ID, err, firstID+2*int64(n))}
		}
	}
	if n != fetchItems {
		return []string{fmt.Sprintf("I7 %s: %d items of %d", id, n, fetchItems)}
	}
	return nil
}

// event is a row of task_events.
type event struct {
	task, from, to, reason string
	exec                   int64
}

// checkEvents: every change is in the table, they form one chain for each task
// that ends where the row stands, an execution ends once, and the counts agree
// with them (I3, I4, I5).
func (n *night) checkEvents(db *sql.DB, tasks map[string]final, v *Verdict) []string {
	events, err := readEvents(n.g.out("kept.db"), db)
	if err != nil {
		return []string{"I8 " + err.Error()}
	}
	var wrong []string
	at := map[string]string{}
	retries := map[string]int64{}  // the task's own failures
	expiries := map[string]int64{} // leases that ran out: they cost nothing where the machine was away
	ended := map[int64]string{}
	for i := range events {
		e := &events[i]
		change := e.from + ">" + e.to
		if !hasWord(transitions[change], e.reason) {
			wrong = append(wrong, fmt.Sprintf("I3 %s: %s (%s) is not in the table", e.task, change, e.reason))
		}
		if was, known := at[e.task]; known && was != e.from || !known && e.from != "PENDING" && e.from != "PAUSED" {
			wrong = append(wrong, fmt.Sprintf("I3 %s: %s after %q", e.task, change, was))
		}
		at[e.task] = e.to
		if e.from == "RUNNING" && e.to != "LOST" && e.exec > 0 {
			if before := ended[e.exec]; before != "" {
				wrong = append(wrong, fmt.Sprintf("I4 %s: execution %d ended twice: %s and %s", e.task, e.exec, before, e.to))
			}
			ended[e.exec] = e.to
		}
		switch {
		case e.reason == "lease_expired":
			expiries[e.task]++
		case e.to == "RETRYING":
			retries[e.task]++
		case e.reason == "takeover":
			v.Takeovers++
		}
	}
	for id, t := range tasks {
		if was, known := at[id]; known && was != t.status {
			wrong = append(wrong, fmt.Sprintf("I3 %s: the row says %s, its last event %s", id, t.status, was))
		}
		if (t.retries < retries[id] || t.retries > retries[id]+expiries[id]) && !n.o.Pruned {
			wrong = append(wrong, fmt.Sprintf("I5 %s: retry_count %d after %d failures and %d expired leases", id, t.retries, retries[id], expiries[id]))
		}
	}
	if err := db.QueryRow("SELECT count(*) FROM exec_history WHERE outcome='interrupted'").Scan(&v.Resumes); err != nil {
		wrong = append(wrong, "I8 "+err.Error())
	}
	return wrong
}

func hasWord(list, word string) bool {
	for _, w := range strings.Fields(list) {
		if w == word {
			return true
		}
	}
	return false
}

// readEvents reads what was moved away, then what is there.
func readEvents(kept string, db *sql.DB) ([]event, error) {
	var events []event
	take := func(db *sql.DB, order string) error {
		rows, err := db.Query("SELECT task_id, from_status, to_status, reason, coalesce(exec_id,0) FROM task_events ORDER BY " + order)
		if err != nil {
			return err
		}
		defer rows.Close() // Err is looked at
		for rows.Next() {
			var e event
			if err := rows.Scan(&e.task, &e.from, &e.to, &e.reason, &e.exec); err != nil {
				return err
			}
			events = append(events, e)
		}
		return rows.Err()
	}
	if exists(kept) {
		old, err := sql.Open("sqlite3", "file:"+kept+"?mode=ro")
		if err != nil {
			return nil, err
		}
		defer old.Close() // opened for reading
		if err := take(old, "n"); err != nil {
			return nil, err
		}
	}
	return events, take(db, "event_id")
}
