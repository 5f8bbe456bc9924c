package main

import (
	"context"
	"database/sql"
	_ "embed"
	"sync"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// goqitePeer: "goqite" uses the library's jobs.Runner; "goqite-loop" uses Receive and Delete directly.
type goqitePeer struct {
	c      settings
	db     *sql.DB
	q      *goqite.Queue
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type goqiteLog struct{}

func (goqiteLog) Info(msg string, args ...any) {
	if len(msg) > 5 && msg[:5] == "Error" {
		for i := 0; i+1 < len(args); i += 2 {
			if args[i] == "error" {
				msg += ": " + args[i+1].(error).Error()
			}
		}
		troubles.add(msg)
	}
}

func (p *goqitePeer) Open() (err error) {
	if p.db, err = openSQLite("sqlite3", p.c, p.c.Best); err != nil {
		return err
	}
	p.q = goqite.New(goqite.NewOpts{DB: p.db, Name: "jobs"})
	return nil
}

func (p *goqitePeer) Setup() error {
	if err := p.Open(); err != nil {
		return err
	}
	schema, err := moduleFile("maragu.dev/goqite", "schema_sqlite.sql")
	if err != nil {
		return err
	}
	_, err = p.db.Exec(schema)
	return err
}

func (p *goqitePeer) runner() bool { return p.c.Peer == "goqite" }

func (p *goqitePeer) Insert(j job) error {
	if p.runner() {
		_, err := jobs.Create(context.Background(), p.q, "noop", goqite.Message{Body: j.bytes()})
		return err
	}
	return p.q.Send(context.Background(), goqite.Message{Body: j.bytes()})
}

// InsertBatch: there is no bulk call, but CreateTx/SendTx may be called many times in one transaction.
func (p *goqitePeer) InsertBatch(js []job) error {
	return inTx(p.db, func(tx *sql.Tx) error {
		for _, j := range js {
			var err error
			if p.runner() {
				_, err = jobs.CreateTx(context.Background(), tx, p.q, "noop", goqite.Message{Body: j.bytes()})
			} else {
				err = p.q.SendTx(context.Background(), tx, goqite.Message{Body: j.bytes()})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *goqitePeer) Start(h func(job)) error {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	poll := time.Duration(0) // library default, 100 ms
	if p.c.Best {
		poll = time.Millisecond
	}
	if p.runner() {
		r := jobs.NewRunner(jobs.NewRunnerOpts{Limit: p.c.Workers, PollInterval: poll, Queue: p.q, Log: goqiteLog{}})
		r.Register("noop", func(ctx context.Context, m []byte) error {
			h(parseJob(m))
			return nil
		})
		p.wg.Add(1)
		go func() { defer p.wg.Done(); r.Start(ctx) }()
		return nil
	}
	if poll == 0 {
		poll = 100 * time.Millisecond
	}
	for range max(p.c.Workers, 1) {
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			for ctx.Err() == nil {
				m, err := p.q.ReceiveAndWait(ctx, poll)
				if err != nil {
					if ctx.Err() == nil {
						troubles.add("Error receiving: " + err.Error())
					}
					continue
				}
				if m == nil {
					continue
				}
				h(parseJob(m.Body))
				if err := p.q.Delete(context.Background(), m.ID); err != nil {
					troubles.add("Error deleting: " + err.Error())
				}
			}
		}()
	}
	return nil
}

func (p *goqitePeer) Stop()        { p.cancel(); p.wg.Wait() }
func (p *goqitePeer) Pending() int { return countRow(p.db, `select count(*) from goqite`) }
