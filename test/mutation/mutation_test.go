// Package mutation proves that the tests test: it breaks one rule of the protocol
// at a time in a copy of the tree, and the test that guards that rule must fail.
//
// A mutation that no longer applies (its text is gone) is an error too: the list has to follow the code.
package mutation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mutation is one deliberate fault.
type mutation struct {
	name  string // which rule is broken
	edits []edit
	pkg   string // the packages whose tests guard the rule
	run   string // the narrow test
}

// edit replaces a text wherever it stands in a file.
type edit struct{ file, from, to string }

// limit is for one mutant's compilation and test.
const limit = 4 * time.Minute

// lanes is how many copies are worked on at a time.
const lanes = 2

func TestEveryMutantIsCaught(t *testing.T) {
	if os.Getenv("NIGHTSHIFT_LONG") == "" {
		t.Skip("each mutant is compiled and tested: `make mutation`, or NIGHTSHIFT_LONG=1")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	trees := make(chan string, lanes)
	for range lanes {
		tree := t.TempDir()
		if err := copyTree(root, tree); err != nil {
			t.Fatal(err)
		}
		trees <- tree
	}
	var caught atomic.Int64
	t.Run("mutant", func(t *testing.T) {
		for i := range mutations {
			m := &mutations[i]
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				tree := <-trees
				defer func() { trees <- tree }()
				if err := try(t.Context(), tree, m); err != nil {
					t.Fatal(err)
				}
				caught.Add(1)
			})
		}
	})
	t.Logf("%d of %d mutants caught", caught.Load(), len(mutations))
}

// try applies m to the tree, expects its test to fail, and takes m back.
func try(ctx context.Context, tree string, m *mutation) (err error) {
	before := map[string][]byte{}
	defer func() {
		for path, b := range before {
			if werr := os.WriteFile(path, b, 0o600); werr != nil && err == nil {
				err = werr
			}
		}
	}()
	for _, e := range m.edits {
		path := filepath.Join(tree, e.file)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, known := before[path]; !known {
			before[path] = b
		}
		if !strings.Contains(string(b), e.from) {
			return fmt.Errorf("%s no longer holds %q", e.file, e.from)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), e.from, e.to)), 0o600); err != nil {
			return err
		}
	}
	return mustFail(ctx, tree, m)
}

func mustFail(ctx context.Context, tree string, m *mutation) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := append([]string{"test", "-count=1", "-failfast", "-timeout", "3m", "-run", m.run}, strings.Fields(m.pkg)...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	text := string(out)
	var exit *exec.ExitError
	switch {
	case err == nil && !strings.Contains(text, "no tests to run"):
		return errors.New("SURVIVED: its test passes")
	case strings.Contains(text, "no tests to run"):
		return errors.New("its test does not exist")
	case !errors.As(err, &exit):
		return err
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("the mutant does not compile:\n%s", tail(text))
	case !strings.Contains(text, "--- FAIL") && !strings.Contains(text, "panic:") && !strings.Contains(text, "test timed out"):
		return fmt.Errorf("ended without a failing test:\n%s", tail(text))
	}
	return nil
}

func tail(s string) string {
	const n = 2000
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// copyTree copies what compiles, and what it embeds.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			switch name {
			case ".git", "bin", "data":
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, info.Mode().Perm())
	})
}
