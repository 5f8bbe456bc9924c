package executor

import (
	"context"
	"errors"
	"testing"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// stubborn is a place that gives no directory at first.
type stubborn struct {
	place
	asked, refused int
}

func (p *stubborn) Dir(*task.Task) (string, error) {
	if p.asked++; p.asked <= p.refused {
		return "", errors.New("no room")
	}
	return "dir", nil
}

func TestADirectoryIsMadeWhenAHandlerAsksForIt(t *testing.T) {
	asks := func(_ context.Context, t *handler.Task) (any, error) {
		if _, err := t.Dir(); err != nil {
			return nil, err
		}
		return t.Dir()
	}
	for name, tc := range map[string]struct {
		run            func(context.Context, *handler.Task) (any, error)
		refused, asked int
		result         string
	}{
		"a handler that needs none":        {run: func(context.Context, *handler.Task) (any, error) { return nil, nil }},
		"once for two calls":               {run: asks, asked: 1, result: `"dir"`},
		"trouble is the worker's, not its": {run: asks, refused: 2, asked: 3, result: `"dir"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &stubborn{refused: tc.refused}
			clock := newManual()
			end := make(chan Completion, 1)
			x := Start(task.Task{ID: "t1", ExecutorID: "w1", ExecID: 7, Executions: 1}, Type{Handler: fn(tc.run)},
				Deps{Store: &row{}, Place: p, Clock: clock}, func(c Completion) { end <- c })
			for range tc.refused {
				clock.armed(t, workerTroubleWait)
				clock.advance(workerTroubleWait)
			}
			c := <-end
			if c.Finish.Verdict != store.Succeed || c.Finish.Result != tc.result || p.asked != tc.asked {
				t.Errorf("verdict %v, result %s, asked %d times", c.Finish.Verdict, c.Finish.Result, p.asked)
			}
			if x.LeavesDir() != (tc.asked > 0) {
				t.Errorf("leaves a directory: %v", x.LeavesDir())
			}
		})
	}
	if later := (&Execution{Task: task.Task{Executions: 2}}); !later.LeavesDir() {
		t.Error("an earlier execution may have left a directory")
	}
}
