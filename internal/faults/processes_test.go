package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// The test binary is also the other process: with this variable set it is a
// caller that waits for a line on standard input, makes its calls all at once and
// prints how many were allowed.
const workerEnv = "CAUDAL_FAULTS_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		if err := worker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A connection that is cut in the middle of a write leaves this one in toxiproxy.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// worker reads "url calls limit" from the environment.
func worker() error {
	parts := strings.SplitN(os.Getenv(workerEnv), " ", 3)
	calls, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	limit, err := caudal.ParseLimit(parts[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	store, err := redisstore.Open(ctx, parts[0], redisstore.Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer store.Close()
	limiter, err := caudal.New(store, limit)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var allowed atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			d, err := limiter.Allow(ctx, "one key")
			if err != nil {
				failed.Store(&err)
			}
			if d.Allowed {
				allowed.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Println(allowed.Load())
	return nil
}

// process is another process that makes calls.
type process struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startProcess(t *testing.T, url string, calls int, limit caudal.Limit) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", workerEnv, url, calls, limit))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // what went wrong shows in what it printed
	})
	p := &process{in, bufio.NewReader(out)}
	if line := p.line(t); line != "ready" {
		t.Fatalf("the other process says %q, want ready", line)
	}
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// hundred is 100 calls in one window that does not end meanwhile, by each
// algorithm.
func hundred() []caudal.Limit {
	year := caudal.Per(100, caudal.Year)
	return []caudal.Limit{
		year,
		year.WithQueue(99, 0),
		year.With(caudal.FixedWindow),
		year.With(caudal.SlidingLog),
		year.With(caudal.SlidingWindow),
	}
}

// Two processes share one count, exactly: of 400 calls at once 100 pass.
func TestTwoProcessesShareOneCountExactly(t *testing.T) {
	t.Run("single", func(t *testing.T) { shareExactly(t, redistest.Start(t).URL()) })
	t.Run("cluster", func(t *testing.T) { shareExactly(t, redistest.StartCluster(t).URL()) })
}

func shareExactly(t *testing.T, url string) {
	for _, limit := range hundred() {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			one, two := startProcess(t, url, 200, limit), startProcess(t, url, 200, limit)
			for _, p := range []*process{one, two} {
				if _, err := io.WriteString(p.in, "go\n"); err != nil {
					t.Fatal(err)
				}
			}
			sum := 0
			for _, p := range []*process{one, two} {
				n, err := strconv.Atoi(p.line(t))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if sum != 100 {
				t.Errorf("%s: two processes let %d of 400 calls pass, want 100", limit, sum)
			}
		})
	}
}
