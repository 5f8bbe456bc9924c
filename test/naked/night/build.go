package night

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build makes the binaries that a night needs in dir. The worker knows the test
// clock; nothing else differs from the product.
func Build(dir string, race bool, tags ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	worker := []string{"-tags", strings.Join(append([]string{"testclock"}, tags...), ",")}
	if race {
		worker = append(worker, "-race")
	}
	for _, b := range []struct {
		name, pkg string
		cgo       string
		flags     []string
	}{
		{"worker", "nightshift/cmd/worker", "1", worker},
		{"supervisor", "nightshift/cmd/supervisor", "0", nil},
		{"witness", "nightshift/test/naked/witness", "0", nil},
		{"apiserver", "nightshift/examples/apiserver", "0", nil},
	} {
		args := append([]string{"build", "-o", filepath.Join(dir, b.name)}, b.flags...)
		cmd := exec.Command("go", append(args, b.pkg)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b.name, err, out)
		}
	}
	link := filepath.Join(dir, "nightshift")
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink("worker", link)
}
