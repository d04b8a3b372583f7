package grpcretry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/retry"
	"github.com/caudal-dev/caudal/retry/grpcretry"
)

// step is an answer of a server.
type step struct {
	code     codes.Code
	retry    time.Duration // RetryInfo, when not 0
	pushback string        // the trailer, when not empty
}

// script is a connection that answers as it is told, and remembers when it was
// asked.
type script struct {
	steps []step
	start time.Time
	at    []time.Duration
}

func (s *script) invoke(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
	st := s.steps[min(len(s.at), len(s.steps)-1)]
	s.at = append(s.at, time.Since(s.start))
	for _, o := range opts {
		if t, ok := o.(grpc.TrailerCallOption); ok && st.pushback != "" {
			*t.TrailerAddr = metadata.Pairs("grpc-retry-pushback-ms", st.pushback)
		}
	}
	answer := status.New(st.code, "refused")
	if st.retry != 0 {
		answer, _ = answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(st.retry)})
	}
	return answer.Err()
}

var plain = retry.Backoff{Base: 100 * time.Millisecond, Jitter: retry.NoJitter}

func TestAttempts(t *testing.T) {
	const ms = time.Millisecond
	const exhausted, unavailable = codes.ResourceExhausted, codes.Unavailable
	twice := func(string) bool { return true }
	tests := []struct {
		name  string
		opts  grpcretry.Options
		steps []step
		want  codes.Code
		at    []time.Duration
	}{
		{"passes", grpcretry.Options{}, []step{{}}, codes.OK, []time.Duration{0}},
		{"RetryInfo is a floor", grpcretry.Options{}, []step{{exhausted, 2 * time.Second, ""}, {}}, codes.OK, []time.Duration{0, 2100 * ms}},
		{"pushback is a floor", grpcretry.Options{}, []step{{exhausted, 0, "3000"}, {}}, codes.OK, []time.Duration{0, 3100 * ms}},
		{"the longer of both", grpcretry.Options{}, []step{{exhausted, 2 * time.Second, "500"}, {}}, codes.OK, []time.Duration{0, 2100 * ms}},
		{"pushback that forbids", grpcretry.Options{}, []step{{exhausted, time.Second, "-1"}}, exhausted, []time.Duration{0}},
		{"pushback that is no number", grpcretry.Options{}, []step{{exhausted, time.Second, "soon"}}, exhausted, []time.Duration{0}},
		{"message too large", grpcretry.Options{}, []step{{exhausted, 0, ""}}, exhausted, []time.Duration{0}},
		{"hostile RetryInfo", grpcretry.Options{}, []step{{exhausted, 1000 * time.Hour, ""}}, exhausted, []time.Duration{0}},
		{"attempts end", grpcretry.Options{MaxAttempts: 2}, []step{{exhausted, time.Second, ""}}, exhausted, []time.Duration{0, 1100 * ms}},
		{"empty budget", grpcretry.Options{Budget: &retry.Budget{}}, []step{{exhausted, time.Second, ""}}, exhausted, []time.Duration{0}},
		{"UNAVAILABLE", grpcretry.Options{}, []step{{unavailable, time.Second, ""}}, unavailable, []time.Duration{0}},
		{"UNAVAILABLE, idempotent", grpcretry.Options{Idempotent: twice}, []step{{unavailable, 0, ""}, {}}, codes.OK, []time.Duration{0, 100 * ms}},
		{"other codes", grpcretry.Options{Idempotent: twice}, []step{{codes.Internal, time.Second, ""}}, codes.Internal, []time.Duration{0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.opts.Backoff = plain
				on, err := grpcretry.New(test.opts)
				if err != nil {
					t.Fatal(err)
				}
				s := &script{steps: test.steps, start: time.Now()}
				if err := on.Unary(t.Context(), "/s/m", nil, nil, nil, s.invoke); status.Code(err) != test.want {
					t.Errorf("Unary() = %v, want %s", err, test.want)
				}
				if len(s.at) != len(test.at) {
					t.Fatalf("attempts at %v, want %v", s.at, test.at)
				}
				for i := range s.at {
					if s.at[i] != test.at[i] {
						t.Errorf("attempt %d at %s, want %s", i, s.at[i], test.at[i])
					}
				}
			})
		})
	}
}

func TestTheCallersTimeBoundsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on, err := grpcretry.New(grpcretry.Options{Backoff: plain})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{steps: []step{{codes.ResourceExhausted, 5 * time.Second, ""}}, start: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := on.Unary(ctx, "/s/m", nil, nil, nil, s.invoke); status.Code(err) != codes.ResourceExhausted || time.Since(s.start) != 0 {
			t.Errorf("Unary(4 s) = %v after %s, want ResourceExhausted at once", err, time.Since(s.start))
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if err := on.Unary(ctx, "/s/m", nil, nil, nil, s.invoke); status.Code(err) != codes.Canceled || time.Since(s.start) != time.Second {
			t.Errorf("Unary(cancelled) = %v after %s, want Canceled after 1s", err, time.Since(s.start))
		}
	})
}

func TestOutbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(1)))
		on, err := grpcretry.New(grpcretry.Options{Outbound: retry.Outbound{Limiter: limiter, MaxWait: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{steps: []step{{}}, start: time.Now()}
		for range 2 {
			if err := on.Unary(t.Context(), "/s/m", nil, nil, nil, s.invoke); err != nil {
				t.Errorf("Unary() = %v, want nil", err)
			}
		}
		if time.Since(s.start) != time.Second {
			t.Errorf("two calls took %s, want 1s", time.Since(s.start))
		}
		open := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, nil
		}
		if _, err := on.Stream(t.Context(), nil, nil, "/s/m", open); err != nil || time.Since(s.start) != 2*time.Second {
			t.Errorf("Stream() = %v at %s, want nil at 2s", err, time.Since(s.start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := on.Unary(ctx, "/s/m", nil, nil, nil, s.invoke); !errors.Is(err, retry.ErrLimited) {
			t.Errorf("Unary(1 ms) = %v, want ErrLimited", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []grpcretry.Options{{MaxAttempts: -1}, {MaxRetryAfter: -1}, {Backoff: retry.Backoff{Base: -1}}} {
		if _, err := grpcretry.New(o); err == nil {
			t.Errorf("New(%+v) = nil error, want one", o)
		}
	}
}
