package worker

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/execlog"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/task"
)

// places gives each task its directory and each execution its log.
type places struct {
	tasks string                              // the root of the task directories
	where func() (dir string, maxBytes int64) // of the execution logs, as configured now
	log   hclog.Logger

	mu   sync.Mutex
	dir  *execlog.Dir // opened for:
	path string
	max  int64
}

// Open implements executor.Place.
func (p *places) Open(t *task.Task) (dir string, log io.WriteCloser, path string, err error) {
	if dir, err = program.TaskDir(p.tasks, t.ID); err != nil {
		return "", nil, "", fmt.Errorf("task directory: %w", err)
	}
	logs, err := p.logs()
	if err != nil {
		return "", nil, "", fmt.Errorf("execution logs: %w", err)
	}
	l := logs.Create(t.ExecID)
	return dir, l, l.Path(), nil
}

// logs opens the directory of execution logs, anew when the configuration moved it.
func (p *places) logs() (*execlog.Dir, error) {
	path, maxBytes := p.where()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != nil && p.path == path && p.max == maxBytes {
		return p.dir, nil
	}
	d, err := execlog.OpenDir(path, maxBytes)
	if err != nil {
		return nil, err
	}
	p.dir, p.path, p.max = d, path, maxBytes
	return d, nil
}

// discard removes the directory of a task that has ended.
func (p *places) discard(t *task.Task) { p.discardID(t.ID) }

func (p *places) discardID(id string) {
	if err := program.RemoveTaskDir(p.tasks, id); err != nil {
		p.log.Warn("task directory not removed", "task", id, "err", err)
	}
}
