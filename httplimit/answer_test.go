package httplimit_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// results is an observer that keeps what it is told.
type results struct{ list []string }

func (r *results) Decided(_ string, l *caudal.Compiled, result httplimit.Result) {
	r.list = append(r.list, l.Name()+" "+result.String())
}
func (r *results) Failed(_ string, err error) { r.list = append(r.list, err.Error()) }

// Answer says what a Middleware of the same limit says: status, headers and body.
func TestAnswerIsTheMiddlewares(t *testing.T) {
	for _, o := range []httplimit.Options{
		{}, {Families: httplimit.Legacy, Reset: httplimit.ResetDelta}, {Families: httplimit.Draft}, {Families: httplimit.NoFamily}, {DryRun: true},
	} {
		o.Clock = stopped{}
		seen := [2]*results{{}, {}}
		limiters := [2]*caudal.Limiter{}
		for i := range limiters {
			limiters[i] = caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped{}}), caudal.PerMinute(2), caudal.WithName("api")))
		}
		o.Observer = seen[0]
		m, err := httplimit.New(limiters[0], httplimit.ByIP, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Observer = seen[1]
		for call := range 3 {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Origin", "https://app.example")
			want, got := httptest.NewRecorder(), httptest.NewRecorder()
			m.Wrap(api).ServeHTTP(want, r)
			d, err := limiters[1].Allow(context.Background(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if httplimit.Answer(got, r, limiters[1], d, o) {
				api(got, r)
			}
			if got.Code != want.Code || got.Body.String() != want.Body.String() {
				t.Errorf("call %d, %+v: Answer gave %d %q, the middleware %d %q", call, o, got.Code, got.Body, want.Code, want.Body)
			}
			for name, values := range want.Header() {
				if !slices.Equal(got.Header()[name], values) {
					t.Errorf("call %d, %+v: Answer gave %s: %q, the middleware %q", call, o, name, got.Header()[name], values)
				}
			}
			if len(got.Header()) != len(want.Header()) {
				t.Errorf("call %d, %+v: Answer gave the headers %v, the middleware %v", call, o, got.Header(), want.Header())
			}
		}
		if !slices.Equal(seen[0].list, seen[1].list) {
			t.Errorf("%+v: Answer told the observer %q, the middleware %q", o, seen[1].list, seen[0].list)
		}
	}
}

func TestAnswerOfPeekIsNotCounted(t *testing.T) {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(2)))
	d, err := limiter.Peek(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	seen := &results{}
	w := httptest.NewRecorder()
	if !httplimit.Answer(w, httptest.NewRequest("GET", "/", nil), limiter, d, httplimit.Options{Observer: seen}) || len(seen.list) > 0 {
		t.Errorf("Answer to a peek told the observer %q, want nothing", seen.list)
	}
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "2" {
		t.Errorf("X-RateLimit-Remaining after a peek = %q, want 2", got)
	}
}

// A store that is gone with the policy deny is no fault of the client: 503.
func TestAnswerUnavailable(t *testing.T) {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(2)))
	w := httptest.NewRecorder()
	if httplimit.Answer(w, httptest.NewRequest("GET", "/", nil), limiter, caudal.Decision{Unavailable: true, Degraded: true}, httplimit.Options{}) || w.Code != 503 {
		t.Errorf("Answer(unavailable) wrote %d, want 503 and false", w.Code)
	}
}
