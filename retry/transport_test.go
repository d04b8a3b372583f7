package retry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// script is a transport that answers as it is told, one step after another, and
// remembers when it was asked and with what body.
type script struct {
	steps  []step
	start  time.Time
	at     []time.Duration
	bodies []string
}

type step struct {
	status int
	header string // "Name: value"
	err    error
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(s.at) == 0 && s.start.IsZero() {
		s.start = time.Now()
	}
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		body = string(b)
	}
	st := s.steps[min(len(s.at), len(s.steps)-1)]
	s.at, s.bodies = append(s.at, time.Since(s.start)), append(s.bodies, body)
	if st.err != nil {
		return nil, st.err
	}
	response := &http.Response{StatusCode: st.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer")), Request: r}
	if name, value, ok := strings.Cut(st.header, ": "); ok {
		response.Header.Set(name, value)
	}
	return response, nil
}

// plain doubles from 100 ms without jitter, so that tests can tell the times.
var plain = Backoff{Base: 100 * time.Millisecond, Jitter: NoJitter}

func request(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, "http://api.test/v1", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAttempts(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	const ms, s = time.Millisecond, time.Second
	tests := []struct {
		name   string
		method string
		header string // of the request
		opts   Options
		steps  []step
		status int // of the answer; 0: an error
		at     []time.Duration
	}{
		{name: "nothing to try again", steps: []step{{status: 200}}, status: 200, at: []time.Duration{0}},
		{name: "backoff doubles", steps: []step{{status: 503}, {status: 503}, {status: 200}}, status: 200, at: []time.Duration{0, 100 * ms, 300 * ms}},
		{name: "attempts end", steps: []step{{status: 503}}, status: 503, at: []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}},
		{name: "one attempt", opts: Options{MaxAttempts: 1}, steps: []step{{status: 503}}, status: 503, at: []time.Duration{0}},
		{name: "Retry-After is a floor", steps: []step{{429, "Retry-After: 2", nil}, {status: 200}}, status: 200, at: []time.Duration{0, 2100 * ms}},
		{name: "RateLimit is a floor", steps: []step{{429, `RateLimit: "x";r=0;t=3`, nil}, {status: 200}}, status: 200, at: []time.Duration{0, 3100 * ms}},
		{name: "Retry-After 0", steps: []step{{429, "Retry-After: 0", nil}, {status: 200}}, status: 200, at: []time.Duration{0, 100 * ms}},
		{name: "Retry-After at the longest", steps: []step{{429, "Retry-After: 60", nil}, {status: 200}}, status: 200, at: []time.Duration{0, 60100 * ms}},
		{name: "hostile Retry-After", steps: []step{{429, "Retry-After: 61", nil}, {status: 200}}, status: 429, at: []time.Duration{0}},
		{name: "hostile Retry-After beyond numbers", steps: []step{{429, "Retry-After: 999999999999999999999", nil}}, status: 429, at: []time.Duration{0}},
		{name: "a longer one allowed", opts: Options{MaxRetryAfter: time.Hour}, steps: []step{{429, "Retry-After: 600", nil}, {status: 200}}, status: 200, at: []time.Duration{0, 600*s + 100*ms}},
		{name: "500 is no invitation", steps: []step{{status: 500}}, status: 500, at: []time.Duration{0}},
		{name: "other statuses", opts: Options{Statuses: []int{403}}, steps: []step{{status: 403}, {status: 429}}, status: 429, at: []time.Duration{0, 100 * ms}},
		{name: "network error", steps: []step{{err: reset}, {status: 200}}, status: 200, at: []time.Duration{0, 100 * ms}},
		{name: "no such host", steps: []step{{err: &net.DNSError{IsNotFound: true}}}, at: []time.Duration{0}},
		{name: "lasting error", steps: []step{{err: errors.New("x509: certificate signed by unknown authority")}}, at: []time.Duration{0}},
		{name: "POST", method: "POST", steps: []step{{status: 429}}, status: 429, at: []time.Duration{0}},
		{name: "POST after a network error", method: "POST", opts: Options{RefusedIsSafe: true}, steps: []step{{err: reset}}, at: []time.Duration{0}},
		{name: "POST with a key", method: "POST", header: "Idempotency-Key: a", steps: []step{{status: 429}, {status: 200}}, status: 200, at: []time.Duration{0, 100 * ms}},
		{name: "POST where refused is safe", method: "POST", opts: Options{RefusedIsSafe: true}, steps: []step{{status: 429}, {status: 503}}, status: 503, at: []time.Duration{0, 100 * ms}},
		{name: "PUT", method: "PUT", steps: []step{{status: 503}, {status: 200}}, status: 200, at: []time.Duration{0, 100 * ms}},
		{name: "empty budget", opts: Options{Budget: NewBudget(1, 0)}, steps: []step{{status: 503}}, status: 503, at: []time.Duration{0, 100 * ms}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.opts.Backoff = plain
				next := &script{steps: test.steps}
				transport, err := NewTransport(next, test.opts)
				if err != nil {
					t.Fatal(err)
				}
				r := request(t, test.method, nil)
				if name, value, ok := strings.Cut(test.header, ": "); ok {
					r.Header.Set(name, value)
				}
				response, err := transport.RoundTrip(r)
				status := 0
				if err == nil {
					status = response.StatusCode
					if b, err := io.ReadAll(response.Body); string(b) != "answer" || err != nil {
						t.Errorf("body = %q %v, want %q", b, err, "answer")
					}
				}
				if status != test.status {
					t.Errorf("RoundTrip() = %d %v, want %d", status, err, test.status)
				}
				if !equal(next.at, test.at) {
					t.Errorf("attempts at %v, want %v", next.at, test.at)
				}
			})
		})
	}
}

func equal(a, b []time.Duration) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestBodiesAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &script{steps: []step{{status: 503}, {status: 503}, {status: 200}}}
		transport, err := NewTransport(next, Options{Backoff: plain})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(request(t, "PUT", strings.NewReader("hello"))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(next.bodies, ","); got != "hello,hello,hello" {
			t.Errorf("bodies = %s, want hello three times", got)
		}

		// A body that can be read once only is sent once only.
		next = &script{steps: []step{{status: 503}}}
		transport.next = next
		response, err := transport.RoundTrip(request(t, "PUT", io.MultiReader(strings.NewReader("once"))))
		if err != nil || response.StatusCode != 503 || len(next.at) != 1 {
			t.Errorf("RoundTrip(stream) = %v %v after %d attempts, want 503 after 1", response, err, len(next.at))
		}
	})
}

func TestTheCallersTimeBoundsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &script{steps: []step{{429, "Retry-After: 5", nil}}}
		transport, err := NewTransport(next, Options{Backoff: plain})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		response, err := transport.RoundTrip(request(t, "GET", nil).WithContext(ctx))
		if err != nil || response.StatusCode != 429 || time.Since(start) != 0 {
			t.Errorf("RoundTrip(4 s) = %v %v after %s, want 429 at once", response, err, time.Since(start))
		}

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		response, err = transport.RoundTrip(request(t, "GET", nil).WithContext(ctx))
		if !errors.Is(err, context.Canceled) || response != nil || time.Since(start) != 3*time.Second {
			t.Errorf("RoundTrip(cancelled) = %v %v after %s, want context.Canceled after 3s", response, err, time.Since(start))
		}
	})
}

func TestBudgetIsSharedAndRunsDry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &script{steps: []step{{status: 503}}}
		transport, err := NewTransport(next, Options{Backoff: plain})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err := transport.RoundTrip(request(t, "GET", nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(next.at); got != 1020 {
			t.Errorf("1000 calls to a server that is down made %d attempts, want 1020", got)
		}
		next.steps = []step{{status: 200}}
		for range 10 {
			if _, err := transport.RoundTrip(request(t, "GET", nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got := transport.opts.Budget.Left(); got != 2 {
			t.Errorf("Left() after 10 successes = %d, want 2", got)
		}
	})
}

func TestOutbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(1)))
		next := &script{steps: []step{{status: 200}}}
		transport, err := NewTransport(next, Options{Outbound: Outbound{Limiter: limiter, MaxWait: 2 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		send := func(what string, after time.Duration, held bool) {
			t.Helper()
			start := time.Now()
			_, err := transport.RoundTrip(request(t, "GET", nil))
			var limited *LimitedError
			if errors.Is(err, ErrLimited) != held || errors.As(err, &limited) != held || !held && err != nil {
				t.Errorf("%s: RoundTrip() = %v, want held back %t", what, err, held)
			}
			if got := time.Since(start); got != after {
				t.Errorf("%s: took %s, want %s", what, got, after)
			}
		}
		send("first", 0, false)
		send("second", time.Second, false)
		go func() {
			// Two that take the turns of the next two seconds.
			_, _ = limiter.Wait(t.Context(), "api.test")
			_, _ = limiter.Wait(t.Context(), "api.test")
		}()
		synctest.Wait()
		send("a turn exactly at MaxWait", 2*time.Second, false)
		if _, err := limiter.AllowN(t.Context(), "api.test", 1); err != nil {
			t.Fatal(err)
		}
		transport.opts.Outbound.MaxWait = -1
		send("no waiting", 0, true)
		transport.opts.Outbound.MaxWait = 0
		transport.opts.Cost = func(*http.Request) uint32 { return 2 }
		send("cost above the limit", 0, true)
	})
}

// failing store: what happens about which nothing can be decided.
type brokenStore struct{}

func (brokenStore) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	return caudal.ErrStore
}

func TestOutboundWithoutItsStore(t *testing.T) {
	limiter := caudal.Must(caudal.New(brokenStore{}, caudal.PerSecond(1)))
	o := Outbound{Limiter: limiter}
	if err := o.Wait(t.Context(), "k", 1); err != nil {
		t.Errorf("Wait() = %v, want nil: an outbound limit fails open", err)
	}
	o.FailClosed = true
	if err := o.Wait(t.Context(), "k", 1); !errors.Is(err, ErrLimited) || !errors.Is(err, caudal.ErrStore) {
		t.Errorf("Wait() = %v, want ErrLimited and ErrStore with FailClosed", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait(cancelled) = %v, want context.Canceled", err)
	}
}

func TestOutboundGivesBackATurnNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(1).WithQueue(5, 0)))
		o := Outbound{Limiter: limiter, MaxWait: -1}
		if err := o.Wait(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := o.Wait(t.Context(), "k", 1); !errors.Is(err, ErrLimited) {
				t.Fatalf("Wait() = %v, want ErrLimited", err)
			}
		}
		if d, err := limiter.Allow(t.Context(), "k"); err != nil || d.Delay != time.Second {
			t.Errorf("Allow() = %+v %v, want the next turn, in 1s", d, err)
		}
	})
}

func TestNewTransportRefuses(t *testing.T) {
	for _, o := range []Options{{MaxAttempts: -1}, {MaxRetryAfter: -1}, {Backoff: Backoff{Base: -1}}} {
		if _, err := NewTransport(nil, o); err == nil {
			t.Errorf("NewTransport(%+v) = nil error, want one", o)
		}
	}
}

func TestKeptBodies(t *testing.T) {
	long := strings.Repeat("x", maxKept+10)
	cut := errors.New("cut off")
	for _, test := range []struct {
		body io.Reader
		want string
		err  error
	}{
		{strings.NewReader("short"), "short", nil},
		{strings.NewReader(long), long, nil},
		{io.MultiReader(strings.NewReader("half"), failing{cut}), "half", cut},
	} {
		r := &http.Response{Body: io.NopCloser(test.body)}
		keep(r)
		if got, err := io.ReadAll(r.Body); string(got) != test.want || err != test.err {
			t.Errorf("kept body = %d bytes, %v, want %d bytes, %v", len(got), err, len(test.want), test.err)
		}
	}
}

// stuck is a body that begins and never ends, until it is closed.
type stuck struct {
	begun  bool
	closed chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		return copy(p, "begun"), nil
	}
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *stuck) Close() error { close(s.closed); return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnAnswerThatNeverEndsHoldsNoRetry: a server in trouble sends the header of a
// 503 and stands still; the next attempt comes at its time all the same.
func TestAnAnswerThatNeverEndsHoldsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		next := roundTrip(func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return &http.Response{StatusCode: 503, Header: http.Header{}, Body: &stuck{closed: make(chan struct{})}}, nil
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
		})
		tr, err := NewTransport(next, Options{Backoff: Backoff{Base: time.Second, Jitter: NoJitter}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example/", nil)
		res, err := tr.RoundTrip(r)
		if err != nil || res.StatusCode != 200 || time.Since(start) != time.Second {
			t.Errorf("RoundTrip = %v, %v after %s, want 200 after 1s", res, err, time.Since(start))
		}
	})
}
