package envoyrls_test

import (
	"testing"

	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/memstore"
)

// BenchmarkShouldRateLimit is one answer without what gRPC costs.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, c := range []struct {
		name string
		o    envoyrls.Options
	}{{"together", envoyrls.Options{}}, {"compat", envoyrls.Options{Compat: true}}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := envoyrls.New(parse(b, c.o.Compat, windows+"- {key: k, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n"+
				"- {key: path, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n"), memstore.New(memstore.Options{}), c.o)
			if err != nil {
				b.Fatal(err)
			}
			req := request(d("k=v"), d("path=/login"))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
