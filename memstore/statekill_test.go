package memstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// childPath is the variable that makes a test binary the process to be killed.
const (
	childPath     = "CAUDAL_TEST_STATE_FILE"
	childInterval = "CAUDAL_TEST_STATE_INTERVAL"
	quotaKeys     = 2000
)

// stopped is a clock that stands still, so that no quota ends meanwhile.
type stopped struct{}

func (stopped) Now() caudal.Instant {
	return caudal.At(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
}

func quota(tb testing.TB) *caudal.Compiled {
	tb.Helper()
	l, err := caudal.PerDay(4_000_000_000).With(caudal.FixedWindow).Compile("", "quota")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// charged sums what all keys have been charged.
func charged(tb testing.TB, s *Store, l *caudal.Compiled) (sum int64) {
	tb.Helper()
	for n := range quotaKeys {
		d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "key "+strconv.Itoa(n), 0)
		if err != nil {
			tb.Fatal(err)
		}
		sum += int64(l.Capacity()) - int64(d.Remaining)
	}
	return sum
}

// TestStateChild is no test: it is the process that TestKilledAtAnyPoint kills.
func TestStateChild(t *testing.T) {
	path := os.Getenv(childPath)
	if path == "" {
		t.Skip("only under TestKilledAtAnyPoint")
	}
	interval, err := time.ParseDuration(os.Getenv(childInterval))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Clock: stopped{}}, StateOptions{Path: path, Interval: interval})
	if err != nil {
		t.Fatal(err)
	}
	s.file.mu.Lock()
	s.file.growLeast = 200_000 // so that it is replaced often, and the kill falls into that, too
	s.file.mu.Unlock()
	l := quota(t)
	sum := charged(t, s, l)
	fmt.Println("ready")
	out := bufio.NewWriter(os.Stdout)
	last := time.Now()
	for n := rand.IntN(quotaKeys); ; n++ {
		if _, err := s.TakeKey(t.Context(), caudal.Instant{}, l, "key "+strconv.Itoa(n%quotaKeys), 1); err != nil {
			t.Fatal(err)
		}
		sum++
		if now := time.Now(); now.Sub(last) > 500*time.Microsecond {
			last = now
			fmt.Fprintln(out, now.UnixNano(), sum)
			_ = out.Flush() // the parent ends this process anyway
		}
	}
}

// mark is what a child had charged at an instant.
type mark struct{ at, sum int64 }

// runAndKill lets a child charge for a while; it gives what the child told.
func runAndKill(t *testing.T, path string, interval, life time.Duration) (marks []mark) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateChild$")
	cmd.Env = append(os.Environ(), childPath+"="+path, childInterval+"="+interval.String())
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the child says %q", lines.Text())
	}
	kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for lines.Scan() {
		var m mark
		if n, _ := fmt.Sscan(lines.Text(), &m.at, &m.sum); n == 2 {
			marks = append(marks, m)
		}
	}
	_ = cmd.Wait() // it was killed
	if len(marks) == 0 {
		t.Fatalf("the child was killed after %v and told nothing", life)
	}
	return marks
}

// TestKilledAtAnyPoint kills a process under load again and again, on one file:
// what it charged up to an interval before counts in the next. The short form lets
// a busy machine be ten times as late.
func TestKilledAtAnyPoint(t *testing.T) {
	rounds, interval, bound := 8, 50*time.Millisecond, 500*time.Millisecond
	if os.Getenv("CAUDAL_SOAK") != "" {
		rounds, interval, bound = 200, DefaultStateInterval, DefaultStateInterval
	}
	path := filepath.Join(t.TempDir(), "state")
	l := quota(t)
	var worst, lost time.Duration
	for round := range rounds {
		life := time.Duration(rand.Int64N(int64(bound*5/2))) + 20*time.Millisecond
		marks := runAndKill(t, path, interval, life)
		s, err := Open(Options{Clock: stopped{}}, StateOptions{Path: path, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("round %d, killed after %v: %v", round, life, err)
		}
		sum := charged(t, s, l)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		end := marks[len(marks)-1]
		behind := time.Duration(0)
		for _, m := range marks {
			if m.sum > sum {
				behind = time.Duration(end.at - m.at)
				break
			}
		}
		if behind > bound {
			t.Errorf("round %d, killed after %v: %d of %d charges are there, what was charged in the last %v is lost", round, life, sum, end.sum, behind)
		}
		lost += behind
		worst = max(worst, behind)
	}
	t.Logf("%d kills at an interval of %v: at worst the last %v were lost, %v on average", rounds, interval, worst, lost/time.Duration(rounds))
}

// TestCloseUnderLoadLosesNothing: each call is either charged for good or fails.
func TestCloseUnderLoadLosesNothing(t *testing.T) {
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "state")
		s, err := Open(Options{Clock: stopped{}}, StateOptions{Path: path, Interval: 4 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l := quota(t)
		var sum atomic.Int64
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				out := make([]caudal.Decision, 2)
				for n := caller; ; n++ {
					a, b := "key "+strconv.Itoa(n%quotaKeys), "key "+strconv.Itoa((n+7)%quotaKeys)
					var err error
					if n%2 == 0 {
						_, err = s.TakeKey(t.Context(), caudal.Instant{}, l, a, 2)
					} else {
						err = s.Take(t.Context(), caudal.Instant{}, []caudal.Call{{Limit: l, Key: []byte(a), Cost: 1}, {Limit: l, Key: []byte(b), Cost: 1}}, out)
					}
					if err != nil {
						if !errors.Is(err, caudal.ErrClosed) {
							t.Error(err)
						}
						return
					}
					sum.Add(2)
				}
			})
		}
		for sum.Load() < 20_000 {
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		callers.Wait()
		again, err := Open(Options{Clock: stopped{}}, StateOptions{Path: path, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if got := charged(t, again, l); got != sum.Load() {
			t.Errorf("round %d: %d charges are in the file, %d were made", round, got, sum.Load())
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
