package memstore_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// The same traffic with a state file at its default interval and without, on all
// processors. The files are on the disk of the temporary directory.
func BenchmarkState(b *testing.B) {
	shapes := []struct {
		name  string
		keys  int
		picks func() []int32
	}{
		{"one key", 1, func() []int32 { return make([]int32, 1) }},
		{"zipf 1M", 1_000_000, zipf1M},
		{"uniform 1M", 1_000_000, func() []int32 { return uniform(1_000_000) }},
	}
	for _, shape := range shapes {
		picks := shape.picks()
		for _, file := range []bool{false, true} {
			name := shape.name + "/memory"
			if file {
				name = shape.name + "/file"
			}
			b.Run(name, func(b *testing.B) {
				benchKeys(b, keySet.of(shape.keys), picks, limiterAllow(stateLimiter(b, file)))
			})
		}
	}
}

func stateLimiter(b *testing.B, file bool) *caudal.Limiter {
	o := memstore.Options{MaxKeys: 20_000_000}
	store := memstore.New(o)
	if file {
		var err error
		store, err = memstore.Open(o, memstore.StateOptions{Path: filepath.Join(b.TempDir(), "state"), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := store.Close(); err != nil {
				b.Error(err)
			}
		})
	}
	return caudal.Must(caudal.New(store, generous))
}

// BenchmarkStateOpen tells how long a start with a million keys takes.
func BenchmarkStateOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state")
	so := memstore.StateOptions{Path: path, Interval: never, Logger: slog.New(slog.DiscardHandler)}
	open := func() *memstore.Store {
		s, err := memstore.Open(memstore.Options{}, so)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	s := open()
	l := caudal.Must(caudal.New(s, caudal.PerDay(10)))
	for _, k := range keySet.of(1_000_000) {
		if _, err := l.Allow(context.Background(), k); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := open()
		if n := s.Len(); n != 1_000_000 {
			b.Fatalf("%d keys, want a million", n)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(fileSize(b, path))/1_000_000, "file-B/key")
}
