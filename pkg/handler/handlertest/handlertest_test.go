package handlertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"nightshift/pkg/handler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// position is the checkpoint of the handlers below.
type position struct {
	N   int   `json:"n"`
	Out int64 `json:"out"`
}

// count writes ten lines into a file, two a step. The flaws are its variants.
func count(flaw string) handler.Func {
	return func(ctx context.Context, t *handler.Task) (any, error) {
		f, err := os.OpenFile(strings.Trim(string(t.Payload), `"`), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var p position
		if _, err := t.Resume(&p); err != nil {
			return nil, err
		}
		if flaw == "starts over" {
			p = position{}
		}
		if flaw == "does not truncate" {
			if p.Out, err = f.Seek(0, 2); err != nil {
				return nil, err
			}
		}
		if err := f.Truncate(p.Out); err != nil {
			return nil, err
		}
		for p.N < 10 {
			n, err := f.WriteAt(fmt.Appendf(nil, "%d\n%d\n", p.N+1, p.N+2), p.Out)
			if err != nil {
				return nil, err
			}
			p.N, p.Out = p.N+2, p.Out+int64(n)
			err = t.Checkpoint(ctx, p, fmt.Sprintf("%d/10", p.N))
			switch {
			case err == nil, flaw == "ignores the stop" && handler.IsStop(err), flaw == "swallows errors" && !handler.IsStop(err):
			default:
				return nil, err
			}
		}
		if flaw == "result depends on the run" {
			return t.Attempt, nil
		}
		return p.N, nil
	}
}

func jobOf(h handler.Handler) Job {
	return Job{
		Handler: h,
		Payload: func(scratch string) string { return `"` + scratch + `/out"` },
		Outcome: func(scratch string) string {
			b, err := os.ReadFile(scratch + "/out")
			if err != nil {
				return err.Error()
			}
			return string(b)
		},
	}
}

func TestGoodHandlerPasses(t *testing.T) {
	Resumable(t, jobOf(count("")))
}

func TestFlawsAreFound(t *testing.T) {
	for flaw, says := range map[string]string{
		"starts over":               "repeats more than the step in hand",
		"does not truncate":         "the outcome is not the undisturbed one: 25 bytes instead of 21",
		"ignores the stop":          "it returned success, and not the error of the checkpoint",
		"swallows errors":           "it returned success though its position was not stored",
		"result depends on the run": ", undisturbed it was ",
	} {
		k := &kit{job: jobOf(count(flaw)), scratch: t.TempDir}
		errs := errors.Join(k.check()...)
		k.release()
		if errs == nil || !strings.Contains(errs.Error(), says) {
			t.Errorf("%s: found %v, want %q", flaw, errs, says)
		}
	}
}

func TestHandlersThatCannotBeTested(t *testing.T) {
	for name, c := range map[string]struct {
		h    handler.Func
		says string
	}{
		"no checkpoint": {func(context.Context, *handler.Task) (any, error) { return 1, nil }, "made no checkpoint"},
		"fails":         {func(context.Context, *handler.Task) (any, error) { return nil, errors.New("broken") }, "broken"},
		"panics":        {func(context.Context, *handler.Task) (any, error) { panic("at the disco") }, "panic: at the disco"},
	} {
		k := &kit{job: Job{Handler: c.h}, scratch: t.TempDir}
		errs := errors.Join(k.check()...)
		if errs == nil || !strings.Contains(errs.Error(), c.says) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// After a kill none of the handler's deferred functions has run.
func TestKilledMeansKilled(t *testing.T) {
	var log bytes.Buffer
	h := handler.Func(func(ctx context.Context, t *handler.Task) (any, error) {
		defer log.WriteString("deferred ")
		return nil, t.Checkpoint(ctx, 1, "")
	})
	k := &kit{job: Job{Handler: h, Limit: 1e9}, scratch: t.TempDir}
	if e, err := k.execute(k.begin(), KilledAfter, 1); err != nil || !e.harmed || log.Len() != 0 {
		t.Errorf("%+v, %v, and %q has run", e, err, log.String())
	}
	k.release()
}
