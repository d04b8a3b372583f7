package failover_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/memstore"
)

// outage is a shared store that can be lost.
type outage struct {
	*memstore.Store
	lost bool
}

func (o *outage) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	if o.lost {
		return caudal.Decision{}, errors.New("connection refused")
	}
	return o.Store.TakeKey(ctx, at, l, key, cost)
}

// One of four instances loses the store that they share. Its limit of 100 an hour
// becomes, by the factor of 2, a limit of 50 of its own.
func Example() {
	shared := &outage{Store: memstore.New(memstore.Options{})}
	store := failover.New(shared, failover.Options{ExpectedInstances: 4, Deadline: time.Second})
	defer store.Close()
	limiter := caudal.Must(caudal.New(store, caudal.PerHour(100)))

	ask := func() {
		d, err := limiter.Allow(context.Background(), "user:42")
		fmt.Printf("allowed %v, %d of %d remain, degraded %v, error %v\n", d.Allowed, d.Remaining, d.Limit, d.Degraded, err)
	}
	ask()
	shared.lost = true
	ask()
	shared.lost = false
	ask()
	// Output:
	// allowed true, 99 of 100 remain, degraded false, error <nil>
	// allowed true, 49 of 50 remain, degraded true, error <nil>
	// allowed true, 98 of 100 remain, degraded false, error <nil>
}

// A limit that must hold says what to do without its store.
func Example_onStoreError() {
	store := failover.New(&outage{Store: memstore.New(memstore.Options{}), lost: true}, failover.Options{})
	defer store.Close()
	login, err := caudal.PerMinute(5).With(caudal.SlidingLog).Compile("login", "", caudal.OnStoreError(caudal.FailClosed, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := store.TakeKey(context.Background(), caudal.Instant{}, login, "user:42", 1)
	fmt.Println(d.Allowed, d.Unavailable, err)
	// Output: false true <nil>
}
