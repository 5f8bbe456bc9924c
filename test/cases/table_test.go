package cases

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listed are the numbers of all cases.
const listed = `
CR 01 02 05 06 07 08 09 11 12 13 14 15 16
DU 01 02 04 05 07 08 09 10
CA 02 03 05 06 07 08 09
PR 02 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19
IN 01 03 04 05 06 07 09 10 11 13 14
TI 01 02 03 05 06 07 08 09 10 11 13 14 15 16
LO 01 03 04 05 06 07 08 09 10
DB 01 03 04 06 07 08 09 10 11 12 13
SC 01 03 04 05
CL 02 03 04 05 06 07 08
SE 01 03 04 05
`

// TestEveryCaseIsHeld: each case stands once in docs/cases.md, the tests named
// there exist, and no test bears the number of a case that there is not.
func TestEveryCaseIsHeld(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d\d) \| [^|]+ \| ([^|]+) \|$`).FindAllStringSubmatch(string(page), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s stands twice", m[1])
		}
		rows[m[1]] = m[2]
	}
	known := map[string]bool{}
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			id := words[0] + "-" + words[i]
			known[id] = true
			if rows[id] == "" {
				t.Errorf("%s is not in the table", id)
			}
		}
	}
	exists := allTests(t)
	name := regexp.MustCompile("`(Test\\w+)`")
	for id, held := range rows {
		if !known[id] {
			t.Errorf("%s is no known case", id)
		}
		found := name.FindAllStringSubmatch(held, -1)
		if len(found) == 0 {
			t.Logf("%s has no test: %s", id, held)
		}
		for _, m := range found {
			if !exists[m[1]] {
				t.Errorf("%s: there is no test %s", id, m[1])
			}
		}
	}
	number := regexp.MustCompile(`(?:CR|DU|CA|PR|IN|TI|LO|DB|SC|CL|SE)\d\d`)
	for test := range exists {
		for _, id := range number.FindAllString(test, -1) {
			if id = id[:2] + "-" + id[2:]; !known[id] {
				t.Errorf("%s names %s, which is no known case", test, id)
			}
		}
	}
}

// allTests are the names of all tests of the tree.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
