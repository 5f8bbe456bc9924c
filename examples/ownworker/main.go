// Command ownworker is a worker with a Go handler of its own: the type squares_go,
// beside all the types of the configuration.
//
//	go build -o bin/ownworker ./examples/ownworker
//	bin/supervisor --workers 2 --run-dir data/run -- bin/ownworker run --config nightshift.yaml
//	bin/nightshift add squares_go
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"nightshift/pkg/handler"
	"nightshift/pkg/worker"
)

func main() {
	worker.Main(handler.Registry{"squares_go": handler.Func(squares)})
}

// position is where the work stands: a count, and how long the output was then.
type position struct {
	N     int   `json:"n"`
	Bytes int64 `json:"bytes"`
}

// squares appends the squares of 1 … 1000 to a file, a checkpoint each 100.
func squares(ctx context.Context, t *handler.Task) (any, error) {
	var at position
	if _, err := t.Resume(&at); err != nil {
		return nil, err
	}
	path := os.Getenv("OUT")
	if path == "" {
		dir, err := t.Dir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, "squares")
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := out.Truncate(at.Bytes); err != nil {
		return nil, err
	}
	for at.N < 1000 {
		at.N++
		n, err := fmt.Fprintln(out, at.N*at.N)
		if err != nil {
			return nil, err
		}
		at.Bytes += int64(n)
		if at.N%100 != 0 {
			continue
		}
		if err := out.Sync(); err != nil {
			return nil, err
		}
		if err := t.Checkpoint(ctx, at, fmt.Sprintf("%d/1000", at.N)); err != nil {
			return nil, err
		}
	}
	return fmt.Sprintf("%d squares", at.N), nil
}
