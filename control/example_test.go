package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/rule"
)

func Example() {
	controls := control.New(control.Options{Logger: slog.New(slog.DiscardHandler)})
	target, err := control.ParseTarget("203.0.113.9")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := controls.Block(context.Background(), target, 15*time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	hit, blocked := controls.BlockedEntries([]rule.Entry{{Key: "remote_address", Value: "203.0.113.9"}})
	fmt.Println(blocked, hit.Attribute, hit.Left.Round(time.Minute))
	// Output: true remote_address 15m0s
}
