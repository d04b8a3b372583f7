package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// Two instances share one count.
func Example() {
	server, stop := redistest.ForExample() // in production, a Redis that is there
	defer stop()

	ctx := context.Background()
	options := redisstore.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for instance := range 2 {
		store, err := redisstore.Open(ctx, server.URL(), options)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer store.Close()
		limiter := caudal.Must(caudal.New(store, caudal.PerHour(5)))
		for range 3 {
			d, err := limiter.Allow(ctx, "user:42")
			if err != nil {
				fmt.Println(err) // no decision was made: the store failed
				return
			}
			fmt.Println("instance", instance, "allowed", d.Allowed, "remaining", d.Remaining)
		}
	}
	// Output:
	// instance 0 allowed true remaining 4
	// instance 0 allowed true remaining 3
	// instance 0 allowed true remaining 2
	// instance 1 allowed true remaining 1
	// instance 1 allowed true remaining 0
	// instance 1 allowed false remaining 0
}
