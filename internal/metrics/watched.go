package metrics

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/internal/topk"
)

// The bounds of what is kept. A rule takes some 25 KiB where keys are of ordinary
// length, and at most 160 KiB; all together some 6 MiB, and at most 80 MiB.
const (
	maxWatched = 512     // rules that are watched; further ones are only counted
	allSlots   = 1 << 13 // counters of one kind of sketch, over all rules
	mostSlots  = 64      // of one rule
	leastSlots = 16
)

// historySeconds is how long rates are kept, one for each second.
const historySeconds = 15 * 60

// stretch is how long a sketch counts before it begins anew: what is shown is of
// the last one to two of them.
const stretch = 5 * time.Minute

// watched is what is known of one rule beside its counts. Like them it outlives
// reloads.
type watched struct {
	salt     uint64
	denied   *topk.Window
	active   *topk.Window
	near     distinct
	suspects [len(suspectKinds)]atomic.Uint64

	// byDescriptor says that values came from somebody else's descriptors, who may
	// not have verified what they call a user.
	byDescriptor atomic.Bool

	// The rest belongs to Metrics.ticking.
	last    [len(outcomes)]uint64
	history []Second // a ring; the next goes to at
	at      int
	share   float64
}

// Second is what was decided about a rule in one second.
type Second struct{ Allowed, Denied, ShadowDenied uint32 }

func newWatched(rules int) *watched {
	k := min(max(allSlots/max(rules, 1), leastSlots), mostSlots)
	return &watched{salt: rand.Uint64(), denied: topk.NewWindow(k), active: topk.NewWindow(k), near: newDistinct()}
}

// Tick keeps the figures that change with time. It must be called about once a
// second, with the time; calls that come late are made up for.
func (m *Metrics) Tick(now time.Time) {
	m.ticking.Lock()
	defer m.ticking.Unlock()
	seconds := 1
	if !m.ticked.IsZero() {
		if seconds = int(now.Unix() - m.ticked.Unix()); seconds <= 0 {
			return
		}
	} else {
		m.minute, m.rotated = now, now
	}
	m.ticked = now
	m.suspects.second()
	minute, rotate := now.Sub(m.minute) >= time.Minute, now.Sub(m.rotated) >= stretch
	if minute {
		m.minute = now
		m.suspects.minute()
	}
	if rotate {
		m.rotated = now
	}
	for _, c := range m.table.Load().all {
		w := c.watched
		if w == nil {
			continue
		}
		w.second(c, min(seconds, historySeconds))
		if minute {
			w.near.rotate()
		}
		if rotate {
			w.denied.Rotate()
			w.active.Rotate()
		}
		w.share = w.topShare()
	}
}

// second adds what was counted since the last time, spread over as many seconds.
func (w *watched) second(c *counters, seconds int) {
	var since [len(outcomes)]uint64
	for i := range since {
		sum := c.all(i)
		since[i], w.last[i] = sum-w.last[i], sum
	}
	for left := uint64(seconds); left > 0; left-- {
		part := func(results ...httplimit.Result) uint32 {
			sum := uint64(0)
			for _, r := range results {
				n := since[r] / left
				since[r] -= n
				sum += n
			}
			return uint32(min(sum, 1<<32-1))
		}
		w.push(Second{Allowed: part(httplimit.Allowed, httplimit.ErrorAllowed),
			Denied: part(httplimit.Denied, httplimit.ErrorDenied), ShadowDenied: part(httplimit.ShadowDenied)})
	}
}

func (w *watched) push(s Second) {
	if len(w.history) < historySeconds {
		w.history = append(w.history, s)
		return
	}
	w.history[w.at] = s
	w.at = (w.at + 1) % historySeconds
}

// seconds gives the last n seconds, the oldest first.
func (w *watched) seconds(n int) []Second {
	all := append(append([]Second(nil), w.history[w.at:]...), w.history[:w.at]...)
	return all[max(len(all)-n, 0):]
}

// minActive is how many calls, as estimated, a share is given of: fewer say
// nothing.
const minActive = 50 * activeEvery

// topShare gives the share of the calls that the busiest key made, for sure.
func (w *watched) topShare() float64 {
	top, total := w.active.Top(1)
	if len(top) == 0 || total < minActive {
		return 0
	}
	return float64(top[0].Count-top[0].ErrorBound) / float64(total)
}
