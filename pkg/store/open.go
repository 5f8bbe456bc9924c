package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	sqlite3 "github.com/mattn/go-sqlite3"

	"nightshift"
)

// What is stored in the file's header (schema.sql).
const (
	applicationID = 1314080340 // 'NSFT'
	schemaVersion = 1
)

// minSQLite is the first version without the WAL-reset bug: before it, two
// processes that write and checkpoint at once can lose commits.
const (
	minSQLite       = 3051003
	minSQLiteString = "3.51.3"
)

// Open opens the database at o.Path and refuses what cannot be worked with,
// before anything of the file is changed. Several processes may open at once.
func Open(o Options) (*Store, error) {
	if text, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, &OldSQLiteError{Have: text, Want: minSQLiteString}
	}
	s := &Store{opts: o, log: o.Logger, clock: o.Clock, closing: make(chan struct{})}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if err := s.locate(); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// locate finds the file and looks at it from outside: nothing is opened, since a
// descriptor of ours, once closed, would drop SQLite's locks on the file.
func (s *Store) locate() error {
	abs, err := filepath.Abs(s.opts.Path)
	if err != nil {
		return fmt.Errorf("path of the database: %w", err)
	}
	path, err := filepath.EvalSymlinks(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &NotFoundError{abs}
	case errors.Is(err, os.ErrPermission):
		return &PermissionError{abs, err.Error()}
	case err != nil:
		return fmt.Errorf("path of the database: %w", err)
	}
	s.path = path
	id, err := identify(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &NotFoundError{path}
	case err != nil:
		return fmt.Errorf("look at the database: %w", err)
	case !id.regular:
		return &NotDatabaseError{path, "it is no regular file"}
	case id.size == 0:
		return &NotDatabaseError{path, "it is empty: `nightshift db init` makes a database of it"}
	}
	s.file = id
	if id.links > 1 {
		s.log.Warn("the database has more than one name (hard link): whoever opens it by another one does not see its WAL", "path", path, "links", id.links)
	}
	kind, network := networkFS(filepath.Dir(path))
	if network && !s.opts.AllowNetworkFS {
		return &FilesystemError{path, kind}
	}
	s.wal = !network
	if network {
		s.log.Warn("the database lies on a network file system: no WAL, and locks are as good as that system's", "path", path, "kind", kind)
	}
	return nil
}

// connect opens the connections and starts what runs beside them.
func (s *Store) connect() error {
	c, err := s.firstConn()
	if err != nil {
		return err
	}
	s.reads.init(s)
	if s.opts.ReadOnly {
		if err := configure(c, readSettings); err != nil {
			return errors.Join(s.explain(err), c.close())
		}
		s.reads.adopt(c)
		return nil
	}
	if err := os.MkdirAll(s.runDir(), 0o700); err != nil {
		return errors.Join(&PermissionError{s.runDir(), err.Error()}, c.close())
	}
	if s.turn, err = openTurnLock(filepath.Join(s.runDir(), "turn.lock")); err != nil {
		return errors.Join(err, c.close())
	}
	if err := s.admit(c); err != nil {
		return errors.Join(err, c.close())
	}
	if err := s.keepBallast(); err != nil {
		s.log.Warn("no ballast: a full disk will stop results as well as claims", "path", s.opts.Ballast, "err", err)
	}
	s.w = startWriter(s, c)
	s.wg.Go(s.maintain)
	return nil
}

// firstConn opens the first connection and makes sure that the file is ours,
// without changing it.
func (s *Store) firstConn() (c *conn, err error) {
	err = s.patiently(func() error {
		if c, err = openConn(s.path, s.opts.ReadOnly); err != nil {
			return err
		}
		if err = s.examine(c); err != nil {
			return errors.Join(err, c.close())
		}
		return nil
	})
	if err != nil {
		return nil, s.explain(err)
	}
	return c, nil
}

// examine reads who made the file, and with which version.
func (s *Store) examine(c *conn) error {
	app, err := c.pragma("PRAGMA application_id")
	if err != nil {
		return err
	}
	version, err := s.version(c)
	if err != nil {
		return err
	}
	switch {
	case app == strconv.Itoa(applicationID):
		if version > schemaVersion {
			return &NewerSchemaError{s.path, version, schemaVersion}
		}
		if s.opts.ReadOnly && version < schemaVersion {
			return fmt.Errorf("%s has the older schema version %d: start a worker or run `nightshift db check` once to migrate it", s.path, version)
		}
		return nil
	case app == "0" && (version == 0 || version == schemaVersion):
		// Tables without the mark: a .dump that was loaded again does not bring it along.
		missing, err := missingObjects(c)
		if err != nil {
			return err
		}
		if missing == "" {
			return nil
		}
		return &NotDatabaseError{s.path, "it lacks " + missing}
	default:
		return &NotDatabaseError{s.path, "another program made it (application_id " + app + ")"}
	}
}

func (s *Store) version(c *conn) (int, error) {
	text, err := c.pragma("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// admit makes the file and the writer's connection what they must be.
func (s *Store) admit(c *conn) error {
	err := s.patiently(func() error {
		mode := "WAL"
		if !s.wal {
			mode = "TRUNCATE"
		}
		if err := c.script("PRAGMA journal_mode = " + mode); err != nil {
			return err
		}
		return configure(c, s.writeSettings())
	})
	if err != nil {
		return s.explain(err)
	}
	if err := s.migrate(c); err != nil {
		return s.explain(err)
	}
	if err := configure(c, readSettings); err != nil {
		return s.explain(err)
	}
	missing, err := missingObjects(c)
	if err != nil {
		return s.explain(err)
	}
	if missing != "" {
		return &CorruptError{s.path, "its schema lacks " + missing}
	}
	if id, err := identify(s.path); err != nil || !id.same(s.file) {
		return &ReplacedError{s.path}
	}
	return nil
}

// setting is a pragma with the value that must be read back: a mistyped one is
// ignored in silence, and the driver resets some (P1, P2).
type setting struct{ name, value, want string }

// readSettings are those of every connection.
var readSettings = []setting{
	{"trusted_schema", "OFF", "0"},
	{"cell_size_check", "ON", "1"},
	{"temp_store", "MEMORY", "2"}, // temporary files can fill another partition
	{"mmap_size", "0", "0"},       // a stray write must not reach the file
}

// writeSettings are those of the writer beyond readSettings.
func (s *Store) writeSettings() []setting {
	all := []setting{
		{"synchronous", "FULL", "2"}, // NORMAL loses acknowledged commits in a power cut
		{"journal_mode", "", "wal"},  // a file that cannot have a WAL answers "delete" without an error
		{"foreign_keys", "ON", "1"},
		{"recursive_triggers", "OFF", "0"},
		{"cache_size", "-8000", "-8000"},
		{"wal_autocheckpoint", strconv.Itoa(checkpointPages), strconv.Itoa(checkpointPages)},
		{"journal_size_limit", strconv.Itoa(walLimit), strconv.Itoa(walLimit)},
	}
	if !s.wal {
		all[0] = setting{"synchronous", "EXTRA", "3"} // the journal's directory is synced, too
		all[1] = setting{"journal_mode", "", "truncate"}
	}
	return all
}

// configure sets pragmas, where there is a value to set, and reads each back.
func configure(c *conn, settings []setting) error {
	for _, p := range settings {
		if p.value != "" {
			if err := c.script("PRAGMA " + p.name + " = " + p.value); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", p.name, err)
			}
		}
		got, err := c.pragma("PRAGMA " + p.name)
		if err != nil {
			return fmt.Errorf("PRAGMA %s: %w", p.name, err)
		}
		if got != p.want && !(p.name == "mmap_size" && got == "") { // built without mmap: no answer
			return fmt.Errorf("PRAGMA %s is %q where it must be %q", p.name, got, p.want)
		}
	}
	return nil
}

// patiently repeats do while others open, recover or migrate the same file.
func (s *Store) patiently(do func() error) error {
	deadline := time.Now().Add(openPatience) // real time: SQLite's waits are real, too
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := do()
		if err == nil || !passing(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

// passing reports an error that the next try may not meet: the file is being
// opened, recovered or closed by another process.
func passing(err error) bool {
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return false
	}
	return se.Code == sqlite3.ErrBusy || se.Code == sqlite3.ErrLocked || se.Code == sqlite3.ErrProtocol
}

// explain turns what SQLite says of the file as a whole into an error that says
// what to do.
func (s *Store) explain(err error) error {
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return err
	}
	switch se.Code {
	case sqlite3.ErrNotADB:
		return &NotDatabaseError{s.path, "it is no SQLite file"}
	case sqlite3.ErrCorrupt:
		return &CorruptError{s.path, se.Error()}
	case sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrAuth:
		if why := whyDenied(s.path, s.opts.ReadOnly); why != "" {
			return &PermissionError{s.path, why}
		}
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		return fmt.Errorf("open %s: %w%s", s.path, ErrBusy, s.blame())
	}
	return fmt.Errorf("open %s: %w", s.path, err)
}

// objects are the names that schema.sql creates, with their kinds.
func objects() []string {
	var names []string
	for _, line := range strings.Split(nightshift.Schema, "\n") {
		f := strings.Fields(strings.TrimPrefix(line, "CREATE UNIQUE "))
		if len(f) > 2 && f[0] == "CREATE" && f[1] != "TEMP" {
			names = append(names, strings.ToLower(f[1])+" "+f[2])
		} else if len(f) > 1 && f[0] == "INDEX" {
			names = append(names, "index "+f[1])
		}
	}
	return names
}

// missingObjects names what the file's schema lacks: a version mark alone is not
// to be trusted.
func missingObjects(c *conn) (string, error) {
	have, err := c.texts("SELECT type || ' ' || name FROM sqlite_schema")
	if err != nil {
		return "", err
	}
	columns, err := c.texts("SELECT m.name || '.' || p.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS p WHERE m.type = 'table'")
	if err != nil {
		return "", err
	}
	set := map[string]bool{}
	for _, name := range append(have, columns...) {
		set[name] = true
	}
	var missing []string
	for _, name := range objects() {
		if !set[name] {
			missing = append(missing, name)
		}
	}
	for _, column := range taskColumns {
		if !set["tasks."+column] {
			missing = append(missing, "column tasks."+column)
		}
	}
	if len(missing) > 3 {
		missing = append(missing[:3], fmt.Sprintf("%d more", len(missing)-3))
	}
	return strings.Join(missing, ", "), nil
}

// Init makes a database at path, which must be missing or empty.
func Init(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		// Closed before SQLite opens it: nothing is locked yet that this could drop.
		if err := f.Close(); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
	case errors.Is(err, os.ErrExist):
		id, serr := identify(path)
		if serr != nil {
			return fmt.Errorf("create %s: %w", path, serr)
		}
		if !id.regular || id.size > 0 {
			return fmt.Errorf("create %s: %w", path, ErrExists)
		}
	case errors.Is(err, os.ErrPermission):
		return &PermissionError{path, err.Error()}
	default:
		return fmt.Errorf("create %s: %w", path, err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	s := &Store{path: abs, log: hclog.NewNullLogger()}
	if err := s.patiently(func() error { return create(abs) }); err != nil {
		return fmt.Errorf("create %s: %w", path, s.explain(err))
	}
	return syncDir(filepath.Dir(abs))
}

// create loads the schema into an empty file and leaves it in WAL mode.
func create(path string) (err error) {
	c, err := openConn(path, false)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := c.close(); err == nil {
			err = cerr
		}
	}()
	if err := c.script(nightshift.Schema); err != nil {
		if !c.c.AutoCommit() {
			err = errors.Join(err, c.script("ROLLBACK"))
		}
		if n, nerr := c.pragma("SELECT count(*) FROM sqlite_schema"); nerr == nil && n != "0" {
			return ErrExists // another process was faster
		}
		return err
	}
	if _, network := networkFS(filepath.Dir(path)); network {
		return nil
	}
	return c.script("PRAGMA journal_mode = WAL")
}
