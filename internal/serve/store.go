package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
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
	file  func() metrics.StateStats // of the state file; nil without one

	// The rest is for stores that other processes share; nil otherwise.
	calls    *metrics.StoreCalls
	state    func() failover.State
	enforced func(limits map[string]caudal.Limit) // by scope: these are in force now
	notes    control.Shared                       // keeps what operators say
}

// storeOptions are what stores need beside their URL.
type storeOptions struct {
	maxKeys   int
	clock     caudal.Clock
	stateFile string

	stateInterval time.Duration

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
		if o.stateFile != "" && scheme != "memory" {
			return nil, &Error{What: "state_file is for what is counted in memory, and the store is " + scheme,
				Hint: "leave out state_file: Redis keeps its own data"}
		}
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
	store, file, err := newMemory(o)
	if err != nil {
		return nil, err
	}
	stop := every(sweepEvery, store.Sweep)
	return &openedStore{
		file:  file,
		Store: store,
		kind:  url,
		stats: func() metrics.StoreStats {
			s := store.Stats()
			return metrics.StoreStats{Keys: s.Keys, Evicted: s.Evicted + s.EvictedExhausted + s.EvictedDenied}
		},
		close: func() error { stop(); return store.Close() },
	}, nil
}

// newMemory makes the store, with its state file if it has one.
func newMemory(o storeOptions) (*memstore.Store, func() metrics.StateStats, error) {
	options := memstore.Options{MaxKeys: o.maxKeys, Clock: o.clock}
	if o.stateFile == "" {
		return memstore.New(options), nil, nil
	}
	state := memstore.StateOptions{Path: o.stateFile, Interval: o.stateInterval, Logger: o.log}
	store, err := memstore.Open(options, state)
	lost := int64(0)
	for range 2 { // the file, and its successor
		kept := new(memstore.StateError)
		if !errors.As(err, &kept) || kept.Kept == "" {
			break
		}
		// A limiter that does not start would be worse than counts that begin anew.
		o.log.Error("the state file cannot be used: what was counted before is forgotten, and the file is kept",
			"file", kept.Path, "kept", kept.Kept, "error", kept.Err)
		lost++
		store, err = memstore.Open(options, state)
	}
	if err != nil {
		return nil, nil, &Error{What: "state_file: " + err.Error(),
			Hint: "name a file in a directory that exists and that only this process writes, such as /var/lib/caudal/state"}
	}
	s := store.StateStats()
	o.log.Info("state file", "file", o.stateFile, "keys", s.Restored, "expired", s.Expired)
	return store, func() metrics.StateStats {
		s := store.StateStats()
		return metrics.StateStats{Errors: s.Errors + lost, Bytes: s.Bytes, Written: s.Written}
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
