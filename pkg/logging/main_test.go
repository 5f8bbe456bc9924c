package logging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightshift/pkg/config"
)

func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	// lumberjack starts one goroutine a file and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

func settings(dir string) config.Log {
	return config.Log{Level: "info", Dir: dir, MaxSize: 1 << 20, MaxBackups: 3}
}

// start opens a log that looks after its files each 20 ms.
func start(t *testing.T, c config.Log) *Log {
	t.Helper()
	l, err := Open(Options{Worker: "w1", Config: c, tick: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	if !l.Flush(20 * time.Second) {
		t.Fatal("the log was not written within 20 s")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventually waits for a condition; what names it in the failure.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

// files lists the names in dir that hold the stem.
func files(t *testing.T, dir, stem string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, stem+"*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], dir+"/")
	}
	return all
}
