package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// A bucket that was emptied under a fast limit, and whose caller was denied under a
// slower one, is not taken for full when the fast limit would have filled it.
func TestC49SlowerLimitOutlivesTheFastOne(t *testing.T) {
	start, ctx := caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)), context.Background()
	s := memstore.New(memstore.Options{})
	fast, slow := compiled(t, caudal.PerMinute(600)), compiled(t, caudal.PerMinute(60).WithBurst(600))
	ask := func(after time.Duration, l *caudal.Compiled, key string, cost uint32) caudal.Decision {
		t.Helper()
		d, err := s.TakeKey(ctx, start.Add(after), l, key, cost)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ask(0, fast, "k", 600)
	ask(time.Second, slow, "k", 600)
	for i := range 20_000 { // each looks at some keys, to sweep those that are fresh again
		ask(2*time.Minute, fast, strconv.Itoa(i), 1)
	}
	if d := ask(2*time.Minute, slow, "k", 0); d.Remaining != 120 {
		t.Errorf("2 minutes after 600 of 60 a minute, burst 600: %d remain, want 120", d.Remaining)
	}
}

func compiled(t *testing.T, l caudal.Limit) *caudal.Compiled {
	t.Helper()
	c, err := l.Compile("", "slower")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
