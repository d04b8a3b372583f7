package caudal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

func TestAccuracyNames(t *testing.T) {
	for i, name := range caudal.Accuracies() {
		a, ok := caudal.ParseAccuracy(name)
		if !ok || a != caudal.Accuracy(i) || a.String() != name {
			t.Errorf("ParseAccuracy(%q) = %v, %v, want %d and back", name, a, ok, i)
		}
	}
	if a, ok := caudal.ParseAccuracy("nearly"); ok || a != caudal.Exact {
		t.Errorf("ParseAccuracy(nearly) = %v, %v, want Exact, false", a, ok)
	}
}

// Leases are for counts that can be handed out in batches. The others say why not.
func TestAccuracyLeasedIsRefused(t *testing.T) {
	for _, c := range []struct {
		limit caudal.Limit
		why   string
	}{
		{caudal.PerMinute(10), ""},
		{caudal.PerMinute(10).With(caudal.FixedWindow), ""},
		{caudal.PerMinute(10).With(caudal.SlidingWindow), ""},
		{caudal.PerMinute(10).With(caudal.SlidingLog), "exact at every instant"},
		{caudal.PerMinute(10).WithQueue(5, 0), "spaced one by one"},
	} {
		compiled, err := c.limit.Compile("n", "s", caudal.WithAccuracy(caudal.Leased))
		if c.why == "" {
			if err != nil || compiled.Accuracy() != caudal.Leased {
				t.Errorf("Compile(%s, leased) = %v, want a leased limit", c.limit, err)
			}
			continue
		}
		if !errors.Is(err, caudal.ErrInvalidLimit) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("Compile(%s, leased) = %v, want ErrInvalidLimit with %q", c.limit, err, c.why)
		}
	}
}

// Accuracy is not part of the identity, and a limiter keeps it when its numbers
// change. In memory it changes nothing.
func TestAccuracyKeepsTheCounter(t *testing.T) {
	store := memstore.New(memstore.Options{})
	defer func() { _ = store.Close() }()
	exact := caudal.Must(caudal.New(store, caudal.PerHour(3)))
	leased := caudal.Must(caudal.New(store, caudal.PerHour(3), caudal.Accurate(caudal.Leased)))
	ctx := context.Background()
	for range 2 {
		if d, err := leased.Allow(ctx, "k"); err != nil || !d.Allowed {
			t.Fatalf("Allow = %+v, %v, want allowed", d, err)
		}
	}
	if d, err := exact.Peek(ctx, "k"); err != nil || d.Remaining != 1 {
		t.Errorf("Peek of the exact limiter = %d, %v, want 1 of 3 left", d.Remaining, err)
	}
	if err := leased.SetLimit(caudal.PerHour(5)); err != nil || leased.Compiled().Accuracy() != caudal.Leased {
		t.Errorf("SetLimit = %v, accuracy %s, want leased kept", err, leased.Compiled().Accuracy())
	}
	if err := leased.SetLimit(caudal.PerHour(5).With(caudal.SlidingLog)); !errors.Is(err, caudal.ErrInvalidLimit) {
		t.Errorf("SetLimit(sliding_log) of a leased limiter = %v, want ErrInvalidLimit", err)
	}
}
