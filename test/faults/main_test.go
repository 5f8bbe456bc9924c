// Package faults holds the tests in which the machine fails under the product: the
// power, the disk, the memory of who owned what. They need real processes, most of
// them root and a loop device, and say so where they cannot run.
package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

var cuts = flag.Int("cuts", 200, "how many power cuts")

// loadEnv makes the test binary the process that writes until its power is cut.
const loadEnv = "FAULTS_LOAD"

func TestMain(m *testing.M) {
	if path := os.Getenv(loadEnv); path != "" {
		os.Exit(load(path))
	}
	flag.Parse()
	code := m.Run()
	for _, dir := range []string{bins[""], bins["failpoint"]} {
		if dir != "" {
			_ = os.RemoveAll(dir) // a scratch directory in the system's own temp place
		}
	}
	os.Exit(code)
}

var bins = map[string]string{}

// binaries builds what a night needs, once for each tag.
func binaries(t *testing.T, tag string) string {
	t.Helper()
	if bins[tag] != "" {
		return bins[tag]
	}
	dir, err := os.MkdirTemp("", "nightshift-bin-")
	if err != nil {
		t.Fatal(err)
	}
	bins[tag] = dir
	var tags []string
	if tag != "" {
		tags = append(tags, tag)
	}
	if err := night.Build(dir, false, tags...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// play runs a night with a script instead of the nemesis, and fails on anything
// that its checker finds.
func play(t *testing.T, o night.Options) *night.Verdict {
	t.Helper()
	if o.Bin == "" {
		o.Bin = binaries(t, "")
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	story := &strings.Builder{}
	o.Out = story
	v, err := night.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, story)
	}
	var report strings.Builder
	v.Report(&report)
	if v.Failed() {
		t.Errorf("seed %d\n%s%s", o.Seed, tail(story.String(), 2000), report.String())
	} else {
		t.Logf("%s", report.String())
	}
	return v
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// disk is an ext4 in a file.
type disk struct {
	t           testing.TB
	image, loop string
	mount       string
}

func newDisk(t testing.TB, size string) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk that can be cut off needs root and a loop device")
	}
	for _, p := range []string{"mkfs.ext4", "losetup", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "disk.img"), mount: filepath.Join(dir, "mnt")}
	if err := os.Mkdir(d.mount, 0o755); err != nil {
		t.Fatal(err)
	}
	d.must("truncate", "-s", size, d.image)
	d.must("mkfs.ext4", "-q", "-F", d.image)
	out, err := command("losetup", "-f", "--show", d.image)
	if err != nil {
		t.Skipf("no loop device here: %v: %s", err, out)
	}
	d.loop = out
	t.Cleanup(func() {
		if out, err := command("umount", d.mount); err != nil && !strings.Contains(out, "not mounted") {
			t.Errorf("umount: %v: %s", err, out)
		}
		if out, err := command("losetup", "-d", d.loop); err != nil {
			t.Errorf("losetup -d: %v: %s", err, out)
		}
	})
	d.must("mount", d.loop, d.mount)
	return d
}

// again takes the disk off, once the killed have let go of it, and puts it back.
func (d *disk) again() {
	d.t.Helper()
	var err error
	if d.loop, err = night.Remount(d.mount, d.loop, d.image); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) must(args ...string) {
	d.t.Helper()
	if out, err := command(args...); err != nil {
		d.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func command(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func failed(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}
