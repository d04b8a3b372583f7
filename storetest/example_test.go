package storetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// A clock that only the test moves makes a timeline of any length take no time.
func ExampleClock() {
	clock := storetest.NewClock(storetest.Start)
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: clock}), caudal.PerDay(1)))
	for range 3 {
		d, _ := limiter.Allow(context.Background(), "user:42")
		fmt.Println(clock.Now().Wall, d.Allowed)
		clock.Advance(12 * time.Hour)
	}
	// Output:
	// 1795996800000000 true
	// 1796040000000000 false
	// 1796083200000000 true
}
