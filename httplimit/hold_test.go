package httplimit

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// departures runs calls through a handler in a bubble of fake time and remembers
// when each reached it.
type departures struct {
	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func (d *departures) ServeHTTP(http.ResponseWriter, *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = append(d.at, time.Since(d.start).Round(time.Millisecond))
}

func ms(list ...int) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, n := range list {
		out[i] = time.Duration(n) * time.Millisecond
	}
	return out
}

func send(ctx context.Context, h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	return w.Code
}

func TestCallsAreHeldUntilTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &departures{start: time.Now()}
		h := one(t, caudal.PerSecond(10).WithQueue(3, 0), ByIP, Options{}).Wrap(seen)
		var wg sync.WaitGroup
		codes := make([]int, 6)
		for i := range codes {
			wg.Go(func() { codes[i] = send(t.Context(), h) })
		}
		wg.Wait()
		slices.Sort(codes)
		if want := []int{200, 200, 200, 200, 429, 429}; !reflect.DeepEqual(codes, want) {
			t.Errorf("6 calls at once, queue 3: statuses %v, want %v", codes, want)
		}
		if want := ms(0, 100, 200, 300); !reflect.DeepEqual(seen.at, want) {
			t.Errorf("departures %v, want %v", seen.at, want)
		}
	})
}

func TestC92ClientsThatHangUpFreeTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &departures{start: time.Now()}
		h := one(t, caudal.PerSecond(10).WithQueue(20, 0), ByIP, Options{}).Wrap(seen)
		var wg sync.WaitGroup
		for i := range 20 { // one after another, so that turn i is call i's
			ctx, hangUp := context.WithCancel(t.Context())
			wg.Go(func() { send(ctx, h) })
			synctest.Wait()
			if i >= 5 {
				time.AfterFunc(210*time.Millisecond, hangUp)
			} else {
				defer hangUp()
			}
		}
		time.Sleep(250 * time.Millisecond) // fake time: calls 0 to 2 have left, 15 clients have hung up
		for range 3 {
			wg.Go(func() { send(t.Context(), h) })
			synctest.Wait()
		}
		wg.Wait()
		// The turns of 5 to 19 went to whoever came later, at once.
		if want := ms(0, 100, 200, 300, 400, 500, 600, 700); !reflect.DeepEqual(seen.at, want) {
			t.Errorf("departures %v, want %v", seen.at, want)
		}
	})
}

func TestHangingUpRefundsTheOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := rules(t, `
domain: d
descriptors:
  - key: method
    rate_limit: { name: queue, unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue: 5 }
  - key: remote_address
    rate_limit: { name: quota, unit: day, requests_per_unit: 10, algorithm: fixed_window }
`, nil, Options{})
		h := d.Wrap(hello)
		send(t.Context(), h)
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, hangUp)
		if code := send(ctx, h); code != 503 {
			t.Errorf("the call that was given up: status %d, want 503", code)
		}
		o := d.Decide(httptest.NewRequest("GET", "/", nil))
		defer o.Release()
		if got := o.Decisions[1].Remaining; got != 8 {
			t.Errorf("remaining of the quota after 1 call, 1 given up, 1 now = %d, want 8", got)
		}
		if got := o.Verdict.Delay; got != 700*time.Millisecond {
			t.Errorf("delay = %v, want 700ms: the turn that was given up", got)
		}
	})
}

func TestDelayPastTheDeadlineIsDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		h := one(t, caudal.PerSecond(1).WithQueue(5, 0), ByIP, Options{Observer: seen}).Wrap(hello)
		send(t.Context(), h)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" || time.Since(start) != 0 {
			t.Errorf("turn in 1s, deadline in 500ms: status %d, Retry-After %s, after %v, want 429, 1, at once", w.Code, w.Header().Get("Retry-After"), time.Since(start))
		}
		if got := w.Header().Get("X-RateLimit-Remaining"); got != "5" {
			t.Errorf("X-RateLimit-Remaining = %s, want 5: nothing was charged", got)
		}
		if want := map[string]int{" allowed": 1, " denied": 1}; !reflect.DeepEqual(seen.counts, want) {
			t.Errorf("counts = %v, want %v", seen.counts, want)
		}
		// The turn is free for the next.
		if code := send(t.Context(), h); code != 200 || time.Since(start) != time.Second {
			t.Errorf("the next call: status %d after %v, want 200 after 1s", code, time.Since(start))
		}
	})
}

func TestGRPCDeadline(t *testing.T) {
	for s, want := range map[string]time.Duration{"100m": 100 * time.Millisecond, "2S": 2 * time.Second, "1M": time.Minute, "3H": 3 * time.Hour, "5u": 5 * time.Microsecond, "7n": 7} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Grpc-Timeout", s)
		if got, ok := grpcTimeout(r); !ok || got != want {
			t.Errorf("grpcTimeout(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "S", "1", "-1S", "1x", "123456789S", "99999999H"} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Grpc-Timeout", s)
		if got, ok := grpcTimeout(r); ok {
			t.Errorf("grpcTimeout(%q) = %v, want none", s, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := one(t, caudal.PerSecond(1).WithQueue(5, 0), ByIP, Options{}).Wrap(hello)
		grpc := []string{"Content-Type", "application/grpc", "Grpc-Timeout", "1S"}
		call(h, "POST", "/", grpc...)
		// The turn comes in 1s, and there would be no time left to use it.
		wantHeaders(t, "second call", call(h, "POST", "/", grpc...).Header, map[string]string{"Grpc-Status": "8", "Grpc-Retry-Pushback-Ms": "1000"})
	})
}

func TestHeldBodyIsHandedOnWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		h := one(t, caudal.PerSecond(1).WithQueue(5, 0), ByIP, Options{}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got = append(got, string(b))
		}))
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader("user=a&password=b")))
		}
		if want := []string{"user=a&password=b", "user=a&password=b"}; !reflect.DeepEqual(got, want) {
			t.Errorf("bodies %q, want %q", got, want)
		}
	})
}

// TestHangingUpIsSeenBeforeTheBodyIsRead is over a real connection: net/http
// watches a connection only once the body has been read.
func TestHangingUpIsSeenBeforeTheBodyIsRead(t *testing.T) {
	limit := one(t, caudal.PerMinute(1).WithQueue(1, 0), ByIP, Options{})
	held, gone := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := limit.Decide(r)
		defer o.Release()
		if o.Verdict.Delay > 0 {
			close(held) // only then is there a turn to give back
		}
		if !o.Hold(r) {
			close(gone)
		}
	}))
	defer srv.Close()
	post := func(ctx context.Context) error {
		r, _ := http.NewRequestWithContext(ctx, "POST", srv.URL, strings.NewReader("some body"))
		res, err := srv.Client().Do(r)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := post(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	go func() {
		select {
		case <-held:
		case <-time.After(30 * time.Second):
		}
		hangUp()
	}()
	if err := post(ctx); err == nil {
		t.Fatal("a call whose turn comes in a minute was answered")
	}
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Fatal("the client hung up and kept its turn")
	}
}

func TestBodyThatBreaksOffFreesTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := one(t, caudal.PerSecond(1).WithQueue(5, 0), ByIP, Options{})
		h := limit.Wrap(hello)
		send(t.Context(), h)
		start := time.Now()
		in, out := io.Pipe()
		time.AfterFunc(100*time.Millisecond, func() { out.CloseWithError(io.ErrUnexpectedEOF) })
		r := httptest.NewRequest("POST", "/", in)
		r.ContentLength = 10
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 503 || time.Since(start) != 100*time.Millisecond {
			t.Errorf("a body that broke off after 100ms: status %d after %v, want 503 after 100ms", w.Code, time.Since(start))
		}
		if code := send(t.Context(), h); code != 200 || time.Since(start) != time.Second {
			t.Errorf("the next call: status %d after %v, want 200 after 1s", code, time.Since(start))
		}
	})
}

func TestSlowBodyDoesNotMoveTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var left, read time.Duration
		var got string
		h := one(t, caudal.PerSecond(1).WithQueue(5, 0), ByIP, Options{}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			left = time.Since(start)
			b, _ := io.ReadAll(r.Body)
			got, read = string(b), time.Since(start)
		}))
		send(t.Context(), h)
		in, out := io.Pipe()
		time.AfterFunc(3*time.Second, func() { _, _ = io.WriteString(out, "hello") })
		r := httptest.NewRequest("POST", "/", in)
		r.ContentLength = 5
		h.ServeHTTP(httptest.NewRecorder(), r)
		if left != time.Second || read != 3*time.Second || got != "hello" {
			t.Errorf("a body that takes 3s: left after %v, read %q after %v, want 1s, hello, 3s", left, got, read)
		}
	})
}
