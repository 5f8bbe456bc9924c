package config

import (
	"fmt"
	"sort"
	"strings"
)

// Error is one mistake in a configuration file.
type Error struct {
	File         string
	Line, Column int    // 0 when the mistake has no place of its own
	Key          string // "tasks.nightly.timeout"
	Problem      string // what is wrong, with the value, and what to do
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Errors is every mistake found in a configuration file, in its order.
type Errors struct{ List []*Error }

// maxShown bounds the message: a file of the wrong kind has a mistake in each line.
const maxShown = 20

func (e *Errors) Error() string {
	lines := make([]string, 0, len(e.List))
	for i, one := range e.List {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("… and %d more", len(e.List)-maxShown))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single mistakes.
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.List))
	for i, one := range e.List {
		all[i] = one
	}
	return all
}

func (e *Errors) sort() {
	sort.SliceStable(e.List, func(i, j int) bool {
		a, b := e.List[i], e.List[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}

// Nearest returns the candidate that a misspelt word most likely meant, or ""
// when none is near: at most a third of its letters may differ.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+max(len([]rune(word))/3, 1)
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > 100 || len(t) > 100 {
		return 1000 // no key is that long; the table below is quadratic
	}
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}

// didYouMean is the tail of a message about a misspelt word.
func didYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
