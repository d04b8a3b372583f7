package serve

import (
	"log/slog"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// TestNotesOfOperatorsReachAllInstances is two instances on one server, one of which
// is started anew.
func TestNotesOfOperatorsReachAllInstances(t *testing.T) {
	server := redistest.Start(t)
	open := func(o redisstore.Options) *redisstore.Store {
		t.Helper()
		o.Logger = slog.New(slog.DiscardHandler)
		s, err := redisstore.Open(t.Context(), server.URL(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	store := open(redisstore.Options{})
	made := func(s *redisstore.Store) *control.Controls {
		return control.New(control.Options{Shared: s, Logger: slog.New(slog.DiscardHandler)})
	}
	a, b := made(store), made(open(redisstore.Options{}))
	target, err := control.ParseTarget("user=eve")
	if err != nil {
		t.Fatal(err)
	}
	hears := func(c *control.Controls, blocks int, off bool) {
		t.Helper()
		if err := c.Refresh(t.Context()); err != nil || len(c.Blocks()) != blocks || c.Off() != off {
			t.Fatalf("it has heard of %v, off %v, %v, want %d blocks, off %v", c.Blocks(), c.Off(), err, blocks, off)
		}
	}
	hears(a, 0, false)
	hears(b, 0, false)
	if err := a.Block(t.Context(), target, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := b.Enforce(t.Context(), false, 0); err != nil {
		t.Fatal(err)
	}
	hears(a, 1, true)
	hears(b, 1, true)
	hears(made(open(redisstore.Options{})), 1, true) // a new one
	hears(made(open(redisstore.Options{Prefix: "other:"})), 0, false)
	if there, err := b.Unblock(t.Context(), target); !there || err != nil {
		t.Fatalf("Unblock() = %v, %v", there, err)
	}
	hears(a, 0, true)
	notes, mark, err := store.Notes(t.Context(), "")
	if err != nil || mark == "" {
		t.Fatalf("Notes() = %v, %q, %v, want a mark", notes, mark, err)
	}
	if again, same, err := store.Notes(t.Context(), mark); again != nil || same != mark || err != nil {
		t.Errorf("Notes(known) = %v, %q, %v, want no notes", again, same, err)
	}
	server.Do("FLUSHALL")
	hears(a, 0, false) // what the store forgets is said no more
}
