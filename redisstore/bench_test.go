package redisstore_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// The Redis rows of docs/benchmarks.md. Each has its floors beside it in the same
// run: a bare PING, and a bare EVALSHA of a script with one GET and one SET PX,
// through the same client with the same callers. Machines differ; compare ratios.

// floorScript is what any limiter on Redis must at least do.
const floorScript = `local v = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return v`

// benchKeys is how many keys the random ones are drawn from.
const benchKeys = 100_000

var callers = []int{1, 16, 64, 256}

// cpu gives the processor time that this process has used.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU gives the processor seconds that the server has used.
func serverCPU(tb testing.TB, r *redistest.Server) float64 {
	sum := 0.0
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		n, err := strconv.ParseFloat(r.Info("cpu", field), 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += n
	}
	return sum
}

// measure runs op from so many callers and reports what one call costs: CPU of
// the client, latency, and what the server saw.
func measure(b *testing.B, r *redistest.Server, n int, op func(key int) error) {
	const samples = 1 << 14
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		mu    sync.Mutex
		taken []time.Duration
	)
	commands, in, out := r.InfoInt("stats", "total_commands_processed"), r.InfoInt("stats", "total_net_input_bytes"), r.InfoInt("stats", "total_net_output_bytes")
	server := serverCPU(b, r)
	runtime.GC()
	before := cpu(b)
	b.ResetTimer()
	for c := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			pick := rand.New(rand.NewPCG(uint64(c), 1))
			own := make([]time.Duration, 0, samples/n+1)
			for next.Add(1) <= int64(b.N) {
				start := time.Now()
				if err := op(pick.IntN(benchKeys)); err != nil {
					b.Error(err)
					return
				}
				if len(own) < cap(own) {
					own = append(own, time.Since(start))
				}
			}
			mu.Lock()
			taken = append(taken, own...)
			mu.Unlock()
		}()
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1000/float64(b.N), "client-us/op")
	b.ReportMetric((serverCPU(b, r)-server)*1e6/float64(b.N), "server-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	slices.Sort(taken)
	if len(taken) > 0 {
		b.ReportMetric(float64(taken[len(taken)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds()), "p99-us")
	}
	b.ReportMetric(float64(r.InfoInt("stats", "total_net_input_bytes")-in)/float64(b.N), "in-B/op")
	b.ReportMetric(float64(r.InfoInt("stats", "total_net_output_bytes")-out)/float64(b.N), "out-B/op")
	b.ReportMetric(float64(r.InfoInt("stats", "total_commands_processed")-commands)/float64(b.N), "commands/op")
}

// bareClient is a client with the options that the store chose.
func bareClient(b *testing.B, r *redistest.Server) rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		PipelineMultiplex: -1, AlwaysPipelining: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func bareKey(k int) string {
	return "caudal:{0123456789abcdef000000000" + strconv.Itoa(1000000+k) + "}"
}

func BenchmarkFloorPing(b *testing.B) {
	r := redistest.Start(b)
	c := bareClient(b, r)
	for _, n := range callers {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			measure(b, r, n, func(int) error {
				return c.Do(context.Background(), c.B().Ping().Build()).Error()
			})
		})
	}
}

func shaOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func BenchmarkFloorEvalsha(b *testing.B) {
	r := redistest.Start(b)
	c := bareClient(b, r)
	sha := shaOf(floorScript)
	r.Do("SCRIPT", "LOAD", floorScript)
	for _, n := range callers {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			measure(b, r, n, func(k int) error {
				cmd := c.B().Evalsha().Sha1(sha).Numkeys(1).Key(bareKey(k)).Arg("\x80abcdefg", "60000").Build()
				if err := c.Do(context.Background(), cmd).Error(); !rueidis.IsRedisNil(err) {
					return err
				}
				return nil
			})
		})
	}
}

// BenchmarkFloorEvalshaGoRedis is the same floor through the client that was not
// chosen.
func BenchmarkFloorEvalshaGoRedis(b *testing.B) {
	r := redistest.Start(b)
	c := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 64})
	defer c.Close()
	sha := shaOf(floorScript)
	r.Do("SCRIPT", "LOAD", floorScript)
	for _, n := range callers {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			measure(b, r, n, func(k int) error {
				err := c.EvalSha(context.Background(), sha, []string{bareKey(k)}, "\x80abcdefg", "60000").Err()
				if err == redis.Nil {
					return nil
				}
				return err
			})
		})
	}
}

func benchLimits() []caudal.Limit {
	return []caudal.Limit{
		caudal.PerMinute(1000),
		caudal.PerSecond(1000).WithQueue(1_000_000, 0),
		caudal.PerMinute(1000).With(caudal.FixedWindow),
		caudal.PerMinute(1000).With(caudal.SlidingWindow),
		caudal.PerMinute(20).With(caudal.SlidingLog),
	}
}

// BenchmarkTake is one limit per request.
func BenchmarkTake(b *testing.B) {
	for _, limit := range benchLimits() {
		r, s := single(b, redisstore.Options{})
		l := compile(b, limit)
		for _, n := range callers {
			b.Run(limit.Algorithm.String()+"/"+strconv.Itoa(n), func(b *testing.B) {
				measure(b, r, n, func(k int) error {
					_, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "client:"+strconv.Itoa(k), 1)
					return err
				})
			})
		}
	}
}

// BenchmarkTakeThree is a rate and two quotas on one request, in one script call.
func BenchmarkTakeThree(b *testing.B) {
	r, s := single(b, redisstore.Options{})
	limits := []*caudal.Compiled{
		compile(b, caudal.PerMinute(1000)),
		compile(b, caudal.PerDay(1_000_000).With(caudal.FixedWindow)),
		compile(b, caudal.Per(10_000_000, caudal.Month).With(caudal.FixedWindow)),
	}
	for _, n := range callers {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			measure(b, r, n, func(k int) error {
				calls, out := make([]caudal.Call, 3), make([]caudal.Decision, 3)
				key := strconv.AppendInt([]byte("client:"), int64(k), 10)
				for i, l := range limits {
					calls[i] = caudal.Call{Limit: l, Key: key, Cost: 1}
				}
				return s.Take(context.Background(), caudal.Instant{}, calls, out)
			})
		})
	}
}

// BenchmarkTakeHot is one hot key whose limit never binds: exactly, where callers
// share script calls, and leased.
func BenchmarkTakeHot(b *testing.B) {
	for _, accuracy := range []caudal.Accuracy{caudal.Exact, caudal.Leased} {
		r, s := single(b, redisstore.Options{})
		l, err := caudal.PerSecond(1_000_000_000).Compile("hot", "hot", caudal.WithAccuracy(accuracy))
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range callers {
			b.Run(accuracy.String()+"/"+strconv.Itoa(n), func(b *testing.B) {
				measure(b, r, n, func(int) error {
					_, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "hot", 1)
					return err
				})
			})
		}
	}
}

// BenchmarkTakeDenied is a hot key whose denial is known.
func BenchmarkTakeDenied(b *testing.B) {
	r, s := single(b, redisstore.Options{Denials: 1000})
	l := compile(b, caudal.PerHour(1))
	awaitDenials(b, s, l)
	for _, n := range callers {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			measure(b, r, n, func(int) error {
				_, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "hot", 1)
				return err
			})
		})
	}
}

// awaitDenials waits until the store remembers denials.
func awaitDenials(tb testing.TB, s *redisstore.Store, l *caudal.Compiled) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s.RemembersDenials() {
			take(tb, s, caudal.Instant{}, l, "hot", 1)
			return
		}
	}
	tb.Fatal("the store does not remember denials after 10 s")
}
