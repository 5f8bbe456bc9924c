package program

import (
	"context"
	"fmt"
	"os"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// asWorker runs a command in this process as a worker does, and prints its result.
func asWorker(command []string) int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	dir, err := os.MkdirTemp("", "program-test")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	r, err := NewReaper(ReaperOptions{WorkerID: "w2", Mark: dir})
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	p, err := New(Config{Command: command, Reaper: r, Env: map[string]string{"PID_FILE": os.Getenv("PID_FILE")}})
	if err != nil {
		return fail(err)
	}
	row := &task.Task{ID: "inner", Type: "test", Payload: "{}", ExecID: 1}
	result, err := p.Run(context.Background(), handler.NewTask(row, dir, os.Stdout, &recorder{}, nil))
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%s\n", result.(handler.Report).Result)
	return 0
}
