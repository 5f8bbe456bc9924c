package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestDirNameIsSafeAndUnique(t *testing.T) {
	for id, want := range map[string]string{
		"20261201T160405.123-0a1b2c3d4e": "20261201T160405.123-0a1b2c3d4e",
		"nightly@2026-12-01T16:00:00Z":   "nightly@2026-12-01T16:00:00Z",
		"../../etc/passwd":               "%2E.%2F..%2Fetc%2Fpasswd",
		"..":                             "%2E.",
		".":                              "%2E",
		"-rf":                            "%2Drf",
		"a b":                            "a%20b",
		"100%":                           "100%25",
		"夜":                              "%E5%A4%9C",
	} {
		if got := DirName(id); got != want {
			t.Errorf("DirName(%q) = %q, want %q", id, got, want)
		}
	}
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringN(1, 60, 255), rapid.StringMatching(`[%~/.a\x{e9}-]{1,120}`)).Draw(t, "id")
		name := DirName(id)
		if name == "" || len(name) > 255 || strings.ContainsAny(name, "/\x00") || name[0] == '.' || name[0] == '-' {
			t.Fatalf("unsafe name %q", name)
		}
		if other, ok := seen[name]; ok && other != id {
			t.Fatalf("%q and %q share %q", id, other, name)
		}
		seen[name] = id
	})
}

func TestTaskDirIsMadeKeptAndRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "deep", "tasks")
	dir, err := TaskDir(root, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(dir); err != nil || fi.Mode() != os.ModeDir|0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	write(t, filepath.Join(dir, "work"), "kept", 0o600)
	again, err := TaskDir(root, "a/b")
	if err != nil || again != dir {
		t.Fatalf("second time: %s, %v", again, err)
	}
	if got := slurp(t, filepath.Join(dir, "work")); got != "kept" {
		t.Errorf("the work is %q", got)
	}
	// A closed folder, a link out of it and a fifo must not hinder or misguide the removal.
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "mine", 0o600)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "closed", "inner"), 0o700),
		os.Symlink(outside, filepath.Join(dir, "closed", "link")),
		os.Chmod(filepath.Join(dir, "closed"), 0o000),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTaskDir(root, "a/b"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("it is still there")
	}
	if got := slurp(t, outside); got != "mine" {
		t.Error("the link was followed")
	}
	if err := RemoveTaskDir(root, "a/b"); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestSE05LinkWhereTheTaskDirWillBe(t *testing.T) {
	root, target := t.TempDir(), t.TempDir()
	if err := os.Symlink(target, filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := TaskDir(root, "x"); err == nil || !strings.Contains(err.Error(), "a link is refused") {
		t.Errorf("TaskDir says %v", err)
	}
	if err := RemoveTaskDir(root, "x"); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(target); err != nil || len(names) != 0 {
		t.Errorf("the target holds %v, %v", names, err)
	}
}

// What an earlier attempt left under the names of our files: none of it is
// followed, none of it blocks.
func TestSE05FilesOfAnEarlierAttempt(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "mine", 0o600)
	harm := map[string]func(path string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("old and longer than the new"), 0o400) },
		"link":      func(p string) error { return os.Symlink(outside, p) },
		"fifo":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory": func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) },
	}
	for name, lay := range harm {
		t.Run(name, func(t *testing.T) {
			tr := sh(t, "cat; cat checkpoint.json")
			tr.row.Payload, tr.row.Checkpoint = `{"p":1}`, `{"c":2}`
			for _, f := range []string{payloadFile, checkpointFile} {
				if err := lay(filepath.Join(tr.dir, f)); err != nil {
					t.Fatal(err)
				}
			}
			o := tr.run()
			if o.err != nil || o.log != `{"p":1}{"c":2}` {
				t.Errorf("it read %q, %v", o.log, o.err)
			}
		})
	}
	if got := slurp(t, outside); got != "mine" {
		t.Errorf("the link's target holds %q now", got)
	}
}

func TestTaskDirThatSomebodyRemoved(t *testing.T) {
	tr := sh(t, "pwd")
	if err := os.Remove(tr.dir); err != nil {
		t.Fatal(err)
	}
	tr.run().wantResult(t, fmt.Sprintf("%q", tr.dir))
}
