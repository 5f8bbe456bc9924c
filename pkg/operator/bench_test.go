package operator

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"nightshift/pkg/config"
	"nightshift/pkg/store"
)

// The benchmarks run on a table of 100,000 tasks, half of them in the future and
// of mixed priorities, or on the database that NIGHTSHIFT_BENCH_DB names:
//
//	go test ./pkg/operator -run '^$' -bench . -benchtime 20x
func benchDesk(b *testing.B) (*Desk, *bytes.Buffer) {
	b.Helper()
	path := os.Getenv("NIGHTSHIFT_BENCH_DB")
	if path == "" {
		path = b.TempDir() + "/nightshift.db"
		fillBench(b, path, 100_000)
	}
	s, err := store.Open(store.Options{Path: path, ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	c, err := config.Parse("", "/srv/night", nil)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	return &Desk{Program: "nightshift", Version: "1.0.0", Store: s, Config: c, Out: &out, Err: &out, Zone: time.UTC, Now: time.Now}, &out
}

func fillBench(b *testing.B, path string, n int) {
	b.Helper()
	if err := store.Init(path); err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(store.Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	now, i := time.Now(), 0
	_, err = s.AddStream(now, func() (store.NewTask, bool, error) {
		i++
		priority := int64(i % 10)
		return store.NewTask{
			ID: fmt.Sprintf("bench-%09d", i), Type: fmt.Sprintf("t%d", i%20), Priority: &priority, NextRun: now.Add(time.Duration(i-n/2) * time.Second),
		}, i <= n, nil
	}, func(string) {})
	if err != nil {
		b.Fatal(err)
	}
}

func benchVerb(b *testing.B, run func(d *Desk) error) {
	d, out := benchDesk(b)
	for b.Loop() {
		out.Reset()
		if err := run(d); err != nil && ExitCode(err) >= 64 {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatus(b *testing.B)  { benchVerb(b, (*Desk).Status) }
func BenchmarkMetrics(b *testing.B) { benchVerb(b, func(d *Desk) error { return d.Metrics("") }) }
func BenchmarkList(b *testing.B)    { benchVerb(b, func(d *Desk) error { return d.List(ListOptions{}) }) }
