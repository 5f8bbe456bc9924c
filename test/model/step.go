package model

import (
	"fmt"

	"nightshift/pkg/task"
)

// action is one step: what, by which worker, on which task or neighbour.
type action struct {
	what        string
	worker, arg uint8
}

// Steps that do not count as the system's own (Result.Stuck).
const (
	actReboot = "the machine reboots"
	actCancel = "cancel"
)

func (a action) String() string {
	return fmt.Sprintf("%s (w%d, %d)", a.what, a.worker+1, a.arg+1)
}

// violation is what must never happen. A change panics with it; do catches it.
type violation string

// mover makes the successors of one state.
type mover struct {
	m    *Model
	s    *state
	next state
	out  func(a action, n *state)      // a successor
	bad  func(a action, why violation) // a step that must not be possible
}

// do copies the state, lets change work on the copy and hands it on.
func (v *mover) do(a action, change func(n *state)) {
	v.next = *v.s
	if why := attempt(change, &v.next); why != "" {
		v.bad(a, why)
		return
	}
	v.out(a, &v.next)
}

func attempt(change func(n *state), n *state) (why violation) {
	defer func() {
		if p := recover(); p != nil {
			var ours bool
			if why, ours = p.(violation); !ours {
				panic(p)
			}
		}
	}()
	change(n)
	return ""
}

func (v *mover) successors() {
	m, s := v.m, v.s
	for i := range m.Workers {
		v.process(i)
		if p := &s.procs[i]; p.phase != down && !p.frozen {
			v.start(i)
			v.execution(i)
			v.neighbour(i)
		}
		v.programs(i)
	}
	for t := range m.Tasks {
		v.person(t)
	}
	if m.Reboots {
		v.do(action{what: actReboot}, reboot)
	}
}

// move is the one place where a status changes.
func move(r *row, to status, why task.Reason) {
	if err := task.Check(r.status.name(), to.name(), why); err != nil {
		panic(violation(err.Error()))
	}
	r.status = to
	if to.final() {
		*r = row{status: to}
	}
}

// process: what happens to a worker's process from outside.
func (v *mover) process(i int) {
	p := &v.s.procs[i]
	w := uint8(i)
	if p.phase == down {
		if v.lockFree(i) || p.noFile {
			v.do(action{"starts, takes its lock", w, 0}, func(n *state) {
				q := &n.procs[i]
				q.phase, q.noFile, q.life = starting, false, q.life+1
			})
		}
		return
	}
	v.do(action{"is killed", w, 0}, func(n *state) { kill(n, i) })
	if p.frozen {
		v.do(action{"continues", w, 0}, func(n *state) { n.procs[i].frozen = false })
	} else {
		v.do(action{"is stopped", w, 0}, func(n *state) { n.procs[i].frozen = true })
	}
	if v.m.LostFiles && !p.noFile {
		v.do(action{"loses its lock file", w, 0}, func(n *state) {
			n.procs[i].noFile = true
			for t := range n.kids[i] {
				n.kids[i][t].lock = false // it is the old file's
			}
		})
	}
}

// kill ends a process; its programs live on.
func kill(n *state, i int) {
	p := &n.procs[i]
	n.procs[i] = proc{life: p.life, noFile: p.noFile, beat: p.beat, oldBoot: p.oldBoot}
}

func reboot(n *state) {
	for i := range n.procs {
		kill(n, i)
		n.procs[i].oldBoot = true
		n.kids[i] = [maxTasks]program{}
	}
}

// lockFree: nobody holds the lock of worker i: not its process, no program of
// it, no neighbour that guards it.
func (v *mover) lockFree(i int) bool {
	if v.s.procs[i].phase != down {
		return false
	}
	for t := range v.s.kids[i] {
		if v.s.kids[i][t].lock {
			return false
		}
	}
	for j := range v.s.procs {
		if p := &v.s.procs[j]; p.watch == guards && int(p.whom) == i {
			return false
		}
	}
	return true
}

// start: a worker clears its old life, recovers, registers, and begins to claim.
func (v *mover) start(i int) {
	p := &v.s.procs[i]
	w := uint8(i)
	switch p.phase {
	case starting:
		alive := false
		for t := range v.s.kids[i] {
			if v.s.kids[i][t].exec != 0 {
				alive = true
				if !v.m.Rules.NoSweep {
					v.do(action{"kills what an earlier life left", w, uint8(t)}, func(n *state) { n.kids[i][t] = program{} })
				}
			}
		}
		if alive && !v.m.Rules.NoSweep && !v.m.Rules.StartUnswept {
			return
		}
		if v.m.Rules.ClaimFirst {
			v.do(action{"begins to claim without recovery", w, 0}, func(n *state) { n.procs[i].phase = upUnswept })
			return
		}
		v.recover(i, up)
	case recovered:
		v.do(action{"registers", w, 0}, func(n *state) { register(&n.procs[i], up) })
	case upUnswept:
		v.recover(i, up)
	}
}

func register(p *proc, then phase) { p.phase, p.beat, p.oldBoot = then, p.life, false }

// recover is the transaction of DESIGN §5. Whether a crash is counted depends on
// how the earlier life ended: both are tried.
func (v *mover) recover(i int, then phase) {
	for _, crashed := range []uint8{0, 1} {
		v.do(action{"recovers", uint8(i), crashed}, func(n *state) {
			for t := range v.m.Tasks {
				v.recoverRow(n, i, t, crashed)
			}
			if v.m.Rules.RegisterApart {
				n.procs[i].phase = recovered
				return
			}
			register(&n.procs[i], then)
		})
	}
}

func (v *mover) recoverRow(n *state, i, t int, crashed uint8) {
	r := &n.rows[t]
	if r.owner != uint8(i+1) || (r.status != running && r.status != lost) {
		return
	}
	switch {
	case r.status == lost:
		v.giveUp(r, crashed)
	case r.control == cancel && !v.m.Rules.ResumeCancelled:
		move(r, cancelled, task.UserCancel)
	case r.control == pause && !v.m.Rules.ResumeCancelled:
		move(r, paused, task.UserPause)
		r.owner, r.expired, r.control = 0, false, none
	case r.expired:
		v.retry(r, task.LeaseExpired, crashed)
	case r.crashes+crashed >= maxCrashes:
		v.giveUp(r, crashed)
	case n.procs[i].step != idle && !v.m.Rules.ClaimFirst:
		v.giveUp(r, 0) // one slot: what is too much goes back
	default:
		if r.control == cancel {
			panic(violation("runs on after a cancel"))
		}
		r.exec, r.crashes, r.expired = newExec(n, t), r.crashes+crashed, false
		p := &n.procs[i]
		p.step, p.task, p.exec = claimed, uint8(t), r.exec
	}
}

// newExec is a number that nothing of the task bears yet.
func newExec(n *state, t int) uint8 {
	most := n.rows[t].exec
	for i := range n.procs {
		if p := &n.procs[i]; p.step != idle && int(p.task) == t {
			most = max(most, p.exec)
		}
		if p := &n.procs[i]; int(p.lateTask) == t {
			most = max(most, p.late)
		}
		most = max(most, n.kids[i][t].exec, n.procs[i].sawRun[t])
	}
	return most + 1
}

// giveUp is LOST (from RUNNING where need be), and from there PENDING, DEAD or
// CANCELLED in the same transaction.
func (v *mover) giveUp(r *row, crashed uint8) {
	if r.status == running {
		move(r, lost, task.WorkerCrash)
	}
	if r.control != cancel && r.crashes+crashed >= maxCrashes {
		move(r, dead, task.CrashesExhausted)
		return
	}
	move(r, pending, task.Takeover)
	r.crashes, r.owner, r.expired = r.crashes+crashed, 0, false
	if r.control == cancel {
		move(r, cancelled, task.UserCancel)
	}
}

// retry is RUNNING → RETRYING, and DEAD beyond the limit, in one transaction.
func (v *mover) retry(r *row, why task.Reason, cost uint8) {
	move(r, retrying, why)
	r.owner, r.expired = 0, false
	r.retries += cost
	if r.retries > maxRetries {
		move(r, dead, task.RetriesExhausted)
	}
}
