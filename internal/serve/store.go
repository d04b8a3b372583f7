package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/memstore"
)

// openedStore is a store with what belongs to it.
type openedStore struct {
	caudal.Store
	kind  string
	stats func() metrics.StoreStats
	close func() error

	// The rest is for stores that other processes share; nil otherwise.
	calls    *metrics.StoreCalls
	state    func() failover.State
	enforced func(limits map[string]caudal.Limit) // by scope: these are in force now
}

// storeOptions are what stores need beside their URL.
type storeOptions struct {
	maxKeys   int
	clock     caudal.Clock
	prefix    string
	timeout   time.Duration
	instances int
	alertURL  string
	log       *slog.Logger
}

// openers open the stores by the scheme of their URL.
var openers = map[string]func(url string, o storeOptions) (*openedStore, error){
	"memory": openMemory,
	"redis":  openRedis, "rediss": openRedis,
	"redis-sentinel": openRedis, "rediss-sentinel": openRedis,
	"redis-cluster": openRedis, "rediss-cluster": openRedis,
}

// openStore opens the store that a URL names.
func openStore(url string, o storeOptions) (*openedStore, error) {
	scheme, _, _ := strings.Cut(url, ":")
	if open := openers[scheme]; open != nil {
		return open(url, o)
	}
	// Only the scheme is shown: the rest may hold a password.
	return nil, &Error{What: fmt.Sprintf("store %q is not known", scheme),
		Hint: "use memory, redis://, rediss://, redis-sentinel:// or redis-cluster://"}
}

// sweepEvery is how often an idle store in memory gives back what it no longer
// needs.
const sweepEvery = time.Minute

func openMemory(url string, o storeOptions) (*openedStore, error) {
	if url != "memory" {
		return nil, &Error{What: "store memory takes nothing behind it", Hint: "write memory, and its size as max_keys"}
	}
	if o.maxKeys < 0 {
		return nil, &Error{What: fmt.Sprintf("max_keys %d must not be negative", o.maxKeys), Hint: "leave it out for 10 million"}
	}
	store := memstore.New(memstore.Options{MaxKeys: o.maxKeys, Clock: o.clock})
	stop := every(sweepEvery, store.Sweep)
	return &openedStore{
		Store: store,
		kind:  url,
		stats: func() metrics.StoreStats {
			s := store.Stats()
			return metrics.StoreStats{Keys: s.Keys, Evicted: s.Evicted + s.EvictedExhausted + s.EvictedDenied}
		},
		close: func() error { stop(); return store.Close() },
	}, nil
}

// every calls f again and again until stop is called, which waits for a call
// that is under way.
func every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}
