package redisstore_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// quiet is a logger that says nothing.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open opens a store on a server and closes it when the test ends.
func open(t testing.TB, url string, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := redisstore.Open(ctx, url, o)
	if err != nil {
		t.Fatalf("Open(%q) = %v", url, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// single starts a server and opens a store on it.
func single(t testing.TB, o redisstore.Options) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	r := redistest.Start(t)
	return r, open(t, r.URL(), o)
}

func compile(t testing.TB, l caudal.Limit) *caudal.Compiled {
	t.Helper()
	c, err := l.Compile("test", "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// take decides one call and fails the test on an error.
func take(t testing.TB, s caudal.KeyStore, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) caudal.Decision {
	t.Helper()
	d, err := s.TakeKey(context.Background(), at, l, key, cost)
	if err != nil {
		t.Fatalf("TakeKey(%s, %q, cost %d) = %v", l.Limit(), key, cost, err)
	}
	return d
}

// at gives the instant so many seconds into a day of 2026.
func at(seconds float64) caudal.Instant {
	return caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)).Add(time.Duration(seconds * float64(time.Second)))
}
