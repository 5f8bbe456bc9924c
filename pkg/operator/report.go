package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nightshift/pkg/handler/renderreport"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
)

// ReportOptions is what the flags of `report` say.
type ReportOptions struct {
	Since, Until string
	Zone, Title  string
	Output       string // "": standard output, or a new file when that is a terminal
}

// ShiftReport writes the hand-over to the morning shift: one HTML page.
func (d *Desk) ShiftReport(ctx context.Context, o ReportOptions) error {
	if d.JSON && o.Output != "" {
		return cmdline.Usagef("--output and --json exclude each other")
	}
	now := d.Now()
	r := renderreport.Request{Since: o.Since, Until: o.Until, Title: o.Title, Zone: o.Zone}
	w, zone, err := r.Window(now, d.zone())
	if err != nil {
		return &cmdline.UsageError{Message: "--" + err.Error()}
	}
	if o.Output == "" && !d.JSON && d.Style.Terminal {
		o.Output = "shift-report-" + w.Until.In(zone).Format("2006-01-02-1504") + ".html"
	}
	// Before the database: after it the process may be another user.
	file, err := openOutput(o.Output)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err = d.open(reads); err == nil {
		err = d.renderReport(ctx, &page, r, w, now)
	}
	if file == nil {
		if err == nil {
			_, err = d.Out.Write(page.Bytes())
		}
		return err
	}
	if err = finishOutput(file, page.Bytes(), err); err != nil {
		return err
	}
	return d.say("%s  (%s)", esc(o.Output), screen.Bytes(int64(page.Len())))
}

func (d *Desk) renderReport(ctx context.Context, page *bytes.Buffer, r renderreport.Request, w renderreport.Window, now time.Time) error {
	source, err := d.reportSource()
	if err != nil {
		return err
	}
	if !d.JSON {
		return renderreport.Write(ctx, page, source, r, now, d.zone())
	}
	facts, err := source.Facts(ctx, w)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(page)
	enc.SetEscapeHTML(false)
	return enc.Encode(facts)
}

// reportSource gives the report what a command knows better than the tables: who
// lives, and when schedules are due.
func (d *Desk) reportSource() (renderreport.Source, error) {
	workers, err := d.workers()
	if err != nil {
		return nil, err
	}
	plans, err := d.plans()
	if err != nil {
		return nil, err
	}
	c := d.Config
	return renderreport.FromStore(renderreport.StoreOptions{
		Store: d.Store, DataDir: c.DataDir, LogDir: c.Log.Dir, TasksDir: c.TasksDir(), OutputDir: filepath.Join(c.DataDir, "output"),
		Budget: c.Retention.DiskBudget, Version: d.Version, SuspectAfter: c.Worker.SuspectAfter, Now: d.Now,
		Standing: func(h store.Heartbeat) renderreport.Standing { return standing(ownerAmong(workers, h.WorkerID).Life) },
		Next: func(name string, after time.Time) time.Time {
			for i := range plans {
				if plans[i].name == name {
					return plans[i].next(after)
				}
			}
			return time.Time{}
		},
	}), nil
}

func standing(l Life) renderreport.Standing {
	switch l {
	case Alive, Draining:
		return renderreport.Alive
	case Gone:
		return renderreport.Dead
	case Stopped:
		return renderreport.Stopped
	}
	return renderreport.Silent
}

// openOutput opens the file of an -o without touching what is in it; nil for
// standard output.
func openOutput(name string) (*os.File, error) {
	if name == "" || name == "-" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fail(ExitCantCreate, "", "write the report: %v", err)
	}
	return f, nil
}

// finishOutput puts text into f, unless err has kept it from being made: then
// what was there stays, and a file that is empty goes.
func finishOutput(f *os.File, text []byte, err error) error {
	if err == nil {
		if err = f.Truncate(int64(len(text))); err == nil {
			_, err = f.WriteAt(text, 0)
		}
		if err != nil {
			err = fail(ExitIO, "", "write the report: %v", err)
		}
	} else if info, statErr := f.Stat(); statErr == nil && info.Size() == 0 {
		os.Remove(f.Name()) // err is the one to tell
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("write the report: %w", closeErr)
	}
	return err
}
