package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// DefaultMaxHold is how long an answer is held for a caller without a deadline.
const DefaultMaxHold = time.Second

// Options are the settings of a Service. The zero value is usable.
type Options struct {
	// Compat answers and charges as Envoy's reference service does; see the
	// package's comment. The rules should be loaded with rule.Options.CompatEnvoy.
	Compat bool

	// StopIncrement, with Compat, charges no descriptor when one is over its limit,
	// but goes on counting the hits of those that are over: the reference's
	// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT.
	StopIncrement bool

	// ShadowMode lets every request pass: statuses still say which limits are over.
	ShadowMode bool

	// Controls are what operators say by hand: a descriptor with an entry that is
	// blocked is over, and while enforcement is off requests pass as in ShadowMode.
	// Default nothing is said.
	Controls *control.Controls

	// QuotaMode makes every limit a quota limit: requests pass until all of their
	// descriptors are over.
	QuotaMode bool

	// MaxHold bounds how long an answer is held for callers without a deadline; 0
	// means DefaultMaxHold.
	MaxHold time.Duration

	// Headers are added to answers; nil adds none.
	Headers *Headers

	// DynamicMetadata adds the request and the metadata of its rules to answers.
	DynamicMetadata bool

	// Stats, when set, is kept: the reference's statistics.
	Stats *Stats

	// Clock tells the time for windows that nothing was counted in yet. It does not
	// decide: the store's clock does. Default caudal.NewSystemClock.
	Clock caudal.Clock

	// Observer is told what was decided. Default none.
	Observer httplimit.Observer

	// Tracer is told of each decision. Default none.
	Tracer httplimit.Tracer

	// Took, when set, is told how long each decision took, without holding.
	Took func(time.Duration)

	// Logger gets a line when decisions fail, at most one every ten seconds.
	// Default slog.Default().
	Logger *slog.Logger
}

// Service answers the protocol. It is safe for concurrent use. Make it with New.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	opts      Options
	detailed  httplimit.DetailObserver // opts.Observer, when it is one
	store     caudal.Store
	refunder  caudal.Refunder // store, when it has the ability
	set       atomic.Pointer[rule.Set]
	overrides overrides
	unhealthy atomic.Bool

	failures atomic.Int64 // since the last line of log
	logged   atomic.Int64 // unix seconds of the last line of log
}

// New makes a service. set may be nil: until SetRules is called requests get
// Unavailable then.
func New(set *rule.Set, store caudal.Store, o Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("envoyrls: no store: use memstore.New for one in memory")
	}
	if o.StopIncrement && !o.Compat {
		return nil, errors.New("envoyrls: StopIncrement is for Compat: without it nothing is charged anyway when one limit denies")
	}
	if o.MaxHold < 0 {
		return nil, fmt.Errorf("envoyrls: MaxHold %s must not be negative", o.MaxHold)
	}
	if err := o.Headers.check(); err != nil {
		return nil, err
	}
	if o.MaxHold == 0 {
		o.MaxHold = DefaultMaxHold
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{opts: o, store: store}
	s.detailed, _ = o.Observer.(httplimit.DetailObserver)
	s.refunder, _ = store.(caudal.Refunder)
	s.overrides.epoch = o.Compat
	if set != nil {
		s.SetRules(set)
	}
	return s, nil
}

// SetRules puts other rules in force at once. Requests under way keep those that
// they began with.
func (s *Service) SetRules(set *rule.Set) {
	if s.opts.Stats != nil {
		s.opts.Stats.setRules(set)
	}
	s.set.Store(set)
}

// Rules gives the rules in force, nil when there are none yet.
func (s *Service) Rules() *rule.Set { return s.set.Load() }

// SetHealthy says what Healthcheck answers; a new service is healthy.
func (s *Service) SetHealthy(healthy bool) { s.unhealthy.Store(!healthy) }

// Healthy reports what SetHealthy said.
func (s *Service) Healthy() bool { return !s.unhealthy.Load() }

// ShouldRateLimit answers one request. Errors carry a gRPC status.
func (s *Service) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if s.opts.Stats != nil {
		defer s.opts.Stats.answered(time.Now())
	}
	x := exchanges.Get().(*exchange)
	answer, err := s.answer(ctx, x, req)
	if x.broken {
		return answer, err
	}
	x.release()
	return answer, err
}

// answer does the work of ShouldRateLimit; a panic in it passes the request.
func (s *Service) answer(ctx context.Context, x *exchange, req *pb.RateLimitRequest) (answer *pb.RateLimitResponse, err error) {
	defer func() {
		if v := recover(); v != nil {
			x.broken = true
			s.report(req.GetDomain(), &httplimit.PanicError{Value: v, Stack: debug.Stack()})
			answer, err = passing(len(req.GetDescriptors())), nil
		}
	}()
	if err := check(req); err != nil {
		s.opts.Stats.failed(serviceError)
		return nil, err
	}
	set := s.set.Load()
	if set == nil {
		s.opts.Stats.failed(serviceError)
		return nil, status.Error(codes.Unavailable, "no rate limit configuration loaded")
	}
	domain, ok := set.Domain(req.Domain)
	if !ok {
		s.opts.Stats.unknownDomain()
		return passing(len(req.Descriptors)), nil
	}
	err = s.match(x, domain, req)
	if err == nil {
		err = checkLimits(len(x.match.Calls))
	}
	if err != nil {
		s.opts.Stats.failed(serviceError)
		return nil, err
	}
	if answer := s.blocked(x); answer != nil {
		return answer, nil
	}
	if err := s.decide(ctx, x); err != nil {
		return nil, err
	}
	return s.respond(x, req), nil
}

// logEvery is how often, in seconds, failures may write a line of log.
const logEvery = 10

// report says that a decision was not made, or a charge not taken back.
func (s *Service) report(domain string, err error) {
	s.opts.Stats.failed(storeError)
	if s.opts.Observer != nil {
		s.opts.Observer.Failed(domain, err)
	}
	n := s.failures.Add(1)
	now, last := time.Now().Unix(), s.logged.Load()
	if now-last < logEvery || !s.logged.CompareAndSwap(last, now) {
		return
	}
	s.failures.Add(-n)
	attrs := []any{"domain", domain, "error", err, "failures", n}
	var panicked *httplimit.PanicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	s.opts.Logger.Error("rate limit decisions fail", attrs...)
}
