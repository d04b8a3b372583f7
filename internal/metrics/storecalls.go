package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreCalls counts and times the calls of a store that other processes share. It
// is safe for concurrent use. Make it with NewStoreCalls, before the store, and
// give it to New.
type StoreCalls struct {
	// Degraded reports whether decisions are made without the store now; nil is
	// never. It must be set before the first scrape.
	Degraded func() bool

	durations *prometheus.HistogramVec
	mu        sync.RWMutex
	kinds     map[string]uint64
}

// maxStoreKinds bounds the kinds of failures that are told apart.
const maxStoreKinds = 32

// NewStoreCalls makes StoreCalls.
func NewStoreCalls() *StoreCalls {
	return &StoreCalls{
		kinds: map[string]uint64{},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "caudal_store_duration_seconds",
			Help: "How long each call of the store took, as its caller saw it, by operation.",
			Buckets: []float64{10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6,
				1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3},
		}, []string{"op"}),
	}
}

// Observe counts a call: what it was for, how long it took, and of what kind its
// failure was, empty for none.
func (c *StoreCalls) Observe(op string, took time.Duration, kind string) {
	c.durations.WithLabelValues(op).Observe(took.Seconds())
	if kind == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.kinds[kind]; !known && len(c.kinds) >= maxStoreKinds {
		kind = kindOther
	}
	c.kinds[kind]++
}

// failed gives the failures so far by kind.
func (c *StoreCalls) failed() map[string]uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	copied := make(map[string]uint64, len(c.kinds))
	for kind, n := range c.kinds {
		copied[kind] = n
	}
	return copied
}

// degraded is the gauge that says whether decisions are made without the store.
func degraded(calls *StoreCalls) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "caudal_degraded",
		Help: "1 while decisions are made without the store that should make them, else 0.",
	}, func() float64 {
		if calls != nil && calls.Degraded != nil && calls.Degraded() {
			return 1
		}
		return 0
	})
}
