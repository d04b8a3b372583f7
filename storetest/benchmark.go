package storetest

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/caudal-dev/caudal"
)

// Benchmark measures a store: one busy key, many keys, a request of three limits,
// and a key that is denied; alone and from all processors at once. It opens one
// store for each.
func Benchmark(b *testing.B, open func(b *testing.B) caudal.Store) {
	for _, bench := range []struct {
		name   string
		limits []string
		keys   int
	}{
		{"OneKey", []string{"1000000000/s"}, 1},
		{"ManyKeys", []string{"1000000000/s"}, 1 << 16},
		{"ThreeLimits", []string{"1000000000/s", "1000000000/h fixed_window", "1000000000/day fixed_window"}, 1 << 16},
		{"DeniedKey", []string{"1/day"}, 1},
	} {
		b.Run(bench.name, func(b *testing.B) { measure(b, open(b), bench.limits, bench.keys) })
	}
}

func measure(b *testing.B, store caudal.Store, texts []string, n int) {
	var limits []*caudal.Compiled
	for i, text := range texts {
		l, err := caudal.ParseLimit(text)
		if err != nil {
			b.Fatal(err)
		}
		c, err := l.Compile("", strconv.Itoa(i))
		if err != nil {
			b.Fatal(err)
		}
		limits = append(limits, c)
	}
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = []byte("user" + strconv.Itoa(10_000_000+i))
	}
	var next atomic.Uint32
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		calls := make([]caudal.Call, len(limits))
		out := make([]caudal.Decision, len(limits))
		i := int(next.Add(1)) * 7919
		for pb.Next() {
			i++
			for k, l := range limits {
				calls[k] = caudal.Call{Limit: l, Key: keys[i%n], Cost: 1}
			}
			if err := store.Take(ctx, caudal.Instant{}, calls, out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
