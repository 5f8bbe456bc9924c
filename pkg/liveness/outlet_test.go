package liveness

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A status file that could not be written leaves the one before in its place.
func TestFileOutletFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	say := func(doc string) (dropped int64) {
		o := NewFileOutlet(path)
		o.Offer([]byte(doc))
		o.Close(10 * time.Second)
		return o.Dropped()
	}
	if n := say("whole"); n != 0 {
		t.Fatalf("%d dropped on a disk with room", n)
	}
	if err := os.Symlink("/dev/full", path+".new"); err != nil {
		t.Fatal(err)
	}
	if n := say("lost"); n != 1 {
		t.Errorf("%d dropped on a full disk, want 1", n)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "whole" {
		t.Errorf("the file holds %q (%v), want the last whole one", got, err)
	}
	if _, err := os.Lstat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("half a file stays behind: %v", err)
	}
}
