package main

// row is one queue with one setting: a line of the table.
type row struct {
	section string
	name    string
	set     settings
	part    int // of the jobs of a drain, what this one gets: slow settings take too long for all

	single, batch         []float64 // inserts a second
	drain1, drain4        []float64 // jobs a second
	twice, locked         []float64 // of 4 processes
	wake50, wake99, idleS []float64 // ms, ms, CPU s in 30 s
	anonMB                []float64
	trouble               string
}

// The sections of the table.
const (
	durable  = "durable at the commit (FULL; everysec apart below), best documented settings"
	relaxed  = "a power cut may lose the last commits (NORMAL; everysec), best settings"
	defaults = "durable at the commit, the libraries' own defaults"
)

// plan lists what is measured. The concurrency of the best settings is what
// probing found best on two cores.
func (r *run) plan() []*row {
	sqlite := func(section, name, peer, sync string, workers int) *row {
		return &row{section: section, name: name, part: 1,
			set: settings{Peer: peer, Sync: sync, Best: section != defaults, Workers: workers, Driver: "sqlite3"}}
	}
	mod := func(e *row, f func(e *row)) *row { f(e); return e }
	batch100 := func(e *row) { e.set.Batch = 100 }
	modernc := func(e *row) { e.set.Driver = "sqlite" }
	rows := []*row{
		mod(sqlite(durable, "raw SQLite, 100 a transaction", "raw", "FULL", 1), batch100),
		sqlite(durable, "Nightshift, 32 slots", "nightshift", "FULL", 32),
		sqlite(durable, "Nightshift, 256 slots", "nightshift", "FULL", 256),
		sqlite(durable, "backlite", "backlite", "FULL", 1000),
		sqlite(durable, "goqite, Runner", "goqite", "FULL", 100),
		sqlite(durable, "goqite, bare loop", "goqite-loop", "FULL", 1),
		sqlite(durable, "River, SQLite (mattn)", "river-sqlite", "FULL", 1000),
		mod(sqlite(durable, "River, SQLite (modernc)", "river-sqlite", "FULL", 1000), modernc),
	}
	server := func(section, name string, set settings) *row {
		set.Best = section != defaults
		return &row{section: section, name: name, set: set, part: 1}
	}
	url := ""
	if r.pg != nil {
		url = "postgres://postgres@" + r.pg.address() + "/postgres?sslmode=disable&pool_max_conns=10"
		rows = append(rows, server(durable, "River, PostgreSQL", settings{Peer: "river-pg", PG: url, Workers: 1000}))
	}
	redis := ""
	if r.redis != nil {
		redis = r.redis.address()
		rows = append(rows, server(durable, "asynq, Redis always", settings{Peer: "asynq", Sync: "always", Redis: redis, Workers: 10}))
	}
	rows = append(rows,
		mod(sqlite(relaxed, "raw SQLite, 100 a transaction", "raw", "NORMAL", 1), batch100),
		sqlite(relaxed, "backlite", "backlite", "NORMAL", 1000),
		sqlite(relaxed, "goqite, Runner", "goqite", "NORMAL", 100),
		sqlite(relaxed, "goqite, bare loop", "goqite-loop", "NORMAL", 1),
		sqlite(relaxed, "River, SQLite (mattn)", "river-sqlite", "NORMAL", 1000),
	)
	if redis != "" {
		rows = append(rows, server(relaxed, "asynq, Redis everysec", settings{Peer: "asynq", Sync: "everysec", Redis: redis, Workers: 10}))
	}
	rows = append(rows,
		sqlite(defaults, "Nightshift (1 slot)", "nightshift", "FULL", 1),
		mod(sqlite(defaults, "backlite (README: 10)", "backlite", "FULL", 10), func(e *row) { e.part = 20 }),
		mod(sqlite(defaults, "goqite, Runner (2)", "goqite", "FULL", 2), func(e *row) { e.part = 40 }),
		mod(sqlite(defaults, "River, SQLite (100)", "river-sqlite", "FULL", 100), func(e *row) { e.part = 4 }),
	)
	if r.pg != nil {
		rows = append(rows, mod(server(defaults, "River, PostgreSQL (100)", settings{Peer: "river-pg", PG: url, Workers: 100}),
			func(e *row) { e.part = 4 }))
	}
	return rows
}
