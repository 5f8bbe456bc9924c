package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"nightshift/pkg/task"
)

// migration brings a database from the version before to To. It runs inside the
// one transaction of the whole migration.
type migration struct {
	To  int
	SQL string
}

// migrations lists the steps from the first version to schemaVersion, in order.
// Version 1 is the first: there is no step yet. A step must leave what a fresh
// schema.sql of its version makes; TestDB11 holds the mechanism.
var migrations []migration

// migrate brings an older database to this program's version: after a backup, in
// one transaction. Several processes may try at once; one does it.
func (s *Store) migrate(c *conn) error {
	return s.migrateTo(c, schemaVersion, migrations)
}

func (s *Store) migrateTo(c *conn, target int, steps []migration) (err error) {
	if version, err := s.version(c); err != nil || version == target {
		return err
	}
	if err := s.turn.lock(time.Now().Add(openPatience), s.closing, func(time.Duration) {}); err != nil {
		return fmt.Errorf("migrate: %w%s", ErrBusy, s.blame())
	}
	defer func() {
		if uerr := s.turn.unlock(); err == nil {
			err = uerr
		}
	}()
	if err := s.patiently(func() error { return c.script("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	if err := s.migrateLocked(c, target, steps); err != nil {
		return errors.Join(err, c.script("ROLLBACK"))
	}
	return c.script("COMMIT")
}

// migrateLocked runs with the write lock held: the backup is the last state of the
// old version.
func (s *Store) migrateLocked(c *conn, target int, steps []migration) error {
	version, err := s.version(c)
	if err != nil || version == target {
		return err // another process was faster
	}
	if version > target {
		return &NewerSchemaError{s.path, version, target}
	}
	app, err := c.pragma("PRAGMA application_id")
	if err != nil {
		return err
	}
	if app == "0" {
		// Complete tables without the mark (examine has looked): only the mark is missing.
		return c.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, target))
	}
	backup := fmt.Sprintf("%s.v%d-%s", s.path, version, s.clock().UTC().Format("20060102T150405"))
	if err := s.backupTo(backup); err != nil {
		return fmt.Errorf("backup before the migration: %w", err)
	}
	s.migrated.from, s.migrated.backup = version, backup
	s.log.Info("migrating the database", "path", s.path, "from", version, "to", target, "backup", backup)
	for _, m := range steps {
		if m.To <= version {
			continue
		}
		if err := c.script(m.SQL); err != nil {
			return fmt.Errorf("migrate to version %d: %w", m.To, err)
		}
		version = m.To
	}
	if version != target {
		return fmt.Errorf("no migration leads from version %d to %d", version, target)
	}
	return c.script("PRAGMA user_version = " + strconv.Itoa(target))
}

// Backup writes a copy of the database, as of now, to dst, which must not exist.
// The copy is checked and on disk when Backup returns. Never copy the file itself: a
// part of it may be in the WAL.
func (s *Store) Backup(dst string) error {
	if err := s.backupTo(dst); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func (s *Store) backupTo(dst string) (err error) {
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("%s: %w", dst, ErrExists)
	}
	tmp := dst + ".part-" + task.NewID(s.clock())[20:]
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) // VACUUM INTO takes an empty file, and its mode
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
	}()
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := s.vacuumInto(tmp); err != nil {
		return err
	}
	// SQLite does not sync what VACUUM INTO has written. The copy has no locks that
	// closing our descriptor could drop.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(tmp, dst); err != nil { // fails when dst exists by now; Rename would replace it
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dst))
}

// vacuumInto copies into an empty file and checks the copy. It uses a connection of
// its own: it may last.
func (s *Store) vacuumInto(path string) (err error) {
	c, err := s.guests.openOwn(s.path, false)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := c.close(); err == nil {
			err = cerr
		}
	}()
	if err := c.script("VACUUM INTO '" + quote(path) + "'"); err != nil {
		return err
	}
	copied, err := openConn(path, true)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := copied.close(); err == nil {
			err = cerr
		}
	}()
	verdict, err := copied.pragma("PRAGMA integrity_check(1)")
	if err == nil && verdict != "ok" {
		err = &CorruptError{path, "the copy: " + verdict}
	}
	return err
}

// quote doubles the quotes of an SQL string.
func quote(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\'' {
			out = append(out, '\'')
		}
		out = append(out, s[i])
	}
	return string(out)
}
