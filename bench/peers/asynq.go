package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

type asynqPeer struct {
	c    settings
	cl   *asynq.Client
	insp *asynq.Inspector
	srv  *asynq.Server
}

type aqLog struct{}

func (aqLog) Debug(...any)   {}
func (aqLog) Info(...any)    {}
func (aqLog) Warn(a ...any)  { troubles.add(fmt.Sprint(a...)) }
func (aqLog) Error(a ...any) { troubles.add(fmt.Sprint(a...)) }
func (aqLog) Fatal(a ...any) { troubles.add(fmt.Sprint(a...)) }

func (p *asynqPeer) opt() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: p.c.Redis}
}

func (p *asynqPeer) Open() error {
	p.cl, p.insp = asynq.NewClient(p.opt()), asynq.NewInspector(p.opt())
	return nil
}

func (p *asynqPeer) Setup() error {
	r := redis.NewClient(&redis.Options{Addr: p.c.Redis})
	defer r.Close()
	ctx := context.Background()
	if err := r.FlushDB(ctx).Err(); err != nil {
		return err
	}
	if p.c.Sync != "" {
		if err := r.ConfigSet(ctx, "appendfsync", p.c.Sync).Err(); err != nil {
			return err
		}
	}
	return p.Open()
}

func (p *asynqPeer) Insert(j job) error {
	_, err := p.cl.Enqueue(asynq.NewTask("noop", j.bytes()))
	return err
}
func (p *asynqPeer) InsertBatch([]job) error { return errNoBatch }

var aqQueues = map[string]int{"critical": 6, "default": 3, "low": 1}

func (p *asynqPeer) Start(h func(job)) error {
	cfg := asynq.Config{Concurrency: p.c.Workers, Logger: aqLog{}, LogLevel: asynq.WarnLevel, Queues: aqQueues}
	if p.c.Best {
		cfg.TaskCheckInterval = 10 * time.Millisecond
		cfg.DelayedTaskCheckInterval = time.Second
	}
	p.srv = asynq.NewServer(p.opt(), cfg)
	mux := asynq.NewServeMux()
	mux.HandleFunc("noop", func(ctx context.Context, t *asynq.Task) error { h(parseJob(t.Payload())); return nil })
	return p.srv.Start(mux)
}
func (p *asynqPeer) Stop() { p.srv.Shutdown() }

func (p *asynqPeer) Pending() (n int) {
	for q := range aqQueues {
		if i, err := p.insp.GetQueueInfo(q); err == nil {
			n += i.Pending + i.Active + i.Retry
		}
	}
	return n
}
