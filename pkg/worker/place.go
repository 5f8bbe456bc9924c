package worker

import (
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/execlog"
	"nightshift/pkg/executor"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/task"
)

// places gives each task its directory and each execution its log.
type places struct {
	tasks string                              // the root of the task directories
	where func() (dir string, maxBytes int64) // of the execution logs, as configured now
	log   hclog.Logger
	gone  chan string // ids of ended tasks whose directories shall go; closed when no task ends any more

	mu   sync.Mutex
	dir  *execlog.Dir // opened for:
	path string
	max  int64
}

// Open implements executor.Place.
func (p *places) Open(t *task.Task) (executor.Log, error) {
	logs, err := p.logs()
	if err != nil {
		return nil, fmt.Errorf("execution logs: %w", err)
	}
	return printed{logs.Create(t.ExecID)}, nil
}

// printed is a log that has a path only once something was printed.
type printed struct{ *execlog.Log }

func (p printed) Path() string {
	if !p.Printed() {
		return ""
	}
	return p.Log.Path()
}

// Dir implements executor.Place.
func (p *places) Dir(t *task.Task) (string, error) { return program.TaskDir(p.tasks, t.ID) }

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

// goneQueue is how many directories may wait to be removed before the loop that
// ends tasks helps: a removal of what a program left can take its time.
const goneQueue = 256

// discard has the directory of a task that has ended removed, by clean if it can.
func (p *places) discard(t *task.Task) {
	select {
	case p.gone <- t.ID:
	default:
		p.discardID(t.ID)
	}
}

// clean removes directories until the queue is closed.
func (p *places) clean() {
	for id := range p.gone {
		p.discardID(id)
	}
}

func (p *places) discardID(id string) {
	if err := program.RemoveTaskDir(p.tasks, id); err != nil {
		p.log.Warn("task directory not removed", "task", id, "err", err)
	}
}
