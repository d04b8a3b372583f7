package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// row is one kind of work.
type row struct {
	name, what string
	calls      uint32 // the limit of each key, per second
	hourly     bool   // or per hour
	keys       int
	callers    int // goroutines; 0 for one per processor
	pick       func(keys int) []int32
	filled     bool // each key is called once before the clock starts
	weigh      bool // what the keys take on the heap is the figure
	mayDeny    bool
}

// generous is a limit that never denies here.
const generous = 1_000_000_000

var memoryRows = []row{
	{name: "hot", what: "one key, 1 goroutine", calls: generous, keys: 1, callers: 1, filled: true},
	{name: "hot-all", what: "one key, all cores", calls: generous, keys: 1, filled: true},
	{name: "denied", what: "one key, all denied, 1 goroutine", calls: 1, keys: 1, callers: 1, filled: true, mayDeny: true},
	{name: "zipf", what: "1 M keys, zipf, all cores", calls: generous, keys: 1_000_000, pick: zipf, filled: true},
	{name: "uniform", what: "10 M keys, uniform, all cores", calls: generous, keys: 10_000_000, pick: uniform, filled: true},
	{name: "churn", what: "every key new, all cores", calls: generous, keys: 2_000_000},
	{name: "heap", what: "1 M keys held, 1 000 an hour each", calls: 1000, hourly: true, keys: 1_000_000, weigh: true},
}

var redisRows = []row{
	{name: "random", what: "100 000 keys, 64 callers", calls: 1_000_000, keys: 100_000, callers: 64, pick: uniform},
	{name: "hot", what: "one key, 64 callers", calls: 100_000_000, keys: 1, callers: 64},
	{name: "denied", what: "one key, all denied, 64 callers", calls: 1, keys: 1, callers: 64, filled: true, mayDeny: true},
}

// result is one round of one row.
type result struct {
	NsPerOp     float64 `json:"ns_per_op,omitempty"`
	Failed      int64   `json:"failed,omitempty"` // calls denied or failed that should have passed
	BytesPerKey float64 `json:"bytes_per_key,omitempty"`
	GCMillis    float64 `json:"gc_ms,omitempty"`
}

// walk is an endless walk over indexes, drawn beforehand so that drawing them costs
// every limiter the same.
const walk = 1 << 22

func zipf(keys int) []int32 {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(keys-1))
	return drawn(func() int32 { return int32(z.Uint64()) })
}

func uniform(keys int) []int32 {
	r := rand.New(rand.NewPCG(3, 4))
	return drawn(func() int32 { return r.Int32N(int32(keys)) })
}

func drawn(one func() int32) []int32 {
	picks := make([]int32, walk)
	for i := range picks {
		picks[i] = one()
	}
	return picks
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user" + strconv.Itoa(10_000_000+i)
	}
	return keys
}

// run measures one round of a row.
func (w row) run(v rival, length time.Duration) (result, error) {
	keys := names(w.keys)
	before := heap()
	ask, err := v.open(w.quota())
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", v.name, err)
	}
	if w.filled || w.weigh {
		for _, k := range keys {
			ask(k)
		}
	}
	if w.weigh {
		after := heap()
		start := time.Now()
		runtime.GC()
		r := result{BytesPerKey: float64(after-before) / float64(w.keys), GCMillis: float64(time.Since(start).Microseconds()) / 1000}
		ask(keys[0]) // the limiter lives until here
		return r, nil
	}
	runtime.GC()
	if w.pick == nil && w.keys > 1 {
		return w.each(keys, ask), nil
	}
	picks := []int32{0}
	if w.pick != nil {
		picks = w.pick(w.keys)
	}
	return w.forAWhile(keys, picks, ask, length), nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (w row) quota() quota {
	q := quota{calls: w.calls, per: time.Second, keys: w.keys}
	if w.hourly {
		q.per = time.Hour
	}
	return q
}

func (w row) crowd() int {
	if w.callers > 0 {
		return w.callers
	}
	return runtime.GOMAXPROCS(0)
}

// each asks once for every key.
func (w row) each(keys []string, ask allow) result {
	return w.together(func(n int) (calls, failed int64) {
		for i := n; i < len(keys); i += w.crowd() {
			calls++
			if !ask(keys[i]) {
				failed++
			}
		}
		return calls, failed
	})
}

// forAWhile asks until the time is up. The clock is read once per 1 024 calls, or
// per call where one takes a round trip.
func (w row) forAWhile(keys []string, picks []int32, ask allow, length time.Duration) result {
	between := 1024
	if w.crowd() > runtime.GOMAXPROCS(0) {
		between = 1
	}
	return w.together(func(n int) (calls, failed int64) {
		i := int(rand.Uint32())
		for end := time.Now().Add(length); time.Now().Before(end); {
			for range between {
				i++
				calls++
				if !ask(keys[picks[i&(len(picks)-1)]]) && !w.mayDeny {
					failed++
				}
			}
		}
		return calls, failed
	})
}

// together lets all callers work at once. NsPerOp is the time that passed over what
// all of them did.
func (w row) together(work func(n int) (calls, failed int64)) result {
	var mu sync.Mutex
	var calls, failed int64
	var callers sync.WaitGroup
	start := time.Now()
	for n := range w.crowd() {
		callers.Go(func() {
			c, f := work(n)
			mu.Lock()
			defer mu.Unlock()
			calls, failed = calls+c, failed+f
		})
	}
	callers.Wait()
	return result{NsPerOp: float64(time.Since(start).Nanoseconds()) / float64(calls), Failed: failed}
}
