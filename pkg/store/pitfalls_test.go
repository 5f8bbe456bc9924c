package store

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

// The pitfalls of SQLite under this driver, one test each. What could be reproduced
// is shown first, then that the store does not fall into it.

func openRaw(t *testing.T, dsn string) *conn {
	t.Helper()
	dc, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{c: dc.(*sqlite3.SQLiteConn), stmts: make([]*sqlite3.SQLiteStmt, len(queries))}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func pragma(t *testing.T, c *conn, name string) string {
	t.Helper()
	v, err := c.pragma("PRAGMA " + name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestP01: WAL by the driver's DSN means synchronous=NORMAL; the writer has FULL.
func TestP01SynchronousIsFull(t *testing.T) {
	if got := pragma(t, openRaw(t, "file:"+newDB(t)+"?_journal_mode=WAL"), "synchronous"); got != "1" {
		t.Logf("the driver's default is %s by now", got)
	}
	s := newStore(t, Options{})
	err := s.write("look", &op{run: func(c *conn) error {
		if got, err := c.pragma("PRAGMA synchronous"); err != nil || got != "2" {
			return fmt.Errorf("synchronous is %s, %v", got, err)
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

// TestP02: a mistyped key is ignored in silence; what was set is read back.
func TestP02SettingsAreReadBack(t *testing.T) {
	c := openRaw(t, "file:"+newDB(t)+"?_syncronous=FULL")
	if got := pragma(t, c, "synchronous"); got != "1" {
		t.Logf("the mistyped key made it %s", got)
	}
	wantErr(t, configure(c, []setting{{"syncronous", "FULL", "2"}}), "syncronous", `"2"`)
	wantErr(t, configure(c, []setting{{"journal_mode", "OFF", "wal"}}), "journal_mode", "wal")
}

// TestP03: a pragma reaches one connection; here each connection gets its own. P26
// is in it: temporary files stay in memory.
func TestP03EveryConnectionIsSet(t *testing.T) {
	s := newStore(t, Options{})
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for range maxReaders {
		wg.Go(func() {
			err := s.read("look", func(c *conn) error {
				<-gate // all of them at once
				if v, err := c.pragma("PRAGMA query_only"); err != nil || v != "1" {
					t.Errorf("query_only is %s, %v", v, err)
				}
				return configure(c, []setting{{"trusted_schema", "", "0"}, {"cell_size_check", "", "1"}, {"temp_store", "", "2"}})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(gate)
	wg.Wait()
	if err := s.write("look", &op{run: func(c *conn) error {
		return configure(c, []setting{{"journal_mode", "", "wal"}, {"synchronous", "", "2"}, {"temp_store", "", "2"}, {"recursive_triggers", "", "0"}})
	}}); err != nil {
		t.Error(err)
	}
}

// TestP04: a read transaction that turns to writing fails at once when another has
// committed meanwhile (SQLITE_BUSY_SNAPSHOT); the writer begins with the write lock.
func TestP04TransactionsAreImmediate(t *testing.T) {
	path := newDB(t)
	a, b := rawConn(t, path), rawConn(t, path)
	if err := a.script("BEGIN; SELECT count(*) FROM tasks"); err != nil {
		t.Fatal(err)
	}
	if err := b.script("INSERT INTO tasks(task_type) VALUES('a')"); err != nil {
		t.Fatal(err)
	}
	var se sqlite3.Error
	if err := a.script("INSERT INTO tasks(task_type) VALUES('a')"); !errors.As(err, &se) || se.ExtendedCode != sqlite3.ErrBusySnapshot {
		t.Errorf("a deferred upgrade gives %v", err)
	}
	if err := a.script("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if sqlBegin.sql != "BEGIN IMMEDIATE" {
		t.Errorf("the writer begins with %q", sqlBegin.sql)
	}
}

// TestP05: a context that is cancelled inside a transaction rolls it back, and the
// next statement commits on its own; P06: it does not cut a wait short; P08: it can
// leave a transaction open. No context that can end ever reaches SQLite from here.
func TestP05NoContextReachesAWrite(t *testing.T) {
	for name, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "context" && sel.Sel.Name != "Background" {
				t.Errorf("%s uses context.%s", name, sel.Sel.Name)
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "sql" {
				t.Errorf("%s uses database/sql", name)
			}
			return true
		})
	}
}

// TestP06 is P05's: there is no deadline to be ignored. What a caller may wait is
// Options.MaxWait, and that holds.
func TestP06WaitsAreBounded(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path, MaxWait: 300 * time.Millisecond})
	hold := startChild(t, "hold", path)
	hold.says("held")
	began := time.Now()
	_, err := s.Add(night, NewTask{Type: "a"})
	if took := time.Since(began); !errors.Is(err, ErrBusy) || took > 10*time.Second {
		t.Errorf("%v after %s", err, took)
	}
	wantErr(t, err, strconv.Itoa(hold.cmd.Process.Pid))
	if ExitCode(err) != 75 || !Transient(err) {
		t.Errorf("exit code %d, transient %v", ExitCode(err), Transient(err))
	}
	hold.end()
	mustAdd(t, s, NewTask{})
}

// TestP07: the driver's read-only transactions take writes; a read connection of
// ours refuses them, by its mode and by query_only.
func TestP07ReadersCannotWrite(t *testing.T) {
	s := newStore(t, Options{})
	err := s.read("write", func(c *conn) error { return c.script("INSERT INTO tasks(task_type) VALUES('a')") })
	wantErr(t, err, "readonly")
	ro := newStore(t, Options{Path: s.Path(), ReadOnly: true})
	if _, err := ro.Add(night, NewTask{Type: "a"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a read-only store answers a write with %v", err)
	}
}

// TestP08: after an error inside a transaction none is left open.
func TestP08NoTransactionStaysOpen(t *testing.T) {
	s := newStore(t, Options{})
	boom := errors.New("boom")
	for range 3 {
		err := s.write("fail", &op{run: func(c *conn) error {
			if err := insertTask(c, &NewTask{ID: "half", Type: "a"}, s.stamp(night)); err != nil {
				return err
			}
			return boom
		}})
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
	}
	mustAdd(t, s, NewTask{})
	if _, err := s.Get("half"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a write that failed left its row: %v", err)
	}
	if s.w.c.c.AutoCommit() != true {
		t.Error("a transaction is open")
	}
}

// TestP09: rows that are left open pin the WAL, those of UPDATE … RETURNING hold
// the write lock. Queries of ours are closed however they end.
func TestP09RowsAreAlwaysClosed(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, make([]NewTask, 50)...)
	stop := errors.New("enough")
	for range 3 {
		err := s.read("break off", func(c *conn) error {
			return c.query(sqlRowids, func(row) error { return stop }, "PENDING", 50)
		})
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	got := mustClaim(t, s, "w1")
	if _, err := s.Checkpoint(got.Fence(), `{}`, "", night); err != nil { // RETURNING, broken off after its row
		t.Fatal(err)
	}
	if pinned, err := s.checkpoint("TRUNCATE"); err != nil || pinned {
		t.Errorf("the WAL is pinned: %v, %v", pinned, err)
	}
	if n := fileSize(s.Path() + "-wal"); n != 0 {
		t.Errorf("the WAL still has %d bytes", n)
	}
	if mustGet(t, s, got.ID).Checkpoint != "{}" {
		t.Error("the checkpoint is not committed")
	}
}

// TestP10: RETURNING gives a value even when the COMMIT fails; the error decides.
func TestP10ErrorBeforeValue(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{})
	got := mustClaim(t, s, "w1")
	f := got.Fence()
	if _, err := s.SetControl(f.TaskID, "pause", night); err != nil {
		t.Fatal(err)
	}
	f.ExecID++
	if c, err := s.Checkpoint(f, `{}`, "", night); !errors.Is(err, ErrNotMine) || c != "" {
		t.Errorf("a foreign checkpoint gives %q, %v", c, err)
	}
}

// TestP11: while the first opener recovers after a crash, the others get
// SQLITE_BUSY_RECOVERY; all of them open.
func TestP11OpeningAfterACrash(t *testing.T) {
	path := newDB(t)
	c := startChild(t, "crash", path)
	c.says("crashing")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // it was killed
	openers := make([]*child, 4)
	for i := range openers {
		openers[i] = startChild(t, "open", path)
	}
	for _, o := range openers {
		o.says("opened")
		o.end()
	}
	s := newStore(t, Options{Path: path})
	counts, err := s.Count()
	if err != nil || counts["PENDING"] != 20+4 {
		t.Errorf("%v, %v; want the 20 acknowledged ones and 4", counts, err)
	}
}

// TestP12: codes of a start in a crowd and of a full disk are known for what they are.
func TestP12CodesOfCrowdAndFullDisk(t *testing.T) {
	for _, e := range []sqlite3.Error{{Code: sqlite3.ErrProtocol}, {Code: sqlite3.ErrBusy, ExtendedCode: sqlite3.ErrBusyRecovery}, {Code: sqlite3.ErrLocked}} {
		if !passing(fmt.Errorf("open: %w", e)) || !Transient(e) {
			t.Errorf("%v does not pass", e.Code)
		}
	}
	for _, e := range []sqlite3.Error{
		{Code: sqlite3.ErrFull}, {Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrSHMSize},
		{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrWrite, SystemErrno: unix.EDQUOT},
		{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrWrite, SystemErrno: unix.EFBIG},
	} {
		if !noSpace(fmt.Errorf("commit: %w", e)) {
			t.Errorf("%v (%v) is no full disk", e.Code, e.SystemErrno)
		}
	}
	if noSpace(sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: unix.EIO}) {
		t.Error("EIO is taken for a full disk")
	}
}

// TestP13: closing any descriptor of the file would drop this process's locks on
// it. Everything that looks at the file leaves them in place.
func TestP13LooksDropNoLocks(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{})
	inside, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.write("long", &op{run: func(*conn) error {
			close(inside)
			<-done
			return nil
		}}); err != nil {
			t.Error(err)
		}
	})
	<-inside
	if _, err := s.Check(Indexes); err != nil {
		t.Error(err)
	}
	if _, err := s.Sizes(); err != nil {
		t.Error(err)
	}
	if err := s.Backup(filepath.Join(t.TempDir(), "b.db")); err != nil {
		t.Error(err)
	}
	if s.replaced() {
		t.Error("replaced")
	}
	holders, err := s.Holders()
	if err != nil {
		t.Fatal(err)
	}
	mine := 0
	for _, h := range holders {
		if h.PID == os.Getpid() && (h.What == "write" || h.What == "turn") {
			mine++
		}
	}
	if mine != 2 {
		t.Errorf("holders %v: the write lock and the turn of this process are not both there", holders)
	}
	close(done)
	wg.Wait()
	for name, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "os" && sel.Sel.Name == "ReadFile" && name != "holders_linux.go" {
					t.Errorf("%s reads files past SQLite", name)
				}
			}
			return true
		})
	}
}

// sources parses the package's files, tests left out.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}

// TestP14: two copies of SQLite in one process would not know of each other's locks.
func TestP14OneSQLite(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "nightshift/pkg/store").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	for _, other := range []string{"modernc.org/sqlite", "zombiezen.com/go/sqlite", "crawshaw.io/sqlite", "ncruces/go-sqlite3"} {
		if strings.Contains(string(out), other) {
			t.Errorf("%s is linked beside go-sqlite3", other)
		}
	}
}

// TestP15: by a symbolic link it is the same database; a second hard link is warned of.
func TestP15TwoNamesForOneFile(t *testing.T) {
	path := newDB(t)
	link := filepath.Join(t.TempDir(), "other.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	a, b := newStore(t, Options{Path: path}), newStore(t, Options{Path: link})
	if a.Path() != b.Path() || a.runDir() != b.runDir() {
		t.Errorf("%s and %s", a.Path(), b.Path())
	}
	id := mustAdd(t, b, NewTask{})[0]
	mustGet(t, a, id)
	if _, err := os.Stat(link + "-wal"); err == nil {
		t.Error("there is a WAL of the link's name")
	}
	if err := os.Link(path, path+".hard"); err != nil {
		t.Fatal(err)
	}
	found, err := a.Check(Pages)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(found), "hard links") {
		t.Errorf("the check does not mention the hard link: %v", found)
	}
	warned := &logged{}
	newStore(t, Options{Path: path, Logger: warned.logger()})
	if !strings.Contains(warned.String(), "hard link") {
		t.Errorf("opening does not warn: %s", warned)
	}
}

// TestP16: nothing is written any more into a file that was replaced under us.
func TestP16ReplacedWhileOpen(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	mustAdd(t, s, NewTask{})
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Add(night, NewTask{Type: "a"})
	var replaced *ReplacedError
	if !errors.As(err, &replaced) || s.Err() == nil {
		t.Fatalf("a write after the rename: %v", err)
	}
	if ExitCode(err) != 69 || Transient(err) {
		t.Errorf("exit %d, transient %v", ExitCode(err), Transient(err))
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(night, NewTask{Type: "a"}); !errors.As(err, &replaced) {
		t.Errorf("it goes on after all: %v", err)
	}
}

// TestP17: a file that cannot have a WAL answers "delete" without an error: the
// mode is read back.
func TestP17JournalModeIsReadBack(t *testing.T) {
	path := newDB(t)
	c := rawConn(t, path)
	if err := c.script("PRAGMA journal_mode = DELETE"); err != nil {
		t.Fatal(err)
	}
	s := &Store{path: path, wal: true}
	wantErr(t, configure(c, s.writeSettings()), "journal_mode", `"delete"`, `"wal"`)
}

// TestP19: SQLite's own waiting starves; with the turn all processes get theirs.
func TestP19NobodyStarves(t *testing.T) {
	path := newDB(t)
	const n = 4
	children := make([]*child, n)
	for i := range children {
		children[i] = startChild(t, "commit", path)
		children[i].says("ready")
	}
	for _, c := range children {
		if _, err := c.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	least, most := 1<<30, 0
	for _, c := range children {
		answer := c.says("commits")
		words := strings.Fields(answer)
		commits, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatal(err)
		}
		least, most = min(least, commits), max(most, commits)
		c.end()
	}
	t.Logf("between %d and %d commits", least, most)
	if least*4 < most {
		t.Errorf("one process made %d commits, another %d", least, most)
	}
}

// TestP20: a stopped process that holds the write lock is named, with its state;
// after its end everything goes on.
func TestP20StoppedHolderIsNamed(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	hold := startChild(t, "hold", path)
	hold.says("held")
	if err := hold.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the holder is seen stopped", func() bool {
		holders, err := s.Holders()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range holders {
			if h.PID == hold.cmd.Process.Pid && h.What == "write" && h.State == "T" {
				return strings.Contains(s.holderText(), "stopped")
			}
		}
		return false
	})
	added := make(chan error, 1)
	go func() {
		_, err := s.Add(night, NewTask{Type: "a"})
		added <- err
	}()
	select {
	case err := <-added:
		t.Fatalf("a write went past the lock: %v", err)
	case <-time.After(2 * turnPatience): // over a change of turns
	}
	if w := s.WriteWait(); w < turnPatience || w > time.Hour {
		t.Errorf("waits for %s", w)
	}
	if err := hold.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = hold.cmd.Wait() // it was killed
	if err := <-added; err != nil {
		t.Error(err)
	}
	if w := s.WriteWait(); w != 0 {
		t.Errorf("still waits for %s", w)
	}
}

// TestP21: each blocked call into C takes a thread: the pool is bounded.
func TestP21ReadersAreBounded(t *testing.T) {
	s := newStore(t, Options{})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := s.Count(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.reads.open > maxReaders {
		t.Errorf("%d read connections", s.reads.open)
	}
}

// TestP22: data_version means something within one connection: the watcher has one
// of its own and sees every commit of others, the shell's too.
func TestP22ChangesAreSeen(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	changes := s.Changes()
	other := newStore(t, Options{Path: path})
	settle := func() {
		for {
			select {
			case <-changes:
			case <-time.After(100 * time.Millisecond):
				return
			}
		}
	}
	for i := range 5 {
		settle()
		if i == 4 && haveShell(t) {
			if _, err := shell(path, "INSERT INTO tasks(task_type) VALUES('a')"); err != nil {
				t.Fatal(err)
			}
		} else {
			mustAdd(t, other, NewTask{})
		}
		select {
		case <-changes:
		case <-time.After(20 * time.Second):
			t.Fatalf("commit %d was not seen", i)
		}
	}
}

// TestP23: a prune is many small transactions, so that the WAL can be cleared
// between them and nobody waits for all of it.
func TestP23PruneInSmallTransactions(t *testing.T) {
	s := newStore(t, Options{})
	finishMany(t, s, 600)
	before := commits(t, s)
	out, err := s.Prune(PrunePolicy{Before: night.Add(time.Hour), Now: night})
	if err != nil || len(out.Tasks) != 600 {
		t.Fatalf("pruned %d, %v", len(out.Tasks), err)
	}
	if n := commits(t, s) - before; n < 2 {
		t.Errorf("600 tasks in %d transactions", n)
	}
}

// commits counts the writer's transactions.
func commits(t *testing.T, s *Store) int64 {
	t.Helper()
	return s.w.commits.Load()
}

// TestP24: the stock shell is older than the cure of the WAL-reset bug: with
// wal_autocheckpoint=0 it checkpoints nothing.
func TestP24ShellDoesNotCheckpoint(t *testing.T) {
	needShell(t)
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	mustAdd(t, s, NewTask{})
	if _, err := s.checkpoint("TRUNCATE"); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = shell(path, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<6000) INSERT INTO tasks(task_type, payload) SELECT 'a', json_object('n', hex(zeroblob(700))) FROM n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Error("the shell has written to the database file itself")
	}
	if text, number, _ := sqlite3.Version(); number < minSQLite {
		t.Errorf("this program has SQLite %s", text)
	}
}

// TestP25: integrity_check does not look at foreign keys; the check does.
func TestP25ForeignKeysAreChecked(t *testing.T) {
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	c := rawConn(t, path)
	if err := c.script("PRAGMA foreign_keys=OFF; CREATE TABLE extra(id REFERENCES worker_heartbeats(worker_id)); INSERT INTO extra VALUES('nobody')"); err != nil {
		t.Fatal(err)
	}
	found, err := s.Check(Indexes)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(found), "foreign key") {
		t.Errorf("found %v", found)
	}
}

// TestP26 is in TestP03: temp_store is memory on every connection. P18 (a commit
// that failed and comes back) and P27 (a checkpoint's error is swallowed) need an I/O
// error: io_test.go.
func TestP26TemporaryFilesStayInMemory(t *testing.T) {
	for _, p := range readSettings {
		if p.name == "temp_store" && p.want == "2" {
			return
		}
	}
	t.Error("temp_store is not set")
}
