package logging

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightshift/pkg/config"
)

func TestInfoAndDebugHaveFilesOfTheirOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	c := settings(dir)
	l := start(t, c)
	named := l.Logger().Named("executor").With("worker", "w1")
	named.Debug("not wanted")
	named.Info("task started", "task", "a", "exec", 7)
	flush(t, l)
	if got := read(t, filepath.Join(dir, "w1.log")); !strings.HasSuffix(got, "[INFO]  executor: task started: worker=w1 task=a exec=7\n") || strings.Contains(got, "not wanted") {
		t.Errorf("info file:\n%s", got)
	}
	if got := files(t, dir, "w1"); len(got) != 1 {
		t.Errorf("at info there are %v", got)
	}

	c.Level = "debug"
	if err := l.Reload(c); err != nil {
		t.Fatal(err)
	}
	named.Debug("checkpoint")
	named.Info("task done")
	named.Trace("still too fine")
	flush(t, l)
	if got := read(t, filepath.Join(dir, "w1.debug.log")); strings.Count(got, "\n") != 2 || !strings.Contains(got, "[DEBUG] executor: checkpoint") || !strings.Contains(got, "task done") {
		t.Errorf("debug file:\n%s", got)
	}
	if got := read(t, filepath.Join(dir, "w1.log")); strings.Count(got, "\n") != 2 || strings.Contains(got, "checkpoint") {
		t.Errorf("info file:\n%s", got)
	}

	c.Level = "error"
	if err := l.Reload(c); err != nil {
		t.Fatal(err)
	}
	named.Warn("not wanted")
	named.Error("wanted")
	flush(t, l)
	if got := read(t, filepath.Join(dir, "w1.log")); strings.Contains(got, "not wanted") || !strings.Contains(got, "[ERROR] executor: wanted") {
		t.Errorf("at error:\n%s", got)
	}
}

func TestReloadMovesTheLog(t *testing.T) {
	dir := t.TempDir()
	c := settings(filepath.Join(dir, "a"))
	l := start(t, c)
	l.Logger().Info("first")
	c.Dir = filepath.Join(dir, "b")
	if err := l.Reload(c); err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("second")
	flush(t, l)
	if got := read(t, filepath.Join(dir, "a", "w1.log")); !strings.Contains(got, "first") || strings.Contains(got, "second") {
		t.Errorf("old place: %s", got)
	}
	if got := read(t, filepath.Join(dir, "b", "w1.log")); !strings.Contains(got, "second") || l.Path() != filepath.Join(dir, "b", "w1.log") {
		t.Errorf("new place %s: %s", l.Path(), got)
	}

	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Dir = filepath.Join(dir, "file", "c")
	if err := l.Reload(c); err == nil || !strings.Contains(err.Error(), "log stays at") {
		t.Errorf("reload to an impossible place: %v", err)
	}
	l.Logger().Info("third")
	flush(t, l)
	if got := read(t, filepath.Join(dir, "b", "w1.log")); !strings.Contains(got, "third") {
		t.Errorf("after a refused reload: %s", got)
	}
	if err := l.Reload(config.Log{Level: "loud", Dir: dir}); err == nil {
		t.Error("level loud was taken")
	}
}

func TestReloadChangesTheRotation(t *testing.T) {
	dir := t.TempDir()
	c := settings(dir)
	l := start(t, c)
	pad := strings.Repeat("x", 4000)
	for range 1200 { // 4.8 MB
		l.Logger().Info(pad)
	}
	flush(t, l)
	if got := files(t, dir, "w1"); len(got) != 4 {
		t.Errorf("with 3 backups of 1 MiB: %v", got)
	}
	c.MaxSize, c.MaxBackups = 64<<10, 2
	if err := l.Reload(c); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.Logger().Info(pad)
	}
	flush(t, l)
	got := files(t, dir, "w1")
	if len(got) != 3 {
		t.Errorf("with 2 backups of 64 KiB: %v", got)
	}
	for _, name := range got {
		if n := len(read(t, filepath.Join(dir, name))); n > 64<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}

func TestModesArePrivate(t *testing.T) { // SE-03
	dir := filepath.Join(t.TempDir(), "logs")
	l := start(t, settings(dir))
	for range 600 {
		l.Logger().Info(strings.Repeat("x", 4000))
	}
	flush(t, l)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v %v", info.Mode(), err)
	}
	for _, name := range files(t, dir, "w1") {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// TestSE05: a link, a fifo or a directory that waits where the log will be.
func TestSE05WhatWaitsWhereTheLogWillBe(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name  string
		place func(path string) error
	}{
		{"link", func(p string) error { return os.Symlink(filepath.Join(dir, "target"), p) }},
		{"fifo", func(p string) error { return mkfifo(p) }},
		{"directory", func(p string) error { return os.Mkdir(p, 0o700) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logs := filepath.Join(dir, tc.name)
			if err := os.Mkdir(logs, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tc.place(filepath.Join(logs, "w1.log")); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Worker: "w1", Config: settings(logs)})
			var unsafe *UnsafeError
			if !errors.As(err, &unsafe) || !strings.Contains(err.Error(), "no plain file") {
				t.Errorf("Open = %v", err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "target")); err == nil {
		t.Error("the link's target was made")
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Worker: "w1", Config: settings(open)}); err == nil || !strings.Contains(err.Error(), "everybody can write") {
		t.Errorf("a directory for everybody: %v", err)
	}
	if _, err := Open(Options{Worker: "../w1", Config: settings(dir)}); err == nil {
		t.Error("worker id ../w1 was taken")
	}
}

// TestLO06: one file has one writer, and every line of four writers is whole.
func TestLO06TwoWritersNeverShareAFile(t *testing.T) {
	dir := t.TempDir()
	start(t, settings(dir))
	_, err := Open(Options{Worker: "w1", Config: settings(dir)})
	var held *HeldError
	if !errors.As(err, &held) || !strings.Contains(err.Error(), "log.dir") {
		t.Errorf("a second w1 on the same directory: %v", err)
	}
}

func TestLO06FourWorkersAtDebug(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for w := range 4 {
		l, err := Open(Options{Worker: fmt.Sprintf("w%d", w+1), tick: 20 * time.Millisecond,
			Config: config.Log{Level: "debug", Dir: dir, MaxSize: 64 << 10, MaxBackups: 5}})
		if err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			for i := range 4000 {
				l.Logger().Debug("line", "worker", w+1, "n", i, "end", true)
			}
			l.Flush(time.Minute) // Close itself waits for two seconds only
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	for w := range 4 {
		backups := 0
		for _, name := range files(t, dir, fmt.Sprintf("w%d.debug", w+1)) {
			backups++
			for line := range strings.Lines(read(t, filepath.Join(dir, name))) {
				if !strings.Contains(line, fmt.Sprintf("line: worker=%d n=", w+1)) || !strings.HasSuffix(line, "end=true\n") {
					t.Fatalf("%s: not whole: %q", name, line)
				}
			}
		}
		if backups < 2 || backups > 6 {
			t.Errorf("w%d has %d debug files", w+1, backups)
		}
	}
}

// blocked is a console that takes nothing until it is released.
type blocked struct {
	release chan struct{}
	mu      sync.Mutex
	got     bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.release
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.Write(p)
}

func (b *blocked) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.String()
}

func TestABlockedConsoleBlocksNobodyAndIsTold(t *testing.T) {
	dir := t.TempDir()
	console := &blocked{release: make(chan struct{})}
	l, err := Open(Options{Worker: "w1", Config: settings(dir), Console: console, tick: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const lines = maxQueuedLines + 4000
	begin := time.Now()
	for i := range lines {
		l.Logger().Warn("noise", "n", i)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("%d lines took %v", lines, took)
	}
	lost := l.console.dropped.Load()
	if lost == 0 || lost > lines {
		t.Errorf("%d lines dropped", lost)
	}
	close(console.release)
	eventually(t, "the console tells what it lost", func() bool {
		return strings.Contains(console.text(), fmt.Sprintf("[WARN]  logging: log lines dropped: lines=%d since=", lost))
	})
	if !l.Flush(time.Minute) { // Close itself waits for two seconds only
		t.Error("the console was not written to within a minute")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Count(console.text(), "noise"); int64(got)+lost != lines {
		t.Errorf("%d lines written and %d dropped, of %d", got, lost, lines)
	}
}

func TestCloseDoesNotWaitForADeadDisk(t *testing.T) {
	console := &blocked{release: make(chan struct{})}
	l, err := Open(Options{Worker: "w1", Config: settings(t.TempDir()), Console: console})
	if err != nil {
		t.Fatal(err)
	}
	l.Logger().Error("last words")
	begin := time.Now()
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "console") {
		t.Errorf("Close = %v", err)
	}
	if took := time.Since(begin); took > closeWithin+10*time.Second {
		t.Errorf("Close took %v", took)
	}
	close(console.release)
	<-l.console.done
	l.Logger().Info("after the end") // dropped, no panic
}

func TestLimiterLetsOneLineInTenSecondsPass(t *testing.T) {
	l := NewLimiter(CheckpointEvery)
	at := time.Now()
	for _, step := range []struct {
		name  string
		key   string
		after time.Duration
		want  bool
	}{
		{"first", "a", 0, true},
		{"at once again", "a", 0, false},
		{"another task", "b", 0, true},
		{"too early", "a", 9999 * time.Millisecond, false},
		{"in time", "a", 10 * time.Second, true},
		{"interval starts anew", "a", 19 * time.Second, false},
		{"a clock that went back hides nothing", "a", 5 * time.Second, true},
	} {
		if got := l.Allow(step.key, at.Add(step.after)); got != step.want {
			t.Errorf("%s: %v", step.name, got)
		}
	}
	l.Forget("b")
	if !l.Allow("b", at) {
		t.Error("a forgotten key is held back")
	}
}
