package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/internal/storebench"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
)

const (
	// benchPrefix keeps what is measured apart from what is counted.
	benchPrefix = "caudal-bench:"
	// benchDenials is how many denied counters are answered without Redis, as serve
	// has it.
	benchDenials = 100_000
	// redisCallers is how many callers a store on Redis is measured with.
	redisCallers = 64
)

// storeBench is what the flags of caudal bench store say.
type storeBench struct {
	storebench.Options
	store, limit, algorithm, accuracy string
	keys, loop                        string
}

func newBenchStore(s Streams) *cobra.Command {
	var b storeBench
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Measure a store beside its floor",
		Long: `Callers ask a store about one key at a time: first in a closed loop, in which each asks again when it has its answer,
then in an open loop at half that rate, in which calls come at their time whatever becomes of those before and their times
are taken from when they were due. Its floor is measured in turn: reading a clock in memory, a script of one GET and one SET
on Redis. On a server that others use, figures are those of both; its keys begin with ` + benchPrefix + ` and expire.`,
		Example: `  caudal bench store
  caudal bench store --keys hot,zipf,uniform,churn --limit "100/s sliding_window"
  caudal bench store --store redis --keys hot --accuracy leased
  caudal bench store --store redis://127.0.0.1:6379 --loop open --rate 20000 --callers 256 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			progress := newProgress(s.Err)
			b.Progress = progress.say
			results, err := b.run(ctx)
			progress.end()
			if err != nil {
				return err
			}
			if asJSON {
				return storebench.PrintJSON(s.Out, results)
			}
			return storebench.Print(s.Out, results)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&b.store, "store", "memory", "the `STORE`: memory, redis (one is started), or a URL such as redis://127.0.0.1:6379")
	flags.StringVar(&b.limit, "limit", "1000000/s", "the `LIMIT` of each key, such as \"100/m burst 20\"")
	flags.StringVar(&b.algorithm, "algorithm", "", "the `ALGORITHM` that counts (default the one in --limit, token_bucket)")
	flags.StringVar(&b.accuracy, "accuracy", "exact", "the `ACCURACY`: exact or leased")
	flags.StringVar(&b.keys, "keys", "uniform", "how `KEYS` are drawn: "+strings.Join(storebench.Distributions(), ", ")+"; several in turn")
	flags.IntVar(&b.Keys, "key-count", 0, "how many keys there are (default 100000)")
	flags.IntVar(&b.Callers, "callers", 0, "how many calls are under way at most (default one per processor, on Redis 64)")
	flags.StringVar(&b.loop, "loop", "closed,open", "which `LOOPS` to measure")
	flags.IntVar(&b.Rate, "rate", 0, "calls a second in the open loop (default half of the closed loop)")
	flags.DurationVar(&b.Warmup, "warmup", time.Second, "how long to run before measuring")
	flags.DurationVar(&b.Duration, "duration", 3*time.Second, "how long to measure")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (b *storeBench) run(ctx context.Context) ([]storebench.Result, error) {
	limit, err := b.compile()
	if err != nil {
		return nil, err
	}
	b.Distributions, b.Loops = strings.Split(b.keys, ","), strings.Split(b.loop, ",")
	for _, d := range b.Distributions {
		if !slices.Contains(storebench.Distributions(), d) {
			return nil, usagef("use "+strings.Join(storebench.Distributions(), ", "), "--keys %q is not known", d)
		}
	}
	for _, loop := range b.Loops {
		if loop != storebench.Closed && loop != storebench.Open {
			return nil, usagef("use "+storebench.Closed+", "+storebench.Open+", or both with a comma", "--loop %q is not known", loop)
		}
	}
	closeAll, err := b.open(ctx, limit)
	if err != nil {
		return nil, err
	}
	results, err := storebench.Run(ctx, b.Options)
	return results, errors.Join(err, closeAll())
}

func (b *storeBench) compile() (*caudal.Compiled, error) {
	limit, err := caudal.ParseLimit(b.limit)
	if err != nil {
		return nil, usagef("write it as 100/m, or \"1000/s burst 200\"", "--limit %s", strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "))
	}
	if b.algorithm != "" {
		a, ok := caudal.ParseAlgorithm(b.algorithm)
		if !ok {
			return nil, usagef("use token_bucket, leaky_bucket, fixed_window, sliding_log or sliding_window", "--algorithm %q is not known", b.algorithm)
		}
		limit = limit.With(a)
	}
	accuracy, ok := caudal.ParseAccuracy(b.accuracy)
	if !ok {
		return nil, usagef("use exact or leased", "--accuracy %q is not known", b.accuracy)
	}
	if err := caudal.CheckAccuracy(limit.Algorithm, accuracy); err != nil {
		return nil, usagef("use exact, or another algorithm", "--accuracy %s goes with token_bucket, fixed_window and sliding_window", b.accuracy)
	}
	return limit.Compile("bench", "bench", caudal.WithAccuracy(accuracy))
}

// open opens the store that is named, and its floor.
func (b *storeBench) open(ctx context.Context, limit *caudal.Compiled) (closeAll func() error, err error) {
	if b.store == "memory" {
		if b.Callers == 0 {
			b.Callers = runtime.GOMAXPROCS(0)
		}
		b.Floor, b.Store = storebench.MemoryFloor(), storebench.Store("memory", memstore.New(memstore.Options{}), limit)
		return func() error { return nil }, nil
	}
	if b.Callers == 0 {
		b.Callers = redisCallers
	}
	url, stop := b.store, func() {}
	if url == "redis" {
		if url, stop, err = startRedis(ctx); err != nil {
			return nil, err
		}
	} else if err := serve.CheckStore(url); err != nil {
		return nil, usagef("use memory, redis, or a URL such as redis://127.0.0.1:6379", "--store %v", err)
	}
	closeStore, err := b.openRedis(ctx, url, limit)
	if err != nil {
		stop()
		return nil, err
	}
	return func() error {
		defer stop()
		return closeStore()
	}, nil
}

func (b *storeBench) openRedis(ctx context.Context, url string, limit *caudal.Compiled) (closeAll func() error, err error) {
	calls := &redisCalls{}
	store, err := redisstore.Open(ctx, url, redisstore.Options{Prefix: benchPrefix, Denials: benchDenials, Observer: calls,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	scheme, _, _ := strings.Cut(url, "://")
	b.Store = storebench.Store(scheme, store, limit)
	b.Store.Calls = calls.Load
	if scheme != "redis" { // the floor is of one server that needs no certificates
		return store.Close, nil
	}
	floor, closeFloor, err := storebench.RedisFloor(url, benchPrefix+"floor:")
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	b.Floor = floor
	return func() error {
		closeFloor()
		return store.Close()
	}, nil
}

// redisCalls counts the calls of Redis.
type redisCalls struct{ atomic.Int64 }

func (c *redisCalls) Call(string, time.Duration, error) { c.Add(1) }
func (c *redisCalls) DeniedLocally()                    {}
func (c *redisCalls) Connected(bool, error)             {}

// progress says what is under way: on a terminal in one line, which the next one
// overwrites.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

const clearLine = "\r\x1b[K"

func (p *progress) say(line string) {
	if p.terminal {
		fmt.Fprint(p.out, clearLine+line)
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// end clears the line for what comes after.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, clearLine)
	}
}
