package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/rule"
)

// permitGateway is a gateway of its own on a shared Redis.
type permitGateway struct {
	url   string
	redis *redisstore.Store
}

func startPermitGateway(t *testing.T, redis string, upstream *url.URL, text string) permitGateway {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	shared, err := redisstore.Open(t.Context(), redis, redisstore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	store := failover.New(shared, failover.Options{Deadline: 30 * time.Second, ExpectedInstances: 2})
	t.Cleanup(func() { _ = store.Close() })
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewDecider(set.Domains()[0], store, who, httplimit.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Upstream: upstream, Limits: d, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = g.Close() })
	return permitGateway{server.URL, shared}
}

// TestTwoGatewaysShareMax: on one Redis no more calls than max are under way at the
// upstream, whichever gateway they came through; and what a gateway that was killed
// held comes free when its lease has ended.
func TestTwoGatewaysShareMax(t *testing.T) {
	const text = `domain: d
descriptors:
  - key: path
    value: /slow
    concurrency: { max: 3, lease: 4s }
`
	redis := redistest.Start(t)
	var under, most atomic.Int64
	release := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := under.Add(1)
		defer under.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer upstream.Close()
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	one, two := startPermitGateway(t, redis.URL(), u, text), startPermitGateway(t, redis.URL(), u, text)

	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var denied atomic.Int64
	get := func(g permitGateway) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/slow", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for i := range 20 {
		calls.Go(func() {
			if get([]permitGateway{one, two}[i%2]) == http.StatusTooManyRequests {
				denied.Add(1)
			}
		})
	}
	until(t, "3 calls are under way and 17 denied", func() bool { return under.Load() == 3 && denied.Load() == 17 })

	// Both are killed, as far as Redis can tell: nothing is renewed or released.
	_, _ = one.redis.Close(), two.redis.Close()
	three := startPermitGateway(t, redis.URL(), u, text)
	free := make(chan struct{})
	calls.Go(func() {
		defer close(free)
		for get(three) == http.StatusTooManyRequests && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
	})
	until(t, "a call passes when their leases have ended", func() bool { return under.Load() == 4 })
	if most.Load() > 4 {
		t.Errorf("%d calls were under way at once, want 3 and the one after the leases", most.Load())
	}
	close(release)
	<-free
	stop()
	calls.Wait()
	l := ruleOf(t, text)
	var out [1]caudal.Grant
	until(t, "nothing is held in Redis", func() bool {
		err := three.redis.Acquire(t.Context(), caudal.Instant{}, []caudal.PermitCall{{Limit: l, Peek: true}}, out[:])
		return err == nil && out[0].InUse == 0
	})
}

func ruleOf(t *testing.T, text string) *caudal.CompiledConcurrency {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set.Concurrencies()[0].Compiled
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to pass that %s", what)
		}
	}
}
