package config

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzParse: whatever the bytes, Parse ends, and ends with a whole configuration
// or with mistakes that have a place inside the file. The corpus that is kept in
// testdata holds what once went wrong and what reached new code.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "worker: {slots: 2}\n", work, "a: &x [1]\nb: *x\n", "<<: *x\n", "? {a: b}\n: c\n", "tasks: {w: {command: [a], env: {A: !!str 1}}}",
		"schedules: {s: {every: 1h, task: fetch_data, payload: {a: [0x1f, 1e400, .inf, ~]}}}", "timeout: |\n  1h\n", "---\n...\n---\n",
		"tasks:\n  a: &a {command: [x], <<: *a}\n", "\ufefftimeout: 1h\n", "timeout: 1h # x\r\nworker:\r\n", "data_dir: \"\\x00\"", "%YAML 1.2\n---\na",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseInTime(t, text)
		if err != nil {
			var list *Errors
			if !errors.As(err, &list) || len(list.List) == 0 {
				t.Fatalf("error is a %T: %v", err, err)
			}
			lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + 1
			for _, e := range list.List {
				if e.Line < 0 || e.Line > lines+1 || e.Problem == "" {
					t.Errorf("mistake out of place: %+v in %d lines", e, lines)
				}
			}
			return
		}
		checkWhole(t, c)
	})
}

// parseInTime fails the test when Parse does not end: the fuzzer itself would
// wait for ever.
func parseInTime(t *testing.T, text []byte) (c *Config, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = Parse("n.yaml", "/etc/ns", text, "mine")
	}()
	select {
	case <-done:
		return c, err
	case <-time.After(20 * time.Second):
		t.Fatalf("Parse does not end on %q", text)
		return nil, nil
	}
}

// checkWhole asserts what every loaded configuration promises to its users.
func checkWhole(t *testing.T, c *Config) {
	t.Helper()
	w := c.Worker
	if w.Slots < 1 || w.Slots > 256 || w.PollInterval <= 0 || w.SuspectAfter < 2*w.HeartbeatInterval || w.OfflineAfter <= w.SuspectAfter {
		t.Errorf("worker = %+v", w)
	}
	if c.Retry.Base <= 0 || c.Retry.Cap < c.Retry.Base || !filepath.IsAbs(c.DataDir) || !filepath.IsAbs(c.Log.Dir) {
		t.Errorf("retry %+v, data %q, log %q", c.Retry, c.DataDir, c.Log.Dir)
	}
	for typ, task := range c.Tasks {
		if badName(typ) != "" || (len(task.Command) == 0) == (task.Builtin == "") || task.Timeout < 0 || task.Retry.Cap < task.Retry.Base || !filepath.IsAbs(task.Dir) {
			t.Errorf("task %q = %+v", typ, task)
		}
		for _, arg := range task.Command {
			if strings.ContainsRune(arg, 0) {
				t.Errorf("task %q has a NUL in its command", typ)
			}
		}
	}
	for name, s := range c.Schedules {
		if _, ok := c.Tasks[s.Task]; !ok || badName(name) != "" || !json.Valid([]byte(s.Payload)) || (s.Cron == "") == (s.Every == 0) {
			t.Errorf("schedule %q = %+v", name, s)
		}
	}
	if _, ok := c.Tasks[c.Hooks.Task]; !ok && c.Hooks.Task != "" {
		t.Errorf("hook = %+v", c.Hooks)
	}
}
