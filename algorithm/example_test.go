package algorithm_test

import (
	"fmt"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// A state is a value: the next one comes back with the decision.
func ExampleTokenBucket() {
	limit, err := caudal.PerSecond(1).WithBurst(2).Compile("", "")
	if err != nil {
		panic(err)
	}
	var s algorithm.TokenBucket // full
	for _, now := range []int64{0, 0, 0, 1_000_000} {
		var d caudal.Decision
		s, d = s.Take(limit, now, 1)
		fmt.Println(now, d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 0 true 1 0s
	// 0 true 0 0s
	// 0 false 0 1s
	// 1000000 true 0 0s
}
