package memstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "caudal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, process := range []string{"first", "second"} {
		store, err := memstore.Open(memstore.Options{}, memstore.StateOptions{Path: filepath.Join(dir, "state")})
		if err != nil {
			fmt.Println(err)
			return
		}
		limiter, err := caudal.New(store, caudal.PerDay(1))
		if err != nil {
			fmt.Println(err)
			return
		}
		d, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(process, d.Allowed)
		if err := store.Close(); err != nil { // writes the rest
			fmt.Println(err)
		}
	}
	// Output:
	// first true
	// second false
}
