package envoyrls_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/memstore"
)

// queueRules: ten a second leave, two may wait; and a limit beside the queue.
const queueRules = `domain: d
descriptors:
- {key: q, rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue: 2}}
- {key: other, rate_limit: {unit: day, requests_per_unit: 9, algorithm: fixed_window}}
- {key: long, rate_limit: {unit: minute, requests_per_unit: 12, algorithm: leaky_bucket, queue: 9}}
`

// held runs a test in a bubble, where time passes only when everybody waits.
func held(t *testing.T, o envoyrls.Options, f func(t *testing.T, s *envoyrls.Service)) {
	synctest.Test(t, func(t *testing.T) {
		o.Logger = quiet
		s, err := envoyrls.New(parse(t, o.Compat, queueRules), memstore.New(memstore.Options{}), o)
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
	})
}

// call asks and gives the overall code and how long the answer took.
func call(t *testing.T, s *envoyrls.Service, ctx context.Context, req *pb.RateLimitRequest) (string, time.Duration) {
	start := time.Now()
	answer, err := s.ShouldRateLimit(ctx, req)
	took := time.Since(start)
	if err != nil {
		return status.Code(err).String(), took
	}
	return answer.OverallCode.String(), took
}

func wantCall(t *testing.T, s *envoyrls.Service, ctx context.Context, entries, code string, took time.Duration) {
	t.Helper()
	if got, d := call(t, s, ctx, one(entries)); got != code || d != took {
		t.Errorf("%s: %s after %s, want %s after %s", entries, got, d, code, took)
	}
}

func TestAnswersAreHeldUntilTheTurn(t *testing.T) {
	held(t, envoyrls.Options{}, func(t *testing.T, s *envoyrls.Service) {
		ctx := t.Context()
		type result struct {
			code string
			took time.Duration
		}
		results := make(chan result, 5)
		for range 5 {
			go func() {
				code, took := call(t, s, ctx, one("q=x"))
				results <- result{code, took}
			}()
			synctest.Wait()
		}
		counts := map[result]int{}
		for range 5 {
			counts[<-results]++
		}
		for r, n := range map[result]int{{"OK", 0}: 1, {"OK", 100 * time.Millisecond}: 1, {"OK", 200 * time.Millisecond}: 1, {"OVER_LIMIT", 0}: 2} {
			if counts[r] != n {
				t.Errorf("answers %v: %d, want %d; all: %v", r, counts[r], n, counts)
			}
		}
	})
}

func TestTurnsBeyondTheDeadlineAreDeniedAtOnceAndFree(t *testing.T) {
	held(t, envoyrls.Options{}, func(t *testing.T, s *envoyrls.Service) {
		wantCall(t, s, t.Context(), "q=x", "OK", 0)
		short, cancel := context.WithTimeout(t.Context(), 104*time.Millisecond) // its turn is in 100 ms
		defer cancel()
		answer, err := s.ShouldRateLimit(short, request(d("q=x"), d("other=x")))
		if err != nil {
			t.Fatal(err)
		}
		want := "OVER_LIMIT: OVER_LIMIT 10/SECOND left 2 reset 1s; OK 9/DAY left 9 reset"
		if got := render(answer); !strings.HasPrefix(got, want) {
			t.Errorf("answer = %s, want %s", got, want)
		}
		enough, cancel := context.WithTimeout(t.Context(), 105*time.Millisecond)
		defer cancel()
		wantCall(t, s, enough, "q=x", "OK", 100*time.Millisecond)
	})
}

func TestWithoutDeadlineMaxHoldBounds(t *testing.T) {
	held(t, envoyrls.Options{}, func(t *testing.T, s *envoyrls.Service) {
		wantCall(t, s, t.Context(), "long=x", "OK", 0)
		wantCall(t, s, t.Context(), "long=x", "OVER_LIMIT", 0) // its turn is in 5 s
	})
	held(t, envoyrls.Options{MaxHold: 5 * time.Second}, func(t *testing.T, s *envoyrls.Service) {
		wantCall(t, s, t.Context(), "long=x", "OK", 0)
		wantCall(t, s, t.Context(), "long=x", "OK", 5*time.Second)
	})
}

func TestCallerThatHangsUpGivesItsTurnBack(t *testing.T) {
	held(t, envoyrls.Options{}, func(t *testing.T, s *envoyrls.Service) {
		wantCall(t, s, t.Context(), "q=x", "OK", 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string)
		go func() {
			code, _ := call(t, s, ctx, request(d("q=x"), d("other=x")))
			done <- code
		}()
		synctest.Wait()
		cancel()
		if code := <-done; code != codes.Canceled.String() {
			t.Errorf("cancelled call = %s, want Canceled", code)
		}
		answer, err := s.ShouldRateLimit(t.Context(), request(hits("other=x", 0)))
		if err != nil || answer.Statuses[0].LimitRemaining != 9 {
			t.Errorf("the other limit has %v left, %v, want 9", answer, err)
		}
		wantCall(t, s, t.Context(), "q=x", "OK", 100*time.Millisecond) // in the turn that was given back
	})
}

// TestEachByItselfKeepsShortQueues: with Compat only what cannot be held in time
// is denied.
func TestEachByItselfKeepsShortQueues(t *testing.T) {
	held(t, envoyrls.Options{Compat: true}, func(t *testing.T, s *envoyrls.Service) {
		both := request(d("q=x"), d("long=x"), d("other=x"))
		if code, took := call(t, s, t.Context(), both); code != "OK" || took != 0 {
			t.Fatalf("first call = %s after %s, want OK at once", code, took)
		}
		answer, err := s.ShouldRateLimit(t.Context(), both)
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, st := range answer.Statuses {
			codes = append(codes, st.Code.String())
		}
		if got := strings.Join(codes, " "); got != "OK OVER_LIMIT OK" {
			t.Errorf("statuses = %s, want OK OVER_LIMIT OK", got)
		}
		if left := answer.Statuses[2].LimitRemaining; left != 7 {
			t.Errorf("the window has %d left, want 7: it is charged by itself", left)
		}
	})
}

// TestTimesLeaveHoldingOut: a decision is timed once, without the time for which
// its answer is held.
func TestTimesLeaveHoldingOut(t *testing.T) {
	var times []time.Duration
	held(t, envoyrls.Options{Took: func(d time.Duration) { times = append(times, d) }}, func(t *testing.T, s *envoyrls.Service) {
		wantCall(t, s, t.Context(), "q=1", "OK", 0)
		wantCall(t, s, t.Context(), "q=1", "OK", 100*time.Millisecond)
	})
	if len(times) != 2 || times[1] != 0 {
		t.Errorf("two decisions, the second held for 100 ms, are timed as %v, want two times of 0", times)
	}
}
