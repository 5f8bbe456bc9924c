package rig

import "strings"

// Block is a fenced block of a page: what its reader is to type, or to see.
type Block struct {
	Kind, Info string // "sh", "background"
	Line       int    // of the page, from 1
	Text       string
}

// Commands is what a reader types of a block: all of a script, and of a console
// what stands behind its prompts.
func (b Block) Commands() string {
	switch b.Kind {
	case "sh":
		return b.Text
	case "console":
		var typed strings.Builder
		for line := range strings.Lines(b.Text) {
			if command, prompted := strings.CutPrefix(line, "$ "); prompted {
				typed.WriteString(command)
			}
		}
		return typed.String()
	}
	return ""
}

// Blocks are the fenced blocks of a page in Markdown, in their order.
func Blocks(page string) []Block {
	var all []Block
	var open *Block
	number := 0
	for line := range strings.Lines(page) {
		number++
		rest, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && open == nil:
			kind, info, _ := strings.Cut(rest, " ")
			open = &Block{Kind: kind, Info: info, Line: number}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.Text += line
		}
	}
	return all
}
