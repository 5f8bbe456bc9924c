package cmdline

import (
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/urfave/cli/v2"

	"nightshift/pkg/config"
)

// Candidate is one way to go on with a command line.
type Candidate struct {
	Word string
	Note string // shown beside it by shells that can
}

// Files as the only candidate asks the shell to complete a file name.
const Files = ":files"

// Complete lists what the last of words may become. words are those after the
// program's name; the last one is the word under the cursor, often empty. values
// gives what only the database and the configuration know, for a placeholder
// such as TYPE, ID or NAME.
func Complete(app *cli.App, common []cli.Flag, words []string, values func(placeholder string) []Candidate) []Candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	current, before := words[len(words)-1], words[:len(words)-1]
	p := parser{program: app.Name, common: common}
	place, pending := p.walk(app.Commands, before)

	var list []Candidate
	switch name, _, inline := strings.Cut(current, "="); {
	case pending != nil:
		list = values(Placeholder(pending))
	case inline && strings.HasPrefix(name, "--") && p.lookup(name[2:]) != nil:
		list = prefixed(name+"=", values(Placeholder(p.lookup(name[2:]))))
	case strings.HasPrefix(current, "-") && !place.ended:
		list = p.flagCandidates()
	case len(place.commands) > 0:
		for _, c := range visible(place.commands) {
			list = append(list, Candidate{c.Name, c.Usage})
		}
	case p.call.Verb != nil:
		list = values(strings.Trim(p.call.Verb.ArgsUsage, "[]. …"))
	}
	if len(list) == 1 && list[0].Word == Files {
		return list
	}
	return matching(list, current)
}

// place is where the cursor stands.
type place struct {
	commands []*cli.Command // verbs that may follow
	ended    bool           // "--" was seen
}

// walk follows the words before the cursor, never failing: a line in the making
// is seldom right. pending is a flag that waits for its value.
func (p *parser) walk(commands []*cli.Command, words []string) (at place, pending cli.Flag) {
	at.commands = commands
	for _, w := range words {
		switch {
		case pending != nil:
			pending = nil
		case at.ended:
		case w == "--":
			at.ended, at.commands = true, nil
		case strings.HasPrefix(w, "-") && len(w) > 1:
			name, _, inline := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if f := p.lookup(name); f != nil && TakesValue(f) && !inline {
				pending = f
			}
		case w == "help" && p.call.Verb == nil:
		default:
			found := find(at.commands, w)
			at.commands = nil
			if found != nil {
				p.call.Verb, at.commands = found, found.Subcommands
			}
		}
	}
	return at, pending
}

func (p *parser) flagCandidates() []Candidate {
	var list []Candidate
	for _, f := range p.known() {
		list = append(list, Candidate{"--" + f.Names()[0], Usage(f)})
	}
	return append(list, Candidate{"--help", "help of this verb, with examples"})
}

func prefixed(prefix string, list []Candidate) []Candidate {
	var out []Candidate
	for _, c := range list {
		if c.Word != Files {
			out = append(out, Candidate{prefix + c.Word, c.Note})
		}
	}
	return out
}

func matching(list []Candidate, prefix string) []Candidate {
	var out []Candidate
	for _, c := range list {
		if strings.HasPrefix(c.Word, prefix) {
			out = append(out, c)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].Word < out[b].Word })
	return out
}

// Shells names the shells that Script knows.
func Shells() []string { return []string{"bash", "fish", "zsh"} }

// Script is the completion script of a shell for a program of this name.
func Script(shell, program string) (string, error) {
	text, ok := scripts[shell]
	if !ok {
		e := &UsageError{Message: fmt.Sprintf("no completion for the shell %q", shell), Hint: "there are: " + strings.Join(Shells(), ", ")}
		if near := config.Nearest(shell, Shells()); near != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return "", e
	}
	function := regexp.MustCompile(`[^A-Za-z0-9_]`).ReplaceAllString(program, "_")
	return strings.NewReplacer("PROGRAM", program, "FUNCTION", "_"+function).Replace(text), nil
}

// The scripts ask the program itself, so that types, ids and schedules are
// completed too, and nothing has to be made anew when a verb is added.
var scripts = map[string]string{
	"bash": `# bash completion for PROGRAM:  source <(PROGRAM completion bash)
FUNCTION() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} word strip candidate
    local -a words
    read -ra words <<<"$line"
    [[ $line == *' ' ]] && words+=("")
    word=${words[${#words[@]}-1]}
    strip=${word%"$current"}   # bash breaks words at : and @, which ids contain
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        if [[ $candidate == :files ]]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "$current")
            return
        fi
        COMPREPLY+=("$(printf %q "${candidate#"$strip"}")")
    done < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F FUNCTION PROGRAM
`,
	"zsh": `#compdef PROGRAM
# zsh completion for PROGRAM:  source <(PROGRAM completion zsh), or a file _PROGRAM in $fpath
FUNCTION() {
    local -a names shown
    local line
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        if [[ $line == :files ]]; then _files; return; fi
        names+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done
    compadd -l -d shown -a -- names
}
if [[ ${funcstack[1]} == FUNCTION ]]; then FUNCTION "$@"; else compdef FUNCTION PROGRAM; fi
`,
	"fish": `# fish completion for PROGRAM:  PROGRAM completion fish | source
function _FUNCTION_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l out ($words[1] complete -- $words[2..-1] $current 2>/dev/null)
    if test "$out" = ":files"
        __fish_complete_path $current
    else
        printf '%s\n' $out
    end
end
complete -c PROGRAM -f -a '(_FUNCTION_candidates)'
`,
}
