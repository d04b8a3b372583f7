package httplimit

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// depth is an observer of one queue.
type depth struct {
	recorder
	n atomic.Int64
}

func (d *depth) Waiting(_ string, _ *caudal.Compiled, change int) { d.n.Add(int64(change)) }

// C92: how many wait is visible, and falls as calls leave and as clients hang up.
func TestC92HowManyWaitIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &depth{}
		h := one(t, caudal.PerSecond(10).WithQueue(20, 0), ByIP, Options{Observer: seen}).Wrap(http.NotFoundHandler())
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		// The store's lock sleeps a moment when it is held, which looks like waiting.
		settle := func() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		for range 5 {
			wg.Go(func() { send(t.Context(), h) })
		}
		settle()
		for range 15 {
			wg.Go(func() { send(ctx, h) })
		}
		for _, step := range []struct {
			what string
			do   func()
			want int64
		}{
			{"20 came and one left at once", func() {}, 19},
			{"three turns later", func() { time.Sleep(350 * time.Millisecond) }, 16},
			{"15 hung up", hangUp, 1},
			{"all left", func() { time.Sleep(time.Second) }, 0},
		} {
			step.do()
			settle()
			if got := seen.n.Load(); got != step.want {
				t.Errorf("%s: %d wait, want %d", step.what, got, step.want)
			}
		}
		wg.Wait()
	})
}
