package envoyrls_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// onClock makes a store in Redis tell the time by a clock of the test.
type onClock struct {
	*redisstore.Store
	clock caudal.Clock
}

func (s onClock) Take(ctx context.Context, _ caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	return s.Store.Take(ctx, s.clock.Now(), calls, out)
}

func (s onClock) Refund(ctx context.Context, _ caudal.Instant, refunds []caudal.Refund) error {
	return s.Store.Refund(ctx, s.clock.Now(), refunds)
}

// TestConversationsOnRedis is TestConversations with the counts in Redis.
func TestConversationsOnRedis(t *testing.T) {
	server := redistest.Start(t)
	var stores atomic.Int64
	runConversations(t, func(t testing.TB, clock caudal.Clock) caudal.Store {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s, err := redisstore.Open(ctx, server.URL(), redisstore.Options{
			Prefix: fmt.Sprintf("rls%d:", stores.Add(1)), CallerTime: true, Clock: clock, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return onClock{s, clock}
	})
}
