package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"

	"nightshift/pkg/handler"
)

const nothing Harm = ""

// errRefused is what a refused checkpoint returns.
var errRefused = errors.New("handlertest: this checkpoint was not stored")

// recorder is the store of one execution, in memory.
type recorder struct {
	life        *life
	harm        Harm
	at          int
	stopsItself bool
	killed      chan struct{}
	stop        chan handler.StopOrder
	release     chan struct{}

	mu     sync.Mutex
	n      int
	harmed bool
}

func (r *recorder) count() (checkpoints int, harmed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.harmed
}

// Checkpoint stores, or does the harm that is due.
func (r *recorder) Checkpoint(ctx context.Context, state json.RawMessage, progress string) error {
	r.mu.Lock()
	r.n++
	due := r.harm != nothing && r.n == r.at
	r.harmed = r.harmed || due
	harmedBefore := r.harmed && !due
	if harmedBefore && r.harm == Stopped {
		r.mu.Unlock()
		return handler.ErrStopping // asked once, asked always
	}
	if !due || (r.harm != KilledBefore && r.harm != Refused) {
		if len(state) > 0 {
			r.life.row.Checkpoint = string(state)
		}
		r.life.row.Progress = progress
	}
	r.mu.Unlock()
	if !due {
		return nil
	}
	switch r.harm {
	case Refused:
		return errRefused
	case Panicked:
		panic("handlertest: this is the panic of the test")
	case Stopped:
		return handler.ErrStopping
	default:
		return r.kill(ctx)
	}
}

// kill stops everything here: a program is killed by its handler, a Go handler
// never gets an answer.
func (r *recorder) kill(ctx context.Context) error {
	if r.stopsItself {
		r.stop <- handler.StopOrder{Err: handler.ErrLost, Force: true}
		<-ctx.Done()
		return handler.ErrLost
	}
	close(r.killed)
	<-r.release
	runtime.Goexit()
	return nil
}

// StillMine always is.
func (r *recorder) StillMine(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.harmed && r.harm == Stopped {
		return handler.ErrStopping
	}
	return nil
}
