package worker

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalHandling is the goroutine that turns signals into calls.
type signalHandling struct {
	ch   chan os.Signal
	done chan struct{}
	over chan struct{}
}

// listen obeys: TERM and INT drain, HUP re-reads the configuration, USR2 says
// that a neighbour died. The end of ctx drains too.
func (p *process) listen(ctx context.Context) *signalHandling {
	s := &signalHandling{ch: make(chan os.Signal, 16), done: make(chan struct{}), over: make(chan struct{})}
	signal.Notify(s.ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR2)
	go func() {
		defer close(s.over)
		for {
			select {
			case <-s.done:
				return
			case <-ctx.Done():
				p.sched.Drain()
				ctx = context.Background()
			case sig := <-s.ch:
				p.obey(sig)
			}
		}
	}()
	return s
}

func (s *signalHandling) close() {
	signal.Stop(s.ch)
	close(s.done)
	<-s.over
}

func (p *process) obey(sig os.Signal) {
	switch sig {
	case syscall.SIGHUP:
		p.reload()
	case syscall.SIGUSR2:
		p.warden.Notice()
	default:
		p.log.Info("told to stop", "signal", sig.String())
		p.sched.Drain()
	}
}

// reload puts a changed configuration in force without a restart. One with
// mistakes leaves the old one in force.
func (p *process) reload() {
	cfg, err := loadConfig(p.opts)
	if err != nil {
		p.log.Error("configuration not re-read: the old one stays in force", "err", err)
		return
	}
	set, err := p.settings(cfg)
	if err != nil {
		p.log.Error("configuration not re-read: the old one stays in force", "err", err)
		return
	}
	table, err := schedules(cfg)
	if err != nil {
		p.log.Error("configuration not re-read: the old one stays in force", "err", err)
		return
	}
	if cfg.DataDir != p.config().DataDir {
		p.log.Error("data_dir cannot change while the worker runs: restart it", "old", p.config().DataDir, "new", cfg.DataDir)
		return
	}
	if err := p.logs.Reload(cfg.Log); err != nil {
		p.log.Error("log settings not re-read", "err", err)
	}
	p.cfg.Store(cfg)
	p.hooksFor(cfg)
	p.sched.Reload(set)
	p.table.Reload(table)
	p.log.Info("configuration re-read", "file", cfg.Path, "types", len(cfg.Tasks), "schedules", len(cfg.Schedules))
}
