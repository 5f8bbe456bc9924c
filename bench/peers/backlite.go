package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/mikestefanello/backlite"
)

type backlitePeer struct {
	c      settings
	db     *sql.DB
	cl     *backlite.Client
	cancel context.CancelFunc
}

type blTask struct{ job }

func (blTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "noop", MaxAttempts: 5, Backoff: 5 * time.Second}
}

type blLog struct{}

func (blLog) Info(string, ...any) {}
func (blLog) Error(msg string, args ...any) {
	troubles.add(msg + " " + strings.TrimSpace(fmt.Sprintln(args...)))
}

func (p *backlitePeer) Open() (err error) {
	if p.db, err = openSQLite("sqlite3", p.c, p.c.Best); err != nil {
		return err
	}
	p.cl, err = backlite.NewClient(backlite.ClientConfig{DB: p.db, Logger: blLog{}, ReleaseAfter: 10 * time.Minute,
		NumWorkers: max(p.c.Workers, 1), CleanupInterval: time.Hour})
	return err
}

func (p *backlitePeer) Setup() error {
	if err := p.Open(); err != nil {
		return err
	}
	return p.cl.Install()
}

func (p *backlitePeer) Insert(j job) error { _, err := p.cl.Add(blTask{j}).Save(); return err }

func (p *backlitePeer) InsertBatch(js []job) error {
	ts := make([]backlite.Task, len(js))
	for i, j := range js {
		ts[i] = blTask{j}
	}
	_, err := p.cl.Add(ts...).Save()
	return err
}

func (p *backlitePeer) Start(h func(job)) error {
	p.cl.Register(backlite.NewQueue[blTask](func(ctx context.Context, t blTask) error { h(t.job); return nil }))
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.cl.Start(ctx)
	return nil
}

func (p *backlitePeer) Stop() {
	ctx, c := context.WithTimeout(context.Background(), 5*time.Second)
	defer c()
	p.cl.Stop(ctx)
	p.cancel()
}
func (p *backlitePeer) Pending() int { return countRow(p.db, `select count(*) from backlite_tasks`) }
