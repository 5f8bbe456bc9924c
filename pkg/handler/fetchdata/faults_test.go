package fetchdata

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"nightshift/examples/apiserver/paged"
	"nightshift/pkg/handler"
)

// TestFaultsOvercomeInPlace: what passes by itself within a few tries costs the
// task nothing and changes nothing.
func TestFaultsOvercomeInPlace(t *testing.T) {
	want, wantResult := undisturbed(t, small, "link header")
	for name, cfg := range map[string]paged.Config{
		"each second request fails":            {Faults: paged.Faults{FailEvery: 2}},
		"429 with a wait, each third":          {Faults: paged.Faults{LimitEvery: 3, RetryAfter: time.Second}},
		"a stall, each fifth":                  {Faults: paged.Faults{Stall: time.Hour, StallEvery: 5}},
		"cut connections, each second":         {Faults: paged.Faults{CutAt: 200, CutEvery: 2}},
		"length too large, each second":        {Faults: paged.Faults{WrongBy: 10, WrongEvery: 2}},
		"length too small, each second":        {Faults: paged.Faults{WrongBy: -10, WrongEvery: 2}},
		"gzip":                                 {Gzip: true},
		"gzip with cuts, each second":          {Gzip: true, Faults: paged.Faults{CutAt: 100, CutEvery: 2}},
		"gzip, length too small, each second":  {Gzip: true, Faults: paged.Faults{WrongBy: -4, WrongEvery: 2}},
		"gzip, length too large, each second":  {Gzip: true, Faults: paged.Faults{WrongBy: 4, WrongEvery: 2}},
		"a fifth of all requests, some thrice": {Faults: paged.Faults{FailRate: 0.2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Seed, cfg.Items, cfg.PageSize = small.Seed, small.Items, small.PageSize
			b := newBench(t, ways(serve(t, paged.New(cfg)))["link header"])
			b.options.StallTimeout = 300 * time.Millisecond
			b.options.Tries = 6
			checkSame(t, b, want, wantResult)
		})
	}
}

// TestFaultsThatStay: what kind of failure each lasting fault is.
func TestFaultsThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		faults paged.Faults
		fatal  bool
		after  time.Duration
		says   string
	}{
		"503":               {faults: paged.Faults{FailRate: 1}, says: `status 503 Service Unavailable: "{\"error\":\"out of order\"}" (3 tries)`},
		"500":               {faults: paged.Faults{FailRate: 1, FailStatus: 500}, says: "status 500"},
		"408":               {faults: paged.Faults{FailRate: 1, FailStatus: 408}, says: "status 408"},
		"400":               {faults: paged.Faults{FailRate: 1, FailStatus: 400}, fatal: true, says: "status 400"},
		"401":               {faults: paged.Faults{FailRate: 1, FailStatus: 401}, fatal: true, says: "status 401"},
		"404":               {faults: paged.Faults{FailRate: 1, FailStatus: 404}, fatal: true, says: "status 404"},
		"503, in 10 min":    {faults: paged.Faults{FailRate: 1, RetryAfter: 10 * time.Minute}, after: 10 * time.Minute, says: "status 503"},
		"429, in two hours": {faults: paged.Faults{LimitEvery: 1, RetryAfter: 2 * time.Hour}, after: 2 * time.Hour, says: "status 429"},
		"429, in a month":   {faults: paged.Faults{LimitEvery: 1, RetryAfter: 720 * time.Hour}, after: 24 * time.Hour, says: "status 429"},
		"stall":             {faults: paged.Faults{Stall: time.Hour}, says: "the answer stalled (100ms without a byte)"},
		"cut":               {faults: paged.Faults{CutAt: 50}, says: "the body was cut after 50 bytes"},
		"too long a length": {faults: paged.Faults{WrongBy: 5}, says: "the body was cut"},
		"too short":         {faults: paged.Faults{WrongBy: -5}, says: "no whole JSON document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := small
			cfg.Faults = c.faults
			b := newBench(t, ways(serve(t, paged.New(cfg)))["cursor"])
			b.options.StallTimeout = 100 * time.Millisecond
			_, err := b.run(context.Background())
			wantFailure(t, err, c.fatal, c.says)
			if left, err := os.ReadDir(b.dir); err != nil || c.fatal && len(left) > 0 {
				t.Errorf("a failed task leaves %v (%v)", left, err)
			}
			var f *handler.Failure
			if !errors.As(err, &f) || f.RetryAfter != c.after {
				t.Errorf("retry after %v, wanted %s", err, c.after)
			}
		})
	}
}

func TestRetryAfterAsADateOfTheServersClock(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Fri, 01 Jan 2016 10:00:00 GMT")
		w.Header().Set("Retry-After", "Fri, 01 Jan 2016 10:07:00 GMT")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	b := newBench(t, map[string]any{"url": url})
	_, err := b.run(context.Background())
	var f *handler.Failure
	if !errors.As(err, &f) || f.RetryAfter != 7*time.Minute {
		t.Errorf("%+v, wanted a retry after 7 minutes", f)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	b := newBench(t, map[string]any{"url": "http://127.0.0.1:1/items?key=in-the-query"})
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "GET http://127.0.0.1:1/items: ")
	if strings.Contains(err.Error(), "in-the-query") {
		t.Errorf("the query is in the error: %v", err)
	}
}

func TestServerThatNeverAnswers(t *testing.T) {
	gone := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	b := newBench(t, map[string]any{"url": url})
	b.options.HeaderTimeout, b.options.Tries = 100*time.Millisecond, 1
	go func() { <-gone }()
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "timeout")
}

// TestDrip: a byte now and then is no stall, but a page may not take for ever.
func TestDrip(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(" ")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}))
	b := newBench(t, map[string]any{"url": url})
	b.options.PageTimeout, b.options.Tries = 300*time.Millisecond, 1
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "the page took too long")
}

func TestSizeLimits(t *testing.T) {
	const most = 64 << 10
	zip := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(b)
		_ = w.Close()
		return z.Bytes()
	}
	exact := []byte("[" + strings.Repeat(" ", most-2) + "]")
	for name, c := range map[string]struct {
		body     []byte
		encoding string
		ok       bool
	}{
		"at the limit":                {body: exact, ok: true},
		"one byte more":               {body: append([]byte(" "), exact...)},
		"at the limit, compressed":    {body: zip(exact), encoding: "gzip", ok: true},
		"a bomb: 32 MiB in 32 KiB":    {body: zip(make([]byte, 32<<20)), encoding: "gzip"},
		"one more byte, compressed":   {body: zip(append([]byte(" "), exact...)), encoding: "gzip"},
		"two members":                 {body: append(zip([]byte("[")), zip([]byte("]"))...), encoding: "gzip", ok: true},
		"identity":                    {body: []byte("[]"), encoding: "identity", ok: true},
		"an encoding nobody asked of": {body: []byte("[]"), encoding: "br"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				_, _ = w.Write(c.body)
			}))
			b := newBench(t, map[string]any{"url": url, "max_page_bytes": most})
			_, err := b.run(context.Background())
			switch {
			case c.ok && err != nil:
				t.Error(err)
			case !c.ok && !isFatal(err):
				t.Errorf("wanted a fatal error, not %v", err)
			}
		})
	}
}

// TestEndlessEmptyGzip: members without content bring no byte, for ever.
func TestEndlessEmptyGzip(t *testing.T) {
	var empty bytes.Buffer
	_ = gzip.NewWriter(&empty).Close()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		chunk := bytes.Repeat(empty.Bytes(), 1000)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	b := newBench(t, map[string]any{"url": url, "max_page_bytes": 4096})
	b.options.Tries = 1
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "cut")
}

// TestCancelWhileARequestStalls: nobody waits for the page when it is no longer
// wanted.
func TestCancelWhileARequestStalls(t *testing.T) {
	for _, where := range []string{"stall=1h", "fail=1&retry_after=1h"} {
		t.Run(where, func(t *testing.T) {
			api := paged.New(small)
			b := newBench(t, ways(serve(t, api))["cursor"])
			b.payload["url"] = b.payload["url"].(string) + "?" + where
			b.options.StallTimeout, b.options.PageTimeout, b.options.MaxWait = time.Hour, time.Hour, 24*time.Hour
			done := make(chan error)
			go func() {
				_, err := b.run(context.Background())
				done <- err
			}()
			for deadline := time.Now().Add(20 * time.Second); api.Requests() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("no request came")
				}
			}
			b.mem.setStop(handler.ErrCancelled)
			select {
			case err := <-done:
				if !errors.Is(err, handler.ErrCancelled) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it was not heeded")
			}
		})
	}
}

// TestLongRun: the tries of one page are not those of the next. One request in
// four fails over 200 pages, and the task is never retried.
func TestLongRun(t *testing.T) {
	cfg := paged.Config{Seed: 3, Items: 2000, PageSize: 10}
	want, wantResult := undisturbed(t, cfg, "cursor")
	cfg.Faults.FailEvery = 4
	b := newBench(t, ways(serve(t, paged.New(cfg)))["cursor"])
	checkSame(t, b, want, wantResult)
}

func TestBadPages(t *testing.T) {
	for name, c := range map[string]struct {
		bodies []string
		items  string
		id     string
		fatal  bool
		says   string
	}{
		"html":                       {bodies: []string{"<html>"}, says: "no whole JSON document"},
		"cut JSON":                   {bodies: []string{`{"items":[{"id":1}`}, says: "no whole JSON document"},
		"two documents":              {bodies: []string{`{"items":[]} {}`}, says: "no whole JSON document"},
		"empty body":                 {bodies: []string{""}, says: "no whole JSON document"},
		"a number":                   {bodies: []string{"1"}, fatal: true, says: "neither an array nor an object"},
		"no such key":                {bodies: []string{`{"data":[],"a":1}`}, items: "items", fatal: true, says: `no items at "items"; its keys are "a", "data"`},
		"not an array":               {bodies: []string{`{"items":{}}`}, items: "items", fatal: true, says: "is no array"},
		"two arrays":                 {bodies: []string{`{"a":[],"b":[]}`}, fatal: true, says: "2 arrays"},
		"an error as the third page": {bodies: []string{`{"items":[1],"next":"1"}`, `{"items":[2],"next":"2"}`, `{"error":"oops"}`}, items: "items", says: "page 3: no items"},
		"position of a wrong kind":   {bodies: []string{`{"items":[1],"next":{}}`}, items: "items", fatal: true, says: "neither a text nor a number"},
		"leads to itself":            {bodies: []string{`{"items":[1],"next":"1"}`, `{"items":[2],"next":"1"}`}, fatal: true, says: "leads to itself"},
		"a circle":                   {bodies: []string{`{"items":[1],"next":"1"}`, `{"items":[2],"next":"2"}`, `{"items":[3],"next":"1"}`}, fatal: true, says: "leads back"},
		"a position without end":     {bodies: []string{`{"items":[1],"next":"` + strings.Repeat("x", 20_000) + `"}`}, fatal: true, says: "at most 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]any{"url": pages(t, c.bodies...), "items": c.items, "paging": paging()})
			_, err := b.run(context.Background())
			wantFailure(t, err, c.fatal, c.says)
		})
	}
}

// TestCircles: a circle of any length, behind a way of any length, is found, and
// a long way without one is not taken for it.
func TestCircles(t *testing.T) {
	for way := 0; way < 40; way += 3 {
		for circle := 1; circle < 40; circle += 2 {
			s := newState("f", "")
			found := false
			for i := 0; i < 4*(way+circle)+4 && !found; i++ {
				at := i
				if at >= way {
					at = way + (i-way)%circle
				}
				found = s.moveTo(fmt.Sprint("p", at)) != nil
				if found && i < way+circle {
					t.Fatalf("a circle was seen at step %d, before it closed (way %d, circle %d)", i, way, circle)
				}
			}
			if !found {
				t.Errorf("a circle of %d behind a way of %d was not found", circle, way)
			}
		}
	}
}

func TestPageNumberThatIsNotHeeded(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"id":1},{"id":2}]`))
	}))
	b := newBench(t, map[string]any{"url": url, "paging": map[string]any{"mode": "page", "param": "p"}})
	_, err := b.run(context.Background())
	wantFailure(t, err, true, `the server does not heed "p"`)
}

func TestExpiredTokenAfterAResume(t *testing.T) {
	api := paged.New(small)
	b := newBench(t, ways(serve(t, api))["token"])
	b.mem.killAt, b.mem.durable = 2, true
	if _, err := b.run(context.Background()); err == nil {
		t.Fatal("the kill was not felt")
	}
	other := small
	other.Seed = 8
	b.payload["url"] = serve(t, paged.New(other)) + "/items"
	_, err := b.run(context.Background())
	wantFailure(t, err, true, "the position saved after page 2 may have expired")
}
