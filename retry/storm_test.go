package retry

import (
	"bytes"
	"container/heap"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

var update = flag.Bool("update", false, "write the plots in docs/ anew")

// The storm: 200 clients send a call each in the same instant to an API that
// allows 10/s, and try again until they are let through.
const (
	stormClients = 200
	stormBin     = 100 * time.Millisecond
	stormSpan    = 40 * time.Second
)

// attempt is one client's next attempt.
type attempt struct {
	at     time.Duration
	client int
	delays *Delays
}

// agenda is a heap of attempts; those of one instant go by client.
type agenda []attempt

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(attempt)) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].client < a[j].client
}
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// outcome is what became of a storm: attempts in each bin, how many in all, and
// when the last client was let through.
type outcome struct {
	name     string
	bins     []int
	attempts int
	done     time.Duration
}

// peak is the most attempts in a bin after the first second, which is the same for
// all.
func (o outcome) peak() (most int) {
	for _, n := range o.bins[int(time.Second/stormBin):] {
		most = max(most, n)
	}
	return most
}

func storm(t *testing.T, name string, b Backoff, floor bool) outcome {
	t.Helper()
	clock := storetest.NewClock(storetest.Start)
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: clock}), caudal.PerSecond(10)))
	b.Rand = rand.New(rand.NewPCG(20, 26)).Int64N
	var todo agenda
	for i := range stormClients {
		heap.Push(&todo, attempt{0, i, b.Start()})
	}
	o := outcome{name: name, bins: make([]int, stormSpan/stormBin)}
	for now := time.Duration(0); todo.Len() > 0; {
		a := heap.Pop(&todo).(attempt)
		clock.Advance(a.at - now)
		now = a.at
		o.attempts++
		if bin := int(now / stormBin); bin < len(o.bins) {
			o.bins[bin]++
		}
		d, err := limiter.Allow(context.Background(), "all")
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			o.done = now
			continue
		}
		a.at += a.delays.Next()
		if floor {
			a.at += (d.RetryAfter + time.Second - 1) / time.Second * time.Second
		}
		heap.Push(&todo, a)
	}
	return o
}

// TestStorm shows what jitter does to clients that were refused together, and
// draws it.
func TestStorm(t *testing.T) {
	b := Backoff{Base: time.Second, Max: 16 * time.Second}
	with := func(j Jitter) Backoff { b.Jitter = j; return b }
	outcomes := []outcome{
		storm(t, "no jitter", with(NoJitter), false),
		storm(t, "no jitter, on top of Retry-After", with(NoJitter), true),
		storm(t, "equal jitter", with(EqualJitter), false),
		storm(t, "decorrelated jitter", with(DecorrelatedJitter), false),
		storm(t, "full jitter", with(FullJitter), false),
		storm(t, "full jitter, on top of Retry-After", with(FullJitter), true),
	}
	for _, o := range outcomes {
		t.Logf("%-36s %5d attempts, at most %3d in 100 ms, the last let through at %s", o.name, o.attempts, o.peak(), o.done.Round(time.Second))
	}
	none, best := outcomes[1], outcomes[5]
	if best.peak()*3 > none.peak() {
		t.Errorf("at most %d attempts in 100 ms with full jitter and %d without, want under a third", best.peak(), none.peak())
	}
	if best.done >= none.done || best.attempts >= none.attempts {
		t.Errorf("full jitter: %d attempts until %s; none: %d until %s; want fewer and sooner", best.attempts, best.done, none.attempts, none.done)
	}

	got := plot(outcomes)
	const path = "../docs/storm.svg"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what this code draws: run go test ./retry -run TestStorm -update and look at it", path)
	}
}

// plot draws the attempts per bin, a panel each, on one scale. What is higher than
// a panel is cut; its caption says how high it was.
func plot(outcomes []outcome) []byte {
	const left, width, panel, top, cut = 60, 800, 80, 46, 60
	var b bytes.Buffer
	height := top + len(outcomes)*(panel+30) + 20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", left+width+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">%d clients refused together by a limit of 10/s: attempts per 100 ms</text>`+"\n", left, stormClients)
	for i, o := range outcomes {
		base := top + i*(panel+30) + panel
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s: %d attempts, at most %d in 100 ms after the first second, done at %.0f s</text>`+"\n",
			left, base-panel+4, o.name, o.attempts, o.peak(), o.done.Seconds())
		bar := float64(width) / float64(len(o.bins))
		var path strings.Builder
		for j, n := range o.bins {
			if n > 0 {
				fmt.Fprintf(&path, "M%.0f %dv-%.1fh%.0fv%.1fz", left+float64(j)*bar, base, float64(min(n, cut))*float64(panel-14)/cut, bar, float64(min(n, cut))*float64(panel-14)/cut)
			}
		}
		color := "#c0392b"
		if strings.HasPrefix(o.name, "full") {
			color = "#1f77b4"
		}
		fmt.Fprintf(&b, `<path d="%s" fill="%s"/>`+"\n", path.String(), color)
		fmt.Fprintf(&b, `<path d="M%d %dh%d" stroke="#333"/>`+"\n", left, base, width)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">0</text><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n", left-6, base+4, left-6, base-panel+24, cut)
		for s := 0; s <= int(stormSpan/time.Second); s += 5 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#666">%d s</text>`+"\n", left+s*width/int(stormSpan/time.Second), base+14, s)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
