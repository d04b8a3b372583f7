package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/caudal-dev/caudal/internal/rlsbench"
)

// service is a rate limiter that runs as a process of its own, or what such a one
// costs without limits.
type service struct {
	name string
	// floor is the service without what it is for; empty for one that is a floor.
	floor string
	// lacks says what the figures do not show.
	lacks string
	start func(ctx context.Context, m *machine, w work) (*running, error)
}

// running is a service that was started. newAsk makes the callers of its loop.
type running struct {
	pid    int
	newAsk func(caller int) rlsbench.Ask
}

// work is one kind of load: an API key for each request.
type work struct {
	name, what string
	calls      int    // the limit of each key
	unit       string // per second or minute
	keys       int
	denied     bool // all but the first
}

var serviceWork = []work{
	{name: "random", what: "100 000 keys", calls: 1_000_000, unit: "second", keys: 100_000},
	{name: "hot", what: "one key", calls: 1_000_000, unit: "second", keys: 1},
	{name: "denied", what: "one key, all denied", calls: 1, unit: "minute", keys: 1, denied: true},
}

const (
	grpcFloor    = "gRPC server that only says OK"
	gatewayFloor = "caudal, a proxy without limits"
	nginxFloor   = "nginx, a proxy without limits"
)

// services lists them in the order of the table.
var services = []service{
	{name: grpcFloor, start: startGRPCFloor},
	{name: "caudal, Envoy's protocol", floor: grpcFloor, start: startRLS},
	{name: "gubernator", floor: grpcFloor, lacks: "a protocol of its own, one request a call; one node, so no forwarding", start: startGubernator},
	{name: gatewayFloor, start: startProxy},
	{name: "caudal, gateway", floor: gatewayFloor, start: startGateway},
	{name: nginxFloor, start: func(ctx context.Context, m *machine, w work) (*running, error) { return startNginx(ctx, m, w, false) }},
	{name: "nginx limit_req", floor: nginxFloor, lacks: "tells clients nothing but the status; one leaky bucket to a millisecond",
		start: func(ctx context.Context, m *machine, w work) (*running, error) { return startNginx(ctx, m, w, true) }},
}

// warmup is how long a service runs before each round counts.
const warmup = 300 * time.Millisecond

// measureServices measures all services in turns, kind of work by kind.
func (s settings) measureServices() error {
	kinds, err := chooseWork(s.rows)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m, err := newMachine()
	if err != nil {
		return err
	}
	defer m.close()
	t := &serviceTable{kinds: kinds, cells: map[string][]rlsbench.Result{}}
	for _, w := range kinds {
		if err := s.measureKind(ctx, m, t, w); err != nil {
			return err
		}
	}
	progress("")
	if s.json {
		return json.NewEncoder(os.Stdout).Encode(t.machine())
	}
	return t.print(os.Stdout)
}

// measureKind starts all services, and lets them take turns. One that cannot be had
// is left out, and the table says why.
func (s settings) measureKind(ctx context.Context, m *machine, t *serviceTable, w work) error {
	ctx, cancel := context.WithCancel(ctx) // ends the processes
	defer m.wait()
	defer cancel()
	up := map[string]*running{}
	for _, v := range services {
		progress("%s: starting %s", w.name, v.name)
		r, err := v.start(ctx, m, w)
		var absent *absentError
		switch {
		case errors.As(err, &absent):
			t.skip(v.name, absent)
		case err != nil:
			return fmt.Errorf("%s: %w", v.name, err)
		default:
			up[v.name] = r
		}
	}
	for round := range s.rounds {
		for _, v := range services {
			r := up[v.name]
			if r == nil {
				continue
			}
			progress("round %d of %d: %s, %s", round+1, s.rounds, w.name, v.name)
			result, err := rlsbench.Loop{Callers: s.callers, Warmup: warmup, Duration: s.length, PID: r.pid, NewAsk: r.newAsk}.Measure(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", w.name, v.name, err)
			}
			t.add(w, v, result)
		}
	}
	return nil
}
