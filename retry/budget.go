package retry

import (
	"math"
	"sync/atomic"
)

// Budget bounds the retries of many calls together. It holds whole retries: each
// retry takes one, each call that succeeds gives back a share of one. When most
// calls fail it runs dry, and calls are tried once only. The zero Budget allows no
// retries. Use NewBudget; share it by pointer. It is safe for concurrent use.
type Budget struct {
	max, share int64        // in thousandths of a retry
	left       atomic.Int64 // the same
}

// NewBudget makes a budget that starts with burst retries, holds at most so many,
// and gains ratio of a retry with each success: NewBudget(20, 0.2) allows 20 in a
// row and in the long run one for every five calls. A negative number counts as 0;
// a ratio is exact to a thousandth.
func NewBudget(burst int, ratio float64) *Budget {
	b := &Budget{max: int64(min(max(burst, 0), math.MaxInt32)) * 1000}
	if ratio > 0 {
		b.share = int64(math.Round(min(ratio, 1000) * 1000))
	}
	b.left.Store(b.max)
	return b
}

// Spend takes one retry, and reports whether there was one.
func (b *Budget) Spend() bool {
	for {
		left := b.left.Load()
		if left < 1000 {
			return false
		}
		if b.left.CompareAndSwap(left, left-1000) {
			return true
		}
	}
}

// Earn counts a call that succeeded.
func (b *Budget) Earn() {
	for {
		left := b.left.Load()
		if left >= b.max || b.left.CompareAndSwap(left, min(b.max, left+b.share)) {
			return
		}
	}
}

// Left tells how many retries there are.
func (b *Budget) Left() int { return int(b.left.Load() / 1000) }
