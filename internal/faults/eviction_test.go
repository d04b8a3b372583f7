package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// A server that drops keys when its memory is full forgets counts, which nobody
// can repair: no call fails, the drops are counted, and there is a warning where a
// limit is to last for days.
func TestEvictionIsCountedAndWarnedOf(t *testing.T) {
	server := redistest.Start(t, "maxmemory-policy allkeys-lru")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := redisstore.Open(ctx, server.URL(), redisstore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	quota := caudal.PerDay(10).With(caudal.FixedWindow)
	limit, err := quota.Compile("quota", "quota")
	if err != nil {
		t.Fatal(err)
	}
	used := server.InfoInt("memory", "used_memory")
	server.Do("CONFIG", "SET", "maxmemory", fmt.Sprint(used+2<<20))
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			for i := range 2000 {
				if _, err := store.TakeKey(ctx, caudal.Instant{}, limit, fmt.Sprint(c, i), 1); err != nil {
					t.Errorf("call %d of caller %d: %v", i, c, err)
					return
				}
			}
		})
	}
	wg.Wait()
	health, err := store.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if health.Evicted() == 0 {
		t.Error("no key was dropped: the test has not filled the memory")
	}
	warnings := strings.Join(health.Warnings(quota), "\n")
	for _, want := range []string{"appendonly no", "allkeys-lru"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings do not speak of %s: %s", want, warnings)
		}
	}
	if w := health.Warnings(caudal.PerMinute(10)); len(w) > 0 {
		t.Errorf("warnings without a limit that lasts: %q", w)
	}
}
