package operator

import (
	"strings"
	"testing"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

func TestWhyNamesEachCause(t *testing.T) {
	alive := func(n *night) { n.must(n.store.Register([]store.Heartbeat{beat("w1", 101, 0)})) }
	busy := func(n *night) {
		b := beat("w1", 101, 0)
		b.CurrentTaskID = "something"
		n.must(n.store.Register([]store.Heartbeat{b}))
	}
	set := func(n *night, c task.Control) {
		_, err := n.store.SetControl("t", c, n.now)
		n.must(err)
	}
	for _, c := range []struct {
		name  string
		task  store.NewTask
		setup func(n *night)
		want  string
	}{
		{"nothing keeps it", store.NewTask{Type: "clean_csv"}, alive, "soon: nothing keeps it: a worker should start it within a poll (5s)"},
		{"its time has not come", store.NewTask{Type: "clean_csv", NextRun: midnight.Add(time.Hour)}, alive, "not_due: it is due in 60 min (2026-12-02 01:04:05 CST)"},
		{"held", store.NewTask{Type: "clean_csv"}, func(n *night) { alive(n); set(n, task.Pause) }, "held: it is held; `nightshift resume t` lets it go on"},
		{"added on hold", store.NewTask{Type: "clean_csv", Held: true}, alive, "paused: a person holds it since just now; `nightshift resume t` lets it go on"},
		{"to be resumed", store.NewTask{Type: "clean_csv", Held: true}, func(n *night) { alive(n); set(n, task.Resume) }, "resume: it is to go on, and waits for an idle executor"},
		{"drain", store.NewTask{Type: "clean_csv"}, func(n *night) { alive(n); n.must(n.store.SetDrain(true, n.now)) }, "drain: drain is on: no task is started until `nightshift drain off`"},
		{"nobody works", store.NewTask{Type: "clean_csv"}, nil, "no_worker: no worker is alive, and none has ever used this database; tasks wait until one is started"},
		{"nobody knows its type", store.NewTask{Type: "clean_cvs"}, alive, `unknown_type: no type "clean_cvs" is in /etc/nightshift/nightshift.yaml (did you mean "clean_csv"?); it waits until a worker knows its type`},
		{"all slots are busy", store.NewTask{Type: "clean_csv"}, func(n *night) {
			busy(n)
			n.add(store.NewTask{Type: "clean_csv", Priority: new(int64)})
		}, "busy: all 1 slot are busy; 1 task is due before it"},
		{"others come first", store.NewTask{Type: "clean_csv"}, func(n *night) {
			alive(n)
			n.add(store.NewTask{Type: "clean_csv", Priority: new(int64)})
			n.add(store.NewTask{Type: "日报", Priority: new(int64)})
		}, "queue: 2 tasks are due before it (smaller priority, or earlier)"},
		{"its end", store.NewTask{Type: "clean_csv"}, func(n *night) { set(n, task.Cancel) }, "final: it ended just now: a person cancelled it; a person cancelled it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNight(t)
			c.task.ID = "t"
			n.add(c.task)
			if c.setup != nil {
				c.setup(n)
			}
			d, _, _ := n.desk(0, 0)
			got, err := n.store.Get("t")
			n.must(err)
			q := question{d: d, t: &got, now: n.now}
			if err := q.ask(); err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, cause := range q.causes {
				all = append(all, cause.Code+": "+cause.Text)
			}
			if !strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+c.want+"\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(all, "\n"), c.want)
			}
		})
	}
}

func TestWhyOfAnOccurrenceThatDidNotRun(t *testing.T) {
	n := newNight(t)
	n.skips()
	for id, want := range map[string]string{
		"nightly@2026-11-26T18:00:00Z": "this occurrence of nightly did not run: an earlier run was not finished (recorded 2026-12-02 00:04:05 CST)\n",
		"nightly@2026-11-28T18:00:00Z": "this occurrence of nightly did not run: nobody was there at its time (recorded 2026-12-02 00:04:05 CST); task nightly@2026-11-30T18:00:00Z ran in its place\n",
	} {
		d, out, _ := n.desk(0, 0)
		if err := d.Why(id); err != nil || out.String() != want {
			t.Errorf("%s: %v, got  %swant %s", id, err, out.String(), want)
		}
	}
	for _, id := range []string{"nightly@2026-11-20T18:00:00Z", "nobody"} {
		d, _, _ := n.desk(0, 0)
		if err := d.Why(id); ExitCode(err) != ExitNoInput {
			t.Errorf("%s: %v", id, err)
		}
	}
}
