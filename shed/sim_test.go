package shed_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// upstream is a server of fixed capacity: so many workers, and a queue without
// end in front of them, as most servers have.
type upstream struct {
	n       int // workers
	service time.Duration
	even    bool // every call takes the same time; else exponentially distributed
	workers chan struct{}
}

func (u *upstream) capacity() float64 { return float64(u.n) / u.service.Seconds() }

func (u *upstream) serve(took time.Duration) {
	u.workers <- struct{}{}
	time.Sleep(took)
	<-u.workers
}

// source is a stream of calls at a rate in shares of the upstream's capacity; a
// load changes it over time.
type source struct {
	call  shed.Call
	share float64
}

// tally is what became of a source's calls.
type tally struct {
	offered, done float64
	latencies     []time.Duration
}

func (t *tally) rate() float64 {
	if t.offered == 0 {
		return 1
	}
	return t.done / t.offered
}

func (t *tally) p99() time.Duration {
	if len(t.latencies) == 0 {
		return 0
	}
	slices.Sort(t.latencies)
	return t.latencies[len(t.latencies)*99/100]
}

// run is a simulation on fake time.
type run struct {
	upstream *upstream
	options  shed.Options
	load     func(second float64) float64 // of all sources together, in capacities
	warm     time.Duration                // not counted
	length   time.Duration
	each     func(second int, s *shed.Shedder, tallies []tally) // after each second
}

// simulate offers calls to an upstream behind a shedder, at random instants from a
// fixed seed, and counts what becomes of them.
func (r run) simulate(t *testing.T, sources []source) []tally {
	t.Helper()
	tallies := make([]tally, len(sources))
	synctest.Test(t, func(t *testing.T) {
		r.upstream.workers = make(chan struct{}, r.upstream.n) // of this bubble
		s, err := shed.New(r.options)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(7, 11))
		sum := 0.0
		for _, c := range sources {
			sum += c.share
		}
		var mu sync.Mutex
		var calls sync.WaitGroup
		start, second := time.Now(), 0
		for next := start; ; {
			at := next.Sub(start)
			if at > r.warm+r.length {
				break
			}
			time.Sleep(time.Until(next))
			if int(at.Seconds()) > second {
				second = int(at.Seconds())
				if r.each != nil {
					mu.Lock()
					r.each(second, s, tallies)
					mu.Unlock()
				}
			}
			i, pick := 0, random.Float64()*sum
			for ; i < len(sources)-1 && pick >= sources[i].share; i++ {
				pick -= sources[i].share
			}
			took := r.upstream.service
			if !r.upstream.even {
				took = time.Duration(float64(took) * random.ExpFloat64())
			}
			counts := at >= r.warm
			if counts {
				mu.Lock()
				tallies[i].offered++
				mu.Unlock()
			}
			calls.Go(func() {
				begin := time.Now()
				slot, err := s.Acquire(t.Context(), sources[i].call)
				if err != nil {
					return
				}
				defer slot.Release()
				r.upstream.serve(took)
				slot.Answered()
				if counts {
					mu.Lock()
					tallies[i].done++
					tallies[i].latencies = append(tallies[i].latencies, time.Since(begin))
					mu.Unlock()
				}
			})
			next = next.Add(time.Duration(random.ExpFloat64() / (r.load(at.Seconds()) * r.upstream.capacity()) * float64(time.Second)))
		}
		calls.Wait()
		if st := s.Stats(); st.Inflight != 0 || st.Waiting != 0 {
			t.Errorf("when all is over %d calls are under way and %d wait, want 0 and 0", st.Inflight, st.Waiting)
		}
	})
	return tallies
}

// long gives the length of a simulation: the long one where time is no matter.
func long(usual, soak time.Duration) time.Duration {
	if os.Getenv("CAUDAL_SOAK") != "" {
		return soak
	}
	return usual
}

func constant(capacities float64) func(float64) float64 {
	return func(float64) float64 { return capacities }
}

// fourPriorities are a quarter of the load each, of 50 clients each.
func fourPriorities() []source {
	var all []source
	for p := rule.PriorityCritical; p > 0; p-- {
		for i := range 50 {
			all = append(all, source{shed.Call{Priority: p, Client: strconv.Itoa(i)}, 1})
		}
	}
	return all
}

// byPriority sums up.
func byPriority(sources []source, tallies []tally) map[rule.Priority]*tally {
	sums := map[rule.Priority]*tally{}
	for i, s := range sources {
		sum := sums[s.call.Priority]
		if sum == nil {
			sum = &tally{}
			sums[s.call.Priority] = sum
		}
		sum.offered += tallies[i].offered
		sum.done += tallies[i].done
		sum.latencies = append(sum.latencies, tallies[i].latencies...)
	}
	return sums
}

var upstreams = []struct {
	name string
	upstream
}{
	{"20 workers of 20ms", upstream{n: 20, service: 20 * time.Millisecond}},
	{"20 workers of exactly 20ms", upstream{n: 20, service: 20 * time.Millisecond, even: true}},
	{"4 workers of 10ms", upstream{n: 4, service: 10 * time.Millisecond}},
	{"64 workers of 100ms", upstream{n: 64, service: 100 * time.Millisecond}},
}

// TestOverload: three times its capacity is offered to an upstream, a quarter of
// it by each priority.
func TestOverload(t *testing.T) {
	for _, u := range upstreams {
		t.Run(u.name, func(t *testing.T) {
			sources := fourPriorities()
			var limits []int
			r := run{upstream: &u.upstream, load: constant(3), warm: 30 * time.Second, length: long(20*time.Second, time.Minute)}
			r.each = func(second int, s *shed.Shedder, _ []tally) { limits = append(limits, s.Stats().Limit) }
			tallies := r.simulate(t, sources)
			sums := byPriority(sources, tallies)
			done := 0.0
			for p := rule.PriorityCritical; p > 0; p-- {
				t.Logf("%-8s %5.1f %% of %6.0f offered, p99 %s", p, 100*sums[p].rate(), sums[p].offered, sums[p].p99().Round(time.Millisecond))
				done += sums[p].done
			}
			goodput := done / u.capacity() / r.length.Seconds()
			t.Logf("goodput %.1f %% of capacity, limits from %d to %d", 100*goodput, slices.Min(limits[20:]), slices.Max(limits[20:]))
			if got := sums[rule.PriorityCritical].rate(); got < 0.95 {
				t.Errorf("critical got %.1f %%, want at least 95 %%", 100*got)
			}
			if goodput < 0.9 {
				t.Errorf("goodput %.1f %% of capacity, want at least 90 %%", 100*goodput)
			}
			if low := sums[rule.PriorityLow].rate(); low > 0.05 || low > sums[rule.PriorityNormal].rate()+0.01 {
				t.Errorf("low got %.1f %%, want it shed first", 100*low)
			}
			if p99 := sums[rule.PriorityCritical].p99(); p99 > 15*u.service {
				t.Errorf("p99 of critical = %s, want at most %s", p99, 15*u.service)
			}
		})
	}
}

// TestLightClients: one client makes nine tenths of the load of its priority, and
// 99 others the rest.
func TestLightClients(t *testing.T) {
	for _, u := range upstreams {
		for _, load := range []float64{1.5, 3} {
			t.Run(u.name+" at "+strconv.FormatFloat(load, 'g', -1, 64), func(t *testing.T) {
				sources := []source{{shed.Call{Client: "heavy"}, 0.9}}
				for i := range 99 {
					sources = append(sources, source{shed.Call{Client: strconv.Itoa(i)}, 0.1 / 99})
				}
				r := run{upstream: &u.upstream, load: constant(load), warm: 20 * time.Second, length: long(15*time.Second, time.Minute)}
				tallies := r.simulate(t, sources)
				light := tally{}
				for _, c := range tallies[1:] {
					light.offered += c.offered
					light.done += c.done
				}
				goodput := (light.done + tallies[0].done) / u.capacity() / r.length.Seconds()
				t.Logf("light %.1f %%, heavy %.1f %%, goodput %.1f %%", 100*light.rate(), 100*tallies[0].rate(), 100*goodput)
				if light.rate() < 0.95 {
					t.Errorf("light clients got %.1f %%, want at least 95 %%", 100*light.rate())
				}
				// In so short a time a let-down more or less shows: TestOverload is the one
				// that holds goodput to its bar.
				if goodput < 0.75 {
					t.Errorf("goodput %.1f %%, want at least 75 %%", 100*goodput)
				}
			})
		}
	}
}
