package topk

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Window is a sketch of the last while: of the present stretch of time and the
// one before it. It is safe for concurrent use. Make it with NewWindow.
type Window struct {
	missed atomic.Uint64
	mu     sync.Mutex
	now    *Sketch
	before *Sketch
}

// NewWindow makes a window of two sketches of k counters.
func NewWindow(k int) *Window { return &Window{now: New(k), before: New(k)} }

// Add counts n for a key; see Sketch.Add. It never waits: when another goroutine
// is counting in the same window, the key is not counted, and Missed grows. So the
// order of keys holds under any load, while counts may then be short.
func (w *Window) Add(hash uint64, key []byte, n uint64) {
	if !w.mu.TryLock() {
		w.missed.Add(n)
		return
	}
	w.now.Add(hash, key, n)
	w.mu.Unlock()
}

// Missed is how much was not counted since the start, for all keys.
func (w *Window) Missed() uint64 { return w.missed.Load() }

// Rotate begins another stretch of time, and forgets the one before the last.
func (w *Window) Rotate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.before = w.before, w.now
	w.now.Reset()
}

// Top gives the n keys that came most often in both stretches, most first, and how
// much was counted in them for all keys.
func (w *Window) Top(n int) (top []Entry, total uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A key without a counter in one of the sketches may have come as often there as
	// the smallest counter says.
	inNow := make(map[uint64]int, len(w.now.hashes))
	hidden := w.before.floor()
	for i, hash := range w.now.hashes {
		inNow[hash] = i
		top = append(top, Entry{w.now.keys[i], w.now.counts[i] + hidden, w.now.errors[i] + hidden})
	}
	for i, hash := range w.before.hashes {
		if j, both := inNow[hash]; both {
			top[j].Count += w.before.counts[i] - hidden
			top[j].ErrorBound += w.before.errors[i] - hidden
			continue
		}
		top = append(top, Entry{w.before.keys[i], w.before.counts[i] + w.now.floor(), w.before.errors[i] + w.now.floor()})
	}
	slices.SortStableFunc(top, func(a, b Entry) int { return cmp.Compare(b.Count, a.Count) })
	top = top[:min(n, len(top))]
	for i := range top {
		top[i].Key = slices.Clone(top[i].Key)
	}
	return top, w.now.total + w.before.total
}
