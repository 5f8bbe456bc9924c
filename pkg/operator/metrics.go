package operator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"nightshift/pkg/operator/cmdline"
	"nightshift/pkg/task"
)

// metric is one family of the Prometheus text format.
type metric struct {
	name, kind, help string
	samples          []sample
}

type sample struct {
	labels [][2]string
	value  float64
}

func gauge(name, help string) *metric { return &metric{name: name, kind: "gauge", help: help} }

func (m *metric) add(value float64, labels ...string) *metric {
	s := sample{value: value}
	for i := 0; i+1 < len(labels); i += 2 {
		s.labels = append(s.labels, [2]string{labels[i], labels[i+1]})
	}
	m.samples = append(m.samples, s)
	return m
}

// Metrics prints the metrics, or puts them into a file of node_exporter's
// textfile collector, which never sees half of them.
func (d *Desk) Metrics(textfile string) error {
	if textfile != "" && d.JSON {
		return cmdline.Usagef("--textfile and --json exclude each other")
	}
	if err := d.open(reads); err != nil {
		return err
	}
	families, err := d.measure()
	if err != nil {
		return err
	}
	if d.JSON {
		return WriteJSON(d.Out, metricsObjects(families))
	}
	text := exposition(families)
	if textfile == "" {
		_, err = d.Out.Write(text)
		return err
	}
	return replaceFile(textfile, text)
}

// measure takes all figures. Names and units follow the conventions of
// Prometheus: base units, the unit in the name, a count without "total" where it
// can fall.
func (d *Desk) measure() ([]*metric, error) {
	began := time.Now()
	v, err := d.look()
	if err != nil {
		return nil, err
	}
	running, err := d.Store.RunningByType()
	if err != nil {
		return nil, err
	}
	families := []*metric{
		gauge("nightshift_build_info", "1, with the version of the program that measured.").add(1, "version", d.Version),
		tasksMetric(v.Counts),
		runningMetric(running),
		gauge("nightshift_tasks_due", "Waiting tasks whose time has come.").add(float64(v.Due)),
		gauge("nightshift_oldest_due_age_seconds", "How long the longest waiting due task has waited.").add(oldestAge(v)),
		gauge("nightshift_failed_last_day", "Tasks that ended FAILED or DEAD in the last 24 hours.").add(float64(v.Failed)),
		gauge("nightshift_draining", "1 while no new task is started.").add(number(v.Draining)),
	}
	families = append(families, workerMetrics(v)...)
	families = append(families, scheduleMetric(v),
		gauge("nightshift_database_size_bytes", "Size of the database file.").add(float64(v.Size.Database)),
		gauge("nightshift_database_wal_bytes", "Size of the write-ahead log.").add(float64(v.Size.WAL)),
		gauge("nightshift_disk_free_bytes", "Room left on the disk of the database.").add(float64(v.Size.FreeDisk)),
		gauge("nightshift_warnings", "Warnings that status shows.").add(float64(len(v.Warnings))),
	)
	return append(families, gauge("nightshift_measure_duration_seconds", "How long it took to take these figures.").add(time.Since(began).Seconds())), nil
}

// tasksMetric counts by status alone: by type as well it would read the whole
// table, which no index answers (case SC-04).
func tasksMetric(counts map[task.Status]int64) *metric {
	m := gauge("nightshift_tasks", "Tasks by status.")
	for _, s := range task.Statuses() {
		m.add(float64(counts[s]), "status", string(s))
	}
	return m
}

func runningMetric(running map[string]int) *metric {
	m := gauge("nightshift_running_tasks", "Tasks at work (RUNNING and LOST) by type.")
	var types []string
	for name := range running {
		types = append(types, name)
	}
	sort.Strings(types)
	for _, name := range types {
		m.add(float64(running[name]), "type", name)
	}
	return m
}

func oldestAge(v *StatusView) float64 {
	if v.Oldest == nil {
		return 0
	}
	return max(v.Now.Sub(v.Oldest.NextRun).Seconds(), 0)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func workerMetrics(v *StatusView) []*metric {
	up := gauge("nightshift_worker_up", "1 when the worker's lock is held by its living process.")
	state := gauge("nightshift_worker_state", "1 for the state that the worker is in.")
	silent := gauge("nightshift_worker_heartbeat_age_seconds", "Time since the worker's last heartbeat.")
	slots := gauge("nightshift_worker_slots", "Tasks that the worker can run at a time.")
	busy := gauge("nightshift_worker_busy_slots", "Tasks that the worker runs.")
	slow := gauge("nightshift_slow_tasks", "Running tasks whose progress has not moved for slow_after.")
	slowTasks := 0
	for i := range v.Workers {
		w := &v.Workers[i]
		up.add(number(w.Life.Lives()), "worker", w.ID)
		state.add(1, "state", string(w.Life), "worker", w.ID)
		silent.add(max(v.Now.Sub(w.LastBeat).Seconds(), 0), "worker", w.ID)
		slots.add(float64(w.Slots()), "worker", w.ID)
		busy.add(float64(w.Busy()), "worker", w.ID)
		for _, e := range w.Executors {
			if !e.SlowSince.IsZero() {
				slowTasks++
			}
		}
	}
	return []*metric{up, state, silent, slots, busy, slow.add(float64(slowTasks))}
}

func scheduleMetric(v *StatusView) *metric {
	m := gauge("nightshift_schedule_next_run_timestamp_seconds", "When the schedule is due next.")
	plans := append([]PlannedRun(nil), v.Plans...)
	sort.Slice(plans, func(i, j int) bool { return plans[i].Schedule < plans[j].Schedule })
	for _, p := range plans {
		m.add(float64(p.At.Unix()), "schedule", p.Schedule)
	}
	return m
}

// exposition writes the text format, version 0.0.4. A family without samples is
// left out.
func exposition(families []*metric) []byte {
	var b bytes.Buffer
	for _, m := range families {
		if len(m.samples) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, s := range m.samples {
			b.WriteString(m.name)
			for i, l := range s.labels {
				open := ","
				if i == 0 {
					open = "{"
				}
				fmt.Fprintf(&b, `%s%s="%s"`, open, l[0], labelValue(l[1]))
			}
			if len(s.labels) > 0 {
				b.WriteByte('}')
			}
			fmt.Fprintf(&b, " %s\n", strconv.FormatFloat(s.value, 'f', -1, 64))
		}
	}
	return b.Bytes()
}

// labelValue escapes what the format asks for.
func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}

func metricsObjects(families []*metric) []object {
	list := []object{}
	for _, m := range families {
		for _, s := range m.samples {
			labels := object{}
			for _, l := range s.labels {
				labels = append(labels, field{l[0], l[1]})
			}
			list = append(list, object{{"name", m.name}, {"labels", labels}, {"value", s.value}})
		}
	}
	return list
}

// replaceFile writes a file beside its place and renames it into it: a reader
// sees the old one or the new one, whole. It is readable for all: the collector
// runs as another user, and figures are no secret.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) // the first error is the one to tell
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
