package caudal_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// The examples here are the right-hand side of docs/library.md, which shows the same
// with other libraries.

// From golang.org/x/time/rate: one bucket, asked and waited for.
func Example_one() {
	ctx := context.Background()

	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(10).WithBurst(20)))
	d, err := limiter.Allow(ctx, "")
	if err != nil {
		log.Fatal(err) // not with the store in memory
	}
	if d.Allowed {
		fmt.Println("one passed,", d.Remaining, "left")
	}
	if _, err := limiter.Wait(ctx, ""); err == nil {
		fmt.Println("its turn has come")
	}
	// Output:
	// one passed, 19 left
	// its turn has come
}

// From a map of buckets by hand: keys are part of every call, and the store forgets
// those that are full again.
func Example_keys() {
	ctx := context.Background()

	store := memstore.New(memstore.Options{MaxKeys: 1_000_000})
	defer store.Close()
	limiter := caudal.Must(caudal.New(store, caudal.PerMinute(2)))
	for _, user := range []string{"ann", "ann", "ann", "bob"} {
		d, _ := limiter.Allow(ctx, "user:"+user)
		fmt.Println(user, d.Allowed)
	}
	// Output:
	// ann true
	// ann true
	// ann false
	// bob true
}

// From Reserve and Cancel of golang.org/x/time/rate.
func Example_reserve() {
	ctx := context.Background()

	queue := caudal.PerSecond(10).WithQueue(5, time.Second)
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped()}), queue))
	limiter.Allow(ctx, "mail")
	d, _ := limiter.Allow(ctx, "mail")
	fmt.Println("leaves in", d.Delay)
	if err := limiter.Cancel(ctx, d.Receipt); err == nil {
		fmt.Println("turn given back")
	}
	// Output:
	// leaves in 100ms
	// turn given back
}

// From throttled: a quantity, and what remains.
func Example_quantity() {
	ctx := context.Background()

	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped()}), caudal.PerMinute(20).WithBurst(6)))
	d, err := limiter.AllowN(ctx, "user:42", 4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Limit, d.Remaining, d.ResetAfter)
	d, _ = limiter.AllowN(ctx, "user:42", 4)
	fmt.Println(d.Allowed, "retry after", d.RetryAfter)
	// Output:
	// true 6 2 12s
	// false retry after 6s
}

// From ulule/limiter: the limit as text, in windows of an hour.
func Example_text() {
	ctx := context.Background()

	limit, err := caudal.ParseLimit("1000/h fixed_window")
	if err != nil {
		log.Fatal(err)
	}
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), limit))
	d, _ := limiter.Allow(ctx, "203.0.113.7")
	fmt.Println(d.Allowed, d.Limit, d.Remaining)
	d, _ = limiter.Peek(ctx, "203.0.113.7")
	fmt.Println(d.Remaining)
	// Output:
	// true 1000 999
	// 999
}

// stopped gives a clock that stands still, so that the output is always the same.
func stopped() caudal.Clock {
	return storetest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
}
