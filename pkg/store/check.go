package store

import (
	"fmt"
	"path/filepath"
	"strings"

	"nightshift"
)

// Finding is one line of Check.
type Finding struct {
	Fatal bool // the database must not be used
	What  string
	Cure  string
}

// Depth is how much of the file Check reads.
type Depth int

// The depths of a check. Pages takes seconds for each gigabyte, Indexes minutes.
const (
	Rules   Depth = iota // the schema, the few rows that need looking at, and the file from outside
	Pages                // every page as well
	Indexes              // and every index is compared with its table
)

// Check looks for what is wrong with the database and says what to do.
func (s *Store) Check(depth Depth) (found []Finding, err error) {
	for _, check := range []func(Depth) ([]Finding, error){s.checkPages, s.checkSchema, s.checkRows, s.checkFile} {
		f, err := check(depth)
		if err != nil {
			return found, err
		}
		found = append(found, f...)
	}
	return found, nil
}

func (s *Store) checkPages(depth Depth) (found []Finding, err error) {
	pragma := "PRAGMA quick_check(20)"
	switch depth {
	case Rules:
		return nil, nil
	case Indexes:
		pragma = "PRAGMA integrity_check(20)"
	}
	err = s.read("check", func(c *conn) error {
		found = nil
		lines, err := c.texts(pragma)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if line != "ok" {
				found = append(found, Finding{true, line, "stop the workers and restore a backup"})
			}
		}
		// integrity_check does not look at foreign keys.
		broken, err := c.texts("PRAGMA foreign_key_check")
		for _, table := range broken {
			found = append(found, Finding{true, "a foreign key of table " + table + " leads nowhere", "restore a backup"})
		}
		return err
	})
	return found, err
}

// checkSchema compares the rules in the file with those of this program, word for word.
func (s *Store) checkSchema(Depth) (found []Finding, err error) {
	err = s.read("check", func(c *conn) error {
		found = nil
		missing, err := missingObjects(c)
		if err != nil {
			return err
		}
		if missing != "" {
			found = append(found, Finding{true, "the schema lacks " + missing, "restore a backup"})
		}
		texts, err := c.texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
		for _, text := range texts {
			// SQLite keeps the statement as it was written.
			if !strings.Contains(nightshift.Schema, text+";") {
				found = append(found, Finding{false, fmt.Sprintf("%.60q… is not what schema.sql says", text), "somebody changed it by hand; restore it from schema.sql"})
			}
		}
		return err
	})
	return found, err
}

var sqlOddRows = define(`SELECT task_id, 'has no executor: it was set ' || status || ' by hand; a worker''s next recovery frees it'
	FROM tasks INDEXED BY idx_tasks_status_next_run
	WHERE status IN ('RUNNING', 'LOST') AND (executor_id IS NULL OR exec_id IS NULL)
	LIMIT 20`)

var sqlHeldRows = define(`SELECT task_id, status, executor_id
	FROM tasks INDEXED BY idx_tasks_held
	WHERE executor_id IS NOT NULL AND (status = 'PENDING' OR status = 'RETRYING' OR status = 'PAUSED')
	LIMIT 20`)

func (s *Store) checkRows(Depth) (found []Finding, err error) {
	err = s.read("check", func(c *conn) error {
		found = nil
		if err := c.query(sqlOddRows, func(r row) error {
			found = append(found, Finding{false, fmt.Sprintf("task %q %s", r.text(0), r.text(1)), "nightshift cancel, or wait for a worker's recovery"})
			return nil
		}); err != nil {
			return err
		}
		return c.query(sqlHeldRows, func(r row) error {
			found = append(found, Finding{
				false, fmt.Sprintf("task %q was made %s by hand while %s ran it", r.text(0), r.text(1), r.text(2)),
				"it may be claimed once that executor has let go of it",
			})
			return nil
		})
	})
	return found, err
}

func (s *Store) checkFile(Depth) (found []Finding, err error) {
	for _, path := range []string{s.path, s.path + "-wal", s.path + "-shm"} {
		id, err := identify(path)
		if err != nil {
			continue // -wal and -shm come and go
		}
		if id.links > 1 {
			found = append(found, Finding{false, fmt.Sprintf("%s has %d names (hard links)", path, id.links), "remove the others: whoever opens the database by one of them does not see its WAL"})
		}
		if id.mode.Perm()&0o007 != 0 {
			found = append(found, Finding{false, fmt.Sprintf("%s has mode %04o: every user can read it or more", path, id.mode.Perm()), "chmod 600 " + path})
		}
		if id.uid != s.file.uid {
			found = append(found, Finding{false, fmt.Sprintf("%s belongs to %s, the database to %s", path, userName(id.uid), userName(s.file.uid)), "chown it, or delete it while nothing has the database open"})
		}
	}
	if kind, network := networkFS(filepath.Dir(s.path)); network {
		found = append(found, Finding{false, "the database lies on " + kind, "move data_dir to a local file system"})
	}
	if s.wal {
		if size := fileSize(s.path + "-wal"); size > walWarn {
			found = append(found, Finding{false, fmt.Sprintf("the WAL has %d bytes; readers: %s", size, s.readersText()), "end whoever reads for so long"})
		}
	}
	if s.replaced() {
		found = append(found, Finding{true, s.path + " was replaced while it was open", "restart the workers"})
	}
	return found, nil
}
