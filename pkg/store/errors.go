package store

import (
	"errors"
	"fmt"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// What callers decide on.
var (
	// ErrNotMine is returned by a fenced write that changed no row: the task is no
	// longer this execution's. Kill the child, write nothing more.
	ErrNotMine = errors.New("the task is no longer this execution's")
	// ErrFull says that the disk is full and nothing was written. Keep what was to
	// be written and try again.
	ErrFull = errors.New("disk full: nothing was written")
	// ErrBusy says that the write lock could not be had within Options.MaxWait.
	ErrBusy = errors.New("the database is busy")
	// ErrUnknown says that a COMMIT failed in a way that leaves open whether it
	// took place, and that it could not be found out within Options.MaxWait.
	ErrUnknown = errors.New("unknown whether the write took place")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrNotFound says that no such task, schedule or execution exists.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a task with this id, or an unfinished one with this key, exists.
	ErrExists = errors.New("exists already")
	// ErrReadOnly is returned by a write on a Store opened read-only.
	ErrReadOnly = errors.New("the store was opened for reading")
)

// Exit codes of sysexits(3) that the errors of this package map to.
const (
	exitInput       = 65
	exitNoInput     = 66
	exitUnavailable = 69
	exitCantCreate  = 73
	exitIO          = 74
	exitTempFail    = 75
	exitNoPerm      = 77
	exitConfig      = 78
)

// NotFoundError says that there is no database at Path.
type NotFoundError struct{ Path string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no database at %s: make one with `nightshift db init`", e.Path)
}

// NotDatabaseError says that the file is no Nightshift database. It is left as it is.
type NotDatabaseError struct{ Path, Why string }

func (e *NotDatabaseError) Error() string {
	return fmt.Sprintf("%s is not a Nightshift database (%s); the file was left as it is", e.Path, e.Why)
}

// NewerSchemaError says that a newer Nightshift wrote the file.
type NewerSchemaError struct {
	Path        string
	Have, Known int
}

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("%s has schema version %d, this program knows versions up to %d: install the newer Nightshift; the file was left as it is",
		e.Path, e.Have, e.Known)
}

// FilesystemError says that the file lies where SQLite's locks do not hold.
type FilesystemError struct{ Path, Kind string }

func (e *FilesystemError) Error() string {
	return fmt.Sprintf("%s lies on %s, where the database's locks cannot be trusted: put data_dir on a local file system, or allow it with --allow-network-fs (slower, without WAL)",
		e.Path, e.Kind)
}

// PermissionError says that a file cannot be opened or written by this user.
type PermissionError struct{ Path, Why string }

func (e *PermissionError) Error() string {
	return fmt.Sprintf("no permission for %s: %s", e.Path, e.Why)
}

// CorruptError says that the file's content is damaged or incomplete.
type CorruptError struct{ Path, Why string }

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; stop the workers, look with `nightshift db check`, restore a backup", e.Path, e.Why)
}

// OldSQLiteError says that the SQLite built into this program is too old to be safe.
type OldSQLiteError struct{ Have, Want string }

func (e *OldSQLiteError) Error() string {
	return fmt.Sprintf("this program was built with SQLite %s; before %s two processes that write and checkpoint at once can lose commits: build it with a newer go-sqlite3", e.Have, e.Want)
}

// ReplacedError says that the file at Path is not the one that was opened.
type ReplacedError struct{ Path string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s was removed or replaced while it was open: nothing is written to the old file any more; restart to use the new one", e.Path)
}

// ExitCode is the exit status that a command should end with for an error of this package.
func ExitCode(err error) int {
	var (
		missing  *NotFoundError
		foreign  *NotDatabaseError
		newer    *NewerSchemaError
		network  *FilesystemError
		perm     *PermissionError
		corrupt  *CorruptError
		old      *OldSQLiteError
		replaced *ReplacedError
		input    *InputError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &input), errors.Is(err, ErrExists):
		return exitInput
	case errors.As(err, &missing), errors.Is(err, ErrNotFound):
		return exitNoInput
	case errors.As(err, &foreign), errors.As(err, &newer), errors.As(err, &network), errors.As(err, &corrupt), errors.As(err, &old):
		return exitConfig
	case errors.As(err, &perm):
		return exitNoPerm
	case errors.As(err, &replaced):
		return exitUnavailable
	case errors.Is(err, ErrBusy):
		return exitTempFail
	case errors.Is(err, ErrFull), errors.Is(err, ErrUnknown):
		return exitIO
	}
	var se sqlite3.Error
	if errors.As(err, &se) {
		switch se.Code {
		case sqlite3.ErrCantOpen:
			return exitCantCreate
		case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrProtocol:
			return exitTempFail
		case sqlite3.ErrIoErr:
			return exitIO
		case sqlite3.ErrPerm, sqlite3.ErrReadonly, sqlite3.ErrAuth:
			return exitNoPerm
		case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
			return exitConfig
		case sqlite3.ErrConstraint, sqlite3.ErrTooBig:
			return exitInput
		}
	}
	return exitUnavailable
}

// Transient reports that the same write may succeed later: the disk was full,
// the database busy, read-only or failing. What was to be written must be kept.
func Transient(err error) bool {
	if errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown) {
		return true
	}
	var se sqlite3.Error
	if errors.As(err, &se) {
		switch se.Code {
		case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrProtocol, sqlite3.ErrIoErr, sqlite3.ErrFull,
			sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrNomem:
			return true
		}
	}
	return false
}

// InputError says that a value was refused; Index is its place in a batch (from 0).
type InputError struct {
	Index int
	Why   string
}

func (e *InputError) Error() string { return e.Why }
