package store

import (
	"context"
	"database/sql/driver"
	"reflect"
	"strings"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// explain gives the query plan of a statement, one line a step.
func explain(t *testing.T, c *conn, q *query) []string {
	t.Helper()
	st, err := c.c.Prepare("EXPLAIN QUERY PLAN " + q.sql)
	if err != nil {
		t.Fatalf("%s: %v", q.sql, err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := st.(*sqlite3.SQLiteStmt).QueryContext(context.Background(), c.named(make([]any, st.NumInput())))
	if err != nil {
		t.Fatalf("%s: %v", q.sql, err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	var plan []string
	dest := make([]driver.Value, 4)
	for rows.Next(dest) == nil {
		plan = append(plan, row(dest).text(3))
	}
	return plan
}

// TestSC01PlansOfTheHotPath: each statement that a claim, a checkpoint or an end
// runs goes by an index, and reads no row that it does not need.
func TestSC01PlansOfTheHotPath(t *testing.T) {
	s := newStore(t, Options{})
	c := rawConn(t, s.Path())
	const (
		claim  = "SEARCH tasks USING INDEX idx_tasks_claim "
		status = "SEARCH tasks USING INDEX idx_tasks_status_next_run "
		id     = "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (task_id=?)"
		rowid  = "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"
	)
	for name, p := range map[string]struct {
		q    *query
		want string
	}{
		"first priority":   {sqlFirstPriority, "SEARCH tasks USING COVERING INDEX idx_tasks_claim (task_type=?)|" + claim + "(task_type=?)"},
		"next priority":    {sqlNextPriority, "SEARCH tasks USING COVERING INDEX idx_tasks_claim (task_type=? AND priority>?)|" + claim + "(task_type=? AND priority>?)"},
		"candidates":       {sqlCandidates, claim + "(task_type=? AND priority=?)"},
		"active types":     {sqlActiveTypes, status + "(status=?)"},
		"suspects":         {sqlSuspects, status + "(status=?)"},
		"claim":            {sqlClaim.sizes[5], rowid},
		"claim paused":     {sqlClaimPaused, rowid},
		"succeed":          {sqlSucceedAll.sizes[5], id},
		"succeed with":     {sqlSucceedAllWith.sizes[5], id},
		"finish":           {sqlFinish, id},
		"retry":            {sqlFinishRetry, id},
		"exhausted":        {sqlRetriesExhausted, id},
		"pause":            {sqlFinishPause, id},
		"owned":            {sqlOwned, id},
		"back":             {sqlWorkerBack, id},
		"history":          {sqlCloseHistory.sizes[5], "SEARCH exec_history USING INTEGER PRIMARY KEY (rowid=?)"},
		"checkpoint":       {sqlCheckpoint, id},
		"progress":         {sqlProgress, id},
		"renew":            {sqlRenew, id},
		"controls":         {sqlControls, status + "(status=?)"},
		"owners":           {sqlOwners, "SEARCH t USING INDEX idx_tasks_status_next_run (status=?)"},
		"own rows":         {sqlOwnRows, status + "(status=?)"},
		"executor rows":    {sqlExecutorRows, status + "(status=?)"},
		"far retries":      {sqlFarRetries, status + "(status=? AND next_run_time>?)"},
		"stamped ahead":    {sqlStampedAhead, status + "(status=? AND next_run_time>? AND next_run_time<?)"},
		"retrying beyond":  {sqlRetryingBeyond, status + "(status=?)"},
		"let go":           {sqlLetGoAll, "idx_tasks_held"},
		"unfinished":       {sqlUnfinished, "SEARCH tasks USING INDEX idx_tasks_schedule (schedule=? AND status=?)"},
		"key":              {sqlKeyHolder, "SEARCH tasks USING INDEX idx_tasks_unique_key (unique_key=?)"},
		"count":            {countAll.all, "SEARCH tasks USING COVERING INDEX idx_tasks_status_next_run (status=?)"},
		"count a few":      {countAll.upTo, "SEARCH tasks USING COVERING INDEX idx_tasks_status_next_run (status=?)"},
		"count due":        {countDue.all, "SEARCH tasks USING COVERING INDEX idx_tasks_status_next_run (status=? AND next_run_time<?)"},
		"count later":      {countLater.all, "SEARCH tasks USING COVERING INDEX idx_tasks_status_next_run (status=? AND next_run_time>?)"},
		"prunable":         {sqlPrunable, "SEARCH t USING INDEX idx_tasks_status_next_run (status=? AND next_run_time"},
		"rerun":            {sqlRerunExists, "SEARCH tasks USING COVERING INDEX idx_tasks_rerun_of (rerun_of=?)"},
		"history of":       {sqlHistory, "SEARCH exec_history USING INDEX idx_exec_history_task (task_id=?)"},
		"events of":        {sqlEvents, "SEARCH task_events USING INDEX idx_task_events_task (task_id=?)"},
		"occurrences":      {sqlOccurrences, "sqlite_autoindex_tasks_1 (task_id>? AND task_id<?)"},
		"list":             {sqlScanLean, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"rowids":           {sqlRowids, "SEARCH tasks USING COVERING INDEX idx_tasks_status_next_run (status=?)"},
		"due":              {sqlDueOldest, status + "(status=? AND next_run_time<?)"},
		"newest events":    {sqlEventsBack, "SEARCH task_events USING INTEGER PRIMARY KEY (rowid<?)"},
		"skips":            {sqlSkips, "SEARCH schedule_skips USING PRIMARY KEY (schedule=?)"},
		"failed lately":    {sqlFailedCount, "SEARCH tasks USING COVERING INDEX idx_tasks_failed (updated_at>?)"},
		"newest failures":  {sqlFailedNewest, "SEARCH tasks USING INDEX idx_tasks_failed (updated_at>?)"},
		"history of prune": {sqlPruneHistory, "SEARCH exec_history USING COVERING INDEX idx_exec_history_task (task_id=?)|idx_exec_history_task (task_id=?)"},
	} {
		plan := strings.Join(explain(t, c, p.q), "\n")
		found := false
		for _, want := range strings.Split(p.want, "|") {
			found = found || strings.Contains(plan, want)
		}
		if !found {
			t.Errorf("%s:\n%s\nplan: %s\nwant: %s", name, p.q.sql, plan, p.want)
		}
		for _, step := range strings.Split(plan, "\n") {
			if strings.HasPrefix(step, "SCAN tasks") {
				t.Errorf("%s scans: %s", name, step)
			}
		}
		sorted := strings.Contains(plan, "TEMP B-TREE FOR ORDER BY")
		if few := name == "own rows"; sorted && !few {
			t.Errorf("%s sorts: %s", name, plan)
		}
	}
}

// TestNoStatementIsPreparedTwice: SQLite prepares a statement anew each time that a
// value is bound which its planner has looked at; in the hot path that cost more than
// the statement.
func TestNoStatementIsPreparedTwice(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, make([]NewTask, 64)...)
	var done []Finish
	for range 16 {
		r, err := s.Turn(done, claimFor("w1.1", "w1.2", "w1.3", "w1.4"))
		if err != nil {
			t.Fatal(err)
		}
		done = done[:0]
		for i := range r.Claimed {
			f := r.Claimed[i].Fence()
			if _, err := s.Checkpoint(f, `{}`, "", time.Time{}); err != nil {
				t.Fatal(err)
			}
			done = append(done, Finish{Fence: f, Verdict: Succeed})
		}
		if _, err := s.Controls("w1"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Foreign("w1"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.NextDue(anyType); err != nil {
			t.Fatal(err)
		}
	}
	look := func(c *conn) error {
		for i, st := range c.stmts {
			if st == nil {
				continue
			}
			if n := reflect.ValueOf(st).Elem().FieldByName("repreps"); n.IsValid() && n.Int() > 1 {
				t.Errorf("prepared anew %d times: %s", n.Int(), queries[i].sql)
			}
		}
		return nil
	}
	if err := s.write("look", &op{run: look}); err != nil {
		t.Fatal(err)
	}
	if err := s.read("look", look); err != nil {
		t.Fatal(err)
	}
}

// TestEveryStatementPrepares, so that none waits for its first use at night to fail.
func TestEveryStatementPrepares(t *testing.T) {
	c := rawConn(t, newDB(t))
	for _, q := range queries {
		if _, err := c.stmt(q); err != nil {
			t.Error(err)
		}
	}
}
