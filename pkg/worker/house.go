package worker

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nightshift/pkg/store"
)

// houseEvery is how often the budget for everything we write is looked after.
// All workers do it; what they delete is finished and old, so that is harmless.
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
		if err := p.tidy(); err != nil {
			p.log.Warn("retention", "err", err)
		}
	}
}

// logFile is an execution log on disk.
type logFile struct {
	path  string
	size  int64
	mtime time.Time
}

// tidy removes finished rows by age, then logs by age, then the oldest of both
// until the data directory is within its budget.
func (p *process) tidy() error {
	cfg, now := p.config(), p.clock.Now()
	policy := store.PrunePolicy{Now: now}
	if cfg.Retention.Final > 0 {
		policy.Before = now.Add(-cfg.Retention.Final)
	}
	gone, err := p.store.Prune(policy)
	if err != nil {
		return err
	}
	for _, path := range gone.LogPaths {
		if within(path, cfg.ExecLogDir()) { // a row's text must not name what is deleted elsewhere
			p.removeFile(path)
		}
	}
	for _, id := range gone.Tasks {
		p.places.discardID(id)
	}
	logs, total, err := executionLogs(cfg.ExecLogDir(), p.liveLogs())
	if err != nil {
		return err
	}
	dropped := 0
	for len(logs) > 0 && (p.tooOld(logs[0], now) || p.overBudget(total)) {
		p.removeFile(logs[0].path)
		total -= logs[0].size
		logs = logs[1:]
		dropped++
	}
	if budget := cfg.Retention.DiskBudget; budget > 0 && p.overBudget(total) {
		// The logs that may go are gone: now the oldest finished rows.
		more, err := p.store.Prune(store.PrunePolicy{Now: now, MaxBytes: max(budget-total, 1)})
		if err != nil {
			return err
		}
		gone.Tasks = append(gone.Tasks, more.Tasks...)
	}
	if len(gone.Tasks)+dropped > 0 {
		p.log.Info("old finished things removed", "tasks", len(gone.Tasks), "logs", dropped+len(gone.LogPaths))
	}
	return nil
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (p *process) tooOld(l logFile, now time.Time) bool {
	keep := p.config().Retention.Logs
	return keep > 0 && now.Sub(l.mtime) > keep
}

// overBudget compares database and execution logs with the budget; the worker's
// own logs are bounded by their rotation.
func (p *process) overBudget(logs int64) bool {
	budget := p.config().Retention.DiskBudget
	if budget == 0 {
		return false
	}
	size, err := p.store.Sizes()
	return err == nil && logs+size.Database+size.WAL > budget
}

// liveLogs are the logs of what runs now, anywhere: they stay.
func (p *process) liveLogs() map[string]bool {
	live := map[string]bool{}
	running, err := p.store.Running()
	if err != nil {
		p.log.Debug("running tasks", "err", err)
		return nil
	}
	logs, err := p.places.logs()
	if err != nil {
		return nil
	}
	for i := range running {
		live[logs.Path(running[i].ExecID)] = true
	}
	return live
}

// executionLogs lists the logs below dir that are not live, oldest first, and
// the size of all. A nil live (unknown) lists none.
func executionLogs(dir string, live map[string]bool) (old []logFile, total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed by a neighbour meanwhile
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		total += info.Size()
		if live != nil && !live[path] {
			old = append(old, logFile{path, info.Size(), info.ModTime()})
		}
		return nil
	})
	slices.SortFunc(old, func(a, b logFile) int { return cmp.Compare(a.mtime.UnixNano(), b.mtime.UnixNano()) })
	return old, total, err
}

func (p *process) removeFile(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("old log not removed", "file", path, "err", err)
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
