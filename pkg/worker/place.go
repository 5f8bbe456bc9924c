package worker

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"

	"nightshift/pkg/execlog"
	"nightshift/pkg/handler/program"
	"nightshift/pkg/task"
)

// places gives each task its directory and each execution its log.
type places struct {
	tasks string                       // the root of the task directories
	logs  func() (*execlog.Dir, error) // where execution logs lie now
	log   hclog.Logger
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

// discard removes the directory of a task that has ended.
func (p *places) discard(t *task.Task) { p.discardID(t.ID) }

func (p *places) discardID(id string) {
	if err := program.RemoveTaskDir(p.tasks, id); err != nil {
		p.log.Warn("task directory not removed", "task", id, "err", err)
	}
}
