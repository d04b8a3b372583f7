package retry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// draws takes the n-th delay (from 0) of many calls.
func draws(b Backoff, n, times int) []float64 {
	b.Rand = rand.New(rand.NewPCG(1, 2)).Int64N
	out := make([]float64, times)
	for i := range out {
		d := b.Start()
		for range n {
			d.Next()
		}
		out[i] = d.Next().Seconds()
	}
	return out
}

// uniformity is the largest distance between the share of draws below a point and
// what it would be if they were uniform in [lo, hi]: Kolmogorov and Smirnov's.
func uniformity(draws []float64, lo, hi float64) float64 {
	const bins = 100
	var counts [bins]int
	for _, d := range draws {
		counts[min(bins-1, max(0, int((d-lo)/(hi-lo)*bins)))]++
	}
	worst, below := 0.0, 0
	for i, c := range counts {
		below += c
		worst = max(worst, math.Abs(float64(below)/float64(len(draws))-float64(i+1)/bins))
	}
	return worst
}

func TestJitterDistributions(t *testing.T) {
	const n = 20000
	second := Backoff{Base: time.Second, Max: 10 * time.Second}
	tests := []struct {
		name   string
		jitter Jitter
		retry  int
		lo, hi float64
	}{
		{"full, first", FullJitter, 0, 0, 1},
		{"full, third", FullJitter, 2, 0, 4},
		{"full, at the cap", FullJitter, 9, 0, 10},
		{"equal, first", EqualJitter, 0, 0.5, 1},
		{"equal, third", EqualJitter, 2, 2, 4},
		{"equal, at the cap", EqualJitter, 9, 5, 10},
		{"decorrelated, first", DecorrelatedJitter, 0, 1, 3},
	}
	for _, test := range tests {
		b := second
		b.Jitter = test.jitter
		got := draws(b, test.retry, n)
		lowest, highest := math.Inf(1), math.Inf(-1)
		for _, d := range got {
			lowest, highest = min(lowest, d), max(highest, d)
		}
		width := test.hi - test.lo
		if lowest < test.lo || lowest > test.lo+width/100 || highest > test.hi || highest < test.hi-width/100 {
			t.Errorf("%s: delays from %.4f to %.4f, want them to fill %.1f to %.1f", test.name, lowest, highest, test.lo, test.hi)
		}
		// Chance exceeds 1.95/sqrt(n) once in a thousand; the seed is fixed.
		if got, want := uniformity(got, test.lo, test.hi), 1.95/math.Sqrt(n); got > want {
			t.Errorf("%s: %.4f away from uniform, want at most %.4f", test.name, got, want)
		}
	}
}

func TestDecorrelatedJitterGrowsFromTheDelayBefore(t *testing.T) {
	b := Backoff{Base: time.Second, Max: 10 * time.Second, Jitter: DecorrelatedJitter, Rand: rand.New(rand.NewPCG(3, 4)).Int64N}
	capped := false
	for range 1000 {
		d := b.Start()
		prev := d.Next()
		if prev < time.Second || prev > 3*time.Second {
			t.Fatalf("first delay = %s, want 1s to 3s", prev)
		}
		for range 8 {
			next := d.Next()
			if next < time.Second || next > min(3*prev, 10*time.Second) {
				t.Fatalf("delay after %s = %s, want 1s to %s", prev, next, min(3*prev, 10*time.Second))
			}
			capped = capped || 3*prev > 10*time.Second
			prev = next
		}
	}
	if !capped {
		t.Error("no delay came near the maximum: the test tests nothing")
	}
}

func TestC19BackoffDoesNotOverflow(t *testing.T) {
	for _, j := range []Jitter{FullJitter, EqualJitter, DecorrelatedJitter, NoJitter} {
		b := Backoff{Base: time.Second, Max: math.MaxInt64, Jitter: j}
		d := b.Start()
		for i := range 200 {
			if got := d.Next(); got < 0 {
				t.Fatalf("%s: delay %d = %s, want no negative one", j, i, got)
			}
		}
	}
	d := Backoff{Base: 100 * time.Millisecond, Max: time.Second, Jitter: NoJitter}.Start()
	for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if got := d.Next(); got != want*time.Millisecond {
			t.Errorf("delay %d without jitter = %s, want %s", i, got, want*time.Millisecond)
		}
	}
}

func TestBackoffValidate(t *testing.T) {
	for _, b := range []Backoff{{Base: -1}, {Base: time.Second, Max: time.Millisecond}, {Jitter: 9}} {
		if b.Validate() == nil {
			t.Errorf("%+v.Validate() = nil, want an error", b)
		}
	}
	if err := (Backoff{}).Validate(); err != nil {
		t.Errorf("zero Backoff.Validate() = %v, want nil", err)
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(2, 0.2)
	for i, want := range []bool{true, true, false} {
		if got := b.Spend(); got != want {
			t.Errorf("Spend() %d = %t, want %t", i, got, want)
		}
	}
	for range 5 {
		b.Earn()
	}
	if got := b.Left(); got != 1 {
		t.Errorf("Left() after 5 successes = %d, want 1", got)
	}
	for range 100 {
		b.Earn()
	}
	if got := b.Left(); got != 2 {
		t.Errorf("Left() after many successes = %d, want no more than 2", got)
	}
	if (&Budget{}).Spend() {
		t.Error("zero Budget: Spend() = true, want false")
	}
}
