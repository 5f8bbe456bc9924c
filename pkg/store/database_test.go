package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/pkg/task"
)

// TestDB01ProducersAreNotLockedOut: shells and adds beside a busy worker, no failure.
func TestDB01ProducersAreNotLockedOut(t *testing.T) {
	needShell(t)
	path := newDB(t)
	s := newStore(t, Options{Path: path})
	mustAdd(t, s, NewTask{})
	got := mustClaim(t, s, "w1")
	s.Changes() // who watches for changes also sees guests come
	stop := make(chan struct{})
	var busy, wg sync.WaitGroup
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.Checkpoint(got.Fence(), fmt.Sprintf(`{"n":%d}`, i), "", night); err != nil {
				t.Error(err)
				return
			}
		}
	})
	const shells, each = 3, 8
	for range shells {
		wg.Go(func() {
			for range each {
				if _, err := shell(path, "INSERT INTO tasks(task_type) VALUES('a')"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	busy.Wait()
	if counts, err := s.Count(); err != nil || counts[task.Pending] != shells*each {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestDB03ForgottenBegin: reads work, a bounded caller is told who holds the lock, a
// worker waits and goes on by itself.
func TestDB03ForgottenBegin(t *testing.T) {
	path := newDB(t)
	worker := newStore(t, Options{Path: path})
	cli := newStore(t, Options{Path: path, MaxWait: 200 * time.Millisecond})
	mustAdd(t, worker, NewTask{})
	got := mustClaim(t, worker, "w1")
	hold := startChild(t, "hold", path)
	hold.says("held")
	saved := make(chan error, 1)
	go func() {
		_, err := worker.Checkpoint(got.Fence(), `{"n":1}`, "", night)
		saved <- err
	}()
	_, err := cli.Add(night, NewTask{Type: "a"})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("add: %v", err)
	}
	wantErr(t, err, fmt.Sprint("process ", hold.cmd.Process.Pid))
	if _, err := cli.Count(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-saved:
		t.Errorf("the worker did not wait: %v", err)
	default:
	}
	hold.end()
	if err := <-saved; err != nil {
		t.Error(err)
	}
	if mustGet(t, worker, got.ID).Checkpoint != `{"n":1}` {
		t.Error("the checkpoint is lost")
	}
}

// TestDB04WALIsBounded: a reader that pins the WAL is named, and after its end the
// WAL shrinks.
func TestDB04WALIsBounded(t *testing.T) {
	path := newDB(t)
	log := &logged{}
	s := newStore(t, Options{Path: path, Logger: log.logger()})
	reader := startChild(t, "reader", path)
	reader.says("reading")
	big := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for fileSize(path+"-wal") <= walLimit {
		mustAdd(t, s, NewTask{Payload: big}, NewTask{Payload: big}, NewTask{Payload: big}, NewTask{Payload: big})
	}
	m := maintenance{warnFrom: walLimit}
	m.tendWAL(s)
	if !strings.Contains(log.String(), "the WAL grows") || !strings.Contains(log.String(), fmt.Sprint("process ", reader.cmd.Process.Pid)) {
		t.Errorf("no warning that names the reader: %s", log)
	}
	reader.end()
	m.tendWAL(s)
	if n := fileSize(path + "-wal"); n != 0 {
		t.Errorf("the WAL still has %d bytes", n)
	}
	for range 24 {
		mustAdd(t, s, NewTask{Payload: big})
	}
	if n := fileSize(path + "-wal"); n > 50<<20 {
		t.Errorf("with our own processes alone the WAL has %d bytes", n)
	}
}

// TestDB08ReadOnlyFileSystem: writes fail as something that passes, are logged
// once, and work after the cure.
func TestDB08ReadOnlyFileSystem(t *testing.T) {
	dir := tmpfs(t, "size=8m")
	path := filepath.Join(dir, "n.db")
	if err := Init(path); err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	s := newStore(t, Options{Path: path, RunDir: t.TempDir(), Logger: log.logger()})
	mustAdd(t, s, NewTask{})
	got := mustClaim(t, s, "w1")
	remount := func(mode string) {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "remount,"+mode, dir).CombinedOutput(); err != nil {
			t.Skipf("cannot remount: %s", out)
		}
	}
	// The open descriptors keep the file system writable; without a lazy way to take
	// it away it refuses the remount, as a kernel that found an error does not.
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot remount read-only while it is in use: %s", out)
	}
	for range 5 {
		if _, err := s.Checkpoint(got.Fence(), `{}`, "", night); !Transient(err) {
			t.Errorf("a read-only file system: %v", err)
		}
	}
	remount("rw")
	if _, err := s.Checkpoint(got.Fence(), `{}`, "", night); err != nil {
		t.Error(err)
	}
}

// TestDB09DiskFull: the ballast carries the finishes, claims pause, nothing is
// lost, and after the cure all goes on; few words are made of it.
func TestDB09DiskFull(t *testing.T) {
	dir := tmpfs(t, "size=52m")
	path := filepath.Join(dir, "n.db")
	if err := Init(path); err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	s := newStore(t, Options{Path: path, Ballast: filepath.Join(dir, "ballast"), Logger: log.logger()})
	cli := newStore(t, Options{Path: path, MaxWait: time.Second})
	if fileSize(s.opts.Ballast) != ballastBytes {
		t.Fatal("no ballast")
	}
	mustAdd(t, s, make([]NewTask, 8)...)
	r, err := s.Turn(nil, claimFor("w1.1", "w1.2"))
	if err != nil {
		t.Fatal(err)
	}
	hog := filepath.Join(dir, "hog")
	fill := exec.Command("dd", "if=/dev/zero", "of="+hog, "bs=4k")
	if err := fill.Run(); err == nil {
		t.Fatal("the disk did not fill")
	}
	eventually(t, "an add fails", func() bool {
		_, err := cli.Add(night, NewTask{Type: "a", Payload: `"` + strings.Repeat("x", 20000) + `"`})
		if err != nil && (!errors.Is(err, ErrFull) || ExitCode(err) != exitIO || !strings.Contains(err.Error(), "disk full")) {
			t.Fatalf("add on a full disk: %v", err)
		}
		return err != nil
	})
	eventually(t, "the ballast is spent", func() bool {
		if _, err := s.Checkpoint(r.Claimed[1].Fence(), `"`+strings.Repeat("y", 200000)+`"`, "", night); err != nil {
			t.Fatalf("a checkpoint with ballast to give up: %v", err)
		}
		return s.DiskFull()
	})
	res, err := s.Turn([]Finish{{Fence: r.Claimed[0].Fence(), Verdict: Succeed, Now: night}}, claimFor("w1.1"))
	if err != nil || res.Finished[0].Status != task.Success || len(res.Claimed) != 0 || !res.DiskFull {
		t.Errorf("%+v, %v", res, err)
	}
	if found, err := s.Check(Indexes); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	var m maintenance
	m.round(s)
	if s.DiskFull() || fileSize(s.opts.Ballast) != ballastBytes {
		t.Error("the ballast is not back")
	}
	if r, err := s.Turn(nil, claimFor("w1.1")); err != nil || len(r.Claimed) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if n := log.lines(); n > 20 {
		t.Errorf("%d lines were logged", n)
	}
}

// TestDB10ForeignFiles are refused and left as they are.
func TestDB10ForeignFiles(t *testing.T) {
	dir := t.TempDir()
	make3 := func(name, sql string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, "")
		c, err := openConn(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.script(sql), c.close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := filepath.Join(dir, "text")
	writeFile(t, text, "this is no database, it is a text of some length, longer than a header of SQLite has\n"+strings.Repeat("x", 4096))
	empty := filepath.Join(dir, "empty")
	writeFile(t, empty, "")
	for name, c := range map[string]struct {
		path string
		say  string
	}{
		"text":                {text, "no SQLite file"},
		"empty":               {empty, "db init"},
		"missing":             {filepath.Join(dir, "missing"), "db init"},
		"directory":           {dir, "no regular file"},
		"another program":     {make3("other", "PRAGMA application_id=7; CREATE TABLE tasks(x)"), "application_id 7"},
		"tables of their own": {make3("own", "CREATE TABLE tasks(task_id)"), "lacks"},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			for _, readOnly := range []bool{false, true} {
				s, err := Open(Options{Path: c.path, ReadOnly: readOnly, RunDir: t.TempDir()})
				if err == nil {
					t.Fatal(errors.Join(errors.New("it was opened"), s.Close()))
				}
				wantErr(t, err, c.say)
				if code := ExitCode(err); code != exitConfig && code != exitNoInput {
					t.Errorf("exit code %d", code)
				}
			}
			if name != "empty" && name != "missing" {
				if err := Init(c.path); err == nil {
					t.Error("db init wrote over it")
				}
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
	if err := Init(empty); err != nil {
		t.Errorf("init of an empty file: %v", err)
	}
	newStore(t, Options{Path: empty})
}

// TestDB10Malformed: damage is an error of its own, not one that passes.
func TestDB10Malformed(t *testing.T) {
	path := newDB(t)
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	finishMany(t, s, 500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40 * 4096; i < len(raw); i++ {
		raw[i] = 0xa5
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s = newStore(t, Options{Path: path})
	err = s.List(Filter{}, func(int64, *task.Task) error { return nil })
	var damaged *CorruptError
	if !errors.As(err, &damaged) || Transient(err) || ExitCode(err) != exitConfig {
		t.Errorf("%v (transient %v, exit %d)", err, Transient(err), ExitCode(err))
	}
	found, err := s.Check(Indexes)
	if err != nil && !errors.As(err, &damaged) || err == nil && len(found) == 0 {
		t.Errorf("the check finds %v, %v", found, err)
	}
}

// TestDB11Versions: newer is refused untouched, older is migrated once after a
// backup, and a .dump that was loaded again is taken for what it is.
func TestDB11Versions(t *testing.T) {
	t.Run("newer", func(t *testing.T) {
		path := newDB(t)
		c := rawConn(t, path)
		if err := c.script("PRAGMA user_version=99"); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Path: path})
		var newer *NewerSchemaError
		if !errors.As(err, &newer) || newer.Have != 99 || ExitCode(err) != exitConfig {
			t.Errorf("%v", err)
		}
		if pragma(t, c, "user_version") != "99" {
			t.Error("the version was changed")
		}
	})
	t.Run("newer while open", func(t *testing.T) {
		s := newStore(t, Options{})
		if err := rawConn(t, s.Path()).script("PRAGMA user_version=99"); err != nil {
			t.Fatal(err)
		}
		var m maintenance
		m.round(s)
		if _, err := s.Add(night, NewTask{Type: "a"}); ExitCode(err) != exitConfig {
			t.Errorf("an old program still writes: %v", err)
		}
	})
	t.Run("older", func(t *testing.T) {
		path := newDB(t)
		steps := []migration{{2, "ALTER TABLE tasks ADD COLUMN extra TEXT"}, {3, "UPDATE tasks SET priority = 7"}}
		var stores []*Store
		for range 4 {
			stores = append(stores, newStore(t, Options{Path: path}))
		}
		id := mustAdd(t, stores[0], NewTask{})[0]
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() { // each on a connection of its own, as four processes at once
				c, err := openConn(path, false)
				if err != nil {
					t.Error(err)
					return
				}
				m := &Store{path: path, opts: s.opts, log: s.log, clock: s.clock, closing: s.closing}
				if m.turn, err = openTurnLock(filepath.Join(s.runDir(), "turn.lock")); err != nil {
					t.Error(err)
					return
				}
				if err := m.migrateTo(c, 3, steps); err != nil {
					t.Error(err)
				}
				if err := errors.Join(c.close(), m.turn.close()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c := rawConn(t, path)
		if pragma(t, c, "user_version") != "3" {
			t.Error("not migrated")
		}
		if v, err := c.pragma("SELECT priority || ifnull(extra, '-') FROM tasks WHERE task_id = '" + id + "'"); err != nil || v != "7-" {
			t.Errorf("row %s, %v", v, err)
		}
		backups, err := filepath.Glob(path + ".v1-*")
		if err != nil || len(backups) != 1 {
			t.Fatalf("backups %v, %v", backups, err)
		}
		old := newStore(t, Options{Path: backups[0]})
		if mustGet(t, old, id).Priority != task.DefaultPriority {
			t.Error("the backup is not the old state")
		}
	})
	t.Run("broken step", func(t *testing.T) {
		s := newStore(t, Options{})
		c := rawConn(t, s.Path())
		steps := []migration{{2, "ALTER TABLE tasks ADD COLUMN extra TEXT"}, {3, "UPDATE nothing SET x = 1"}}
		wantErr(t, s.migrateTo(c, 3, steps), "version 3")
		if pragma(t, c, "user_version") != "1" {
			t.Error("half migrated")
		}
		if v, err := c.pragma("SELECT count(*) FROM pragma_table_info('tasks') WHERE name='extra'"); err != nil || v != "0" {
			t.Errorf("the first step stayed: %s, %v", v, err)
		}
	})
	t.Run("loaded from a dump", func(t *testing.T) {
		path := newDB(t)
		c := rawConn(t, path)
		if err := c.script("PRAGMA user_version=0; PRAGMA application_id=0; INSERT INTO tasks(task_id, task_type) VALUES('kept','a')"); err != nil {
			t.Fatal(err)
		}
		s := newStore(t, Options{Path: path})
		mustGet(t, s, "kept")
		if pragma(t, c, "user_version") != "1" || pragma(t, c, "application_id") != fmt.Sprint(applicationID) {
			t.Error("not marked")
		}
	})
	t.Run("a rule is missing", func(t *testing.T) {
		path := newDB(t)
		if err := rawConn(t, path).script("DROP TRIGGER tasks_update_rules"); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Path: path})
		wantErr(t, err, "trigger tasks_update_rules")
	})
	t.Run("a rule was changed", func(t *testing.T) {
		s := newStore(t, Options{})
		if err := rawConn(t, s.Path()).script("DROP TRIGGER tasks_delete; CREATE TRIGGER tasks_delete BEFORE DELETE ON tasks BEGIN SELECT 1; END"); err != nil {
			t.Fatal(err)
		}
		found, err := s.Check(Pages)
		if err != nil || len(found) != 1 || !strings.Contains(found[0].What, "tasks_delete") {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// TestDB12NetworkFileSystems are refused by name; the override works without a WAL.
func TestDB12NetworkFileSystems(t *testing.T) {
	path := newDB(t)
	if err := rawConn(t, path).script("PRAGMA journal_mode=DELETE"); err != nil {
		t.Fatal(err)
	}
	real := statfsType
	t.Cleanup(func() { statfsType = real })
	for kind, name := range networkKinds {
		statfsType = func(string) (uint32, error) { return kind, nil }
		_, err := Open(Options{Path: path})
		wantErr(t, err, name, "--allow-network-fs")
		if ExitCode(err) != exitConfig {
			t.Errorf("exit code %d", ExitCode(err))
		}
	}
	s := newStore(t, Options{Path: path, AllowNetworkFS: true})
	mustAdd(t, s, NewTask{})
	finishMany(t, s, 3)
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("there is a WAL")
	}
}

// TestSE03ModesOfFiles: nobody else reads the database, whatever the umask.
func TestSE03ModesOfFiles(t *testing.T) {
	s := newStore(t, Options{})
	mustAdd(t, s, NewTask{})
	for _, p := range []string{s.Path(), s.Path() + "-wal", s.Path() + "-shm", filepath.Join(s.runDir(), "turn.lock")} {
		id, err := identify(p)
		if err != nil || id.mode.Perm() != 0o600 {
			t.Errorf("%s: mode %04o, %v", p, id.mode.Perm(), err)
		}
	}
	if err := os.Chmod(s.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Check(Pages); err != nil || len(found) != 1 || !strings.Contains(found[0].Cure, "chmod 600") {
		t.Errorf("%v, %v", found, err)
	}
}

// TestSchemaLoadsOnce: the stock shell makes a database that we take as it is;
// loading it twice, or into a stranger's file, changes nothing.
func TestSchemaLoadsOnce(t *testing.T) {
	needShell(t)
	dir := t.TempDir()
	schema := filepath.Join("..", "..", "schema.sql")
	load := func(path string) error {
		return exec.Command("sqlite3", path, ".read "+schema).Run()
	}
	made := filepath.Join(dir, "made.db")
	if err := load(made); err != nil {
		t.Fatal(err)
	}
	if _, err := shell(made, "INSERT INTO tasks(task_id, task_type) VALUES('kept','a'); PRAGMA user_version=1;"); err != nil {
		t.Fatal(err)
	}
	if err := load(made); err == nil {
		t.Error("loading it twice is no error")
	}
	s := newStore(t, Options{Path: made})
	mustGet(t, s, "kept")
	if found, err := s.Check(Indexes); err != nil {
		t.Error(err)
	} else {
		for _, f := range found {
			if !strings.Contains(f.Cure, "chmod") {
				t.Errorf("found %v", f)
			}
		}
	}
	stranger := filepath.Join(dir, "stranger.db")
	if _, err := shell(stranger, "CREATE TABLE tasks(x); PRAGMA user_version=42;"); err != nil {
		t.Fatal(err)
	}
	if err := load(stranger); err == nil {
		t.Error("loading it into a stranger's file is no error")
	}
	if got, err := shell(stranger, "SELECT group_concat(name) FROM sqlite_schema; PRAGMA user_version; PRAGMA application_id;"); err != nil || got != "tasks\n42\n0" {
		t.Errorf("the stranger's file is %q, %v", got, err)
	}
}
