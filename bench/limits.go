package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// limits measures what the disk gives: 4 KiB written and flushed, one after the
// other, over old bytes (a WAL that is used again) and behind the end (a new one).
func (b *bench) limits() error {
	spans := scale(b, 2*time.Second, 200*time.Millisecond)
	rates := map[string][]float64{}
	for range b.rounds {
		for _, way := range flushes {
			rate, err := b.flushRate(way, spans)
			if err != nil {
				return err
			}
			rates[way.name] = append(rates[way.name], rate)
		}
	}
	for _, way := range flushes {
		b.put(way.name, "/s", rates[way.name]...)
	}
	return nil
}

type flush struct {
	name    string
	appends bool
	sync    func(fd int) error
}

var flushes = []flush{
	{"4 KiB over old bytes, fdatasync", false, unix.Fdatasync},
	{"4 KiB over old bytes, fsync", false, unix.Fsync},
	{"4 KiB appended, fdatasync", true, unix.Fdatasync},
}

// flushArea is what the overwriting flushes go round in: the size of a WAL.
const flushArea = 8 << 20

func (b *bench) flushRate(way flush, span time.Duration) (rate float64, err error) {
	path := b.scratch("flush")
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	page := make([]byte, 4096)
	if !way.appends {
		if _, err := f.Write(make([]byte, flushArea)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return ratePerSecond(span, func(i int) error {
		at := int64(i) * 4096
		if !way.appends {
			at %= flushArea
		}
		if _, err := f.WriteAt(page, at); err != nil {
			return err
		}
		return way.sync(int(f.Fd()))
	})
}

// ratePerSecond repeats f for a span of time.
func ratePerSecond(span time.Duration, f func(i int) error) (float64, error) {
	began := time.Now()
	for i := 0; ; i++ {
		if gone := time.Since(began); gone >= span {
			return float64(i) / gone.Seconds(), nil
		}
		if err := f(i); err != nil {
			return 0, err
		}
	}
}
