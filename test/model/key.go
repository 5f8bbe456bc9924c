package model

import "slices"

// key is a state in as few bytes as are easy to read and write: the search keeps
// hundreds of thousands of them.
type key [maxTasks*4 + maxWorkers*9 + maxWorkers*maxTasks]byte

func bit(b bool, n uint) byte {
	if b {
		return 1 << n
	}
	return 0
}

func (s *state) pack() (k key) {
	at := 0
	put := func(b ...byte) { at += copy(k[at:], b) }
	for _, r := range s.rows {
		put(byte(r.status)|bit(r.expired, 7), r.owner|byte(r.control)<<4, r.exec, r.crashes|r.retries<<4)
	}
	for _, p := range s.procs {
		put(byte(p.phase)|bit(p.frozen, 4)|bit(p.noFile, 5)|bit(p.oldBoot, 6)|bit(p.swept, 7),
			byte(p.step)|p.task<<4, p.exec, p.life|p.beat<<4, byte(p.watch)|p.whom<<4, p.saw, p.sawRun[0], p.sawRun[1], p.late|p.lateTask<<7)
	}
	for i := range s.kids {
		for _, c := range s.kids[i] {
			put(c.exec | bit(c.lock, 7))
		}
	}
	return k
}

func (k *key) unpack() (s state) {
	at := 0
	get := func(n int) []byte { at += n; return k[at-n : at] }
	for t := range s.rows {
		b := get(4)
		s.rows[t] = row{status(b[0] & 0x7f), b[1] & 15, b[2], control(b[1] >> 4), b[0]>>7 == 1, b[3] & 15, b[3] >> 4}
	}
	for i := range s.procs {
		b := get(9)
		s.procs[i] = proc{
			phase: phase(b[0] & 15), frozen: b[0]>>4&1 == 1, noFile: b[0]>>5&1 == 1, oldBoot: b[0]>>6&1 == 1, swept: b[0]>>7 == 1,
			step: step(b[1] & 15), task: b[1] >> 4, exec: b[2], life: b[3] & 15, beat: b[3] >> 4,
			watch: watch(b[4] & 15), whom: b[4] >> 4, saw: b[5], sawRun: [maxTasks]uint8{b[6], b[7]},
			late: b[8] & 0x7f, lateTask: b[8] >> 7,
		}
	}
	for i := range s.kids {
		for t := range s.kids[i] {
			b := get(1)
			s.kids[i][t] = program{b[0] & 0x7f, b[0]>>7 == 1}
		}
	}
	return s
}

// ranks renames numbers by their order. Zero stays zero where it means none.
type ranks struct {
	seen []*uint8
}

func (r *ranks) add(v *uint8) { r.seen = append(r.seen, v) }

func (r *ranks) rename(zeroIsNone bool) {
	var buf [16]uint8
	values := buf[:0]
	if zeroIsNone {
		values = append(values, 0)
	}
	for _, v := range r.seen {
		if !slices.Contains(values, *v) {
			values = append(values, *v)
		}
	}
	slices.Sort(values)
	for _, v := range r.seen {
		*v = uint8(slices.Index(values, *v))
	}
	r.seen = r.seen[:0]
}

// normalise renames executions and incarnations.
func (m *Model) normalise(s *state, r *ranks) {
	for t := range m.Tasks {
		r.add(&s.rows[t].exec)
		for i := range m.Workers {
			p := &s.procs[i]
			if p.step != idle && int(p.task) == t {
				r.add(&p.exec)
			}
			if int(p.lateTask) == t {
				r.add(&p.late)
			}
			r.add(&p.sawRun[t])
			r.add(&s.kids[i][t].exec)
		}
		r.rename(true)
	}
	for i := range m.Workers {
		r.add(&s.procs[i].life)
		r.add(&s.procs[i].beat)
		for j := range m.Workers {
			if p := &s.procs[j]; p.watch != calm && int(p.whom) == i {
				r.add(&p.saw)
			}
		}
		r.rename(false)
	}
}

var (
	workerOrders = [][][]uint8{1: {{0}}, 2: {{0, 1}, {1, 0}}, 3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}}
	taskOrders   = [][][]uint8{1: {{0}}, 2: {{0, 1}, {1, 0}}}
)

// smallest is the key of the state, or the smallest of those that differ from it
// only in the names of workers and tasks.
func (m *Model) smallest(s *state, merge bool) key {
	best := s.pack()
	if !merge {
		return best
	}
	for _, workers := range workerOrders[m.Workers] {
		for _, tasks := range taskOrders[m.Tasks] {
			other := m.rename(s, workers, tasks)
			if k := other.pack(); slices.Compare(k[:], best[:]) < 0 {
				best = k
			}
		}
	}
	return best
}

// rename gives worker i the place workers[i], and tasks likewise.
func (m *Model) rename(s *state, workers, tasks []uint8) (n state) {
	for t := range m.Tasks {
		r := s.rows[t]
		if r.owner != 0 {
			r.owner = workers[r.owner-1] + 1
		}
		n.rows[tasks[t]] = r
	}
	for i := range m.Workers {
		p := s.procs[i]
		if p.step != idle {
			p.task = tasks[p.task]
		}
		if p.late != 0 {
			p.lateTask = tasks[p.lateTask]
		}
		if p.watch != calm {
			p.whom = workers[p.whom]
		}
		for t := range m.Tasks {
			p.sawRun[tasks[t]] = s.procs[i].sawRun[t]
			n.kids[workers[i]][tasks[t]] = s.kids[i][t]
		}
		n.procs[workers[i]] = p
	}
	return n
}
