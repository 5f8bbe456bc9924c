// Package handlertest proves that a handler can be resumed.
//
// Resumable runs a handler once without a disturbance, and then again for every
// checkpoint and every harm: its process is killed just before the checkpoint is
// durable, or just after; the checkpoint fails; the handler panics; it is asked to
// stop. After each harm the handler is started anew with what was stored, as a
// worker would do it, and must come to the same result:
//
//	func TestManifestIsResumable(t *testing.T) {
//		handlertest.Resumable(t, handlertest.Job{
//			Handler: manifest.Handler{},
//			Payload: func(scratch string) string { return `{"output":"` + scratch + `/out"}` },
//			Outcome: func(scratch string) string { return read(t, scratch+"/out") },
//		})
//	}
//
// No database and no worker are needed. What is killed is a goroutine: it is left
// where it stands and none of its deferred functions run, as after kill -9.
package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// Job is what is tested.
type Job struct {
	Handler handler.Handler
	Type    string // default: "test"

	// Payload makes the payload of a task whose files are to lie in scratch, a
	// folder of its own for each disturbance. nil: {}.
	Payload func(scratch string) string

	// Outcome reads what the work has made beside its result, a file for one.
	// nil: the result is all.
	Outcome func(scratch string) string

	// Result gives the result the form in which it is compared, where it names files
	// of the scratch folder. nil: as it is.
	Result func(result, scratch string) string

	// Harms are the harms that are tried. nil: all that can befall the handler.
	Harms []Harm

	// Irregular: the handler makes its checkpoints by the clock, so their number
	// is not compared.
	Irregular bool

	// Limit ends a run that hangs. 0: one minute.
	Limit time.Duration
}

// Harm is what happens at a checkpoint.
type Harm string

// The harms, in the order in which they are tried at each checkpoint.
const (
	KilledBefore Harm = "killed before the checkpoint was durable"
	KilledAfter  Harm = "killed after the checkpoint was durable"
	Refused      Harm = "the checkpoint returned an error"
	Panicked     Harm = "panicked in the checkpoint"
	Stopped      Harm = "asked to stop at the checkpoint"
)

// harms are those that can befall a handler. A program is another process: it
// can't panic here, and may well go on after a refusal, which the next checkpoint
// makes good.
func harms(h handler.Handler) []Harm {
	if _, program := h.(handler.SelfStopping); program {
		return []Harm{KilledBefore, KilledAfter, Stopped}
	}
	return []Harm{KilledBefore, KilledAfter, Refused, Panicked, Stopped}
}

// Resumable fails t for every checkpoint and harm after which the handler does not
// come to the result of an undisturbed run, or repeats more than the step in hand.
func Resumable(t testing.TB, j Job) {
	t.Helper()
	k := &kit{job: j, scratch: t.TempDir}
	t.Cleanup(k.release)
	for _, err := range k.check() {
		t.Error(err)
	}
}

// kit is one test of one job.
type kit struct {
	job     Job
	scratch func() string
	parked  []*parked // what was killed, and still stands where it stood
}

// check returns everything that is wrong.
func (k *kit) check() (errs []error) {
	if k.job.Limit <= 0 {
		k.job.Limit = time.Minute
	}
	if k.job.Harms == nil {
		k.job.Harms = harms(k.job.Handler)
	}
	calm := k.begin()
	want, err := k.execute(calm, nothing, 0)
	switch {
	case err != nil:
		return []error{fmt.Errorf("undisturbed: %w", err)}
	case want.err != nil:
		return []error{fmt.Errorf("undisturbed: the handler returned %w", want.err)}
	case want.checkpoints == 0:
		return []error{errors.New("undisturbed: the handler made no checkpoint: it starts over after every interruption")}
	}
	want.outcome = k.outcome(calm)
	for n := 1; n <= want.checkpoints; n++ {
		for _, harm := range k.job.Harms {
			if err := k.disturb(harm, n, want); err != nil {
				errs = append(errs, fmt.Errorf("checkpoint %d of %d, %s: %w", n, want.checkpoints, harm, err))
			}
		}
	}
	return errs
}

// disturb lets one harm happen at checkpoint n and compares what becomes of it.
func (k *kit) disturb(harm Harm, n int, want ended) error {
	l := k.begin()
	first, err := k.execute(l, harm, n)
	if err != nil {
		return err
	}
	if !first.harmed {
		if k.job.Irregular {
			return nil
		}
		return fmt.Errorf("there was no such checkpoint, only %d: they are not made at positions of the work", first.checkpoints)
	}
	switch {
	case harm == Stopped && !handler.IsStop(first.err):
		return fmt.Errorf("it returned %w, and not the error of the checkpoint", orSuccess(first.err))
	case harm == Stopped && first.checkpoints > n:
		return fmt.Errorf("it went on for %d more checkpoints", first.checkpoints-n)
	case harm == Refused && first.err == nil:
		return errors.New("it returned success though its position was not stored")
	}
	second, err := k.execute(l, nothing, 0)
	if err != nil {
		return fmt.Errorf("resumed: %w", err)
	}
	if second.err != nil {
		return fmt.Errorf("resumed: the handler returned %w", second.err)
	}
	if second.result != want.result {
		return fmt.Errorf("the result is %.200s, undisturbed it was %.200s", second.result, want.result)
	}
	if got := k.outcome(l); got != want.outcome {
		return fmt.Errorf("the outcome is not the undisturbed one: %s", difference(got, want.outcome))
	}
	left := want.checkpoints - n
	if harm == KilledBefore || harm == Refused {
		left++
	}
	if !k.job.Irregular && second.checkpoints > left {
		return fmt.Errorf("resumed, it made %d checkpoints where %d were left: it repeats more than the step in hand", second.checkpoints, left)
	}
	return nil
}

// orSuccess names a nil error.
func orSuccess(err error) error {
	if err == nil {
		return errors.New("success")
	}
	return err
}

// difference shows where two texts part.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	part := func(s string) string { return s[min(max(0, i-20), len(s)):min(len(s), i+40)] }
	return fmt.Sprintf("%d bytes instead of %d, from byte %d on %q instead of %q", len(got), len(want), i, part(got), part(want))
}

// life is one task through its executions.
type life struct {
	scratch string
	row     task.Task
}

func (k *kit) begin() *life {
	l := &life{scratch: k.scratch()}
	l.row = task.Task{ID: "handlertest", Type: k.job.Type, Payload: "{}"}
	if l.row.Type == "" {
		l.row.Type = "test"
	}
	if k.job.Payload != nil {
		l.row.Payload = k.job.Payload(l.scratch)
	}
	return l
}

func (k *kit) outcome(l *life) string {
	if k.job.Outcome == nil {
		return ""
	}
	return k.job.Outcome(l.scratch)
}

// ended is how one execution came to its end.
type ended struct {
	result      string
	outcome     string
	err         error
	harmed      bool
	checkpoints int
}

// attempts numbers all executions of the process: two of one number would be taken
// for one, and killed together.
var attempts atomic.Int64

// execute runs the handler once; harm happens at its n-th checkpoint.
func (k *kit) execute(l *life, harm Harm, n int) (ended, error) {
	l.row.ExecID = attempts.Add(1)
	dir := filepath.Join(l.scratch, "task-dir")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ended{}, err
	}
	_, stopsItself := k.job.Handler.(handler.SelfStopping)
	rec := &recorder{
		life: l, harm: harm, at: n, stopsItself: stopsItself,
		killed: make(chan struct{}), stop: make(chan handler.StopOrder, 1), release: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	returned := make(chan ended, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		returned <- call(ctx, k.job.Handler, handler.NewTask(&l.row, dir, io.Discard, rec, rec.stop))
	}()
	select {
	case e := <-returned:
		if k.job.Result != nil {
			e.result = k.job.Result(e.result, l.scratch)
		}
		e.checkpoints, e.harmed = rec.count()
		return e, nil
	case <-rec.killed:
		k.parked = append(k.parked, &parked{rec.release, gone})
		e := ended{}
		e.checkpoints, e.harmed = rec.count()
		return e, nil
	case <-time.After(k.job.Limit):
		return ended{}, fmt.Errorf("the handler did not return within %v", k.job.Limit)
	}
}

// call runs the handler as an executor does: a panic is an error.
func call(ctx context.Context, h handler.Handler, t *handler.Task) (e ended) {
	defer func() {
		if p := recover(); p != nil {
			e = ended{err: fmt.Errorf("panic: %v", p)}
		}
	}()
	result, err := h.Run(ctx, t)
	e.err = err
	if r, ok := result.(handler.Report); ok {
		result = r.Result
	}
	text, merr := json.Marshal(result)
	if merr != nil && err == nil {
		e.err = fmt.Errorf("the result is no JSON: %w", merr)
	}
	e.result = string(text)
	return e
}

// parked is a killed handler.
type parked struct{ release, gone chan struct{} }

// release lets the killed go, now that their scratch folders are not looked at any
// more: a test should leave no goroutine behind.
func (k *kit) release() {
	for _, p := range k.parked {
		close(p.release)
		select {
		case <-p.gone:
		case <-time.After(5 * time.Second): // it called Checkpoint from a goroutine of its own
		}
	}
}
