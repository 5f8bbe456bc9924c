package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/cron"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler"
	"nightshift/pkg/handler/fetchdata"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/handler/renderreport"
	"nightshift/pkg/scheduler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// loadConfig reads the configuration that o names, with a worker's own types.
func loadConfig(o Options) (*config.Config, error) {
	path, err := config.Find(o.ConfigPath)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, o.Handlers.Types()...)
	if err != nil {
		return nil, err
	}
	if o.DataDir != "" {
		if err := cfg.UseData(o.DataDir); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// settings turns a configuration into what the scheduler goes by.
func (p *process) settings(cfg *config.Config) (*scheduler.Settings, error) {
	s := &scheduler.Settings{
		Types: map[string]executor.Type{}, Rules: map[string]store.TypeRule{},
		PollInterval: cfg.Worker.PollInterval, SuspectAfter: cfg.Worker.SuspectAfter,
		OfflineAfter: cfg.Worker.OfflineAfter, DrainTimeout: cfg.Worker.DrainTimeout,
		MaxCrashes: cfg.Retry.MaxCrashes, MaxExecutions: cfg.Retry.MaxExecutions,
		Backoff: backoff(cfg), SlowHook: slowHook(cfg),
	}
	for name, t := range cfg.Tasks {
		h, err := p.handlerFor(cfg, name, t)
		if err != nil {
			return nil, fmt.Errorf("task type %s: %w", name, err)
		}
		s.Types[name] = executor.Type{
			Handler: h, Timeout: t.Timeout, Grace: t.Grace, SlowAfter: t.SlowAfter,
			Backoff: task.Backoff{Base: t.Retry.Base, Cap: t.Retry.Cap},
		}
		s.Rules[name] = store.TypeRule{Limit: t.Concurrency, Timeout: t.Timeout}
	}
	return s, nil
}

// schedules compiles the schedules section.
func schedules(cfg *config.Config) ([]*cron.Schedule, error) {
	list := make([]*cron.Schedule, 0, len(cfg.Schedules))
	for _, name := range slices.Sorted(maps.Keys(cfg.Schedules)) {
		s, err := cfg.Schedules[name].Definition(name).Compile()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// handlerFor gives the handler of one type: a program, a built-in one, or one of
// the worker's own.
func (p *process) handlerFor(cfg *config.Config, name string, t config.TaskType) (handler.Handler, error) {
	if len(t.Command) > 0 {
		return program.New(program.Config{
			Command: t.Command, Dir: t.Dir, Env: t.Env, Umask: &t.Umask, Fatal: t.Fatal, Retryable: t.Retryable,
			Grace: t.Grace, KillGrace: executor.KillGrace, Reaper: p.reaper,
		})
	}
	if h, ok := p.opts.Handlers[name]; ok {
		return h, nil
	}
	switch t.Builtin {
	case "fetch_data":
		o, err := fetchdata.ParseOptions(t.Options, t.Dir, filepath.Join(cfg.DataDir, "output"))
		if err != nil {
			return nil, err
		}
		return fetchdata.New(o)
	case "render_report":
		dir, err := renderreport.OutputDir(t.Options, t.Dir, filepath.Join(cfg.DataDir, "output"))
		if err != nil {
			return nil, err
		}
		return renderreport.New(renderreport.Options{Source: p.reportSource(cfg, dir), OutputDir: dir})
	}
	return nil, fmt.Errorf("no command, and no handler of this name in this worker")
}

// reportSource is where the shift report finds its facts.
func (p *process) reportSource(cfg *config.Config, outputDir string) renderreport.Source {
	return renderreport.FromStore(renderreport.StoreOptions{
		Store: p.store, DataDir: cfg.DataDir, LogDir: cfg.Log.Dir, TasksDir: cfg.TasksDir(),
		OutputDir: outputDir, Budget: cfg.Retention.DiskBudget,
		Version: p.opts.Version, SuspectAfter: cfg.Worker.SuspectAfter, Now: p.clock.Now,
		Next: func(name string, after time.Time) time.Time {
			s, known := cfg.Schedules[name]
			if !known {
				return time.Time{}
			}
			compiled, err := s.Definition(name).Compile()
			if err != nil {
				return time.Time{} // Load has refused such a schedule
			}
			return compiled.Rule.Next(after)
		},
	})
}

// slowEvent is the one event that is no change of a status.
const slowEvent = "slow"

// hook answers the question, for each thing that happens to a task, which task
// tells people about it. A hook's own task fires no hook.
func hook(cfg *config.Config) func(event string, t *task.Task) (store.NewTask, bool) {
	on := map[string]bool{}
	for _, e := range cfg.Hooks.On {
		on[e] = true
	}
	return func(event string, t *task.Task) (store.NewTask, bool) {
		if cfg.Hooks.Task == "" || !on[event] || t.Type == cfg.Hooks.Task {
			return store.NewTask{}, false
		}
		max := cfg.Type(cfg.Hooks.Task).MaxRetry
		return store.NewTask{Type: cfg.Hooks.Task, Payload: hookPayload(event, t), MaxRetry: &max}, true
	}
}

// hookPayload tells the hook's program what happened to which task.
func hookPayload(event string, t *task.Task) string {
	b, err := json.Marshal(struct {
		Event      string `json:"event"`
		TaskID     string `json:"task_id"`
		TaskType   string `json:"task_type"`
		Status     string `json:"status"`
		Reason     string `json:"reason"`
		ExecID     int64  `json:"exec_id"`
		ExecutorID string `json:"executor_id"`
		RetryCount int64  `json:"retry_count"`
		Progress   string `json:"progress"`
	}{event, t.ID, t.Type, string(t.Status), string(t.Reason), t.ExecID, t.ExecutorID, t.RetryCount, t.Progress})
	if err != nil {
		panic("worker: payload of a hook: " + err.Error()) // strings and numbers always encode
	}
	return string(b)
}

func slowHook(cfg *config.Config) func(t *task.Task) *store.NewTask {
	h := hook(cfg)
	return func(t *task.Task) *store.NewTask {
		if n, ok := h(slowEvent, t); ok {
			return &n
		}
		return nil
	}
}

// wardenSettings are the limits by which other workers are judged.
func wardenSettings(cfg *config.Config) scheduler.WardenSettings {
	return scheduler.WardenSettings{
		SuspectAfter: cfg.Worker.SuspectAfter, OfflineAfter: cfg.Worker.OfflineAfter,
		StopGrace:  cfg.Worker.DrainTimeout + cfg.Worker.Grace + 2*executor.KillGrace,
		MaxCrashes: cfg.Retry.MaxCrashes, MaxExecutions: cfg.Retry.MaxExecutions, Backoff: backoff(cfg), Rand: random,
	}
}

// backoff gives the delays of any type, known or not.
func backoff(cfg *config.Config) func(taskType string) task.Backoff {
	return func(taskType string) task.Backoff {
		r := cfg.Type(taskType).Retry
		return task.Backoff{Base: r.Base, Cap: r.Cap}
	}
}
