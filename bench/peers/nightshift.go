package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/worker"
)

// nightshiftPeer is ours: a whole worker, with its lock, heartbeats, logs and
// events, whose one task type is a Go handler.
type nightshiftPeer struct {
	c     settings
	store *store.Store
	db    *sql.DB // for Pending
	end   context.CancelFunc
	ended chan struct{}
}

// Path names a data directory here.
func (p *nightshiftPeer) file(name string) string { return filepath.Join(p.c.Path, name) }

func (p *nightshiftPeer) Setup() error {
	if err := os.MkdirAll(p.file("data"), 0o700); err != nil {
		return err
	}
	config := fmt.Sprintf("data_dir: data\nworker: {slots: %d}\n", p.c.Workers)
	if err := os.WriteFile(p.file("nightshift.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	if err := store.Init(p.file("data/nightshift.db")); err != nil {
		return err
	}
	return p.Open()
}

func (p *nightshiftPeer) Open() (err error) {
	if p.store != nil {
		return nil
	}
	if p.store, err = store.Open(store.Options{Path: p.file("data/nightshift.db")}); err != nil {
		return err
	}
	p.db, err = sql.Open("sqlite3", "file:"+p.file("data/nightshift.db")+"?mode=ro&_timeout=5000")
	return err
}

func (p *nightshiftPeer) Insert(j job) error {
	_, err := p.store.Add(time.Time{}, store.NewTask{Type: "noop", Payload: string(j.bytes())})
	return err
}

func (p *nightshiftPeer) InsertBatch(js []job) error {
	tasks := make([]store.NewTask, len(js))
	for i, j := range js {
		tasks[i] = store.NewTask{Type: "noop", Payload: string(j.bytes())}
	}
	_, err := p.store.Add(time.Time{}, tasks...)
	return err
}

// Start runs a worker in this process, under an id of its own.
func (p *nightshiftPeer) Start(h func(job)) error {
	run := func(_ context.Context, t *handler.Task) (any, error) {
		var j job
		if err := json.Unmarshal(t.Payload, &j); err != nil {
			return nil, handler.Fatal(err)
		}
		h(j)
		return nil, nil
	}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		code := worker.Run(ctx, worker.Options{
			ConfigPath: p.file("nightshift.yaml"), WorkerID: fmt.Sprintf("w%d", os.Getpid()), Version: "peers",
			Handlers: handler.Registry{"noop": handler.Func(run)},
		})
		if code != worker.ExitOK {
			troubles.add(fmt.Sprintf("worker ended with %d", code))
		}
	}()
	return nil
}

func (p *nightshiftPeer) Stop() {
	p.end()
	<-p.ended
}

func (p *nightshiftPeer) Pending() int {
	return countRow(p.db, `SELECT count(*) FROM tasks WHERE status IN ('PENDING', 'RUNNING', 'RETRYING', 'LOST')`)
}
