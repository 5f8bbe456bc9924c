package model

import "nightshift/pkg/task"

// execution: what a worker that claims does with its one slot.
func (v *mover) execution(i int) {
	p := &v.s.procs[i]
	if p.phase != up && p.phase != upUnswept {
		return
	}
	if p.late != 0 {
		v.lateCheckpoint(i)
	}
	switch p.step {
	case idle:
		for t := range v.m.Tasks {
			v.claim(i, t)
		}
	case claimed:
		v.launch(i)
	case works:
		v.checkpoint(i)
		v.heed(i)
		v.reap(i)
	case stopping, pausing, abandoned:
		if v.kid(i).exec != 0 {
			v.do(action{"kills its program", uint8(i), p.task}, func(n *state) { n.kids[i][p.task] = program{} })
		}
		v.reap(i)
	case succeeded, failed, stopped, held:
		v.finish(i)
	}
}

// kid is the program of the worker's execution.
func (v *mover) kid(i int) program { return v.s.kids[i][v.s.procs[i].task] }

// claim is one UPDATE with the status in its WHERE.
func (v *mover) claim(i, t int) {
	r := &v.s.rows[t]
	due := r.owner == 0 && r.control != pause &&
		(r.status == pending || r.status == retrying || r.status == paused && r.control == resume)
	if v.m.Rules.BlindClaim {
		// It read the row as PENDING a while ago.
		due = due || r.status == running || r.status == retrying
	}
	if !due {
		return
	}
	v.do(action{"claims", uint8(i), uint8(t)}, func(n *state) {
		q := &n.rows[t]
		if q.control == cancel {
			move(q, cancelled, task.UserCancel)
			return
		}
		why := task.Claimed
		if q.status == paused {
			why = task.UserResume
		}
		move(q, running, why)
		q.control, q.owner, q.exec, q.expired = none, uint8(i+1), newExec(n, t), false
		p := &n.procs[i]
		p.step, p.task, p.exec = claimed, uint8(t), q.exec
	})
}

// launch starts the program. No row is read again: what keeps a worker that was
// stopped between claim and start from doing harm is that nobody can have taken
// the task over while its lock was held.
func (v *mover) launch(i int) {
	v.do(action{"starts the program", uint8(i), v.s.procs[i].task}, func(n *state) {
		p := &n.procs[i]
		for j := range n.kids {
			if n.kids[j][p.task].exec != 0 {
				panic(violation("two programs of one task at a time"))
			}
		}
		n.kids[i][p.task] = program{exec: p.exec, lock: !v.m.Rules.NoChildLock && !p.noFile}
		p.step = works
	})
}

// mine is the WHERE of the writes of an execution.
func (v *mover) mine(r *row, i int, exec uint8) bool {
	switch {
	case r.status != running && r.status != lost:
		return false
	case v.m.Rules.NoFence:
		return true
	case r.owner != uint8(i+1):
		return false
	case v.m.Rules.NoExecFence, v.m.Rules.BackUnfenced && r.status == lost:
		return true
	}
	return r.exec == exec
}

// accepted checks what the fence let through.
func (v *mover) accepted(r *row, i int, exec uint8) {
	if r.owner != uint8(i+1) || r.exec != exec {
		panic(violation("a write of a stale execution was accepted"))
	}
}

// checkpoint is a fenced write. A row that was given up for silence comes back.
func (v *mover) checkpoint(i int) {
	p := &v.s.procs[i]
	v.do(action{"checkpoints", uint8(i), p.task}, func(n *state) {
		r, q := &n.rows[p.task], &n.procs[i]
		if !v.mine(r, i, p.exec) {
			q.step = abandoned
			return
		}
		v.accepted(r, i, p.exec)
		if r.status == lost {
			move(r, running, task.WorkerBack)
		}
		r.crashes = 0
		q.step = afterControl(r.control)
	})
}

// lateCheckpoint is one that arrives when its execution is over.
func (v *mover) lateCheckpoint(i int) {
	p := &v.s.procs[i]
	v.do(action{"a late checkpoint arrives", uint8(i), p.lateTask}, func(n *state) {
		r, q := &n.rows[p.lateTask], &n.procs[i]
		q.late, q.lateTask = 0, 0
		if !v.mine(r, i, p.late) {
			return
		}
		v.accepted(r, i, p.late)
		if r.status == lost {
			move(r, running, task.WorkerBack)
		}
		r.crashes = 0
	})
}

func afterControl(c control) step {
	switch c {
	case cancel:
		return stopping
	case pause:
		return pausing
	}
	return works
}

// heed looks at the own rows: a wish, a row that went to somebody else.
func (v *mover) heed(i int) {
	p := &v.s.procs[i]
	r := &v.s.rows[p.task]
	to := afterControl(r.control)
	if !v.mine(r, i, p.exec) {
		to = abandoned
	}
	if to == works {
		return
	}
	if to == pausing && v.m.Rules.PauseFirst && r.status == running {
		v.do(action{"writes PAUSED while its program ends", uint8(i), p.task}, func(n *state) {
			q := &n.rows[p.task]
			move(q, paused, task.UserPause)
			q.owner, q.control = 0, none
			n.procs[i].step = abandoned
		})
		return
	}
	v.do(action{"heeds a wish", uint8(i), p.task}, func(n *state) { n.procs[i].step = to })
}

// reap notices that the program has ended, with all its descendants.
func (v *mover) reap(i int) {
	p := &v.s.procs[i]
	if v.kid(i).exec != 0 {
		return
	}
	end := func(what string, to step) {
		v.do(action{what, uint8(i), p.task}, func(n *state) {
			q := &n.procs[i]
			q.step = to
			if to == idle {
				q.task, q.exec = 0, 0
			}
		})
	}
	switch p.step {
	case works:
		end("sees its program succeed", succeeded)
		if v.m.Failures {
			end("sees its program fail", failed)
		}
	case stopping:
		end("sees its program end after a cancel", stopped)
	case pausing:
		end("sees its program end after a pause", held)
	case abandoned:
		end("is rid of a task that is not its own", idle)
	}
}

// finish is the fenced write that ends an execution. A checkpoint of it may still
// be on its way.
func (v *mover) finish(i int) {
	v.end(i, "writes the end", false)
	if p := &v.s.procs[i]; v.m.LateWrites && p.late == 0 && !v.s.rows[p.task].status.final() {
		v.end(i, "writes the end, a checkpoint still on its way", true)
	}
}

func (v *mover) end(i int, what string, late bool) {
	p := &v.s.procs[i]
	v.do(action{what, uint8(i), p.task}, func(n *state) {
		r, q := &n.rows[p.task], &n.procs[i]
		ended := p.step
		q.step, q.task, q.exec = idle, 0, 0
		if late {
			q.late, q.lateTask = p.exec, p.task
		}
		if !v.mine(r, i, p.exec) {
			return
		}
		v.accepted(r, i, p.exec)
		if r.status == lost {
			move(r, running, task.WorkerBack)
		}
		switch {
		case ended == succeeded:
			move(r, success, task.Done)
		case r.control == cancel || ended == stopped:
			move(r, cancelled, task.UserCancel)
		case ended == held:
			move(r, paused, task.UserPause)
			if r.control != pause {
				r.control = resume // taken back meanwhile: it goes on
			} else {
				r.control = none
			}
			r.owner, r.expired = 0, false
		default:
			v.retry(r, task.RetryableError, 1)
		}
	})
}

// programs: what a program does by itself, with or without its worker.
func (v *mover) programs(i int) {
	for t := range v.m.Tasks {
		k := v.s.kids[i][t]
		if k.exec == 0 {
			continue
		}
		v.do(action{"its program ends", uint8(i), uint8(t)}, func(n *state) { n.kids[i][t] = program{} })
		if k.lock {
			v.do(action{"its program lets go of the lock", uint8(i), uint8(t)}, func(n *state) { n.kids[i][t].lock = false })
		}
	}
}

// person: what people ask for, and what time does to a row.
func (v *mover) person(t int) {
	r := &v.s.rows[t]
	if r.status.final() {
		return
	}
	ask := func(what string, change func(r *row)) {
		v.do(action{what, 0, uint8(t)}, func(n *state) { change(&n.rows[t]) })
	}
	idleRow := r.status == pending || r.status == retrying || r.status == paused
	if v.m.Cancels && r.control != cancel {
		ask(actCancel, func(r *row) {
			if idleRow {
				move(r, cancelled, task.UserCancel)
				return
			}
			r.control = cancel
		})
	}
	if v.m.Pauses && r.control == none && r.status != paused {
		ask("pause", func(r *row) { r.control = pause })
	}
	if v.m.Pauses && (r.status == paused && r.control == none || r.control == pause) {
		ask("resume", func(r *row) {
			if r.status == paused {
				r.control = resume
				return
			}
			r.control = none
		})
	}
	if (r.status == running || r.status == lost) && !r.expired {
		ask("the lease runs out", func(r *row) { r.expired = true })
	}
	if v.m.Silence && r.status == running && r.owner != 0 {
		ask("its owner is silent: LOST", func(r *row) { move(r, lost, task.WorkerOffline) })
	}
}
