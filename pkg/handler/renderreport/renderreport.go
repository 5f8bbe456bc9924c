// Package renderreport is the built-in task type render_report, and what stands
// behind `nightshift report`: the hand-over from the night shift to the morning
// shift, as one HTML page.
//
// The page needs nothing but itself: no script, no font, no picture from
// elsewhere. All text in it is escaped, and what cannot be seen is made visible.
// Its size is bounded, however many tasks there are: counts are exact, lists are
// cut and say so.
//
// As a task it goes step by step, with a checkpoint after each: the window is
// fixed, the facts are gathered and saved in the task's directory, each section
// is rendered and saved, the page gets its name. A report that is interrupted
// goes on from the saved facts, so that it comes out byte for byte as it would
// have without.
//
// Idempotency: every step writes a file of its own over what may be there.
//
// What it must never do: show a payload, a checkpoint or a result (they may hold
// secrets), decide anything from what it reads, or write outside of the
// configured directory.
package renderreport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"nightshift/pkg/handler"
)

// Options come from the configuration, never from a payload.
type Options struct {
	Source    Source
	OutputDir string           // where reports are made, and nowhere else; absolute
	Zone      *time.Location   // of reports that name none; nil: the machine's
	Now       func() time.Time // nil: time.Now
}

// Handler runs render_report tasks. It keeps nothing between two of them.
type Handler struct{ options Options }

// New makes the handler, or says what is wrong with the options.
func New(o Options) (*Handler, error) {
	switch {
	case o.Source == nil:
		return nil, errors.New("render_report: no source of facts")
	case !filepath.IsAbs(o.OutputDir):
		return nil, fmt.Errorf("render_report: output_dir %q: an absolute directory is needed", o.OutputDir)
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{options: o}, nil
}

// Write gathers the facts and writes the page to out, in one go.
func Write(ctx context.Context, out io.Writer, src Source, r Request, now time.Time, home *time.Location) error {
	w, zone, err := r.Window(now, home)
	if err != nil {
		return err
	}
	facts, err := src.Facts(ctx, w)
	if err != nil {
		return err
	}
	return Render(out, facts, r.title(), zone)
}

// Render writes the page of facts that were gathered before.
func Render(out io.Writer, f *Facts, title string, zone *time.Location) error {
	v, err := newView(f, title, zone)
	if err != nil {
		return err
	}
	for _, name := range sections {
		html, err := v.section(name)
		if err != nil {
			return err
		}
		if _, err := out.Write(html); err != nil {
			return err
		}
	}
	return nil
}

// Result is what a finished task leaves in its row.
type Result struct {
	File     string    `json:"file"`
	Bytes    int64     `json:"bytes"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Headline string    `json:"headline"`
}

// state is the checkpoint.
type state struct {
	Window   Window   `json:"window"`
	Zone     string   `json:"zone"`               // the name, so that a resume elsewhere shows the same times
	File     string   `json:"file"`               // relative to the output directory
	Facts    string   `json:"facts,omitempty"`    // fingerprint of the saved facts
	Sections []string `json:"sections,omitempty"` // fingerprints of the saved sections
}

// Run makes a report, from where the last checkpoint stands.
func (h *Handler) Run(ctx context.Context, t *handler.Task) (any, error) {
	r, err := ParsePayload(t.Payload)
	if err != nil {
		return nil, handler.Fatal(err)
	}
	dir, err := t.Dir()
	if err != nil {
		return nil, err
	}
	d := &draft{task: t, dir: taskDir(dir), request: r, options: h.options}
	resumed, err := t.Resume(&d.state)
	if err != nil {
		return nil, err
	}
	if !resumed {
		if err := d.begin(ctx); err != nil {
			return nil, err
		}
	}
	if d.zone, err = d.loadZone(); err != nil {
		return nil, handler.Fatal(err)
	}
	if err := d.gather(ctx); err != nil {
		return nil, err
	}
	for i := range sections {
		if err := d.section(ctx, i); err != nil {
			return nil, err
		}
	}
	return d.publish()
}

// draft is a report in the making.
type draft struct {
	task    *handler.Task
	dir     taskDir
	request Request
	options Options
	state   state
	zone    *time.Location
	view    *view
}

// begin fixes the window: from here on the report is about this shift, however
// often it is interrupted.
func (d *draft) begin(ctx context.Context) error {
	w, zone, err := d.request.Window(d.options.Now(), d.options.Zone)
	if err != nil {
		return handler.Fatal(fmt.Errorf("payload.%w", err))
	}
	d.state = state{Window: w, Zone: zone.String(), File: d.request.outputName(w, zone, d.task.ID)}
	return d.checkpoint(ctx, "window fixed")
}

func (d *draft) loadZone() (*time.Location, error) {
	if d.state.Zone == d.options.Zone.String() {
		return d.options.Zone, nil // "Local" is known here only
	}
	return time.LoadLocation(d.state.Zone)
}

func (d *draft) checkpoint(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return d.task.Checkpoint(ctx, d.state, fmt.Sprintf("%d/%d: %s", len(d.state.Sections), len(sections), what))
}

const factsFile = "facts.json"

// gather takes the facts that were saved, or looks. The page is drawn from what
// is in the file in either case.
func (d *draft) gather(ctx context.Context) error {
	raw, err := d.dir.load(factsFile, d.state.Facts)
	if err != nil {
		facts, err := d.options.Source.Facts(ctx, d.state.Window)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return handler.Retryable(fmt.Errorf("gather the facts: %w", err))
		}
		if raw, err = json.Marshal(facts); err != nil {
			return handler.Fatal(err)
		}
		if d.state.Facts, err = d.dir.save(factsFile, raw); err != nil {
			return trouble(err)
		}
		d.state.Sections = nil
		if err := d.checkpoint(ctx, "facts gathered"); err != nil {
			return err
		}
	}
	var facts Facts
	if err := json.Unmarshal(raw, &facts); err != nil {
		return handler.Fatal(fmt.Errorf("read the saved facts: %w", err))
	}
	if d.view, err = newView(&facts, d.request.title(), d.zone); err != nil {
		return handler.Fatal(err)
	}
	return nil
}

// section renders and saves one section, unless it is there.
func (d *draft) section(ctx context.Context, i int) error {
	if i < len(d.state.Sections) {
		if _, err := d.dir.load(sectionFile(i), d.state.Sections[i]); err == nil {
			return nil
		}
		d.state.Sections = d.state.Sections[:i]
	}
	html, err := d.view.section(sections[i])
	if err != nil {
		return err
	}
	mark, err := d.dir.save(sectionFile(i), html)
	if err != nil {
		return trouble(err)
	}
	d.state.Sections = append(d.state.Sections, mark)
	return d.checkpoint(ctx, sections[i])
}

func sectionFile(i int) string { return fmt.Sprintf("section-%02d.html", i) }

// publish puts the sections together under the report's name.
func (d *draft) publish() (any, error) {
	var page []byte
	for i := range sections {
		html, err := d.dir.load(sectionFile(i), d.state.Sections[i])
		if err != nil {
			return nil, handler.Retryable(fmt.Errorf("section %s: %w", sections[i], err))
		}
		page = append(page, html...)
	}
	file, err := writeOutput(d.options.OutputDir, d.state.File, page)
	if err != nil {
		return nil, trouble(err)
	}
	raw, err := json.Marshal(Result{
		File: file, Bytes: int64(len(page)), Since: d.state.Window.Since, Until: d.state.Window.Until, Headline: d.view.V.Headline,
	})
	if err != nil {
		return nil, handler.Fatal(err)
	}
	return handler.Report{Result: raw, Summary: d.view.V.Headline + ": " + file}, nil
}
