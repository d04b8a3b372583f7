package metrics

import (
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
)

const (
	roomy = `
domain: shop
descriptors:
  - key: header:X-Key
    rate_limit: { unit: second, requests_per_unit: 4000000000 }
`
	tight = `
domain: shop
descriptors:
  - key: header:X-Key
    rate_limit: { unit: day, requests_per_unit: 1, algorithm: fixed_window }
`
)

// deciding gives what decides by the rules in memory, with metrics or without.
func deciding(tb testing.TB, rules string, with bool) Decider {
	tb.Helper()
	domain := load(tb, rules)
	who, err := identity.New(identity.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	store := memstore.New(memstore.Options{MaxKeys: 1000})
	tb.Cleanup(func() { _ = store.Close() })
	m := New(Options{})
	var o httplimit.Options
	if with {
		m.SetRules(domain, "abc", time.Now())
		o.Observer = m
	}
	d, err := httplimit.NewDecider(domain, store, who, o)
	if err != nil {
		tb.Fatal(err)
	}
	if with {
		return m.Time(d)
	}
	return d
}

func someone() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Key", "k-123456789")
	return r
}

// BenchmarkDecision is a whole decision about a request by one rule, in memory:
// with metrics and the search for the busiest keys beside the one without, in turns,
// so that both see the same machine. It gives the medians of both, and what is added
// as a share of what may be: 15 % or 10 ns, whichever is more.
func BenchmarkDecision(b *testing.B) {
	for _, what := range []struct{ name, rules string }{{"allowed", roomy}, {"denied", tight}} {
		b.Run(what.name, func(b *testing.B) {
			var ways [2]Decider
			r := someone()
			for i := range ways {
				ways[i] = deciding(b, what.rules, i == 1)
				for range 1000 {
					ways[i].Decide(r).Release()
				}
			}
			const batch = 500
			var took [2][]float64
			for b.Loop() {
				for i, d := range ways {
					start := time.Now()
					for range batch {
						d.Decide(r).Release()
					}
					took[i] = append(took[i], float64(time.Since(start))/batch)
				}
			}
			without, with := median(took[0]), median(took[1])
			b.ReportMetric(0, "ns/op") // of both together says nothing
			b.ReportMetric(without, "without-ns")
			b.ReportMetric(with, "with-ns")
			b.ReportMetric((with-without)/max(10, 0.15*without), "of-allowance")
		})
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// TestDecisionsWithMetricsAllocateNothing is of whole decisions. The race detector
// makes a sync.Pool forget at random, so it says nothing then;
// TestDetailedAllocatesNothing does, of what metrics add.
func TestDecisionsWithMetricsAllocateNothing(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools allocate")
	}
	for name, rules := range map[string]string{"allowed": roomy, "denied": tight} {
		d, r := deciding(t, rules, true), someone()
		for range 300 { // past those who are asked who they are
			d.Decide(r).Release()
		}
		if n := testing.AllocsPerRun(1000, func() { d.Decide(r).Release() }); n != 0 {
			t.Errorf("a decision (%s) with metrics allocates %v times, want 0", name, n)
		}
	}
}
