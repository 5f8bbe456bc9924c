package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// conclude turns the handler's end into the one write that finishes the run.
func (x *Execution) conclude(e ending) Completion {
	c := Completion{Execution: x, Abandoned: e.abandoned}
	x.mu.Lock()
	told := x.told
	x.mu.Unlock()
	if errors.Is(told, handler.ErrLost) || errors.Is(e.err, handler.ErrLost) || x.lostAlready() != nil {
		c.Lost = true
		return c
	}
	if told != nil && !e.abandoned && !errors.Is(e.err, handler.ErrTimeout) {
		// After a stop reply the exit status does not matter (DESIGN §7), but how it
		// ended is kept for people to see. A cancel that came during a pause wins.
		if o := x.currentOrder(); strength(o.err) > strength(told) && !errors.Is(o.err, handler.ErrTimeout) {
			told = o.err
		}
		c.Finish = x.finish(told, e)
		return c
	}
	verdict := e.err
	if o := x.currentOrder().err; e.err != nil && o != nil && x.ctx.Err() != nil && !handler.IsStop(e.err) {
		// Its context was ended for this order, and what it returned says so in words
		// of its own (context.Canceled, a broken request): the order is the reason.
		verdict = o
	}
	c.Finish = x.finish(verdict, e)
	return c
}

func (x *Execution) finish(verdict error, e ending) store.Finish {
	now := x.deps.Clock.Now()
	f := store.Finish{Fence: x.fence, Now: now}
	if x.log != nil {
		f.LogPath = x.log.Path()
	}
	x.describe(&f, e)
	var failure *handler.Failure
	errors.As(verdict, &failure)
	switch {
	case verdict == nil:
		f.Verdict, f.Outcome = store.Succeed, "success"
	case errors.Is(verdict, handler.ErrCancelled):
		f.Verdict, f.Outcome = store.Cancel, "cancelled"
	case errors.Is(verdict, handler.ErrPaused):
		f.Verdict, f.Outcome = store.Pause, "paused"
	case errors.Is(verdict, handler.ErrStopping):
		f.Verdict, f.Outcome = store.Release, "stopped"
	case errors.Is(verdict, handler.ErrTimeout):
		f.Verdict, f.Outcome = store.Timeout, "timeout"
		f.RetryAt = x.retryAt(now, 0)
	case failure != nil && failure.Fatal:
		f.Verdict, f.Outcome = store.Fail, "failed"
	default:
		f.Verdict, f.Outcome = store.Retry, "retry"
		var after time.Duration
		if failure != nil {
			after = failure.RetryAfter
		}
		f.RetryAt = x.retryAt(now, after)
	}
	return f
}

// retryAt applies the backoff; a longer wait that the other side asked for wins.
func (x *Execution) retryAt(now time.Time, after time.Duration) time.Time {
	d := x.Type.Backoff.Delay(x.Task.RetryCount+1, x.deps.Rand)
	return now.Add(max(d, after))
}

// describe fills what people read: result, summary, exit status.
func (x *Execution) describe(f *store.Finish, e ending) {
	result := e.result
	if r, ok := result.(handler.Report); ok {
		f.ExitCode, f.Signal, f.Program, f.Summary = r.ExitCode, r.Signal, r.Program, r.Summary
		result = nil
		if r.Result != nil {
			result = r.Result
		}
	}
	if e.err != nil {
		if f.Summary == "" {
			f.Summary = e.err.Error()
		}
	} else if result != nil {
		raw, err := encodeResult(result)
		if err != nil {
			f.Summary = fmt.Sprintf("the result was dropped: %v", err)
		} else {
			f.Result = raw
			if f.Summary == "" {
				f.Summary = raw
			}
		}
	}
	if e.logErr != nil {
		f.Summary += fmt.Sprintf(" (log incomplete: %v)", e.logErr)
	}
	f.Summary = cut(f.Summary, task.MaxSummaryBytes)
}

// encodeResult gives the result's JSON; a json.RawMessage is kept as it is.
func encodeResult(result any) (string, error) {
	raw, ok := result.(json.RawMessage)
	if !ok {
		b, err := json.Marshal(result)
		if err != nil {
			return "", err
		}
		raw = b
	}
	if len(raw) > task.MaxJSONBytes {
		return "", fmt.Errorf("it has %d bytes, at most %d are kept", len(raw), task.MaxJSONBytes)
	}
	if !json.Valid(raw) {
		return "", errors.New("it is not valid JSON")
	}
	return string(raw), nil
}

// cut shortens s to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n - len("…")
	for end > 0 && s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
