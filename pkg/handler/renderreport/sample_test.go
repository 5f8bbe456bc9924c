package renderreport

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"nightshift/pkg/task"
)

// The nights that the tests draw. They are made from fixed seeds.

var (
	shanghai = mustZone("Asia/Shanghai")
	night    = Window{Since: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Until: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)}
)

func mustZone(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return z
}

// hostile is what may stand in an id, a type, an error: it must come out as text.
const hostile = "<script>alert(1)</script>\"'`&{{.}}\x00\x1b[31m\u202egpj.\xff"

func at(hours float64) time.Time {
	return night.Since.Add(time.Duration(hours * float64(time.Hour)))
}

func emptyNight() *Facts {
	return &Facts{Window: night, At: night.Until, Host: "nas-2", Version: "v0.9.0", Now: map[task.Status]int64{}}
}

func quietNight() *Facts {
	f := emptyNight()
	f.Now = map[task.Status]int64{task.Success: 8123, task.Pending: 3}
	f.Runs = Runs{Started: 96, Succeeded: 96, Busy: Span(3*time.Hour + 12*time.Minute)}
	f.Types = []TypeRuns{{Type: "inspect_host", Runs: f.Runs, Median: Span(1900 * time.Millisecond), P95: Span(3 * time.Second), Longest: Span(9 * time.Second)}}
	f.Waiting = Waiting{Later: 3, Next: []WaitingTask{{ID: "inspect@2026-12-02T00:30:00Z", Type: "inspect_host", Status: task.Pending, Due: at(12.5)}}}
	f.Workers = []Worker{{ID: "w1", Host: "nas-2", Version: "v0.9.0", PID: 811, StartedAt: at(-200), LastBeat: night.Until.Add(-4 * time.Second), Standing: Alive}}
	lane := Lane{Executor: "w1", Runs: 96, Busy: f.Runs.Busy}
	for i := range 96 {
		from := at(float64(i) / 8)
		lane.Bars = append(lane.Bars, Bar{From: from, To: from.Add(2 * time.Minute), TaskID: fmt.Sprint("inspect-", i), Type: "inspect_host", Outcome: "success"})
	}
	f.Timeline = Timeline{Lanes: []Lane{lane}}
	f.Schedules = []Schedule{{Name: "inspect", Enabled: true, LastID: "inspect@x", LastAt: at(11.9), LastIs: task.Success, Next: at(12.5)}}
	f.Disk = Disk{Known: true, DataDir: "/var/lib/nightshift", Database: 48 << 20, WAL: 2 << 20, Logs: 210 << 20, TaskDirs: 8 << 20, Outputs: 1300 << 20, Budget: 10e9, Free: 60e9, Total: 250e9}
	return f
}

func busyNight() *Facts {
	f := quietNight()
	r := rand.New(rand.NewPCG(1, 2))
	f.Now = map[task.Status]int64{task.Success: 1204331, task.Failed: 41, task.Dead: 12, task.Running: 3, task.Lost: 1, task.Pending: 128, task.Retrying: 6, task.Paused: 2, task.Cancelled: 9}
	f.Runs = Runs{Started: 431, Succeeded: 398, Failed: 9, Retried: 17, TimedOut: 3, Cancelled: 1, Paused: 1, Interrupted: 4, Stopped: 2, Busy: Span(19*time.Hour + 44*time.Minute)}
	f.Types = []TypeRuns{
		{Type: "clean_csv", Runs: Runs{Started: 12, Succeeded: 10, Retried: 2, Interrupted: 3, Busy: Span(9 * time.Hour)}, Running: 1, Median: Span(41 * time.Minute), P95: Span(66 * time.Minute), Longest: Span(2*time.Hour + 3*time.Minute)},
		{Type: "fetch_data", Runs: Runs{Started: 120, Succeeded: 104, Failed: 6, Retried: 11, TimedOut: 3, Cancelled: 1, Stopped: 1, Busy: Span(6*time.Hour + 10*time.Minute)}, Running: 2, Failed: 5, Median: Span(96 * time.Second), P95: Span(11 * time.Minute), Longest: Span(59 * time.Minute)},
		{Type: "render_report_for_the_customers_in_the_far_east_region", Runs: Runs{Started: 3, Succeeded: 3, Busy: Span(61 * time.Second)}, Median: Span(20 * time.Second), P95: Span(21 * time.Second), Longest: Span(21 * time.Second)},
		{Type: "inspect_host", Runs: Runs{Started: 288, Succeeded: 281, Failed: 3, Retried: 4, Busy: Span(22 * time.Minute)}, Failed: 3, Median: Span(1900 * time.Millisecond), P95: Span(3200 * time.Millisecond), Longest: Span(9 * time.Second)},
		{Type: "notify", Runs: Runs{Started: 8, Succeeded: 0, Failed: 0, Paused: 1, Interrupted: 1, Busy: Span(310 * time.Millisecond)}, Longest: Span(80 * time.Millisecond)},
	}
	status := 3
	f.Failures = Failures{Total: 9, Groups: []Failure{
		{Type: "fetch_data", Status: task.Failed, Reason: task.FatalError, Count: 5, First: at(2.2), Last: at(7.4),
			Cause: `GET https://api.example.com/v1/orders: status 401 Unauthorized: "{\"error\":\"token expired\"}"`,
			Tasks: []FailedTask{{ID: "orders@2026-12-01T19:20:00Z", At: at(7.4), Attempts: 1}, {ID: "orders@2026-12-01T18:20:00Z", At: at(6.4), Attempts: 1}, {ID: "20261201T141205.120-9f03ce11aa", At: at(2.2), Attempts: 1}}},
		{Type: "inspect_host", Status: task.Dead, Reason: task.RetriesExhausted, Count: 3, First: at(3), Last: at(9),
			Cause: "exit status 3: disk /dev/sdb1 is 97 % full\nsee the log", Tasks: []FailedTask{{ID: "-rf /", At: at(9), Attempts: 6, ExitCode: &status}, {ID: "it's", At: at(8), Attempts: 6, ExitCode: &status}}},
		{Type: hostile, Status: task.Dead, Reason: task.CrashesExhausted, Count: 1, First: at(5), Last: at(5),
			Cause: hostile + strings.Repeat("0123456789abcdef", 20), Tasks: []FailedTask{{ID: hostile, At: at(5), Attempts: 3, Signal: "SIGKILL"}}},
	}}
	f.Active = []Active{
		{ID: "20261201T203000.001-07aa12bb34", Type: "clean_csv", Status: task.Lost, Executor: "w2.1", Since: at(11.2), Progress: "6000/10000", Reason: task.WorkerOffline},
		{ID: "orders@2026-12-01T22:20:00Z", Type: "fetch_data", Status: task.Running, Executor: "w1.2", Since: at(10.4), Progress: "31200 items, 312 pages, 24.1 MB", SlowSince: at(10.9)},
		{ID: "20261201T234500.777-aa00bb11cc", Type: "clean_csv", Status: task.Running, Executor: "w1.1", Since: at(11.8), Progress: "78,000 rows", Asked: task.Cancel},
		{ID: strings.Repeat("wide-id-", 20), Type: "fetch_data", Status: task.Running, Executor: "w2.2", Since: at(11.99)},
	}
	f.ActiveTotal, f.SlowTotal = 4, 1
	f.Waiting = Waiting{Due: 21, Later: 107, Retrying: 6, Held: 2,
		Oldest: []WaitingTask{
			{ID: "20261201T211500.000-1122334455", Type: "clean_csv", Status: task.Pending, Due: at(9.25)},
			{ID: "orders@2026-12-01T21:20:00Z", Type: "fetch_data", Status: task.Retrying, Due: at(11.7), Retries: 2, MaxRetry: 5},
		},
		Next:     []WaitingTask{{ID: "nightly@2026-12-02T18:00:00Z", Type: "render_report", Status: task.Pending, Due: at(30)}, {ID: hostile, Type: hostile, Status: task.Retrying, Due: at(12.4), Retries: 5, MaxRetry: 5}},
		HeldList: []WaitingTask{{ID: "20261130T100000.000-ffffffffff", Type: "clean_csv", Status: task.Paused}, {ID: "x", Type: "y", Status: task.Paused}},
	}
	f.Retried = []Retried{{ID: "orders@2026-12-01T15:20:00Z", Type: "fetch_data", Status: task.Success, Times: 4, Cause: "GET https://api.example.com/v1/orders: the answer stalled (30s without a byte) (3 tries)"}, {ID: "inspect@2026-12-01T16:00:00Z", Type: "inspect_host", Status: task.Dead, Times: 3, Cause: "exit status 3"}}
	f.Incidents = []Incident{{Reason: task.WorkerCrash, Count: 3, Last: at(7.9)}, {Reason: task.WorkerOffline, Count: 1, Last: at(11.5)}, {Reason: task.Takeover, Count: 3, Last: at(7.9)}}
	f.Breaks = []Mark{{At: at(1.5), Executor: "w2.1"}, {At: at(7.9), Executor: "w2.2"}}
	f.Workers = []Worker{
		{ID: "w1.1", Host: "nas-2", Version: "v0.9.0", PID: 811, StartedAt: at(-200), LastBeat: at(11.999), Task: "x", Standing: Alive},
		{ID: "w1.2", Host: "nas-2", Version: "v0.9.0", PID: 811, StartedAt: at(-200), LastBeat: at(11.999), Standing: Alive, Draining: true},
		{ID: "w2.1", Host: "nas-2", Version: "v0.9.0", PID: 90331, StartedAt: at(7.9), LastBeat: at(11.4), Standing: Silent},
		{ID: "w2.2", Host: "nas-2", Version: "v0.9.0", PID: 90331, StartedAt: at(7.9), LastBeat: at(11.4), Standing: Dead},
		{ID: "w3", Host: "nas-2", Version: "v0.8.1", PID: 77, StartedAt: at(-2000), LastBeat: at(-60), StoppedAt: at(-60), Standing: Stopped},
	}
	f.Timeline = busyLanes(r)
	f.Schedules = []Schedule{
		{Name: "orders", Enabled: true, LastID: "a", LastAt: at(11.4), LastIs: task.Running, Next: at(12.4), Skips: []Skips{{Reason: "overlap", Count: 4, Last: at(10.4)}, {Reason: "missed", Count: 10, Last: at(1)}}},
		{Name: "nightly", Enabled: true, LastID: "b", LastAt: at(6), LastIs: task.Success, Next: at(30)},
		{Name: "old", Skips: []Skips{{Reason: "disabled", Count: 12, Last: at(11)}}},
	}
	f.SkipsTotal = 26
	f.Disk.Free, f.Disk.Partial = 9e9, true
	return f
}

func busyLanes(r *rand.Rand) Timeline {
	outcomes := []string{"success", "success", "success", "success", "success", "success", "success", "failed", "retry", "timeout", "interrupted", "cancelled", "stopped", "paused"}
	var t Timeline
	for n, name := range []string{"w1.1", "w1.2", "w2.1", "w2.2"} {
		lane := Lane{Executor: name}
		for x := r.Float64() * 0.2; x < 11.5; {
			d := r.ExpFloat64() * 0.12 * float64(1+n)
			to := min(x+d, 11.9)
			lane.Bars = append(lane.Bars, Bar{From: at(x), To: at(to), TaskID: fmt.Sprintf("%s-%d", name, len(lane.Bars)), Type: "clean_csv", Outcome: outcomes[r.IntN(len(outcomes))]})
			lane.Busy += Span(at(to).Sub(at(x)))
			x += d + r.ExpFloat64()*0.15
		}
		lane.Bars = append(lane.Bars, Bar{From: at(11.92), TaskID: "now", Type: hostile})
		lane.Runs = int64(len(lane.Bars))
		t.Lanes = append(t.Lanes, lane)
	}
	return t
}

// heavyNight has so many executions that the lanes show load.
func heavyNight() *Facts {
	f := busyNight()
	r := rand.New(rand.NewPCG(3, 4))
	f.Runs.Started, f.Runs.Succeeded = 1_204_331, 1_204_290
	f.Timeline = Timeline{More: 4}
	for n := range 12 {
		lane := Lane{Executor: fmt.Sprintf("w%d.%d", n/4+1, n%4+1), Runs: 100_000 + r.Int64N(9999), Busy: Span(time.Duration(2+r.IntN(9)) * time.Hour)}
		for i := range Buckets {
			x := Load{Busy: min(1, max(0, 0.55+0.4*float64(i-120)/120*float64(n%3-1)+0.1*r.NormFloat64()))}
			if r.IntN(20) == 0 {
				x.Bad = r.Float64()
			}
			lane.Load = append(lane.Load, x)
		}
		f.Timeline.Lanes = append(f.Timeline.Lanes, lane)
	}
	return f
}
