package model

import "nightshift/pkg/task"

// neighbour: how a worker looks after the tasks of another one. Look, hunt and
// commit are steps of their own; it may be stopped or killed between them, and
// the neighbour may come back.
func (v *mover) neighbour(i int) {
	p := &v.s.procs[i]
	if p.phase != up {
		return
	}
	if p.watch == calm {
		for j := range v.m.Workers {
			if j != i && v.ownsAny(j) {
				v.look(i, j)
			}
		}
		return
	}
	v.do(action{"gives up watching", uint8(i), p.whom}, func(n *state) { calmDown(&n.procs[i]) })
	if !p.swept {
		v.hunt(i)
		return
	}
	if p.watch == guards && v.m.Rules.GuardDropped {
		v.do(action{"lets go of the lock before its commit", uint8(i), p.whom}, func(n *state) { n.procs[i].watch = guardsNot })
		return
	}
	v.takeOver(i)
}

func calmDown(p *proc) {
	p.watch, p.whom, p.saw, p.swept, p.sawRun = calm, 0, 0, false, [maxTasks]uint8{}
}

func (v *mover) ownsAny(j int) bool {
	for t := range v.m.Tasks {
		if v.owns(j, t) {
			return true
		}
	}
	return false
}

func (v *mover) owns(j, t int) bool {
	r := &v.s.rows[t]
	return r.owner == uint8(j+1) && (r.status == running || r.status == lost)
}

// look reads the neighbour's rows and tries its lock.
func (v *mover) look(i, j int) {
	q := &v.s.procs[j]
	rules := &v.m.Rules
	see := func(what string, as watch) {
		v.do(action{what, uint8(i), uint8(j)}, func(n *state) {
			p := &n.procs[i]
			p.watch, p.whom, p.saw = as, uint8(j), q.beat
			for t := range v.m.Tasks {
				if v.owns(j, t) {
					p.sawRun[t] = v.s.rows[t].exec
				}
			}
			p.swept = as == byReboot || as == unproven
		})
	}
	gone := q.phase == down || q.beat != q.life // the recorded process no longer runs
	switch {
	case q.oldBoot:
		see("sees a neighbour's row of another boot", byReboot)
	case q.noFile && rules.MissingIsFree:
		see("takes a missing lock file for a free lock", byKernel)
	case q.noFile && gone:
		see("sees that the recorded process is gone", byKernel)
	case !q.noFile && v.lockFree(j):
		see("takes the free lock of a neighbour", guards)
	}
	for t := range v.m.Tasks {
		if !v.owns(j, t) {
			continue
		}
		r := &v.s.rows[t]
		if rules.ExpiryIsDeath && r.expired || rules.SilenceIsDeath && r.status == lost {
			see("takes time for death", unproven)
			return
		}
	}
	if rules.KillIsDeath && q.phase != down {
		v.do(action{"kills a neighbour and does not look again", uint8(i), uint8(j)}, func(n *state) {
			kill(n, j)
			p := &n.procs[i]
			p.watch, p.whom, p.saw, p.swept = unproven, uint8(j), q.beat, true
		})
	}
}

// hunt kills what the dead neighbour left, and notes when nothing is found. With
// its lock in hand that is all that bears its mark; without it only what its
// recorded executions started, for a new life of it may be on its way.
func (v *mover) hunt(i int) {
	p := &v.s.procs[i]
	j := int(p.whom)
	clean := true
	for t := range v.m.Tasks {
		k := v.s.kids[j][t]
		if k.exec == 0 || p.watch == byKernel && k.exec != p.sawRun[t] && !k.lock {
			continue
		}
		clean = false
		if !v.m.Rules.NoSweep {
			v.do(action{"kills what a neighbour left", uint8(i), uint8(t)}, func(n *state) { n.kids[j][t] = program{} })
		}
	}
	if clean || v.m.Rules.NoSweep {
		v.do(action{"finds nothing more of a neighbour", uint8(i), p.whom}, func(n *state) { n.procs[i].swept = true })
	}
}

// takeOver is the transaction. It does nothing when the neighbour's row names a
// later life by now; without a guard that is all there is against its return.
func (v *mover) takeOver(i int) {
	p := &v.s.procs[i]
	j := int(p.whom)
	q := &v.s.procs[j]
	back := q.beat != p.saw || p.watch == byReboot && !q.oldBoot
	if v.m.Rules.NotAsked || p.watch == unproven {
		back = false
	}
	for _, crashed := range []uint8{0, 1} {
		v.do(action{"commits the takeover", uint8(i), crashed}, func(n *state) {
			calmDown(&n.procs[i])
			if back {
				return
			}
			for t := range v.m.Tasks {
				if v.owns(j, t) {
					v.takeRow(&n.rows[t], crashed)
				}
			}
		})
	}
}

// takeRow: crashed counts a crash, or, where the lease had run out and its owner
// was killed for it, the task's own failure.
func (v *mover) takeRow(r *row, crashed uint8) {
	if crashed == 1 && r.expired && r.status == running && r.control != cancel {
		v.retry(r, task.LeaseExpired, 1)
		return
	}
	v.giveUp(r, crashed)
}
