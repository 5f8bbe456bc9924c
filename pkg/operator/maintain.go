package operator

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nightshift/pkg/handler/program"
	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
)

// DrainSet switches the drain on or off: with it on, running tasks go on and no
// other is started, whatever restarts meanwhile (case CL-05).
func (d *Desk) DrainSet(on bool) error {
	if err := d.open(writes); err != nil {
		return err
	}
	if err := d.Store.SetDrain(on, d.Now()); err != nil {
		return err
	}
	if !on {
		return d.say("drain is off; due tasks are started again")
	}
	running, err := d.Store.Running()
	if err != nil {
		return err
	}
	return d.say("drain is on; %s at work, no other is started until `%s drain off`", screen.Plural(int64(len(running)), "task"), d.Program)
}

// DrainShow says whether the drain is on.
func (d *Desk) DrainShow() error {
	if err := d.open(reads); err != nil {
		return err
	}
	on, err := d.Store.Draining()
	if err != nil {
		return err
	}
	running, err := d.Store.Running()
	if err != nil {
		return err
	}
	if d.JSON {
		return WriteJSON(d.Out, object{{"draining", on}, {"running", len(running)}})
	}
	return d.say("drain is %s; %s at work", map[bool]string{true: "on", false: "off"}[on], screen.Plural(int64(len(running)), "task"))
}

// DBInit makes the database. With ifMissing a good one that exists is fine.
func (d *Desk) DBInit(ifMissing bool) error {
	if err := d.configure(); err != nil {
		return err
	}
	path := d.Config.Database()
	if err := BecomeOwner(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	exists := err == nil && info.Size() > 0
	if exists && ifMissing {
		if err := d.open(writes); err != nil {
			return err
		}
		return d.say("%s exists and is in order", esc(path))
	}
	if exists {
		return fail(ExitCantCreate, "it was left as it is; with --if-missing that is no error", "%s exists already", esc(path))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(ExitCantCreate, "", "make the data directory: %v", err)
	}
	if err := store.Init(path); err != nil {
		return err
	}
	return d.say("made %s", esc(path))
}

// DBCheck reads the database and says what is wrong with it.
func (d *Desk) DBCheck(deep bool) error {
	if err := d.open(reads); err != nil {
		return err
	}
	x := &examination{d: d, now: d.Now(), pages: true}
	for _, look := range []func(bool) error{x.database, x.locks} {
		if err := look(deep); err != nil {
			return err
		}
	}
	return d.report(x.findings)
}

// DBBackup copies the database while it is used, and checks the copy.
func (d *Desk) DBBackup(dst string) error {
	abs, err := filepath.Abs(dst)
	if err != nil {
		return fail(ExitCantCreate, "", "%v", err)
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		abs = filepath.Join(abs, "nightshift-"+d.Now().UTC().Format("20060102T150405Z")+".db")
	}
	if _, err := os.Lstat(abs); err == nil {
		return fail(ExitCantCreate, "a backup never overwrites; choose another name", "%s exists already", esc(abs))
	}
	if _, err := os.Stat(filepath.Dir(abs)); err != nil {
		return fail(ExitCantCreate, "make it first, or choose another", "there is no directory %s", esc(filepath.Dir(abs)))
	}
	if err := d.open(reads); err != nil {
		return err
	}
	if err := d.Store.Backup(abs); err != nil {
		return err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return fail(ExitIO, "", "look at the backup: %v", err)
	}
	return d.say("%s  (%s, checked)", esc(abs), screen.Bytes(info.Size()))
}

// PruneOptions is what the flags of `db prune` say.
type PruneOptions struct {
	Keep   string // how long finished tasks are kept; "": as the configuration says
	Budget bool   // bring the database below its share of the disk budget as well
	DryRun bool
}

// DBPrune removes finished tasks that are older than they need be, with their
// history, logs and directories. Unfinished ones never go.
func (d *Desk) DBPrune(o PruneOptions) error {
	keep := time.Duration(-1)
	if o.Keep != "" {
		var err error
		if keep, err = ParseDuration("--keep", o.Keep); err != nil {
			return err
		}
	}
	if err := d.open(mode(!o.DryRun)); err != nil {
		return err
	}
	if keep < 0 {
		keep = d.Config.Retention.Final
	}
	now := d.Now()
	p := store.PrunePolicy{Now: now}
	if keep > 0 || o.Keep != "" {
		p.Before = now.Add(-keep)
	}
	if o.Budget {
		p.MaxBytes = d.Config.Retention.DiskBudget
	}
	if p.Before.IsZero() && p.MaxBytes == 0 {
		return &cmdline.UsageError{Message: "nothing limits what is kept (retention.final is 0)", Hint: "say --keep 30d"}
	}
	if o.DryRun {
		return d.prunePreview(p)
	}
	gone, err := d.Store.Prune(p)
	if err != nil {
		return err
	}
	files, err := d.removeFiles(gone)
	if err != nil {
		return err
	}
	return d.say("%s, %s and %s removed; %s given back to the disk", screen.Plural(int64(len(gone.Tasks)), "finished task"),
		screen.Plural(int64(files), "file"), screen.Plural(int64(gone.Skips), "skip record"), screen.Bytes(gone.Bytes))
}

func (d *Desk) prunePreview(p store.PrunePolicy) error {
	if p.Before.IsZero() {
		return cmdline.Usagef("--dry-run knows what goes by age only; say --keep")
	}
	f, err := d.filter(Selection{Statuses: []string{"finished"}})
	if err != nil {
		return err
	}
	f.UpdatedBefore = p.Before
	counts, err := d.Store.CountWhere(f)
	if err != nil {
		return err
	}
	return d.say("would remove %s that finished before %s", screen.Plural(sum(counts), "task"), d.Style.Time(p.Before))
}

// removeFiles removes the logs and directories of tasks that have gone. What is
// missing already is fine; the first real error is told, after the rest is done.
func (d *Desk) removeFiles(gone store.Pruned) (n int, err error) {
	for _, path := range gone.LogPaths {
		switch removeErr := os.Remove(path); {
		case removeErr == nil:
			n++
		case !errors.Is(removeErr, fs.ErrNotExist) && err == nil:
			err = fail(ExitIO, "", "remove a log: %v", removeErr)
		}
	}
	for _, id := range gone.Tasks {
		if removeErr := program.RemoveTaskDir(d.Config.TasksDir(), id); removeErr != nil && err == nil {
			err = fail(ExitIO, "", "remove the directory of task %s: %v", esc(id), removeErr)
		}
	}
	return n, err
}

// DBMigrate brings an older database to the schema of this program.
func (d *Desk) DBMigrate() error {
	if err := d.configure(); err != nil {
		return err
	}
	path := d.Config.Database()
	if err := BecomeOwner(path); err != nil {
		return err
	}
	from, to, backup, err := store.Migrate(path)
	switch {
	case err != nil:
		return err
	case from == to:
		return d.say("%s has schema version %d, which is current", esc(path), to)
	}
	return d.say("%s went from schema version %d to %d; the file as it was is %s", esc(path), from, to, esc(backup))
}
