package metrics

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// Options shape Metrics. The zero value is usable.
type Options struct {
	// SampleEvery is how many decisions one is timed of, a power of two; 0 means
	// all where Calls are counted, and else 1024: beside a call to another process
	// the clock costs nothing.
	SampleEvery uint32
	// Store gives figures about the store at a scrape; nil shows none.
	Store func() StoreStats
	// State gives figures about the file in which the store keeps what it counts;
	// nil where there is none.
	State func() StateStats
	// Calls counts the calls of a store that other processes share; nil where there
	// is none.
	Calls *StoreCalls
	// APIKeys gives how many API keys are known; nil where keys are taken as sent.
	APIKeys func() int
	// Extra are names of limits that no rule has but each domain may count under:
	// those that requests bring.
	Extra []string
	// ShowKeys shows API keys, addresses and all other values of keys in the clear,
	// to whoever asks for the busiest; else their hashes are shown.
	ShowKeys bool
	// Logger gets what goes wrong in a scrape. Default slog.Default().
	Logger *slog.Logger
}

// StoreStats are figures about a store at a moment.
type StoreStats struct {
	// Keys is how many keys it holds.
	Keys int64
	// Evicted is how many keys were dropped to make room, since the start.
	Evicted int64
}

// StateStats are figures about a state file at a moment.
type StateStats struct {
	// Errors is how many times it could not be written or used, since the start.
	Errors int64
	// Bytes is its size, and Written when it was last brought up to date.
	Bytes   int64
	Written time.Time
}

// Metrics counts. It is safe for concurrent use. Make it with New.
type Metrics struct {
	registry *prometheus.Registry
	table    atomic.Pointer[table]
	room     room // for series by value
	suspects *suspects
	showKeys bool
	mask     uint32
	extra    []string
	log      *slog.Logger

	duration prometheus.Histogram
	loads    *prometheus.CounterVec
	loaded   prometheus.Gauge
	errors   storeErrors

	permits permits
	queues  queues

	ticking                 sync.Mutex
	ticked, minute, rotated time.Time
}

var _ httplimit.DetailObserver = (*Metrics)(nil)

// The results of caudal_config_loads_total.
const (
	loadedWell = "success"
	loadFailed = "failure"
)

// The kinds of caudal_store_errors_total that are not the store's own.
const (
	kindPanic = "panic" // the limiter panicked
	kindStore = "store" // the store gave an error
	kindOther = "other" // no key, no verb: whatever else kept a decision from being made
)

var errorKinds = [...]string{kindPanic, kindStore, kindOther}

// New makes metrics with a registry of their own, so that nothing else of the
// process gets in.
func New(o Options) *Metrics {
	if o.SampleEvery == 0 {
		o.SampleEvery = 1024
		if o.Calls != nil {
			o.SampleEvery = 1
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		mask:     o.SampleEvery - 1,
		suspects: newSuspects(),
		showKeys: o.ShowKeys,
		extra:    o.Extra,
		log:      o.Logger,
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "caudal_decision_duration_seconds",
			Help: "How long a decision took, without the time that a call is held; one in 1024 where counts are in memory.",
			Buckets: []float64{1e-6, 2e-6, 5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6,
				1e-3, 2e-3, 5e-3, 10e-3},
		}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caudal_config_loads_total",
			Help: "How often rules were loaded, by result.",
		}, []string{"result"}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "caudal_config_last_load_success",
			Help: "1 when the last attempt to load rules went well, else 0: the last good ones are in force then.",
		}),
		errors: storeErrors{calls: o.Calls, decisions: new([len(errorKinds)]atomic.Uint64)},
	}
	m.table.Store(&table{slots: make([]slot, 1)})
	for _, result := range []string{loadedWell, loadFailed} {
		m.loads.WithLabelValues(result) // a series that begins at 0 shows its first step
	}
	m.registry.MustRegister(m.duration, m.loads, m.loaded, m.errors, degraded(o.Calls), rules{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.Calls != nil {
		m.registry.MustRegister(o.Calls.durations)
	}
	if o.APIKeys != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_api_keys", Help: "API keys that are known.",
		}, func() float64 { return float64(o.APIKeys()) }))
	}
	if o.Store != nil {
		m.registry.MustRegister(storeFigures(o.Store)...)
	}
	if o.State != nil {
		m.registry.MustRegister(stateFigures(o.State)...)
	}
	return m
}

func stateFigures(stats func() StateStats) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "caudal_state_errors_total", Help: "Times that the state file could not be written or used.",
		}, func() float64 { return float64(stats().Errors) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_state_bytes", Help: "Size of the state file.",
		}, func() float64 { return float64(stats().Bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_state_written_timestamp_seconds", Help: "When the state file was last brought up to date, 0 if never.",
		}, func() float64 {
			if w := stats().Written; !w.IsZero() {
				return float64(w.UnixMilli()) / 1000
			}
			return 0
		}),
	}
}

func storeFigures(stats func() StoreStats) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_keys", Help: "Keys that the store holds.",
		}, func() float64 { return float64(stats().Keys) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "caudal_evictions_total", Help: "Keys that the store dropped to make room although they were not fresh.",
		}, func() float64 { return float64(stats().Evicted) }),
	}
}

// Register adds other collectors, such as those of a protocol.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// SetRules is SetDomains for one domain.
func (m *Metrics) SetRules(domain *rule.Domain, hash string, at time.Time) {
	m.SetDomains([]*rule.Domain{domain}, hash, at)
}

// SetDomains says that rules have been loaded: their series begin at 0, or go on
// where the same rule was loaded before, and those of rules that are gone end. It
// must be called before decisions are made by the new rules, or their first are
// not counted. The hash names the rules.
func (m *Metrics) SetDomains(domains []*rule.Domain, hash string, at time.Time) {
	m.permits.set(domains)
	m.queues.set(domains)
	t := newTable(domains, m.table.Load(), m.extra, &m.room)
	t.hash, t.loaded = hash, at
	m.ticking.Lock()
	m.table.Store(t)
	m.ticking.Unlock()
	m.loads.WithLabelValues(loadedWell).Inc()
	m.loaded.Set(1)
}

// LoadFailed says that rules could not be loaded and the last good ones stay.
func (m *Metrics) LoadFailed() {
	m.loads.WithLabelValues(loadFailed).Inc()
	m.loaded.Set(0)
}

// Decided counts what became of a limit in a call; see httplimit.Observer.
func (m *Metrics) Decided(domain string, limit *caudal.Compiled, result httplimit.Result) {
	if c := m.table.Load().find(domain, limit); c != nil && int(result) < len(outcomes) {
		c.add(result)
	}
}

// Failed counts a decision that was not made; see httplimit.Observer.
func (m *Metrics) Failed(_ string, err error) {
	kind := 2 // other
	var panicked *httplimit.PanicError
	switch {
	case errors.As(err, &panicked):
		kind = 0
	case errors.Is(err, caudal.ErrStore):
		kind = 1
	}
	m.errors.decisions[kind].Add(1)
}

// Decider is what decides about requests.
type Decider interface {
	Decide(*http.Request) *httplimit.Outcome
	DecideShedding(*http.Request, *httplimit.Shedding) *httplimit.Outcome
}

// Time gives a decider that measures how long a sample of its decisions takes.
func (m *Metrics) Time(next Decider) Decider { return timed{m, next} }

type timed struct {
	m    *Metrics
	next Decider
}

// Decide decides as the one behind does.
func (t timed) Decide(r *http.Request) *httplimit.Outcome {
	return t.time(func() *httplimit.Outcome { return t.next.Decide(r) })
}

// DecideShedding decides as the one behind does.
func (t timed) DecideShedding(r *http.Request, s *httplimit.Shedding) *httplimit.Outcome {
	return t.time(func() *httplimit.Outcome { return t.next.DecideShedding(r, s) })
}

func (t timed) time(decide func() *httplimit.Outcome) *httplimit.Outcome {
	if rand.Uint32()&t.m.mask != 0 {
		return decide()
	}
	start := time.Now()
	o := decide()
	t.m.duration.Observe(time.Since(start).Seconds())
	return o
}

// Took notes how long a decision took, of one in as many as Time measures, for
// front ends that are timed by themselves.
func (m *Metrics) Took(d time.Duration) {
	if rand.Uint32()&m.mask == 0 {
		m.duration.Observe(d.Seconds())
	}
}

// maxScrapes is how many scrapes are answered at a time; more are told to come
// back.
const maxScrapes = 4

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelError),
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	})
}
