package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

type rvArgs struct{ job }

func (rvArgs) Kind() string { return "noop" }

type rvWorker struct {
	river.WorkerDefaults[rvArgs]
	h func(job)
}

func (w *rvWorker) Work(ctx context.Context, j *river.Job[rvArgs]) error { w.h(j.Args.job); return nil }

// errHandler is a slog.Handler that keeps warnings and errors only.
type errHandler struct{ extra string }

func (errHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (e errHandler) Handle(_ context.Context, r slog.Record) error {
	s := r.Message + e.extra
	r.Attrs(func(a slog.Attr) bool { s += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	troubles.add(s)
	return nil
}
func (e errHandler) WithAttrs(as []slog.Attr) slog.Handler {
	for _, a := range as {
		e.extra += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return e
}
func (e errHandler) WithGroup(string) slog.Handler { return e }

func riverConfig(c settings, h func(job)) *river.Config {
	cfg := &river.Config{Logger: slog.New(errHandler{})}
	if h == nil { // producer only
		return cfg
	}
	ws := river.NewWorkers()
	river.AddWorker(ws, &rvWorker{h: h})
	cfg.Workers = ws
	cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: c.Workers}}
	if c.Best {
		cfg.FetchCooldown = time.Millisecond
		cfg.FetchPollInterval = 10 * time.Millisecond
	}
	return cfg
}

func rvParams(js []job) []river.InsertManyParams {
	ps := make([]river.InsertManyParams, len(js))
	for i, j := range js {
		ps[i] = river.InsertManyParams{Args: rvArgs{j}}
	}
	return ps
}

// ---- River on SQLite

type riverSQLite struct {
	c      settings
	db     *sql.DB
	ins    *river.Client[*sql.Tx]
	worker *river.Client[*sql.Tx]
}

func (p *riverSQLite) Open() (err error) {
	if p.c.Driver == "" {
		p.c.Driver = "sqlite" // modernc, as River's own tests and docs do
	}
	if p.db, err = openSQLite(p.c.Driver, p.c, p.c.Best); err != nil {
		return err
	}
	p.ins, err = river.NewClient(riversqlite.New(p.db), riverConfig(p.c, nil))
	return err
}

func (p *riverSQLite) Setup() error {
	if err := p.Open(); err != nil {
		return err
	}
	m, err := rivermigrate.New(riversqlite.New(p.db), nil)
	if err != nil {
		return err
	}
	_, err = m.Migrate(context.Background(), rivermigrate.DirectionUp, nil)
	return err
}

func (p *riverSQLite) Insert(j job) error {
	_, err := p.ins.Insert(context.Background(), rvArgs{j}, nil)
	return err
}

func (p *riverSQLite) InsertBatch(js []job) error {
	_, err := p.ins.InsertManyFast(context.Background(), rvParams(js))
	return err
}

func (p *riverSQLite) Start(h func(job)) (err error) {
	if p.worker, err = river.NewClient(riversqlite.New(p.db), riverConfig(p.c, h)); err != nil {
		return err
	}
	return p.worker.Start(context.Background())
}

func (p *riverSQLite) Stop() {
	ctx, c := context.WithTimeout(context.Background(), 20*time.Second)
	defer c()
	_ = p.worker.Stop(ctx)
}
func (p *riverSQLite) Pending() int {
	return countRow(p.db, `select count(*) from river_job where state in ('available','running','retryable')`)
}

// ---- River on PostgreSQL

type riverPG struct {
	c      settings
	pool   *pgxpool.Pool
	ins    *river.Client[pgx.Tx]
	worker *river.Client[pgx.Tx]
}

func (p *riverPG) Open() (err error) {
	if p.pool, err = pgxpool.New(context.Background(), p.c.PG); err != nil {
		return err
	}
	p.ins, err = river.NewClient(riverpgxv5.New(p.pool), riverConfig(p.c, nil))
	return err
}

func (p *riverPG) Setup() error {
	if err := p.Open(); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err != nil {
		return err
	}
	if _, err = m.Migrate(context.Background(), rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = p.pool.Exec(context.Background(), `truncate river_job`)
	return err
}

func (p *riverPG) Insert(j job) error {
	_, err := p.ins.Insert(context.Background(), rvArgs{j}, nil)
	return err
}

func (p *riverPG) InsertBatch(js []job) error {
	_, err := p.ins.InsertManyFast(context.Background(), rvParams(js))
	return err
}

func (p *riverPG) Start(h func(job)) (err error) {
	if p.worker, err = river.NewClient(riverpgxv5.New(p.pool), riverConfig(p.c, h)); err != nil {
		return err
	}
	return p.worker.Start(context.Background())
}

func (p *riverPG) Stop() {
	ctx, c := context.WithTimeout(context.Background(), 20*time.Second)
	defer c()
	_ = p.worker.Stop(ctx)
}

func (p *riverPG) Pending() (n int) {
	if err := p.pool.QueryRow(context.Background(), `select count(*) from river_job where state in ('available','running','retryable')`).Scan(&n); err != nil {
		return -1
	}
	return n
}
