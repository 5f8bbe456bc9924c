// Package docs_test holds the documents to what they say: links lead somewhere,
// lists are complete, the two READMEs keep step, and the commands run.
package docs_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nightshift/test/rig"
)

// pages are all documents of the repository, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md", "../examples/*.md", "../examples/*/*.md", "../deploy/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			from, err := filepath.Rel("..", name)
			if err != nil {
				from = filepath.Join("docs", name)
			}
			all[from] = string(text)
		}
	}
	return all
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(withoutCode(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path := filepath.Join("..", filepath.Dir(name), target)
			if target == "" {
				path = filepath.Join("..", name)
			}
			content, err := os.ReadFile(path)
			if info, errStat := os.Stat(path); errStat != nil || err != nil && !info.IsDir() {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
}

// withoutCode blanks fenced blocks and code spans, which may look like links.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// anchors are the names of a page's headings, as the forges make them.
func anchors(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			name := strings.ToLower(strings.TrimSpace(heading))
			name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
			all = append(all, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return all
}

func TestEveryDependencyHasItsLine(t *testing.T) {
	mod, err := os.Open("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	defer mod.Close()
	listed := page(t, "dependencies.md")
	required := regexp.MustCompile(`^\s+(\S+\.\S+) v`)
	var modules []string
	for lines := bufio.NewScanner(mod); lines.Scan(); {
		if m := required.FindStringSubmatch(lines.Text()); m != nil {
			modules = append(modules, m[1])
			if !strings.Contains(listed, m[1]) {
				t.Errorf("%s is required and not in dependencies.md", m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?:github\.com|golang\.org|gopkg\.in|go\.uber\.org|pgregory\.net)/?[\w./-]*\w`).FindAllString(listed, -1) {
		if !slices.Contains(modules, m) {
			t.Errorf("%s is in dependencies.md and not required", m)
		}
	}
}

// The two READMEs have the same headings, blocks, tables and links. What a block
// of code does is the same; its comments are in the page's language.
func TestTheChineseReadmeKeepsStep(t *testing.T) {
	english, chinese := page(t, "../README.md"), page(t, "../README.zh-CN.md")
	count := func(text, what string) int { return len(regexp.MustCompile(what).FindAllString(text, -1)) }
	for what, pattern := range map[string]string{"headings": `(?m)^#+ `, "blocks": "(?m)^```", "promises that are none": `(?m)^- \*\*`} {
		if e, c := count(english, pattern), count(chinese, pattern); e != c {
			t.Errorf("%s: %d in English, %d in Chinese", what, e, c)
		}
	}
	targets := func(text string) []string {
		var all []string
		for _, m := range link.FindAllStringSubmatch(withoutCode(text), -1) {
			if !strings.HasPrefix(m[1], "README") && !slices.Contains(all, m[1]) {
				all = append(all, m[1])
			}
		}
		slices.Sort(all)
		return all
	}
	if e, c := targets(english), targets(chinese); !slices.Equal(e, c) {
		t.Errorf("links differ:\n%v\n%v", e, c)
	}
	uncommented := regexp.MustCompile(`(?m)(^|\s)\s*# .*$`)
	e, c := rig.Blocks(english), rig.Blocks(chinese)
	for i := range min(len(e), len(c)) {
		if e[i].Kind != c[i].Kind || e[i].Info != c[i].Info {
			t.Errorf("block %d is %q %q in English, %q %q in Chinese", i+1, e[i].Kind, e[i].Info, c[i].Kind, c[i].Info)
		}
		if e[i].Kind != "sh" && e[i].Kind != "console" && e[i].Kind != "yaml" {
			continue
		}
		if uncommented.ReplaceAllString(e[i].Text, "") != uncommented.ReplaceAllString(c[i].Text, "") {
			t.Errorf("block %d differs:\n%s\n%s", i+1, e[i].Text, c[i].Text)
		}
	}
}

// TestEveryKeyOfTheLogIsDocumented reads the source: each literal key of a log
// call is in the table of logs.md.
func TestEveryKeyOfTheLogIsDocumented(t *testing.T) {
	_, table, found := strings.Cut(page(t, "logs.md"), "## Keys\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("logs.md has no table of keys")
	}
	documented := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented[m[1]] = true
		}
	}
	err := filepath.WalkDir("../pkg", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/supervisor/") {
			return err
		}
		for key, place := range logKeys(t, path) {
			if !documented[key] {
				t.Errorf("%s: the log key %q is not in docs/logs.md", place, key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// logKeys finds the literal keys of the log calls in a file, and where they are.
func logKeys(t *testing.T, path string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Trace", "Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(call.Args) == 0 {
			return true
		}
		if phrase, ok := call.Args[0].(*ast.BasicLit); !ok || phrase.Kind != token.STRING {
			return true
		}
		for i := 1; i < len(call.Args); i += 2 {
			if key, ok := call.Args[i].(*ast.BasicLit); ok && key.Kind == token.STRING {
				name, err := strconv.Unquote(key.Value)
				if err != nil {
					t.Fatal(err)
				}
				at := files.Position(key.Pos())
				keys[name] = fmt.Sprintf("%s:%d", at.Filename, at.Line)
			}
		}
		return true
	})
	return keys
}

// No document speaks of the machine it was written on.
func TestDocumentsNameNoMachine(t *testing.T) {
	for name, text := range pages(t) {
		for _, bad := range []string{"/root/", "/work/", "TODO", "FIXME"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}
