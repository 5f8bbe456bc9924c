package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// users are people and scripts: they add tasks, and change their minds. What was
// answered with success is accepted.
type users struct {
	n    *night
	p    *proc
	a    *access
	next int

	mu       sync.Mutex
	accepted map[string]job
	maybe    map[string]job  // the answer was an error that leaves it open
	wished   map[string]bool // somebody asked to cancel it
	rest     bool            // nothing is added any more
}

// backlog bounds how much may wait: a queue that only grows would prove little.
const backlog = 60

// patience is how long a command waits for the write lock.
const patience = 10 * time.Second

func (n *night) newUsers() (*users, error) {
	u := &users{n: n, p: n.m.spawn("user", "user", nil), accepted: map[string]job{}, maybe: map[string]job{}, wished: map[string]bool{}}
	s, err := store.Open(store.Options{Path: n.db.path, MaxWait: patience, Clock: n.m.now})
	if err != nil {
		return nil, err
	}
	u.a = &access{d: n.db, p: u.p, s: s, patience: patience}
	return u, nil
}

func (u *users) begin() {
	go func() {
		for {
			u.p.sleep(time.Duration(-math.Log(1-float64(u.p.random(1<<20))/(1<<20)) * float64(40*time.Second)))
			if u.resting() {
				<-u.p.gone
				return
			}
			u.act()
		}
	}()
}

func (u *users) resting() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rest
}

// close ends the users' process and its connections.
func (u *users) close() {
	u.n.m.end(u.p, 0)
	if err := u.a.s.Close(); err != nil {
		u.n.wrong("I8 users: close: %v", err)
	}
}

func (u *users) act() {
	switch k := u.p.random(20); {
	case k < 12:
		u.add(1)
	case k < 13:
		u.add(3 + int(u.p.random(10)))
	case k < 19:
		u.control()
	default:
		u.rerun()
	}
}

// invent makes up a task.
func (u *users) invent() (store.NewTask, job) {
	u.next++
	j := job{Steps: int(u.p.random(6)), Each: time.Duration(100+u.p.random(20_000)) * time.Millisecond, End: well}
	typ := []string{"go", "go", "program", "program", "long"}[u.p.random(5)]
	switch k := u.p.random(40); {
	case k < 4:
		j.End, j.Fails = fails, 1+u.p.random(3)
	case k < 6:
		j.End = fatal
	case k < 8:
		j.End = never
	case k < 9 && typ != "long":
		j.End, j.Fails = hangs, 1
	case k < 10:
		j.End, j.Fails = panics, 1
	case k < 11 && typ == "go":
		j.End, j.Steps = poison, 0
	case k < 12 && typ == "go":
		j.End, j.Fails = stubborn, 1
	case k < 16:
		j.Steps, j.Each = 20+int(u.p.random(40)), time.Duration(1+u.p.random(4))*time.Second
	}
	j.Fork = typ == "program" && u.p.random(3) == 0
	raw, err := json.Marshal(j)
	if err != nil {
		panic("sim: payload: " + err.Error())
	}
	retries, priority := int64(3), 50+u.p.random(100)
	t := store.NewTask{ID: fmt.Sprintf("t%05d", u.next), Type: typ, Payload: string(raw), MaxRetry: &retries, Priority: &priority}
	switch u.p.random(12) {
	case 0:
		t.Held = true
	case 1:
		t.NextRun = u.n.m.now().Add(time.Duration(u.p.random(600)) * time.Second)
	}
	return t, j
}

func (u *users) add(k int) {
	if len(u.unfinished()) > backlog {
		return
	}
	tasks, jobs := make([]store.NewTask, k), make([]job, k)
	for i := range tasks {
		tasks[i], jobs[i] = u.invent()
	}
	err := u.a.write("add", func() error {
		if u.n.o.Break == LosingInsert && u.next%10 == 0 {
			return nil
		}
		_, err := u.a.s.Add(u.n.m.now(), tasks...)
		return err
	}, queue)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range tasks {
		switch {
		case err == nil:
			u.accepted[tasks[i].ID] = jobs[i]
		case errors.Is(err, store.ErrUnknown):
			u.maybe[tasks[i].ID] = jobs[i]
		}
	}
}

// control wishes something of a task that has not ended.
func (u *users) control() {
	left := u.unfinished()
	if len(left) == 0 {
		return
	}
	t := left[u.p.random(int64(len(left)))]
	want := []task.Control{task.Cancel, task.Kill, task.Pause, task.Pause, task.Resume, task.Resume, task.Resume}[u.p.random(7)]
	u.ask(t.ID, want)
}

func (u *users) ask(id string, want task.Control) {
	if want.Cancels() {
		u.mu.Lock()
		u.wished[id] = true // also if the answer is an error: it may have taken place
		u.mu.Unlock()
	}
	err := u.a.write("control", func() error {
		_, err := u.a.s.SetControl(id, want, u.n.m.now())
		return err
	}, queue, rows)
	if err == nil {
		u.n.tally("wishes", 1)
	}
}

// rerun makes a new task of one that has ended.
func (u *users) rerun() {
	var ended []string
	if err := u.a.s.List(store.Filter{Statuses: []task.Status{task.Success, task.Cancelled}, Limit: 20}, func(_ int64, t *task.Task) error {
		ended = append(ended, t.ID)
		return nil
	}); err != nil || len(ended) == 0 {
		return
	}
	old := ended[u.p.random(int64(len(ended)))]
	u.mu.Lock()
	j, known := u.accepted[old]
	u.mu.Unlock()
	if !known {
		return // an occurrence of a schedule, or a rerun itself
	}
	var id string
	if err := u.a.write("rerun", func() (err error) {
		id, err = u.a.s.Rerun(old, true, u.n.m.now())
		return err
	}, queue); err != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.accepted[id] = j
}

// unfinished lists what has not ended, in the order of insertion.
func (u *users) unfinished() []task.Task {
	var left []task.Task
	live := []task.Status{task.Pending, task.Running, task.Retrying, task.Paused, task.Lost}
	if err := u.a.s.List(store.Filter{Statuses: live}, func(_ int64, t *task.Task) error {
		left = append(left, *t)
		return nil
	}); err != nil {
		u.n.wrong("I8 list: %v", err)
	}
	slices.Reverse(left)
	return left
}

// calm ends the adding.
func (u *users) calm() {
	u.mu.Lock()
	u.rest = true
	u.mu.Unlock()
}

func (u *users) drain(on bool) {
	// An error is a trouble of the disk; without the drain there is only less to see.
	_ = u.a.write("drain", func() error { return u.a.s.SetDrain(on, u.n.m.now()) }, drains)
}

// release ends the operator's drain, and resumes what is paused or is to be.
func (u *users) release(left []task.Task) {
	if held, err := u.a.Draining(); err != nil || held {
		u.drain(false)
	}
	for _, t := range left {
		if t.Status == task.Paused && t.Control != task.Resume || t.Control == task.Pause {
			u.ask(t.ID, task.Resume)
		}
	}
}
