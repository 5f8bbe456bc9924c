package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/worker"
)

// runs counts the calls of the noop handler in this process: what the database
// says can be compared with what happened.
var runs atomic.Int64

// handlers are the task types of the measures' own worker.
var handlers = handler.Registry{
	"noop":  handler.Func(noop),
	"stamp": handler.Func(stamp),
	"count": handler.Func(count),
	"hold":  handler.Func(hold),
}

// work lives as a worker and leaves behind how often noop was called.
func work(args []string) int {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	o := worker.Options{Handlers: handlers, Version: "bench"}
	f.StringVar(&o.ConfigPath, "config", "", "configuration file")
	if err := f.Parse(args); err != nil {
		return worker.ExitUsage
	}
	end, err := profile(os.Getenv(profileDir))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	code := worker.Run(context.Background(), o)
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	if path := os.Getenv(runsFile); path != "" {
		name := fmt.Sprintf("%s.%d", path, os.Getpid())
		if err := os.WriteFile(name, []byte(fmt.Sprint(runs.Load())), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	return code
}

// runsFile is the environment variable that names where a worker leaves its count.
const runsFile = "BENCH_RUNS"

// profileDir is the environment variable that names where workers leave CPU profiles.
const profileDir = "BENCH_PROFILE"

// profile starts a CPU profile of this process in dir; "": none.
func profile(dir string) (end func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("worker.%d.prof", os.Getpid())))
	if err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, pprof.StartCPUProfile(f)
}

func noop(context.Context, *handler.Task) (any, error) {
	runs.Add(1)
	return nil, nil
}

// stamp returns when it was called.
func stamp(context.Context, *handler.Task) (any, error) { return time.Now().UnixNano(), nil }

// span is what the counting handlers and programs return.
type span struct {
	N     int     `json:"n"`
	Begin float64 `json:"begin"` // seconds since 1970
	End   float64 `json:"end"`
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// count checkpoints for the time that its payload says.
func count(ctx context.Context, t *handler.Task) (any, error) {
	var want struct{ Seconds float64 }
	if err := json.Unmarshal(t.Payload, &want); err != nil {
		return nil, handler.Fatal(err)
	}
	s := span{Begin: seconds(time.Now())}
	for s.End = s.Begin; s.End-s.Begin < want.Seconds; s.End = seconds(time.Now()) {
		s.N++
		if err := t.Checkpoint(ctx, map[string]int{"offset": s.N}, ""); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// hold says when it was called, in the file that its payload names, and stays.
func hold(ctx context.Context, t *handler.Task) (any, error) {
	var where struct{ File string }
	if err := json.Unmarshal(t.Payload, &where); err != nil {
		return nil, handler.Fatal(err)
	}
	f, err := os.OpenFile(where.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, handler.Fatal(err)
	}
	_, err = fmt.Fprintln(f, time.Now().UnixNano())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, handler.Fatal(err)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
