package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// Grade says how bad a finding is.
type Grade string

// The grades of a finding.
const (
	Well    Grade = "ok"
	Notable Grade = "warning"
	Bad     Grade = "bad"
)

// Finding is what one look of the doctor found.
type Finding struct {
	Subject string // what was looked at
	Grade   Grade
	Found   string // what was found
	Cure    string // what to do; "" when nothing is wrong
}

// examination gathers findings.
type examination struct {
	d        *Desk
	now      time.Time
	pages    bool // the pages of the database are read
	workers  []Worker
	findings []Finding
}

func (x *examination) find(subject string, g Grade, cure, format string, args ...any) {
	x.findings = append(x.findings, Finding{subject, g, fmt.Sprintf(format, args...), cure})
}

// Doctor looks at everything that is known to go wrong, and says what is wrong
// and what to do. Its exit status is 0 when nothing is bad, 1 otherwise. With
// deep the whole database is read; a look that people take first must not take
// minutes.
func (d *Desk) Doctor(deep bool) error {
	x := &examination{d: d, now: d.Now()}
	if err := d.configure(); err != nil {
		return err
	}
	if name := d.Config.Path; name != "" {
		x.find("configuration", Well, "", "%s is valid", esc(name))
	} else {
		x.find("configuration", Well, "", "no file was found; every key has its default")
	}
	x.files()
	x.clock()
	x.disk()
	if err := d.open(reads); err != nil {
		x.find("database", Bad, "", "%v", err)
		return d.report(x.findings)
	}
	for _, look := range []func(deep bool) error{x.database, x.locks, x.crew, x.tasks} {
		if err := look(deep); err != nil {
			x.find("database", Bad, "see the other findings, and try again", "%v", err)
		}
	}
	return d.report(x.findings)
}

// report shows findings; what is well comes last and short.
func (d *Desk) report(findings []Finding) error {
	bad := false
	for _, f := range findings {
		bad = bad || f.Grade == Bad
	}
	if err := d.showFindings(findings); err != nil {
		return err
	}
	if bad {
		return Exit(ExitUnwell)
	}
	return nil
}

func (d *Desk) showFindings(findings []Finding) error {
	if d.JSON {
		list := []object{}
		for _, f := range findings {
			list = append(list, object{{"subject", f.Subject}, {"grade", string(f.Grade)}, {"found", f.Found}, {"cure", orNull(f.Cure)}})
		}
		return WriteJSON(d.Out, list)
	}
	var lines []screen.Line
	for _, g := range []Grade{Bad, Notable, Well} {
		color := map[Grade]screen.Color{Bad: screen.Red, Notable: screen.Yellow, Well: screen.Green}[g]
		for _, f := range findings {
			if f.Grade != g {
				continue
			}
			lines = append(lines, screen.Line{{Text: screen.PadRight(string(g), 8), Color: color}, {Text: esc(f.Subject) + ": " + f.Found}})
			if f.Cure != "" {
				lines = append(lines, screen.Text("        "+f.Cure))
			}
		}
	}
	var wrapped []screen.Line
	for _, l := range lines {
		wrapped = append(wrapped, d.Style.Wrap(l, 8)...)
	}
	return d.print(wrapped...)
}

// files looks at who owns, and who may read, what is in the data directory
// (cases DB-07, SE-03).
func (x *examination) files() {
	c := x.d.Config
	owner, _, err := ownerOf(c.Database())
	if err != nil {
		x.find("files", Bad, "", "%v", err)
		return
	}
	before := len(x.findings)
	for _, dir := range []string{c.DataDir, c.RunDir(), c.Log.Dir, c.ExecLogDir(), c.TasksDir()} {
		x.file(dir, owner, 0o700)
	}
	for _, name := range []string{"", "-wal", "-shm"} {
		x.file(c.Database()+name, owner, 0o600)
	}
	if len(x.findings) == before {
		x.find("files", Well, "", "owners and modes below %s are in order", esc(c.DataDir))
	}
}

func (x *examination) file(path string, owner int, mode fs.FileMode) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		x.find("files", Bad, "", "%v", err)
		return
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = os.Stat(path); err != nil {
			x.find("files", Bad, "", "%v", err)
			return
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != owner {
		x.find("files", Bad, fmt.Sprintf("chown %d %s", owner, esc(path)), "%s belongs to user %d, the database to user %d, who may be locked out", esc(path), st.Uid, owner)
	}
	switch loose := info.Mode().Perm() &^ mode; {
	case loose&0o002 != 0:
		x.find("files", Bad, fmt.Sprintf("chmod o-w %s", esc(path)), "%s can be written by everybody (mode %04o)", esc(path), info.Mode().Perm())
	case loose&0o007 != 0:
		x.find("files", Notable, fmt.Sprintf("chmod o= %s, unless others are to read payloads and logs", esc(path)), "%s is open to everybody (mode %04o)", esc(path), info.Mode().Perm())
	}
}

// clock asks the kernel whether something keeps the time right.
func (x *examination) clock() {
	if x.now.Year() < 2024 {
		x.find("clock", Bad, "set the clock; tasks are due by it", "it is %s", x.now.Format(time.RFC3339))
		return
	}
	synced, known := kernelClock()
	switch {
	case !known:
		x.find("clock", Well, "", "it is %s", x.d.Style.Time(x.now))
	case synced:
		x.find("clock", Well, "", "it is %s, kept by time synchronisation", x.d.Style.Time(x.now))
	default:
		x.find("clock", Notable, "start a time service (systemd-timesyncd, chrony)", "nothing keeps the time right; it is %s", x.d.Style.Time(x.now))
	}
}

// diskRoom is how much must be free for a disk to be well: a night's logs.
const diskRoom = 1 << 30

func (x *examination) disk() {
	var st unix.Statfs_t
	dir := nearestDir(x.d.Config.DataDir)
	if err := unix.Statfs(dir, &st); err != nil {
		x.find("disk", Notable, "", "%s: %v", esc(dir), err)
		return
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	switch {
	case free < lowDisk:
		x.find("disk", Bad, "make room: prune, or move logs; claims pause when the disk is full", "only %s are free for %s", screen.Bytes(free), esc(dir))
	case free < diskRoom:
		x.find("disk", Notable, "make room, or lower retention.disk_budget", "%s are free for %s", screen.Bytes(free), esc(dir))
	default:
		x.find("disk", Well, "", "%s are free for %s", screen.Bytes(free), esc(dir))
	}
	if st.Files > 0 && st.Ffree < 1000 {
		x.find("disk", Bad, "remove small files", "only %d inodes are free for %s", st.Ffree, esc(dir))
	}
}

// nearestDir is path, or the nearest directory above it that exists.
func nearestDir(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// database asks the store to look at the file.
func (x *examination) database(deep bool) error {
	depth, how := store.Rules, "its schema and rules are in order (`db check` reads every page)"
	switch {
	case deep:
		depth, how = store.Indexes, "every page was read and every index compared; all is in order"
	case x.pages:
		depth, how = store.Pages, "every page was read and is in order (--deep compares the indexes, too)"
	}
	found, err := x.d.Store.Check(depth)
	if err != nil {
		return err
	}
	for _, f := range found {
		x.findings = append(x.findings, ofStore(f))
	}
	if len(found) == 0 {
		x.find("database", Well, "", "%s: %s", esc(x.d.Config.Database()), how)
	}
	size, err := x.d.Store.Sizes()
	if err != nil {
		return err
	}
	if size.WAL > bigWAL {
		x.find("database", Notable, "end the process that has a read open for long; `db check` names those that it can see",
			"the write-ahead log has %s", screen.Bytes(size.WAL))
	}
	return nil
}

// ofStore makes a Finding of one of the store's.
func ofStore(f store.Finding) Finding {
	g := Notable
	if f.Fatal {
		g = Bad
	}
	return Finding{"database", g, f.What, f.Cure}
}

// locks names who holds the database's locks (case DB-03).
func (x *examination) locks(bool) error {
	holders, err := x.d.Store.Holders()
	if err != nil {
		return err
	}
	// A lock that is held for a moment is work; one that is still held by the same
	// process after a while is trouble.
	held := map[int]store.LockHolder{}
	for _, h := range holders {
		if h.What == "write" {
			held[h.PID] = h
		}
	}
	if len(held) == 0 {
		x.find("write lock", Well, "", "nobody holds it")
		return nil
	}
	time.Sleep(holdIsTrouble)
	again, err := x.d.Store.Holders()
	if err != nil {
		return err
	}
	for _, h := range again {
		if _, before := held[h.PID]; !before || h.What != "write" {
			continue
		}
		cure := fmt.Sprintf("end its transaction there, or end process %d", h.PID)
		state := ""
		if h.State == "T" {
			state, cure = ", which is stopped", fmt.Sprintf("kill -CONT %d, or kill it", h.PID)
		}
		x.find("write lock", Bad, cure, "process %d (%s)%s holds the write lock for more than %s; nobody else can write", h.PID, esc(h.Comm), state, holdIsTrouble)
		return nil
	}
	x.find("write lock", Well, "", "it is taken and given back")
	return nil
}

// holdIsTrouble is longer than any transaction of ours but a batch or migration.
const holdIsTrouble = time.Second

// crew looks at the workers.
func (x *examination) crew(bool) error {
	workers, err := x.d.workers()
	if err != nil {
		return err
	}
	x.workers = workers
	if why := nobodyWorks(x.workers, x.now); why != "" {
		x.find("workers", Bad, "start the service (systemctl start nightshift), or bin/supervisor by hand", "%s", why)
	}
	for i := range x.workers {
		x.worker(&x.workers[i])
	}
	return nil
}

func (x *examination) worker(w *Worker) {
	subject := "worker " + w.ID
	switch w.Life {
	case Alive:
		x.find(subject, Well, "", "alive, process %d, heard %s", w.PID, screen.Ago(w.LastBeat, x.now))
	case Draining:
		x.find(subject, Well, "", "alive and draining, process %d", w.PID)
	case Stopped:
		x.find(subject, Well, "", "stopped in good order %s", screen.Ago(w.Stopped, x.now))
	case Suspect, Offline:
		x.find(subject, Bad, fmt.Sprintf("see its log in %s; if its process hangs, kill -ABRT %d shows where", esc(x.d.Config.Log.Dir), w.PID), "process %d is there, but %s (%s)", w.PID, w.Why, w.Life)
	case Gone:
		if len(w.Holders) == 0 {
			x.find(subject, Notable, "its supervisor starts it again; another worker takes over its tasks", "dead: %s", w.Why)
			return
		}
		x.find(subject, Bad, fmt.Sprintf("end that process, or say takeover --force %s", esc(w.ID)), "dead: %s", w.Why)
	default:
		x.find(subject, Notable, "", "%s", w.Why)
	}
	if w.LastBeat.Sub(x.now) > time.Minute {
		x.find("clock", Notable, "nothing: ages are counted by each worker's own clock", "the last heartbeat of %s lies %s ahead: the clock was set back", esc(w.ID), words(w.LastBeat.Sub(x.now)))
	}
	if w.Life.Lives() && w.Version != "" && w.Version != x.d.Version {
		x.find(subject, Notable, "send the supervisor SIGUSR1: it rolls its workers onto the program now installed", "it runs version %s, this program is %s", esc(w.Version), x.d.Version)
	}
}

// tasks looks for rows that nobody carries on.
func (x *examination) tasks(bool) error {
	active, err := x.d.Store.Running()
	if err != nil {
		return err
	}
	stale := 0
	for i := range active {
		t := &active[i]
		w := ownerAmong(x.workers, t.ExecutorID)
		switch {
		case t.Status == task.Lost && len(w.Holders) > 0:
			x.find("task "+t.ID, Bad, fmt.Sprintf("end that process, or say takeover --force %s", esc(t.ID)), "LOST: %s", ownerWords(w, x.now))
		case !w.Life.Lives():
			x.find("task "+t.ID, Notable, "start a worker, if none is running", "%s on %s: %s", t.Status, esc(t.ExecutorID), ownerWords(w, x.now))
		case t.Status == task.Running && !t.LeaseUntil.IsZero() && x.now.Sub(t.LeaseUntil) > time.Minute:
			x.find("task "+t.ID, Notable, "see the log of "+esc(w.ID), "its lease ended %s, and %s still runs it", screen.Ago(t.LeaseUntil, x.now), esc(t.ExecutorID))
		default:
			continue
		}
		stale++
	}
	if stale == 0 {
		x.find("tasks", Well, "", "%s at work, each with a living owner", screen.Plural(int64(len(active)), "task"))
	}
	types, err := x.d.Store.LiveTypes()
	if err != nil {
		return err
	}
	for _, name := range types {
		if _, known := x.d.Config.Tasks[name]; !known {
			x.find("type "+name, Notable, "add it to the section tasks and send the workers SIGHUP, or cancel its tasks", "unfinished tasks bear it, and %s does not know it", x.d.configName())
		}
	}
	on, err := x.d.Store.Draining()
	if err == nil && on {
		x.find("drain", Notable, fmt.Sprintf("say `%s drain off` when the work on the machine is done", x.d.Program), "drain is on: no task is started")
	}
	return err
}
