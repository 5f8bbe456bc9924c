package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// container is this machine's root file system under an overlay, booted with
// systemd as PID 1.
type container struct {
	t    *testing.T
	root string
	cmd  *exec.Cmd
}

func boot(t *testing.T) *container {
	t.Helper()
	needRoot(t, "systemd-nspawn", "nsenter", "make", "systemd-sysusers", "sqlite3")
	base := t.TempDir()
	layers := filepath.Join(base, "layers")
	c := &container{t: t, root: filepath.Join(base, "root")}
	for _, d := range []string{layers, c.root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("tmpfs", layers, "tmpfs", 0, "size=1g"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(layers, syscall.MNT_DETACH) }) // a scratch mount of this test
	must(t, "mkdir", layers+"/up", layers+"/work")
	if err := syscall.Mount("overlay", c.root, "overlay", 0, "lowerdir=/,upperdir="+layers+"/up,workdir="+layers+"/work"); err != nil {
		t.Skipf("no overlay can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(c.root, syscall.MNT_DETACH) }) // the same
	c.install()
	c.start()
	return c
}

func (c *container) install() {
	c.t.Helper()
	dest := filepath.Join(c.t.TempDir(), "dest")
	must(c.t, "make", "-s", "-C", "../..", "install", "DESTDIR="+dest)
	must(c.t, "cp", "-r", dest+"/.", c.root+"/")
	must(c.t, "systemd-sysusers", "--root="+c.root)
	must(c.t, "sh", "-c", `cd "$1" && : >etc/fstab && rm -rf etc/machine-id etc/systemd/system/*.wants/* &&
		mkdir -p etc/systemd/system/multi-user.target.wants &&
		ln -s /usr/lib/systemd/system/nightshift.service etc/systemd/system/multi-user.target.wants/`, "sh", c.root)
	must(c.t, "systemd-machine-id-setup", "--root="+c.root)
	c.write("etc/nightshift/nightshift.yaml", `data_dir: /var/lib/nightshift
log: {dir: /var/log/nightshift}
tasks:
  steps: {command: [/usr/local/bin/steps.sh], max_retry: 0}
`, 0o644)
	c.write("usr/local/bin/steps.sh", steps, 0o755)
}

func (c *container) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.root, name), []byte(text), mode); err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) start() {
	c.t.Helper()
	c.cmd = exec.Command("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--directory="+c.root, "--machine=nightshift-e2e")
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.powerCut)
	until(c.t, "the service is active", func() bool { out, _ := c.in("systemctl", "is-active", "nightshift"); return out == "active" })
}

// powerCut ends everything in the container at once.
func (c *container) powerCut() {
	if c.cmd == nil {
		return
	}
	if leader := c.leader(); leader != 0 {
		_ = syscall.Kill(leader, syscall.SIGKILL) // PID 1 of the container: everything in it ends
	}
	_ = c.cmd.Process.Kill() // it may have ended with its leader
	_ = c.cmd.Wait()         // killed: its status says no more than that
	c.cmd = nil
}

// leader is the container's PID 1 as this machine sees it; 0: there is none now.
func (c *container) leader() int {
	pids := children(c.cmd.Process.Pid)
	if len(pids) == 0 {
		return 0
	}
	return pids[0]
}

// in runs a program in the container.
func (c *container) in(args ...string) (string, error) {
	leader := c.leader()
	if leader == 0 {
		return "", os.ErrProcessDone
	}
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(leader), "-m", "-u", "-i", "-n", "-p", "-C"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *container) query(sql string) string {
	out, err := c.in("sqlite3", "-cmd", ".timeout 5000", "/var/lib/nightshift/nightshift.db", sql)
	if err != nil {
		return ""
	}
	return out
}

func (c *container) add(id string) {
	c.t.Helper()
	out, err := c.in("runuser", "-u", "nightshift", "--", "sqlite3", "-cmd", ".timeout 5000", "/var/lib/nightshift/nightshift.db",
		"INSERT INTO tasks(task_id,task_type,max_retry) VALUES('"+id+"','steps',0)")
	if err != nil {
		c.t.Fatalf("insert: %v: %s", err, out)
	}
}

func (c *container) moving(id string) {
	c.t.Helper()
	until(c.t, id+" makes progress", func() bool { return c.query("SELECT progress FROM tasks WHERE task_id='"+id+"'") != "" })
}

func (c *container) succeeds(id string) {
	c.t.Helper()
	until(c.t, id+" succeeds", func() bool { return c.query("SELECT status FROM tasks WHERE task_id='"+id+"'") == "SUCCESS" })
	if got := c.query("SELECT retry_count||' '||crash_count FROM tasks WHERE task_id='" + id + "'"); got != "0 0" {
		c.t.Errorf("%s: retry and crash count %s", id, got)
	}
}

// TestUnderSystemd installs the shipped unit in a container, kills the supervisor
// and a worker, restarts the service, cuts the power and boots again; every task ends,
// at no cost.
func TestUnderSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a container")
	}
	c := boot(t)
	for id, disturb := range map[string]func(){
		"supervisor-killed": func() { c.in("systemctl", "kill", "--kill-who=main", "-s", "KILL", "nightshift") },
		"worker-killed": func() {
			c.in("sh", "-c", "kill -9 $(pgrep -f nightshift-worker | head -1)")
		},
		"restarted": func() { c.in("systemctl", "restart", "nightshift") },
	} {
		c.add(id)
		c.moving(id)
		disturb()
		c.succeeds(id)
	}
	c.add("rebooted")
	c.moving("rebooted")
	began := time.Now()
	c.powerCut()
	c.start()
	c.succeeds("rebooted")
	t.Logf("the cut, the boot and the rest of the task took %v", time.Since(began).Round(time.Second))
	c.in("systemctl", "stop", "nightshift")
	if left, _ := c.in("pgrep", "-f", "nightshift-(worker|supervisor)"); left != "" {
		t.Errorf("left behind by systemctl stop: %s", left)
	}
}
