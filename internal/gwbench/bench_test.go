package gwbench

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRunMeasuresBothInBothLoops(t *testing.T) {
	var asked [2]atomic.Int64
	var targets [2]Target
	for i := range targets {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			if i == 1 && strings.HasSuffix(r.Header.Get("X-Api-Key"), "-1") {
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}))
		t.Cleanup(s.Close)
		targets[i] = Target{Name: []string{"without", "with"}[i], Address: s.Listener.Addr().String(), PID: os.Getpid()}
	}
	results, err := Run(t.Context(), Options{Without: targets[0], With: targets[1], Callers: 2, Keys: 2, Rate: 200, Rounds: 1, Slice: 100 * time.Millisecond})
	if err != nil || len(results) != 4 {
		t.Fatalf("Run = %d results, %v; want 4", len(results), err)
	}
	for i, r := range results {
		if r.Requests == 0 || r.Errors != 0 || r.P50 <= 0 || r.P999 < r.P50 {
			t.Errorf("result %d = %+v", i, r)
		}
		if denied := r.Denied > 0; denied && i%2 == 0 {
			t.Errorf("result %d = %+v, want none denied without limits", i, r)
		}
	}
	if results[1].Denied == 0 {
		t.Errorf("with limits = %+v, want some denied", results[1])
	}
	if open := results[2]; open.Loop != "open" || open.Requests != 20 {
		t.Errorf("open loop of 200/s for 100 ms = %+v, want 20 requests", open)
	}
	var b strings.Builder
	if err := Print(&b, results); err != nil || strings.Count(b.String(), "added") != 2 {
		t.Errorf("Print = %v:\n%s", err, &b)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, o := range []Options{
		{},
		{Without: Target{Address: "a"}, With: Target{Address: "b"}, Callers: -1},
		{Without: Target{Address: "a"}, With: Target{Address: "b"}, Rate: -1},
		{Without: Target{Address: "127.0.0.1:0"}, With: Target{Address: "127.0.0.1:0"}},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("Run(%+v) = nil error", o)
		}
	}
}
