package model

import "slices"

// Result is what a search found.
type Result struct {
	States    int
	Steps     int // edges of the graph
	Depth     int // of the state that is furthest from the first
	Violation string
	Trace     []string // the shortest way to the violation
	// Stuck counts the states from which no final one can be reached by the system
	// itself: without a reboot, and without a person who cancels.
	Stuck      int
	StuckTrace []string
}

// node is how the search came to a state.
type node struct {
	parent int32
	depth  int32
	by     action
}

// searcher goes breadth first, so that the first violation is a shortest one.
type searcher struct {
	m     *Model
	merge bool
	index map[key]int32
	order []key
	nodes []node
	ranks ranks
	steps int
	edges [][2]int32 // those that count as the system's own
}

// Search walks the whole graph, or up to the first violation. With merge, states
// that differ only in which worker or task is which are one; the names in a trace
// may then change on its way.
func (m *Model) Search(merge bool) Result {
	x := &searcher{m: m, merge: merge, index: map[key]int32{}}
	x.visit(state{}, -1, action{})
	for at := int32(0); int(at) < len(x.order); at++ {
		if why, by := x.expand(at); why != "" {
			return x.result(Result{Violation: why, Trace: append(x.trace(at), by)})
		}
	}
	return x.result(x.stuck())
}

func (x *searcher) result(r Result) Result {
	r.States, r.Steps, r.Depth = len(x.order), x.steps, int(x.nodes[len(x.nodes)-1].depth)
	return r
}

// expand makes the successors of a state.
func (x *searcher) expand(at int32) (why, by string) {
	s := x.order[at].unpack()
	v := mover{
		m: x.m, s: &s,
		out: func(a action, n *state) { x.visit(*n, at, a) },
		bad: func(a action, bad violation) {
			if why == "" {
				why, by = string(bad), a.String()
			}
		},
	}
	v.successors()
	return why, by
}

func (x *searcher) visit(s state, from int32, by action) {
	x.m.normalise(&s, &x.ranks)
	k := x.m.smallest(&s, x.merge)
	to, known := x.index[k]
	if !known {
		to = int32(len(x.order))
		x.index[k] = to
		x.order = append(x.order, k)
		depth := int32(0)
		if from >= 0 {
			depth = x.nodes[from].depth + 1
		}
		x.nodes = append(x.nodes, node{from, depth, by})
	}
	if from < 0 || from == to {
		return
	}
	x.steps++
	if by.what != actCancel && by.what != actReboot {
		x.edges = append(x.edges, [2]int32{from, to})
	}
}

func (x *searcher) trace(at int32) []string {
	var out []string
	for ; at > 0; at = x.nodes[at].parent {
		out = append(out, x.nodes[at].by.String())
	}
	slices.Reverse(out)
	return out
}

// stuck finds the states from which no state with all tasks final can be reached.
func (x *searcher) stuck() (r Result) {
	// The edges into each state, one list after another.
	first := make([]int32, len(x.order)+1)
	for _, e := range x.edges {
		first[e[1]+1]++
	}
	for i := range x.order {
		first[i+1] += first[i]
	}
	into := make([]int32, len(x.edges))
	fill := slices.Clone(first)
	for _, e := range x.edges {
		into[fill[e[1]]] = e[0]
		fill[e[1]]++
	}
	reaches := make([]bool, len(x.order))
	var queue []int32
	for i := range x.order {
		s := x.order[i].unpack()
		if x.m.over(&s) {
			reaches[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[first[at]:first[at+1]] {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	for i, ok := range reaches {
		if ok {
			continue
		}
		if r.Stuck++; r.Stuck == 1 {
			r.StuckTrace = x.trace(int32(i))
		}
	}
	return r
}

func (m *Model) over(s *state) bool {
	for t := range m.Tasks {
		if !s.rows[t].status.final() {
			return false
		}
	}
	return true
}
