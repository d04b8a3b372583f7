package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

type traceKey struct{}

// diary is a Tracer that keeps what it is told.
type diary struct {
	open int
	told []Summary
}

func (d *diary) Begin(ctx context.Context) context.Context {
	d.open++
	return context.WithValue(ctx, traceKey{}, d)
}

func (d *diary) End(ctx context.Context, s Summary) {
	if ctx.Value(traceKey{}) == d {
		d.open--
	}
	d.told = append(d.told, s)
}

// noRequest panics when it is asked.
type noRequest struct{ rule.Request }

// tracedStore notes whether it is asked with the tracer's context.
type tracedStore struct {
	caudal.Store
	asked, traced int
}

func (s *tracedStore) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	s.asked++
	if ctx.Value(traceKey{}) != nil {
		s.traced++
	}
	return s.Store.Take(ctx, at, calls, out)
}

const tracedRules = `domain: shop
descriptors:
- key: header:X-Key
  rate_limit: {name: one, unit: hour, requests_per_unit: 1}
- key: header:X-Shadow
  shadow_mode: true
  rate_limit: {name: quiet, unit: hour, requests_per_unit: 1}
`

// TestTracerIsTold once for each decision, whoever asked, also when it fails or
// panics.
func TestTracerIsTold(t *testing.T) {
	d, store := new(diary), &tracedStore{Store: memstore.New(memstore.Options{})}
	decider := rules(t, tracedRules, store, Options{Tracer: d})
	request := func(name, value string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(name, value)
		return r
	}
	for _, r := range []*http.Request{request("X-Key", "a"), request("X-Key", "a"), request("X-Shadow", "a"), request("X-Shadow", "a"), request("X-None", "a")} {
		decider.Decide(r).Release()
	}
	decider.DecideWithin(request("X-Key", "b"), 0).Release()
	decider.DecideRequest(t.Context(), noRequest{}).Release()
	decider.DecideMatch(t.Context(), "other", func(*rule.Match) {}).Release()
	rules(t, tracedRules, brokenStore{err: errors.New("gone")}, Options{Tracer: d}).Decide(request("X-Key", "a")).Release()
	rules(t, tracedRules, brokenStore{err: errors.New("gone")}, Options{Tracer: d, OnError: DenyOnError}).Decide(request("X-Key", "a")).Release()
	want := []Summary{
		{Domain: "shop", Rule: "one", Outcome: "allowed"},
		{Domain: "shop", Rule: "one", Outcome: "denied"},
		{Domain: "shop", Outcome: "allowed"},
		{Domain: "shop", Rule: "quiet", Outcome: "shadow_denied"},
		{Domain: "shop", Outcome: "allowed"},
		{Domain: "shop", Rule: "one", Outcome: "allowed"},
		{Domain: "shop", Outcome: "error_allowed"}, // after a panic
		{Domain: "other", Outcome: "allowed"},
		{Domain: "shop", Outcome: "error_allowed"},
		{Domain: "shop", Outcome: "unavailable"},
	}
	if !slices.Equal(d.told, want) {
		t.Errorf("told\n%+v, want\n%+v", d.told, want)
	}
	if d.open != 0 {
		t.Errorf("%d decisions were begun and not ended with the same context", d.open)
	}
	if store.asked != 5 || store.traced != store.asked {
		t.Errorf("the store was asked %d times, %d of them with the tracer's context; want 5 and all", store.asked, store.traced)
	}
}

// TestSummaryPassed: every outcome is one or the other.
func TestSummaryPassed(t *testing.T) {
	passed := []string{outcomeAllowed, outcomeShadow, outcomeError}
	for _, name := range append(passed, outcomeNames[:]...) {
		s := Summary{Outcome: name}
		if got, want := s.Passed(), slices.Contains(passed, name); got != want || name == "" {
			t.Errorf("Passed of %q = %t, want %t", name, got, want)
		}
	}
}

// TestDecideWithoutTracerDoesNotAllocate guards what everybody pays who traces
// nothing.
func TestDecideWithoutTracerDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget on purpose under the race detector")
	}
	store := memstore.New(memstore.Options{})
	decider := rules(t, "domain: shop\ndescriptors:\n- {key: header:X-Key, rate_limit: {unit: hour, requests_per_unit: 1000000}}\n", store, Options{})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Key", "k")
	decider.Decide(r).Release()
	if n := testing.AllocsPerRun(1000, func() { decider.Decide(r).Release() }); n >= 1 {
		t.Errorf("Decide allocates %v times, want 0", n)
	}
}
