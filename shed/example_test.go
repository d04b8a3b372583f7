package shed_test

import (
	"context"
	"fmt"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// A service that can do one thing at a time, and two calls at once: the critical
// one has a slot in reserve.
func Example() {
	s, err := shed.New(shed.Options{MinLimit: 1, MaxLimit: 1, MaxWait: 1, Reserves: map[rule.Priority]int{rule.PriorityCritical: 100}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	export, err := s.Acquire(ctx, shed.Call{Priority: rule.PriorityLow, Client: "reports"})
	fmt.Println("export:", err)
	_, err = s.Acquire(ctx, shed.Call{Priority: rule.PriorityNormal, Client: "ana"})
	fmt.Println("page:", err)
	pay, err := s.Acquire(ctx, shed.Call{Priority: rule.PriorityCritical, Client: "ana"})
	fmt.Println("payment:", err)
	export.Release()
	pay.Release()
	// Output:
	// export: <nil>
	// page: shed: no room for a call of this priority now
	// payment: <nil>
}
