package operator

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// ShowVersion prints the versions of the program and of what it was built with.
func (d *Desk) ShowVersion(goVersion string) error {
	if d.JSON {
		return WriteJSON(d.Out, object{{"version", d.Version}, {"go", goVersion}, {"sqlite", store.SQLiteVersion()}, {"schema", store.SchemaVersion()}})
	}
	return d.say("%s %s (%s, SQLite %s, schema %d)", d.Program, d.Version, goVersion, store.SQLiteVersion(), store.SchemaVersion())
}

// completeIDs bounds what a press of the tab key may cost.
const completeIDs = 100

// Complete prints what the last of words may become, one candidate a line, with
// a tab and a note. It never fails: there is nobody to tell at the prompt.
func (d *Desk) Complete(app *cli.App, common []cli.Flag, words []string) error {
	for _, c := range cmdline.Complete(app, common, words, d.candidates) {
		line := c.Word
		if c.Note != "" {
			line += "\t" + esc(c.Note)
		}
		if err := d.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// candidates are the values of a placeholder.
func (d *Desk) candidates(placeholder string) []cmdline.Candidate {
	switch placeholder {
	case "FILE", "DIR", "JSON":
		return []cmdline.Candidate{{Word: cmdline.Files}}
	case "STATUS":
		return candidatesOf(append(StatusNames(), "unfinished", "finished"))
	case "FIELD":
		return candidatesOf(SortNames())
	case "SHELL":
		return candidatesOf(cmdline.Shells())
	case "TYPE":
		if d.configure() != nil {
			return nil
		}
		return candidatesOf(d.types())
	case "NAME":
		if d.configure() != nil {
			return nil
		}
		var names []string
		for n := range d.Config.Schedules {
			names = append(names, n)
		}
		return candidatesOf(names)
	case "ID", "WORKER|ID":
		return d.someIDs(placeholder != "ID")
	}
	return nil
}

func candidatesOf(words []string) []cmdline.Candidate {
	list := make([]cmdline.Candidate, 0, len(words))
	for _, w := range words {
		list = append(list, cmdline.Candidate{Word: w})
	}
	return list
}

// someIDs are the newest tasks, and the workers where they can be meant.
func (d *Desk) someIDs(workers bool) (list []cmdline.Candidate) {
	if d.open(reads) != nil {
		return nil
	}
	if workers {
		crew, err := d.workers()
		if err != nil {
			return nil
		}
		for _, w := range crew {
			list = append(list, cmdline.Candidate{Word: w.ID, Note: "worker, " + string(w.Life)})
		}
	}
	now := d.Now()
	err := d.Store.List(store.Filter{Limit: completeIDs}, func(_ int64, t *task.Task) error {
		if !strings.ContainsAny(t.ID, "\t\n") {
			list = append(list, cmdline.Candidate{Word: t.ID, Note: string(t.Status) + " " + t.Type + " " + when(t, time.Time{}, now)})
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return list
}

// ManSections are the parts of the manual page that no verb tells.
func ManSections() []cmdline.ManSection {
	return []cmdline.ManSection{
		{Title: "Exit status", Text: "Verbs with more than these say so above.", Pairs: [][2]string{
			{"0", "Well."},
			{"64", "The command line is wrong: an unknown verb or flag, a value of the wrong kind."},
			{"65", "Bad input: a payload, an id, a line of a batch."},
			{"66", "There is no such task, schedule or file."},
			{"69", "The database can't be used now."},
			{"73", "It exists already, or can't be made."},
			{"74", "Input or output failed; the disk is full."},
			{"75", "Try again: somebody holds the database, or a proof is missing."},
			{"77", "No permission."},
			{"78", "The configuration or the database file is wrong."},
			{"130", "Ctrl-C."},
		}},
		{Title: "Environment", Pairs: [][2]string{
			{"NIGHTSHIFT_CONFIG", "The configuration file, when --config is not given."},
			{"NIGHTSHIFT_DATA", "The data directory, when --data is not given."},
			{"NO_COLOR", "When set to anything, no colours."},
			{"COLUMNS", "The width to lay tables out for."},
			{"TZ", "The zone of times that are written or shown without one."},
		}},
		{Title: "Files", Pairs: [][2]string{
			{"./nightshift.yaml, /etc/nightshift/nightshift.yaml", "The configuration."},
			{"nightshift.db, nightshift.db-wal, nightshift.db-shm", "The database, in the data directory. The last two belong to it: never remove them alone."},
			{"run/", "Locks of the workers, and status.json of the supervisor."},
			{"logs/", "A log for each worker; exec/ below it holds one for each execution."},
			{"tasks/", "A directory for each unfinished task."},
		}},
		{Title: "Root", Text: "Run as root on a database of another user, every verb becomes that user first, so that it leaves no files that the service can't open."},
	}
}
