// Package fetchdata is the built-in task type fetch_data: it pages an HTTP API
// and writes one item a line to a JSONL file.
//
// One page is one step: the items are appended and fsynced, then the checkpoint
// names the file's length, the next position and the counts. A resume cuts the
// file back to the checkpointed length, so that nothing is lost and nothing is
// doubled, wherever the process died. While it grows the file is called
// <output>.part; it gets its own name when the last page is in it, so that
// nobody takes half a result for a whole one.
//
// Idempotency: a repeated step is a GET asked twice and bytes written over
// themselves. Items are told apart by their id over the seam between two pages.
//
// What it must never do: send a configured secret to any other server than the
// one the task's url names (and that one has to be in the configured hosts),
// write a secret to a log, an error, a checkpoint or the output, or write
// outside of the configured directory.
package fetchdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"nightshift/pkg/handler"
)

// Handler runs tasks of one type. It keeps nothing between two of them.
type Handler struct {
	options Options
	now     func() time.Time
}

// New makes the handler, or says what is wrong with the options. It opens no
// file: tokens are read anew for each execution, so that they may be rotated.
func New(o Options) (*Handler, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("fetch_data: %w", err)
	}
	return &Handler{options: o, now: time.Now}, nil
}

// Result is what a finished task leaves in its row.
type Result struct {
	File       string `json:"file"`
	Items      int64  `json:"items"`
	Bytes      int64  `json:"bytes"`
	Pages      int64  `json:"pages"`
	Duplicates int64  `json:"duplicates"`           // dropped, their id was there already
	WithoutID  int64  `json:"without_id,omitempty"` // kept, but they can't be told apart
	End        string `json:"end"`                  // why it stopped here
}

// Run pages from where the last checkpoint stands to the end.
func (h *Handler) Run(ctx context.Context, t *handler.Task) (any, error) {
	r, err := h.begin(ctx, t)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for !r.state.Done {
		if err := r.step(ctx); err != nil {
			return nil, r.redacted(r.tidied(err))
		}
	}
	result, err := r.finish()
	if err != nil {
		return nil, err
	}
	return result, nil
}

// run is one execution.
type run struct {
	task    *handler.Task
	payload *Payload
	secrets *secrets
	client  *client
	out     *output
	seam    *seam
	state   state
	resumed bool // the next page is the first one after a resume
	now     func() time.Time
}

func (h *Handler) begin(ctx context.Context, t *handler.Task) (*run, error) {
	p, err := ParsePayload(t.Payload)
	if err != nil {
		return nil, handler.Fatal(err)
	}
	r := &run{task: t, payload: p, now: h.now}
	if r.resumed, err = t.Resume(&r.state); err != nil {
		return nil, err
	}
	if !r.resumed {
		r.state = newState(p.outputName(t.ID), p.Paging.Start)
	}
	if r.secrets, err = readSecrets(h.options); err != nil {
		return nil, handler.Retryable(err)
	}
	if r.client, err = newClient(h.options, r.secrets, p, t, h.now); err != nil {
		return nil, err
	}
	if r.out, err = openOutput(h.options.OutputDir, &r.state); err != nil {
		return nil, err
	}
	if r.seam, err = r.out.readSeam(p.ID); err != nil {
		r.out.close()
		return nil, outputTrouble(err)
	}
	if r.resumed {
		r.logf("goes on after page %d: %d items, %d bytes are in %q", r.state.Pages, r.state.Items, r.state.Offset, r.state.File)
	} else {
		r.logf("begins %s, writes %q", bare(p.url), r.state.File)
	}
	return r, nil
}

// step is one page: ask, append, fsync, checkpoint. The order is the promise.
func (r *run) step(ctx context.Context) error {
	url, err := r.payload.request(r.state.Next)
	if err != nil {
		return handler.Fatal(err)
	}
	resp, err := r.client.get(ctx, url)
	if err != nil {
		return r.explain(err)
	}
	next := r.state
	page, err := readPage(r.payload, &next, resp)
	if err != nil {
		return r.misshapen(err)
	}
	lines := r.seam.take(page.items, r.payload, &next)
	if err := r.out.append(lines, &next); err != nil {
		return outputTrouble(err)
	}
	if err := r.advance(page, &next); err != nil {
		return err
	}
	r.logf("page %d: %d items, %d new, %d bytes in all", next.Pages, len(page.items), next.Items-r.state.Items, next.Offset)
	r.state, r.resumed = next, false
	return r.task.Checkpoint(ctx, r.state, r.state.progress())
}

// advance moves the position past the page, and refuses to walk in circles.
func (r *run) advance(page *page, next *state) error {
	next.Pages++
	switch {
	case r.payload.MaxItems > 0 && next.Items >= r.payload.MaxItems:
		next.end("max_items")
	case page.next == "":
		next.end(page.end)
	case r.payload.MaxPages > 0 && next.Pages >= r.payload.MaxPages:
		next.end("max_pages")
	}
	if next.Done {
		return nil
	}
	position, err := r.secrets.keepOut(page.next, r.payload.Paging.Mode)
	if err != nil {
		return handler.Fatal(err)
	}
	if err := next.moveTo(position); err != nil {
		return handler.Fatal(err)
	}
	return nil
}

// explain adds what is only known here: a page token that was fine last night
// may be refused after a long pause.
func (r *run) explain(err error) error {
	var f *handler.Failure
	if errors.As(err, &f) && f.Fatal && r.resumed && r.payload.Paging.Mode != ModePage && r.state.Pages > 0 {
		return handler.Fatal(fmt.Errorf("%w; this was the first page after a resume: the position saved after page %d may have expired (nightshift rerun --fresh begins anew)", err, r.state.Pages))
	}
	return err
}

// misshapen decides about a page that is no page. On the first one the payload
// is wrong, and no retry cures it; later it is the server's bad moment.
func (r *run) misshapen(err error) error {
	var s *shapeError
	var f *handler.Failure
	switch {
	case errors.As(err, &f):
		return err
	case errors.As(err, &s) && r.state.Pages == 0:
		return handler.Fatal(err)
	}
	return handler.Retryable(fmt.Errorf("page %d: %w", r.state.Pages+1, err))
}

// finish gives the file its name and says what is in it.
func (r *run) finish() (handler.Report, error) {
	path, err := r.out.publish(&r.state)
	if err != nil {
		return handler.Report{}, outputTrouble(err)
	}
	s := &r.state
	raw, err := json.Marshal(Result{
		File: path, Items: s.Items, Bytes: s.Offset, Pages: s.Pages,
		Duplicates: s.Duplicates, WithoutID: s.WithoutID, End: s.End,
	})
	if err != nil {
		return handler.Report{}, handler.Fatal(err)
	}
	summary := fmt.Sprintf("%d items in %d pages (%s) in %s", s.Items, s.Pages, s.End, path)
	r.logf("done: %s", summary)
	return handler.Report{Result: raw, Summary: summary}, nil
}

// tidied removes an empty part file before a task ends FAILED without a page.
func (r *run) tidied(err error) error {
	var f *handler.Failure
	if errors.As(err, &f) && f.Fatal && r.state.Pages == 0 {
		r.out.discard()
	}
	return err
}

func (r *run) close() {
	r.client.close()
	r.out.close()
}

// redacted keeps secrets out of an error, and its kind in.
func (r *run) redacted(err error) error {
	if handler.IsStop(err) {
		return err
	}
	clean := errors.New(r.secrets.redact(err.Error()))
	var f *handler.Failure
	if errors.As(err, &f) {
		return &handler.Failure{Err: clean, Fatal: f.Fatal, RetryAfter: f.RetryAfter, Worker: f.Worker}
	}
	return clean
}

// logf writes one line to the execution's log. The log is for people: a full
// disk there must not end the work.
func (r *run) logf(format string, args ...any) {
	logTo(r.task.Log, r.secrets, r.now(), format, args...)
}

func logTo(w io.Writer, s *secrets, now time.Time, format string, args ...any) {
	line := s.redact(fmt.Sprintf(format, args...))
	// Nothing can be done about a log that takes no line, and the work goes on.
	_, _ = fmt.Fprintf(w, "%s %s\n", now.UTC().Format("2006-01-02T15:04:05.000Z"), line)
}
