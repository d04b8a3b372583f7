package redisstore_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/redisstore"
)

// Ten million keys (a fraction outside make soak): what each costs the server, its
// name, its time to live and its place in Redis's tables included.
func TestSoakManyKeys(t *testing.T) {
	n := 50_000
	if os.Getenv("CAUDAL_SOAK") != "" {
		n = 10_000_000
	}
	server, store := single(t, redisstore.Options{})
	limit := compile(t, caudal.PerDay(10)) // no key is fresh again meanwhile
	before := server.InfoInt("memory", "used_memory")
	var wg sync.WaitGroup
	const callers = 64
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				if _, err := store.TakeKey(context.Background(), caudal.Instant{}, limit, strconv.Itoa(i), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := server.Do("DBSIZE"); !t.Failed() && got != strconv.Itoa(n) {
		t.Errorf("the server holds %s keys, want %d", got, n)
	}
	each := float64(server.InfoInt("memory", "used_memory")-before) / float64(n)
	t.Logf("%d keys take %.1f bytes each", n, each)
	if each > 250 {
		t.Errorf("%d keys take %.1f bytes each, want under 250", n, each)
	}
}
