package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	_ "github.com/mattn/go-sqlite3" // driver "sqlite3"
	_ "modernc.org/sqlite"          // driver "sqlite"
)

// job is the payload of every job, the same for every queue.
type job struct {
	Seq   int64 `json:"seq"`
	At    int64 `json:"at"`    // wall clock in ns, taken by the producer just before the insert
	Sleep int64 `json:"sleep"` // ms that the handler stays
}

func (j job) bytes() []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // three numbers always encode
	}
	return b
}

func parseJob(b []byte) (j job) {
	if err := json.Unmarshal(b, &j); err != nil {
		troubles.add("payload: " + err.Error())
	}
	return j
}

// settings pick a queue and how it is run.
type settings struct {
	Peer    string // nightshift raw goqite goqite-loop backlite river-sqlite river-pg asynq
	Path    string // SQLite file
	Sync    string // SQLite: FULL or NORMAL; asynq: always or everysec
	Driver  string // river-sqlite: sqlite (modernc) or sqlite3 (mattn)
	Best    bool   // the best documented settings, not the defaults
	Workers int    // concurrency within a process
	Batch   int    // raw: rows a transaction
	Redis   string // address
	PG      string // URL
}

// peer hides one queue behind what is measured of it.
type peer interface {
	Setup() error              // make the schema, empty the queue
	Open() error               // connect
	Insert(j job) error        // one durable insert
	InsertBatch(j []job) error // one batch; errNoBatch where there is none
	Start(h func(job)) error   // begin to work
	Stop()                     // end as the library wants it
	Pending() int              // jobs that are not finished
}

var errNoBatch = errors.New("it has no batch call")

func newPeer(c settings) (peer, error) {
	switch c.Peer {
	case "nightshift":
		return &nightshiftPeer{c: c}, nil
	case "raw":
		return &rawPeer{c: c}, nil
	case "goqite", "goqite-loop":
		return &goqitePeer{c: c}, nil
	case "backlite":
		return &backlitePeer{c: c}, nil
	case "river-sqlite":
		return &riverSQLite{c: c}, nil
	case "river-pg":
		return &riverPG{c: c}, nil
	case "asynq":
		return &asynqPeer{c: c}, nil
	}
	return nil, fmt.Errorf("unknown queue %q", c.Peer)
}

// openSQLite opens a file the way that the libraries' documents do: WAL, a busy
// timeout of 5 s, one connection a process.
func openSQLite(driver string, c settings, immediate bool) (*sql.DB, error) {
	dsn := "file:" + c.Path + "?_journal=WAL&_timeout=5000&_fk=true&_sync=" + c.Sync
	if driver == "sqlite" { // modernc
		dsn = "file:" + c.Path + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(" + c.Sync + ")"
	}
	if immediate {
		dsn += "&_txlock=immediate"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, db.Ping()
}

func inTx(db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// countRow is a query for one number; -1 when it cannot be had now.
func countRow(db *sql.DB, q string) int {
	var n int
	if err := db.QueryRow(q).Scan(&n); err != nil {
		return -1
	}
	return n
}

// trouble counts what a library logs as an error, and keeps the first ones. It
// serves as every library's logger.
type trouble struct {
	mu      sync.Mutex
	n       int64
	locked  int64
	samples []string
}

var troubles trouble

func (t *trouble) add(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	if l := strings.ToLower(s); strings.Contains(l, "locked") || strings.Contains(l, "busy") {
		t.locked++
	}
	if len(t.samples) < 3 {
		t.samples = append(t.samples, s)
	}
}
