package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// The process that must not fail has nothing in it that can fail in a way of its own.
func TestNothingHeavyIsLinked(t *testing.T) {
	deps := goList(t, "-deps", ".")
	for _, not := range []string{"database/sql", "github.com/mattn/go-sqlite3", "net/http", "net", "runtime/cgo", "nightshift/pkg/store", "nightshift/pkg/task"} {
		if slices.Contains(deps, not) {
			t.Errorf("the supervisor links %s", not)
		}
	}
	for _, dep := range deps {
		if strings.HasPrefix(dep, "nightshift/") && slices.Contains(goList(t, "-f", `{{join .Imports "\n"}}`, dep), "os/exec") {
			t.Errorf("%s imports os/exec: its Wait would be a second reaper", dep)
		}
	}
}

// Small enough to read in one sitting.
func TestUnder400Lines(t *testing.T) {
	lines := 0
	for _, dir := range []string{".", "../../pkg/supervisor"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
		}
	}
	if lines >= 400 {
		t.Errorf("%d lines", lines)
	}
}
