package redisstore_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// job is what a process of TestLeasesNeverAboveTheLimit is to do.
type job struct {
	URL     string
	Limit   string
	Rate    int // calls a second
	Until   time.Time
	Tally   string // the file of the counts
	Callers int
}

// tally counts what was admitted, in memory that outlives a process that is killed:
// per window number, modulo its size; and when the first and the last was.
type tally struct {
	counts      [512]atomic.Int64
	first, last atomic.Int64
	asked       atomic.Int64
}

func openTally(t testing.TB, name string) *tally {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	size := int(unsafe.Sizeof(tally{}))
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return (*tally)(unsafe.Pointer(&b[0]))
}

func (y *tally) admit(l *caudal.Compiled, d *caudal.Decision) {
	n := int64(0)
	if l.Wall() {
		n = d.Receipt.At / l.PeriodMicros() % int64(len(y.counts))
	}
	y.counts[n].Add(1)
	now := time.Now().UnixMicro()
	y.first.CompareAndSwap(0, now)
	y.last.Store(now)
}

// TestLeaseInstance is a process of its own: one instance that calls one hot key.
func TestLeaseInstance(t *testing.T) {
	text := os.Getenv("CAUDAL_LEASE_JOB")
	if text == "" {
		t.Skip("run by TestLeasesNeverAboveTheLimit")
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	limit, err := caudal.ParseLimit(j.Limit)
	if err != nil {
		t.Fatal(err)
	}
	l := leasedLimit(t, limit)
	s, y := open(t, j.URL, redisstore.Options{Denials: 1000}), openTally(t, j.Tally)
	const tick = 2 * time.Millisecond
	start := time.Now()
	var wg sync.WaitGroup
	for range j.Callers {
		wg.Go(func() {
			for n := 0; time.Now().Before(j.Until); {
				due := int(time.Since(start).Seconds() * float64(j.Rate) / float64(j.Callers))
				for ; n < due && time.Now().Before(j.Until); n++ {
					d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "hot", 1)
					if err != nil {
						t.Error(err)
						return
					}
					y.asked.Add(1)
					if d.Allowed {
						y.admit(l, &d)
					}
				}
				time.Sleep(tick)
			}
		})
	}
	wg.Wait()
}

func leasedLimit(t testing.TB, limit caudal.Limit) *caudal.Compiled {
	t.Helper()
	l, err := limit.Compile("leased", "leased", caudal.WithAccuracy(caudal.Leased))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Three instances and one hot key: never above the limit, per window that the
// decisions name, or burst + rate x length, also when one is killed in the middle;
// and when none is, hardly below. A minute at 100 000 calls a second in make soak.
// It covers C33 and C37 for leases.
func TestLeasesNeverAboveTheLimit(t *testing.T) {
	length, demand := 3*time.Second, 6000
	if os.Getenv("CAUDAL_SOAK") != "" {
		length, demand = time.Minute, 100_000
	}
	rate := uint32(demand / 3)
	for _, limit := range []caudal.Limit{
		caudal.PerSecond(rate),
		caudal.PerSecond(rate).With(caudal.FixedWindow),
		caudal.PerSecond(rate).With(caudal.SlidingWindow),
	} {
		for _, kill := range []bool{true, false} {
			t.Run(limit.Algorithm.String()+", kill "+strconv.FormatBool(kill), func(t *testing.T) {
				y := runInstances(t, limit, demand, length, kill)
				checkTally(t, leasedLimit(t, limit), y, kill)
			})
		}
	}
}

// runInstances runs three instances for so long.
func runInstances(t *testing.T, limit caudal.Limit, demand int, length time.Duration, kill bool) *tally {
	t.Helper()
	r := redistest.Start(t)
	name := filepath.Join(t.TempDir(), "tally")
	y := openTally(t, name)
	j := job{URL: r.URL(), Limit: limit.String(), Rate: demand / 3, Until: time.Now().Add(length), Tally: name, Callers: 32}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var instances []*exec.Cmd
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeaseInstance$", "-test.count=1")
		cmd.Env = append(os.Environ(), "CAUDAL_LEASE_JOB="+string(text))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		instances = append(instances, cmd)
	}
	if kill {
		time.Sleep(time.Until(j.Until) / 2)
		if err := instances[0].Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	for i, cmd := range instances {
		if err := cmd.Wait(); err != nil && (i > 0 || !kill) {
			t.Errorf("instance %d: %v", i, err)
		}
	}
	if keys := calls(r, "evalsha") + calls(r, "eval"); keys == 0 {
		t.Error("the instances did not ask Redis at all")
	}
	return y
}

// checkTally compares what was admitted with what the limit lets through.
func checkTally(t *testing.T, l *caudal.Compiled, y *tally, kill bool) {
	t.Helper()
	admitted, most := int64(0), int64(0)
	for i := range y.counts {
		admitted += y.counts[i].Load()
		most = max(most, y.counts[i].Load())
	}
	length := y.last.Load() - y.first.Load() // microseconds
	rate, capacity := int64(l.Requests()), int64(l.Capacity())
	whole := rate * length / l.PeriodMicros()
	if l.Wall() && most > capacity {
		t.Errorf("%s: %d were admitted in one window, want at most %d", l.Limit(), most, capacity)
	}
	if bound := capacity + whole + 1; !l.Wall() && admitted > bound {
		t.Errorf("%s: %d were admitted in %d us, want at most %d", l.Limit(), admitted, length, bound)
	}
	used := float64(admitted) / float64(capacity+whole)
	if l.Wall() {
		used = y.inner(capacity)
	}
	t.Logf("%s: %d of %d calls admitted in %.1f s, %.1f %% of what the limit lets through", l.Limit(), admitted, y.asked.Load(), float64(length)/1e6, 100*used)
	if y.asked.Load() < 2*(capacity+whole) {
		t.Log("the machine was too busy for full demand: what went unused is not judged")
		return
	}
	least := 0.5 // of a short run, on any machine
	if os.Getenv("CAUDAL_SOAK") != "" {
		least = 0.95
	}
	if !kill && used < least {
		t.Errorf("%s: %.1f %% of what the limit lets through was admitted at full demand, want at least %.0f %%", l.Limit(), 100*used, 100*least)
	}
}

// inner gives the share of the capacity that the windows used, without the first
// and the last, which the run did not fill.
func (y *tally) inner(capacity int64) float64 {
	second := func(us int64) int64 { return us / 1e6 }
	sum, n := int64(0), int64(0)
	for w := second(y.first.Load()) + 1; w < second(y.last.Load()); w++ {
		sum, n = sum+y.counts[w%int64(len(y.counts))].Load(), n+1
	}
	return float64(sum) / float64(max(n*capacity, 1))
}
