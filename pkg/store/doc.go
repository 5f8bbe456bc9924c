// Package store is the one room that speaks SQL.
//
// A Store is one process's way into the database file. Every write goes through
// one goroutine with one connection (writer.go): it takes what is queued, runs it
// in one BEGIN IMMEDIATE … COMMIT with a savepoint for each, and answers each
// caller after the COMMIT. Between processes a blocking flock, the turn, makes
// writers wait in a fair order (turn.go). Reads use read-only connections, in
// short transactions.
//
// Invariants:
//   - a write is acknowledged only after COMMIT returned under synchronous=FULL;
//   - every write of an executor carries its fence (task, executor, execution) and
//     changes one row or returns ErrNotMine;
//   - no query that decides anything reads exec_history or task_events: they are
//     for people;
//   - times come from Options.Clock or from the caller, never from SQLite's now;
//   - no file of the database is opened except by SQLite: closing such a
//     descriptor would drop this process's POSIX locks on it.
package store
