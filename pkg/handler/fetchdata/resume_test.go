package fetchdata

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightshift/examples/apiserver/paged"
	"nightshift/pkg/handler"
)

var small = paged.Config{Seed: 7, Items: 95, PageSize: 10}

// TestKilledAtEveryCheckpoint kills the process at each checkpoint in turn, just
// before and just after it is durable, in every mode of paging, with rubbish
// behind the checkpointed length as a half-written page leaves it.
func TestKilledAtEveryCheckpoint(t *testing.T) {
	for way := range ways("") {
		want, wantResult := undisturbed(t, small, way)
		steps := int(wantResult.Pages)
		for _, durable := range []bool{false, true} {
			for at := 1; at <= steps; at++ {
				t.Run(fmt.Sprintf("%s/durable=%v/%d", way, durable, at), func(t *testing.T) {
					b := newBench(t, ways(serve(t, paged.New(small)))[way])
					b.mem.killAt, b.mem.durable = at, durable
					if _, err := b.run(context.Background()); !errors.Is(err, errKilled) && err.Error() != errKilled.Error() {
						t.Fatalf("the kill was not felt: %v", err)
					}
					litter(t, filepath.Join(b.dir, "out.jsonl.part"))
					checkSame(t, b, want, wantResult)
				})
			}
		}
	}
}

func litter(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{\"id\":1,\"half an it"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkSame resumes and compares with the undisturbed run.
func checkSame(t *testing.T, b *bench, want string, wantResult Result) {
	t.Helper()
	got := b.mustRun()
	if out := b.output("out.jsonl"); out != want {
		t.Errorf("the output differs from an undisturbed run: %d bytes, wanted %d", len(out), len(want))
	}
	wantResult.File = got.File
	if got != wantResult {
		t.Errorf("result %+v, wanted %+v", got, wantResult)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "*.part")); err != nil || len(left) > 0 {
		t.Errorf("part files left: %v (%v)", left, err)
	}
}

// TestKilledAtEveryRequest ends the process while each request in turn is in
// flight.
func TestKilledAtEveryRequest(t *testing.T) {
	want, wantResult := undisturbed(t, small, "cursor")
	for at := int64(1); at <= wantResult.Pages; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			ctx, kill := context.WithCancelCause(context.Background())
			defer kill(nil)
			api := paged.New(small)
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if api.Requests() == at-1 && ctx.Err() == nil {
					kill(errKilled)
					<-r.Context().Done()
					return
				}
				api.ServeHTTP(w, r)
			}))
			b := newBench(t, ways(url)["cursor"])
			if _, err := b.run(ctx); err == nil || !strings.Contains(err.Error(), errKilled.Error()) {
				t.Fatalf("the kill was not felt: %v", err)
			}
			checkSame(t, b, want, wantResult)
		})
	}
}

// TestCutAtEveryPage cuts the connection once at each page, at several places
// of the body; with one try a page the task must be retried, with three it need
// not be.
func TestCutAtEveryPage(t *testing.T) {
	want, wantResult := undisturbed(t, small, "cursor")
	for _, tries := range []int{1, 3} {
		for at := int64(1); at <= wantResult.Pages; at++ {
			for _, bytes := range []string{"1", "100", "300"} {
				t.Run(fmt.Sprintf("tries=%d/page=%d/byte=%s", tries, at, bytes), func(t *testing.T) {
					b := newBench(t, ways(serve(t, oneFault(paged.New(small), at, "cut="+bytes)))["cursor"])
					b.options.Tries = tries
					if tries == 1 {
						_, err := b.run(context.Background())
						wantFailure(t, err, false, "cut")
					}
					checkSame(t, b, want, wantResult)
				})
			}
		}
	}
}

// oneFault lets one request, counted from 1, meet a fault of the example server.
func oneFault(api *paged.Server, at int64, fault string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.Requests() == at-1 {
			r.URL.RawQuery += "&" + fault
		}
		api.ServeHTTP(w, r)
	})
}

func TestStoppedAtACheckpoint(t *testing.T) {
	for _, stop := range []error{handler.ErrCancelled, handler.ErrPaused, handler.ErrStopping, handler.ErrLost} {
		b := newBench(t, ways(serve(t, paged.New(small)))["cursor"])
		b.mem.setStop(stop)
		if _, err := b.run(context.Background()); !errors.Is(err, stop) {
			t.Errorf("%v was answered with %v", stop, err)
		}
		if b.mem.saved != 1 {
			t.Errorf("%v: %d steps were taken, wanted 1", stop, b.mem.saved)
		}
	}
}

func TestKilledBetweenTheRenameAndTheEnd(t *testing.T) {
	want, wantResult := undisturbed(t, small, "cursor")
	b := newBench(t, ways(serve(t, paged.New(small)))["cursor"])
	b.mustRun() // its result is never recorded
	checkSame(t, b, want, wantResult)
	if b.mem.saved != int(wantResult.Pages) {
		t.Errorf("%d checkpoints, wanted %d: it began anew", b.mem.saved, wantResult.Pages)
	}
}

// TestKilledBetweenTheRenameAndTheEndBesideAnother: another task has begun to
// write a file of the same name meanwhile.
func TestKilledBetweenTheRenameAndTheEndBesideAnother(t *testing.T) {
	want, _ := undisturbed(t, small, "cursor")
	b := newBench(t, ways(serve(t, paged.New(small)))["cursor"])
	b.mustRun()
	part := filepath.Join(b.dir, "out.jsonl.part")
	if err := os.WriteFile(part, []byte("another's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.mustRun()
	if got := b.output("out.jsonl"); got != want {
		t.Error("the output is not ours any more")
	}
	if got := b.output("out.jsonl.part"); got != "another's\n" {
		t.Errorf("the other task's file was touched: %q", got)
	}
}

func TestFileThatIsNotTheOneThatWasLeft(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":      os.Remove,
		"shortened": func(p string) error { return os.Truncate(p, 10) },
		"changed": func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("x", 1<<20)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, ways(serve(t, paged.New(small)))["cursor"])
			b.mem.killAt, b.mem.durable = 3, true
			if _, err := b.run(context.Background()); err == nil {
				t.Fatal("the kill was not felt")
			}
			if err := harm(filepath.Join(b.dir, "out.jsonl.part")); err != nil {
				t.Fatal(err)
			}
			_, err := b.run(context.Background())
			wantFailure(t, err, true, "is not the file that was left")
		})
	}
}

func TestTwoTasksOneFile(t *testing.T) {
	release := make(chan struct{})
	begun := make(chan struct{}, 8)
	api := paged.New(small)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-release
		api.ServeHTTP(w, r)
	}))
	first := newBench(t, map[string]any{"url": url + "/items", "output": "out.jsonl", "max_pages": 1})
	second := newBench(t, map[string]any{"url": url + "/items", "output": "out.jsonl", "max_pages": 1})
	second.options.OutputDir = first.dir
	done := make(chan error)
	go func() {
		_, err := first.run(context.Background())
		done <- err
	}()
	<-begun
	_, err := second.run(context.Background())
	wantFailure(t, err, false, "another task is writing out.jsonl")
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	second.mustRun()
}

// TestChangingData shows the worth of the modes: over a list that changes
// between two pages a cursor gives each item that stayed once; a page number
// repeats items, which the ids sort out.
func TestChangingData(t *testing.T) {
	cfg := paged.Config{Seed: 7, Items: 95, PageSize: 10, Churn: 2}
	for _, way := range []string{"cursor", "page"} {
		t.Run(way, func(t *testing.T) {
			b := newBench(t, ways(serve(t, paged.New(cfg)))[way])
			r := b.mustRun()
			seen := map[string]bool{}
			for _, line := range strings.Split(strings.TrimSpace(b.output("out.jsonl")), "\n") {
				id := line[:strings.Index(line, ",")]
				if seen[id] {
					t.Errorf("%s twice", id)
				}
				seen[id] = true
			}
			if len(seen) < 95 || int64(len(seen)) != r.Items {
				t.Errorf("%d distinct items, %d counted, wanted at least the 95 that were there", len(seen), r.Items)
			}
			if way == "page" && r.Duplicates == 0 {
				t.Error("no duplicate was dropped: the test shows nothing")
			}
		})
	}
}
