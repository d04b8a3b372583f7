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

func Example() {
	store := memstore.New(memstore.Options{})
	limiter, err := caudal.New(store, caudal.PerMinute(100).WithBurst(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err) // no decision was made: the store failed
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A denial says when to come back; come back then, and the call passes.
func ExampleLimiter_Allow() {
	clock := storetest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: clock}), caudal.PerHour(1000).WithBurst(100)))
	ctx := context.Background()

	if _, err := limiter.AllowN(ctx, "user:42", 100); err != nil {
		log.Fatal(err)
	}
	d, _ := limiter.Allow(ctx, "user:42")
	fmt.Println(d.Allowed, d.RetryAfter)
	clock.Advance(d.RetryAfter)
	d, _ = limiter.Allow(ctx, "user:42")
	fmt.Println(d.Allowed)
	// Output:
	// false 3.6s
	// true
}

// A charge can be taken back, once, with the receipt of the decision.
func ExampleLimiter_Refund() {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerDay(10).With(caudal.FixedWindow)))
	ctx := context.Background()

	d, _ := limiter.AllowN(ctx, "user:42", 4) // reserve the most that it may cost
	_ = limiter.Refund(ctx, d.Receipt, 3)     // it cost 1
	d, _ = limiter.Peek(ctx, "user:42")
	fmt.Println(d.Remaining)
	fmt.Println(limiter.Refund(ctx, caudal.Receipt{}, 1) != nil)
	// Output:
	// 9
	// true
}

// A leaky bucket lets calls wait for their turn instead of turning them away.
func ExampleLimit_WithQueue() {
	clock := storetest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	legacy := caudal.PerSecond(50).WithQueue(2, time.Second)
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: clock}), legacy))
	for range 4 {
		d, _ := limiter.Allow(context.Background(), "legacy")
		fmt.Println(d.Allowed, d.Delay)
	}
	// Output:
	// true 0s
	// true 20ms
	// true 40ms
	// false 0s
}

func ExampleParseLimit() {
	for _, text := range []string{"100/m burst 20", "5/min sliding_log", "10000/d fixed_window timezone Europe/Madrid", "10/fortnight"} {
		l, err := caudal.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(l, "|", l.Words())
	}
	// Output:
	// 100/minute burst 20 | 100 per minute, bursts of up to 20, refilled steadily
	// 5/minute sliding_log | 5 per minute, exact over any minute
	// 10000/day fixed_window timezone Europe/Madrid | 10000 per calendar day in Europe/Madrid
	// caudal: invalid limit: "10/fortnight": unit "fortnight" is not known: use s, m, h, d, w, month or year
}

// Several limits of one request are charged together, or not at all.
func ExampleJudge() {
	store := memstore.New(memstore.Options{})
	rate, _ := caudal.PerMinute(10).Compile("rate", "example/rate")
	quota, _ := caudal.PerDay(2).With(caudal.FixedWindow).Compile("quota", "example/quota")
	calls := []caudal.Call{
		{Limit: rate, Key: []byte("user:42"), Cost: 1},
		{Limit: quota, Key: []byte("user:42"), Cost: 1},
	}
	out := make([]caudal.Decision, len(calls))
	for range 3 {
		if err := store.Take(context.Background(), caudal.Instant{}, calls, out); err != nil {
			log.Fatal(err)
		}
		v := caudal.Judge(calls, out)
		fmt.Println(v.Allowed, "nearest:", calls[v.Nearest].Limit.Name(), "rate remaining:", out[0].Remaining)
	}
	// Output:
	// true nearest: quota rate remaining: 9
	// true nearest: quota rate remaining: 8
	// false nearest: quota rate remaining: 8
}
