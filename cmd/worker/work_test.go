package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// working is a shop with a worker at work: the real one, in a process of its own.
func working(t *testing.T, config string, scripts map[string]string) *shop {
	t.Helper()
	s := newShop(t)
	s.write("nightshift.yaml", config)
	for name, text := range scripts {
		s.write(name, text)
		if err := os.Chmod(filepath.Join(s.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, "run")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Dir = s.dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill() // the test has failed
			t.Error("the worker does not end")
		}
		if t.Failed() {
			t.Logf("the worker said:\n%s", log.String())
		}
	})
	s.until("a worker is alive", func() bool { _, _, code := call("", "status"); return code == 0 })
	return s
}

func (s *shop) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("never: ", what)
		}
	}
}

// task reads a task as show --json gives it.
func (s *shop) task(id string) map[string]any {
	s.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s.ok("show", id, "--json")), &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

const stepsScript = `#!/bin/sh
n=$(printf %s "$NIGHTSHIFT_CHECKPOINT" | sed -n 's/.*"n":\([0-9]*\).*/\1/p'); n=${n:-0}
while [ $n -lt 400 ]; do
  n=$((n+1)); sleep .05; echo "step $n"
  printf '{"checkpoint":{"n":%d},"progress":"%d/400"}\n' $n $n >&3; read -r a <&3
  case $a in *stop*) exit 75;; esac
done
echo done
`

// The verbs over a real worker: a task is followed, paused, resumed and cancelled.
func TestVerbsOverARealWorker(t *testing.T) {
	s := working(t, `data_dir: ./data
worker: {slots: 2}
retry: {base: 1s, cap: 1s}
tasks:
  steps: {command: [./steps.sh]}
  segv:  {command: [./segv.sh], max_retry: 0}
  exits: {command: [./exits.sh]}
  inside: {command: [./inside.sh]}
  hello: {command: [./hello.sh]}
`, map[string]string{
		"steps.sh": stepsScript,
		"segv.sh":  "#!/bin/sh\nkill -SEGV $$\n",
		"exits.sh": "#!/bin/sh\nexit 65\n",
		"hello.sh": "#!/bin/sh\ncat; echo; printf 'last words'\n",
		"inside.sh": `#!/bin/sh
set -e
test -z "$(nightshift checkpoint get)"
nightshift checkpoint put '{"id": 9007199254740993,  "n": 1}' --progress 1/2
nightshift checkpoint get
nightshift still-mine
nightshift checkpoint put --progress 2/2
echo '{"done": true}'
`,
	})
	id := strings.TrimSpace(s.ok("add", "steps", "--quiet"))
	s.until("it makes checkpoints", func() bool { return s.task(id)["checkpoint"] != nil })

	t.Run("a pause takes effect at the next checkpoint", func(t *testing.T) {
		if out := s.ok("pause", id); !strings.Contains(out, "running; it pauses at its next checkpoint") {
			t.Errorf("said %q", out)
		}
		s.until("it is PAUSED", func() bool { return s.task(id)["status"] == "PAUSED" })
		s.ok("resume", id)
		s.until("it runs", func() bool { return s.task(id)["status"] == "RUNNING" })
	})
	t.Run("cancel --wait", func(t *testing.T) {
		out := s.ok("cancel", "--wait", "--timeout", "30s", id)
		if !strings.HasSuffix(out, id+": CANCELLED\n") {
			t.Errorf("said %q", out)
		}
		if _, _, code := call("", "wait", id, "--quiet"); code != 3 {
			t.Errorf("wait ends with %d", code)
		}
		if _, _, code := call("", "cancel", id); code != 1 {
			t.Errorf("cancel of a finished task ends with %d", code)
		}
	})
	t.Run("PR-13: statuses and signals", func(t *testing.T) {
		segv := strings.TrimSpace(s.ok("add", "segv", "--quiet"))
		exits := strings.TrimSpace(s.ok("add", "exits", "--quiet"))
		for _, c := range []struct {
			args []string
			code int
		}{{[]string{segv}, 2}, {[]string{exits}, 1}, {[]string{segv, exits}, 2}, {[]string{segv, "--program-status"}, 139}, {[]string{exits, "--program-status"}, 65}} {
			if _, errOut, code := call("", append([]string{"wait", "--quiet", "--timeout", "30s"}, c.args...)...); code != c.code {
				t.Errorf("wait %q: %d, want %d: %s", c.args, code, c.code, errOut)
			}
		}
		if out := s.ok("show", segv); !strings.Contains(out, "signal 11 (SEGV)") {
			t.Errorf("show does not name the signal:\n%s", out)
		}
		if out := s.ok("show", exits); !strings.Contains(out, "exit 65") {
			t.Errorf("show does not name the status:\n%s", out)
		}
	})
	t.Run("logs -f, to the last words", func(t *testing.T) {
		hello := strings.TrimSpace(s.ok("add", "hello", "--payload", `{"a": "O'Brien $HOME"}`, "--quiet"))
		if out := s.ok("logs", "-f", hello); out != `{"a": "O'Brien $HOME"}`+"\nlast words" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("verbs inside a task", func(t *testing.T) {
		inside := strings.TrimSpace(s.ok("add", "inside", "--quiet"))
		if out, errOut, code := call("", "wait", inside, "--timeout", "30s"); code != 0 {
			log, _, _ := call("", "logs", inside)
			t.Fatalf("status %d, %s %s\n%s", code, out, errOut, log)
		}
		if doc := s.ok("show", inside, "--json"); !strings.Contains(doc, `"checkpoint":{"id": 9007199254740993,  "n": 1}`) ||
			!strings.Contains(doc, `"result":{"done": true}`) || !strings.Contains(doc, `"progress":"2/2"`) {
			t.Errorf("got %s", doc)
		}
	})
	t.Run("CL-07: an id that looks like a flag", func(t *testing.T) {
		s.ok("add", "steps", "--id", "-rf", "--in", "1h", "--quiet")
		if out := s.ok("cancel", "--", "-rf"); out != "-rf: cancelled; it was PENDING\n" {
			t.Errorf("said %q", out)
		}
	})
}
