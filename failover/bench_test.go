package failover

import (
	"context"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// BenchmarkOverhead compares a store in memory by itself, behind a Store in both
// ways of calling it, and a Store whose shared store is gone.
func BenchmarkOverhead(b *testing.B) {
	l := limit(b, "1000000000/s")
	run := func(name string, store caudal.KeyStore) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					if _, err := store.TakeKey(ctx, caudal.Instant{}, l, "k", 1); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
	bare := memstore.New(memstore.Options{})
	run("bare", bare)
	for name, o := range map[string]Options{"isolated": {}, "inline": {Inline: true}} {
		s := New(memstore.New(memstore.Options{}), o)
		run(name, s)
		mustClose(b, s)
	}
	s := New(refusing{}, Options{})
	await(b, "the store to be given up", s.Degraded)
	run("gone", s)
	mustClose(b, s)
}
