package rlsbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

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
		r, err := Loop{Callers: callers, Warmup: o.Warmup, Duration: o.Duration, PID: o.PID, NewAsk: func(i int) Ask {
			return newAsk(clients[i%len(clients)], &o, descriptors)
		}}.Measure(ctx)
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

// newAsk makes what a caller does. Values that are not random are made once.
func newAsk(client pb.RateLimitServiceClient, o *Options, templates []template) Ask {
	request := &pb.RateLimitRequest{Domain: o.Domain}
	random := false
	for _, t := range templates {
		request.Descriptors = append(request.Descriptors, t.descriptor(o.Keys))
		for _, e := range t {
			random = random || strings.Contains(e[1], "%d")
		}
	}
	return func(ctx context.Context) (bool, error) {
		if random {
			for i, t := range templates {
				request.Descriptors[i] = t.descriptor(o.Keys)
			}
		}
		answer, err := client.ShouldRateLimit(ctx, request, grpc.WaitForReady(true))
		return err == nil && answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT, err
	}
}
