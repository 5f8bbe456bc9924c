package night

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ground is where a night takes place: a scratch directory with the evidence
// (effects, acks, logs of the supervisor), and the data directory on a small disk
// of its own that can be filled, frozen and cut off.
type ground struct {
	root  string
	bin   string
	data  string // the data directory
	mount string // "": no disk of its own
	loop  string // its loop device
	keep  bool
	net   *network
	story *story
	slots int

	change func(string) string // of the configuration
}

const diskSize = "256M"

func newGround(o Options, s *story) (*ground, error) {
	root, err := os.MkdirTemp("", "nightshift-naked-")
	if err != nil {
		return nil, err
	}
	g := &ground{root: root, data: filepath.Join(root, "disk", "data"), keep: o.Keep, story: s, slots: o.Slots}
	for _, d := range []string{filepath.Join(root, "disk"), g.out("witness"), g.out("fetched")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if os.Geteuid() == 0 && !o.NoLoop {
		if err := g.makeDisk(); err != nil {
			s.say("no disk of its own (%v): it is not filled and not cut off", err)
		}
	}
	if err := os.MkdirAll(g.data, 0o755); err != nil {
		return nil, err
	}
	return g, nil
}

// out is a place for evidence, which no fault touches.
func (g *ground) out(name string) string { return filepath.Join(g.root, "out", name) }

func (g *ground) effects() string   { return g.out("effects") }
func (g *ground) clockFile() string { return g.out("clock") }
func (g *ground) config() string    { return filepath.Join(g.root, "nightshift.yaml") }
func (g *ground) database() string  { return filepath.Join(g.data, "nightshift.db") }
func (g *ground) runDir() string    { return filepath.Join(g.data, "run") }

func (g *ground) describe() string {
	if g.mount == "" {
		return "data on " + g.data
	}
	return fmt.Sprintf("data on an ext4 of %s (%s)", diskSize, g.loop)
}

func (g *ground) makeDisk() error {
	image := filepath.Join(g.root, "disk.img")
	mount := filepath.Join(g.root, "disk")
	for _, args := range [][]string{
		{"truncate", "-s", diskSize, image},
		{"mkfs.ext4", "-q", "-F", image},
	} {
		if out, err := run(args...); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	loop, err := run("losetup", "-f", "--show", image)
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, loop)
	}
	g.loop = loop
	if out, err := run("mount", loop, mount); err != nil {
		_, _ = run("losetup", "-d", loop) // the mount's error is the one that matters
		g.loop = ""
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	g.mount = mount
	return nil
}

// remount takes the disk off and puts it back, as a reboot does. It comes back on
// another loop device: a copy of the mount in somebody's namespace would keep the
// old file system, which is cut off, alive on the old one.
func (g *ground) remount() error {
	loop, err := Remount(g.mount, g.loop, filepath.Join(g.root, "disk.img"))
	g.loop = loop
	return err
}

// Remount takes a file system that was cut off from its loop device and mounts the
// image again on a new one, which it returns.
func Remount(mount, loop, image string) (string, error) {
	var out string
	var err error
	for range 100 {
		if out, err = run("umount", mount); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // the last of the killed is on its way out
	}
	if err != nil {
		return loop, fmt.Errorf("umount: %w: %s", err, out)
	}
	if out, err := run("losetup", "-d", loop); err != nil {
		return loop, fmt.Errorf("losetup -d: %w: %s", err, out)
	}
	if out, err = run("losetup", "-f", "--show", image); err != nil {
		return loop, fmt.Errorf("losetup: %w: %s", err, out)
	}
	loop = out
	if out, err = run("mount", loop, mount); err != nil {
		return loop, fmt.Errorf("mount: %w: %s", err, out)
	}
	return loop, nil
}

func (g *ground) remove() {
	if g.net != nil {
		g.net.remove()
	}
	if g.keep && g.mount != "" {
		// The evidence stays readable; the disk's content is copied out of the image.
		if out, err := run("cp", "-a", g.data, g.out("data")); err != nil {
			g.story.say("copy of the data: %v: %s", err, out)
		}
	}
	if g.mount != "" {
		g.endHolders()
		if out, err := run("umount", g.mount); err != nil {
			g.story.say("umount: %v: %s", err, out)
		}
		if out, err := run("losetup", "-d", g.loop); err != nil {
			g.story.say("losetup -d: %v: %s", err, out)
		}
	}
	if !g.keep {
		if err := os.RemoveAll(g.root); err != nil {
			g.story.say("scratch directory: %v", err)
		}
	}
}

// writeConfig writes nightshift.yaml. Times are short, so that a night of minutes
// sees what otherwise takes hours; the proportions are the product's.
func (g *ground) writeConfig(level string) error {
	witness := filepath.Join(g.bin, "witness")
	text := fmt.Sprintf(`data_dir: %s
worker: {slots: %d, poll_interval: 1s, heartbeat_interval: 500ms, suspect_after: 2s, offline_after: 4s, drain_timeout: 4s, grace: 2s}
retry: {base: 50ms, cap: 400ms, max_retry: 1000000, max_crashes: %d, max_executions: 0}
timeout: 30s
log: {level: %s, max_size: 2MB, max_backups: 3}
tasks:
  witness: {command: [%s, %s]}
  shell: {command: [sh, %s, %s]}
  bounded: {command: [%s, %s], concurrency: 2, timeout: 10s}
  untimed: {command: [%s, %s], timeout: 0}
`, g.data, g.slots, maxCrashes, level, witness, g.out(""), g.out("witness.sh"), g.out(""), witness, g.out(""), witness, g.out(""))
	if g.change != nil {
		text = g.change(text)
	}
	tmp := g.config() + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, g.config())
}

// writeScript comes once, before anything runs: a shell that opens its script while it
// is being written may find it empty, and then succeeds.
func (g *ground) writeScript() error {
	return os.WriteFile(g.out("witness.sh"), []byte(witnessScript), 0o600)
}

// maxCrashes is high, because a night kills workers far more often than a task's
// own fault ever would; the limit itself has its own test.
const maxCrashes = 25

// witnessScript is the witness in plain sh: the contract works without a library.
// What must not go wrong when somebody kills a child of the shell is done by the
// shell itself.
const witnessScript = `
exec 9>"$1/witness/$NIGHTSHIFT_TASK_ID"
eff=$1/effects
say() {
  read -r up rest </proc/uptime
  printf '%s0000000 %s %s %s %s %s\n' "${up%.*}${up#*.}" "$NIGHTSHIFT_TASK_ID" "$NIGHTSHIFT_ATTEMPT" "$1" "$2" $$ >>"$eff"
}
flock -n 9
case $? in 0) ;; 1) say OVERLAP 0; exit 99 ;; *) exit 1 ;; esac
n=${NIGHTSHIFT_CHECKPOINT#*:}; n=${n%\}}; n=${n:-0}
steps=${NIGHTSHIFT_PAYLOAD#*\"steps\":}; steps=${steps%%[!0-9]*}
say START $n
while [ $n -lt $steps ]; do
  sleep .03; n=$((n + 1)); say STEP $n
  while :; do
    printf '{"checkpoint":{"n":%d},"progress":"%d/%d"}\n' $n $n $steps >&3 || exit 1
    read -r answer <&3 || exit 1
    case $answer in *'"error"'*) sleep .1 ;; *) break ;; esac # not stored: once more
  done
  case $answer in *'"stop"'*) say STOP $n; exit 0 ;; esac
  say ACK $n
done
say END $n
echo "$n"
`

// cli runs nightshift.
func (g *ground) cli(args ...string) (string, error) {
	return run(append([]string{filepath.Join(g.bin, "nightshift"), "--config", g.config()}, args...)...)
}

// sql runs a statement in the stock shell, as a stranger's script does: it waits
// for locks and never checkpoints (its SQLite is old).
func (g *ground) sql(lines ...string) (string, error) {
	return run(append([]string{"sqlite3", "-bail", "-batch", "-cmd", ".timeout 15000", "-cmd", "PRAGMA wal_autocheckpoint=0", g.database()}, lines...)...)
}

// run runs a command and returns what it printed.
func run(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
