package memstore_test

import (
	"context"
	"fmt"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

func Example() {
	store := memstore.New(memstore.Options{MaxKeys: 1_000_000})
	limiter, err := caudal.New(store, caudal.PerHour(1000).WithBurst(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}
