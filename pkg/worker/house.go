package worker

import (
	"os"
	"path/filepath"
	"time"

	"nightshift/pkg/store"
)

// houseEvery is how often the budget for everything we write is looked after.
// All workers do it; the deletes are conditional and small, so that is harmless.
const houseEvery = 10 * time.Minute

// keepHouse holds rows, logs and task directories within what the retention
// section allows: the oldest finished things go first, unfinished ones never.
func (p *process) keepHouse(done <-chan struct{}) {
	wait := time.Minute // not in the rush of a start
	for {
		t := p.clock.NewTimer(wait)
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C():
		}
		wait = houseEvery
		p.prune()
	}
}

func (p *process) prune() {
	cfg := p.config()
	got, err := p.store.Prune(store.Retention{
		Final: cfg.Retention.Final, Logs: cfg.Retention.Logs, DiskBudget: cfg.Retention.DiskBudget,
		LogRoot: execLogDir(cfg.Log.Dir), Now: p.clock.Now(), Stop: p.done,
	})
	if err != nil {
		p.log.Warn("retention", "err", err)
		return
	}
	if got.Tasks+got.Logs > 0 {
		p.log.Info("old finished things removed", "tasks", got.Tasks, "executions", got.Executions, "logs", got.Logs, "bytes", got.Bytes)
	}
}

// makeDirs makes what the worker writes into, for its owner alone.
func makeDirs(dirs ...string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return exit(ExitConfig, "%w; make it, or give it to the user that runs the worker", err)
		}
	}
	return nil
}

// runDir is where locks lie: the supervisor's, or the data directory's.
func runDir(dataDir string) string {
	if dir := os.Getenv("NIGHTSHIFT_RUN_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(dataDir, "run")
}
