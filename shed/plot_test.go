package shed_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

var update = flag.Bool("update", false, "draw ../docs/overload.svg anew")

// second is one second of a simulation: calls done by priority and offered of each,
// and the limit.
type second struct {
	offered, done [rule.PriorityCritical + 1]float64
	limit         int
}

// TestGradually raises the load from half the upstream's capacity to four times
// it, draws what becomes of each priority, and checks that a lower one never fares
// better than a higher one.
func TestGradually(t *testing.T) {
	u := upstream{n: 20, service: 20 * time.Millisecond, even: true}
	const length = 120
	load := func(s float64) float64 { return 0.5 + 3.5*s/length }
	sources := fourPriorities()
	var seconds []second
	r := run{upstream: &u, load: load, length: length * time.Second}
	var before second
	r.each = func(_ int, s *shed.Shedder, tallies []tally) {
		var now, step second
		for i, c := range sources {
			now.offered[c.call.Priority] += tallies[i].offered
			now.done[c.call.Priority] += tallies[i].done
		}
		for p := range now.done {
			step.offered[p], step.done[p] = now.offered[p]-before.offered[p], now.done[p]-before.done[p]
		}
		step.limit = s.Stats().Limit
		seconds, before = append(seconds, step), now
	}
	r.simulate(t, sources)
	for at := 20; at+10 <= len(seconds); at += 10 {
		var share [rule.PriorityCritical + 1]float64
		for p := rule.PriorityLow; p <= rule.PriorityCritical; p++ {
			offered, done := 0.0, 0.0
			for _, s := range seconds[at : at+10] {
				offered += s.offered[p]
				done += s.done[p]
			}
			share[p] = done / offered
			if p > rule.PriorityLow && share[p] < share[p-1]-0.03 {
				t.Errorf("from second %d on %s gets %.0f %% and %s %.0f %%, want the lowest shed first", at, p, 100*share[p], p-1, 100*share[p-1])
			}
		}
		if share[rule.PriorityCritical] < 0.95 {
			t.Errorf("from second %d on critical gets %.1f %%, want at least 95 %%", at, 100*share[rule.PriorityCritical])
		}
	}
	if *update {
		if err := os.WriteFile("../docs/overload.svg", draw(seconds, load, u.capacity()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var colors = [...]string{"", "#aaaaaa", "#1f77b4", "#2ca02c", "#c0392b"}

// draw stacks what is done by priority, the most important at the bottom, under a
// line of what is offered.
func draw(seconds []second, load func(float64) float64, capacity float64) []byte {
	const left, width, top, height = 60, 800, 50, 260
	var b bytes.Buffer
	x := func(i int) float64 { return left + float64(i)*width/float64(len(seconds)) }
	y := func(rate float64) float64 { return top + height - rate/(4*capacity)*height }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", left+width+20, top+height+60)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">an upstream of 1000 calls a second, offered 500 to 4000, a quarter by each priority: calls answered a second</text>`+"\n", left)
	base := make([]float64, len(seconds))
	for p := rule.PriorityCritical; p > 0; p-- {
		fmt.Fprintf(&b, `<path fill="%s" d="`, colors[p])
		for i, s := range seconds {
			fmt.Fprintf(&b, "M%.1f %.1fV%.1fH%.1fV%.1fz", x(i), y(base[i]), y(base[i]+s.done[p]), x(i+1), y(base[i]))
			base[i] += s.done[p]
		}
		fmt.Fprintf(&b, `"/>`+"\n")
		fmt.Fprintf(&b, `<text x="%d" y="40" fill="%s">%s</text>`+"\n", left+int(rule.PriorityCritical-p)*80, colors[p], p)
	}
	fmt.Fprintf(&b, `<path fill="none" stroke="#333" stroke-dasharray="4" d="M%.1f %.1fL%.1f %.1f"/>`+"\n", x(0), y(load(0)*capacity), x(len(seconds)), y(4*capacity))
	fmt.Fprintf(&b, `<text x="%d" y="40">- - offered</text>`+"\n", left+340)
	for i := range 5 {
		rate := float64(i) * capacity
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left, y(rate), width, left-6, y(rate)+4, rate)
	}
	for i := 0; i <= len(seconds); i += 20 {
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" text-anchor="middle" fill="#666">%d s</text>`+"\n", x(i), top+height+16, i)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
