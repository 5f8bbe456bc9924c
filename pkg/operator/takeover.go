package operator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"nightshift/pkg/liveness"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// killTime bounds the hunt for what a dead worker left behind.
const killTime = 5 * time.Second

// TakeOver gives the tasks of a dead worker to the others. target is a worker, an
// executor or a task. Without force it needs what every takeover needs, proof of
// death; with it a person takes the responsibility.
func (d *Desk) TakeOver(target string, force bool) error {
	if err := d.open(writes); err != nil {
		return err
	}
	w, executors, err := d.target(target)
	if err != nil {
		return err
	}
	switch w.Life {
	case Alive, Draining, Suspect, Offline:
		return fail(ExitTryAgain, fmt.Sprintf("end its process first (kill %d), its supervisor starts it anew; or cancel the task", w.PID),
			"worker %s lives, as process %d", esc(w.ID), w.PID)
	}
	if len(executors) == 0 {
		return d.say("worker %s (%s) owns no task", esc(w.ID), w.Life)
	}
	release, err := d.prove(w, force)
	if err != nil {
		return err
	}
	defer release()
	out, err := d.Store.TakeOver(d.takeOverRequest(w, executors))
	if errors.Is(err, store.ErrNotMine) {
		return d.say("worker %s is back, and goes on with its tasks itself", esc(w.ID))
	}
	if err != nil {
		return err
	}
	return d.sayTakenOver(w, out)
}

// takeOverRequest names the incarnation that is dead, so that one which has come
// back meanwhile keeps its tasks. It covers all tasks of the worker: what is true
// of one of them is true of all.
func (d *Desk) takeOverRequest(w *Worker, executors []string) store.TakeOverRequest {
	r := store.TakeOverRequest{
		Executors: executors, Now: d.Now(), Graceful: w.Life == Stopped,
		MaxCrashes: d.Config.Retry.MaxCrashes, MaxExecutions: d.Config.Retry.MaxExecutions,
	}
	if len(w.Executors) == 0 {
		return r // no row is left to tell one incarnation from another
	}
	row := w.Executors[0]
	r.Executors, r.Worker = nil, w.ID
	r.PID, r.StartTicks, r.BootID = row.PID, row.StartTicks, row.BootID
	if boot, err := d.prober().bootID(); err == nil {
		r.ThisBoot = boot
		r.Graceful = r.Graceful || (row.BootID != "" && boot != "" && row.BootID != boot)
	}
	return r
}

// target finds whom a name means, and the executors whose tasks are meant.
func (d *Desk) target(name string) (*Worker, []string, error) {
	workers, err := d.workers()
	if err != nil {
		return nil, nil, err
	}
	active, err := d.Store.Running()
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	var executors []string
	for i := range active {
		t := &active[i]
		if t.ID == name {
			return ownerAmong(workers, t.ExecutorID), []string{t.ExecutorID}, nil
		}
		if (t.ExecutorID == name || WorkerOf(t.ExecutorID) == name) && !seen[t.ExecutorID] {
			seen[t.ExecutorID] = true
			executors = append(executors, t.ExecutorID)
		}
	}
	for i := range workers {
		if workers[i].ID == WorkerOf(name) {
			return &workers[i], executors, nil
		}
	}
	if len(executors) > 0 {
		return ownerAmong(workers, name), executors, nil
	}
	t, err := d.Store.Get(name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil, fail(ExitNoInput, "workers and list show those that exist", "there is neither a worker nor a task %s", quote(name))
	case err != nil:
		return nil, nil, err
	}
	return nil, nil, fail(ExitInput, "only a RUNNING or LOST task has an owner", "task %s is %s", quote(name), t.Status)
}

// prove gets hold of the proof of death, which the caller keeps until the
// takeover is written: the dead worker's lock, or another boot. What is left of
// the worker's tree is killed first.
func (d *Desk) prove(w *Worker, force bool) (release func(), err error) {
	release = func() {}
	if len(w.Executors) == 0 {
		if force {
			return release, nil
		}
		return release, fail(ExitTryAgain, "if you know that it is dead, add --force", "worker %s left no record of its lock, so its death can't be proven", esc(w.ID))
	}
	r := w.Executors[0]
	proof, err := d.prober().probe(r.LockPath, r.LockDev, r.LockIno)
	if boot, berr := d.prober().bootID(); berr == nil && boot != "" && r.BootID != "" && boot != r.BootID && (err != nil || proof.Outcome != liveness.Held) {
		return proof.Guard.Close, nil // nothing outlives the machine
	}
	if err != nil && !force {
		return release, err
	}
	sweep := liveness.Sweep{Mark: r.LockPath, LockDev: r.LockDev, LockIno: r.LockIno}
	switch {
	case err == nil && proof.Outcome == liveness.Free:
		release = proof.Guard.Close
	case !force:
		return release, fail(ExitTryAgain, "end what holds it, or add --force to go on without proof",
			"the death of worker %s is not proven: %s", esc(w.ID), unproven(w, proof))
	}
	left, err := sweep.KillAll(killTime)
	if err != nil && !force {
		release()
		return func() {}, err
	}
	if len(left) > 0 {
		names := make([]string, len(left))
		for i, p := range left {
			names[i] = fmt.Sprintf("%d (%s)", p.PID, esc(p.Comm))
		}
		if !force {
			release()
			return func() {}, fail(ExitTryAgain, "end them, or add --force", "processes of worker %s can't be killed: %s", esc(w.ID), strings.Join(names, ", "))
		}
		d.note("warning: still there: process %s; what it does may be done twice", strings.Join(names, ", "))
	}
	return release, nil
}

func unproven(w *Worker, proof liveness.Proof) string {
	if proof.Outcome == liveness.Held {
		if w.Why != "" {
			return w.Why
		}
		return "its lock is held"
	}
	return proof.Why
}

func (d *Desk) sayTakenOver(w *Worker, out store.TakenOver) error {
	lists := []struct {
		ids []string
		to  task.Status
	}{{out.Requeued, task.Pending}, {out.Dead, task.Dead}, {out.Cancelled, task.Cancelled}}
	said := false
	for _, l := range lists {
		for _, id := range l.ids {
			said = true
			if err := d.say("%s: %s", esc(id), l.to); err != nil {
				return err
			}
		}
	}
	if said {
		return nil
	}
	return d.say("worker %s owns no task any more; %s let go", esc(w.ID), screen.Plural(int64(out.LetGo), "task"))
}
