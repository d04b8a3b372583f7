package retry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// pipes is a listener whose connections are pipes in memory, which a bubble of
// fake time can see through.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// limited is an HTTP server with a limit in front, and its count of attempts.
type limited struct {
	pipes    *pipes
	server   *http.Server
	attempts atomic.Int64
}

func serveLimited(t *testing.T, limit caudal.Limit) *limited {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), limit))
	l := &limited{pipes: newPipes()}
	l.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.attempts.Add(1)
		d, err := limiter.Allow(r.Context(), "all")
		switch {
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		case !d.Allowed:
			w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = io.WriteString(w, "ok")
		}
	})}
	served := make(chan error, 1)
	go func() { served <- l.server.Serve(l.pipes) }()
	t.Cleanup(func() {
		_ = l.server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve() = %v, want http.ErrServerClosed", err)
		}
	})
	return l
}

func (l *limited) transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 50, DialContext: func(context.Context, string, string) (net.Conn, error) { return l.pipes.dial() }}
}

// crowd is 50 goroutines, 20 calls each, and what became of them.
func crowd(t *testing.T, client func(i int) *http.Client) (failed int64) {
	var wg sync.WaitGroup
	var failures atomic.Int64
	for i := range 50 {
		c := client(i)
		wg.Go(func() {
			for range 20 {
				response, err := c.Get("http://api.test/")
				if err != nil {
					t.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return failures.Load()
}

const crowdCalls = 50 * 20

func TestACrowdThatSharesItsTransportNeverMeetsThe429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveLimited(t, caudal.PerSecond(10))
		below := server.transport()
		defer below.CloseIdleConnections()
		limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(10)))
		transport, err := NewTransport(below, Options{Outbound: Outbound{Limiter: limiter}})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		start := time.Now()
		failed := crowd(t, func(int) *http.Client { return client })
		attempts := server.attempts.Load()
		t.Logf("shared: %d calls, %d failed, %d attempts (%.3f a call), %s of fake time",
			crowdCalls, failed, attempts, float64(attempts)/crowdCalls, time.Since(start))
		if failed > 0 || attempts*10 >= crowdCalls*13 {
			t.Errorf("%d of %d calls failed, %d attempts; want none, under 1.3 a call", failed, crowdCalls, attempts)
		}
		if took := time.Since(start); took < 99*time.Second || took > 105*time.Second {
			t.Errorf("took %s, want about the 99 s that 10/s with a burst of 10 takes", took)
		}
	})
}

// TestACrowdOfStrangers reports what clients that do not know each other can do:
// each obeys Retry-After, but nobody shares a limiter. With the defaults calls fail,
// because the budget stops retries that have too few successes to show for.
func TestACrowdOfStrangers(t *testing.T) {
	for _, jitter := range []Jitter{FullJitter, NoJitter} {
		for _, patient := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				server := serveLimited(t, caudal.PerSecond(10))
				below := server.transport()
				defer below.CloseIdleConnections()
				o := Options{Backoff: Backoff{Jitter: jitter}}
				name := "with the defaults"
				if patient {
					o.MaxAttempts, o.Budget = 1000, NewBudget(100_000, 1)
					name = "patient"
				}
				start := time.Now()
				failed := crowd(t, func(int) *http.Client {
					transport, err := NewTransport(below, o)
					if err != nil {
						t.Fatal(err)
					}
					return &http.Client{Transport: transport}
				})
				n := server.attempts.Load()
				t.Logf("independent, %s, jitter %s: %d calls, %d failed, %d attempts (%.2f a call), %s of fake time",
					name, jitter, crowdCalls, failed, n, float64(n)/crowdCalls, time.Since(start).Round(time.Second))
				if patient && failed > 0 {
					t.Errorf("%d calls failed, want none of patient clients", failed)
				}
			})
		}
	}
}
