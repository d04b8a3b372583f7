package rlsbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Options say what to send. Target, Domain, Descriptors and Callers are required.
type Options struct {
	// Target is the server's address: host:port, or unix:PATH.
	Target string
	// Domain and Descriptors are the request. Each descriptor is a list of
	// key=value; in a value, "%d" stands for a random number below Keys.
	Domain      string
	Descriptors []string
	// Keys is how many values "%d" takes; 0 means 100 000.
	Keys int
	// Callers are the concurrencies to measure, one after the other. A caller sends
	// its next request when it has the answer to the last.
	Callers []int
	// Connections is how many connections the callers share; 0 means 2, as a proxy
	// with two workers has.
	Connections int
	// Warmup is how long each concurrency runs before it is measured, and Duration
	// how long it is measured; 0 means 2 s and 5 s.
	Warmup, Duration time.Duration
	// PID is the server's process, for what each request costs it; 0 is unknown.
	PID int
	// Progress, when set, is told of each concurrency as it begins and ends.
	Progress func(line string)
}

// Defaults of Options.
const (
	defaultKeys        = 100_000
	defaultConnections = 2
	defaultWarmup      = 2 * time.Second
	defaultDuration    = 5 * time.Second
	maxCallers         = 100_000
)

// Result is what was measured at one concurrency.
type Result struct {
	Callers   int     `json:"callers"`
	Requests  int64   `json:"requests"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"requests_per_second"`
	OverLimit int64   `json:"over_limit"`
	Errors    int64   `json:"errors"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	Max       float64 `json:"max_us"`
	// ServerCPU is the server's processor time per request in microseconds, 0 when
	// it is not known.
	ServerCPU float64 `json:"server_cpu_us_per_request,omitempty"`
}

// Run measures each concurrency in turn. It ends early with the context's error.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	descriptors, err := parseDescriptors(o.Descriptors)
	if err != nil {
		return nil, err
	}
	clients, closeAll, err := dial(o.Target, o.Connections)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	var results []Result
	for _, callers := range o.Callers {
		o.say("%d callers: warming up", callers)
		r, err := measure(ctx, &o, clients, descriptors, callers)
		if err != nil {
			return results, fmt.Errorf("%s: %w", o.Target, err)
		}
		results = append(results, r)
		o.say("%d callers: %.0f requests/s, p99 %.0f us", callers, r.PerSecond, r.P99)
	}
	return results, nil
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

func (o *Options) complete() error {
	switch {
	case o.Target == "":
		return errors.New("no target: give the server's address, such as 127.0.0.1:8081")
	case o.Domain == "":
		return errors.New("no domain: name the one that the server's rules are of")
	case len(o.Descriptors) == 0:
		return errors.New("no descriptors: give at least one, such as api_key=%d")
	case len(o.Callers) == 0:
		return errors.New("no callers: say how many, such as 64")
	}
	for _, n := range o.Callers {
		if n < 1 || n > maxCallers {
			return fmt.Errorf("%d callers: it must be from 1 to %d", n, maxCallers)
		}
	}
	if o.Keys <= 0 {
		o.Keys = defaultKeys
	}
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.Warmup <= 0 {
		o.Warmup = defaultWarmup
	}
	if o.Duration <= 0 {
		o.Duration = defaultDuration
	}
	return nil
}

// template is a descriptor of which some values are made anew for each request.
type template [][2]string

func parseDescriptors(list []string) ([]template, error) {
	var all []template
	for _, s := range list {
		var t template
		for _, entry := range strings.Split(s, ",") {
			key, value, ok := strings.Cut(entry, "=")
			if !ok || key == "" {
				return nil, fmt.Errorf("descriptor %q: write key=value, and a comma between entries", s)
			}
			t = append(t, [2]string{key, value})
		}
		all = append(all, t)
	}
	return all, nil
}

func (t template) descriptor(keys int) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for _, e := range t {
		value := e[1]
		if strings.Contains(value, "%d") {
			value = strings.ReplaceAll(value, "%d", strconv.Itoa(rand.IntN(keys)))
		}
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e[0], Value: value})
	}
	return d
}

func dial(target string, n int) (clients []pb.RateLimitServiceClient, closeAll func(), err error) {
	var conns []*grpc.ClientConn
	closeAll = func() {
		for _, c := range conns {
			_ = c.Close() // nothing is under way
		}
	}
	for range n {
		c, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		c.Connect() // also those that no caller uses: they are there to be held
		conns = append(conns, c)
		clients = append(clients, pb.NewRateLimitServiceClient(c))
	}
	return clients, closeAll, nil
}

// phases of a measurement.
const (
	warming = iota
	measuring
	over
)

// caller is one closed loop. Its figures are its own until it has ended.
type caller struct {
	client      pb.RateLimitServiceClient
	request     *pb.RateLimitRequest
	histogram   *hdrhistogram.Histogram
	overLimit   int64
	errors      int64
	first       error
	templates   []template
	keys        int
	randomValue bool
}

func measure(ctx context.Context, o *Options, clients []pb.RateLimitServiceClient, descriptors []template, n int) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var phase atomic.Int32
	var wg sync.WaitGroup
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = newCaller(clients[i%len(clients)], o, descriptors)
		wg.Go(func() { callers[i].loop(ctx, &phase) })
	}
	if err := sleep(ctx, o.Warmup); err != nil {
		return Result{}, err
	}
	cpu, cpuErr := ProcessTime(o.PID)
	start := time.Now()
	phase.Store(measuring)
	err := sleep(ctx, o.Duration)
	phase.Store(over)
	took := time.Since(start)
	after, afterErr := ProcessTime(o.PID)
	cancel()
	wg.Wait()
	if err != nil {
		return Result{}, err
	}
	r, err := sum(callers, took)
	if o.PID != 0 && errors.Join(cpuErr, afterErr) != nil {
		return r, fmt.Errorf("processor time of process %d: %w", o.PID, errors.Join(cpuErr, afterErr))
	}
	if o.PID != 0 && r.Requests > 0 {
		r.ServerCPU = float64((after - cpu).Nanoseconds()) / 1e3 / float64(r.Requests)
	}
	return r, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longestTime and digits are the range and precision of the histogram, in
// nanoseconds.
const (
	longestTime = int64(time.Minute)
	digits      = 3
)

func newCaller(client pb.RateLimitServiceClient, o *Options, descriptors []template) *caller {
	c := &caller{client: client, templates: descriptors, keys: o.Keys, histogram: hdrhistogram.New(1000, longestTime, digits)}
	c.request = &pb.RateLimitRequest{Domain: o.Domain}
	for _, t := range descriptors {
		c.request.Descriptors = append(c.request.Descriptors, t.descriptor(o.Keys))
		for _, e := range t {
			c.randomValue = c.randomValue || strings.Contains(e[1], "%d")
		}
	}
	return c
}

func (c *caller) loop(ctx context.Context, phase *atomic.Int32) {
	for ctx.Err() == nil {
		if c.randomValue {
			for i, t := range c.templates {
				c.request.Descriptors[i] = t.descriptor(c.keys)
			}
		}
		start := time.Now()
		answer, err := c.client.ShouldRateLimit(ctx, c.request, grpc.WaitForReady(true))
		took := time.Since(start)
		if phase.Load() != measuring {
			continue
		}
		if err != nil {
			c.errors++
			if c.first == nil {
				c.first = err
			}
			continue
		}
		if answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
			c.overLimit++
		}
		_ = c.histogram.RecordValue(min(int64(took), longestTime)) // within the range by the line before
	}
}

// sum adds up what the callers measured. When nothing but errors came back, the
// first of them is the result.
func sum(callers []*caller, took time.Duration) (Result, error) {
	all := hdrhistogram.New(1000, longestTime, digits)
	r := Result{Callers: len(callers), Seconds: took.Seconds()}
	var first error
	for _, c := range callers {
		all.Merge(c.histogram)
		r.OverLimit += c.overLimit
		r.Errors += c.errors
		if first == nil {
			first = c.first
		}
	}
	r.Requests = all.TotalCount()
	if r.Requests == 0 {
		if first == nil {
			first = errors.New("no answer came")
		}
		return r, fmt.Errorf("nothing was measured: %w", first)
	}
	r.PerSecond = float64(r.Requests) / took.Seconds()
	r.P50 = micros(all.ValueAtQuantile(50))
	r.P99 = micros(all.ValueAtQuantile(99))
	r.P999 = micros(all.ValueAtQuantile(99.9))
	r.Max = micros(all.Max())
	return r, nil
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }
