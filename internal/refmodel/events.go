package refmodel

import (
	"math/big"
	"time"

	"github.com/caudal-dev/caudal"
)

// event is one admitted call, and what of its cost was not taken back.
type event struct {
	at   int64
	cost uint64
	id   int
}

// events is all that was admitted, oldest first.
type events []event

// take lowers the costs of the newest events that match by n in all.
func (es events) take(n uint64, match func(event) bool) {
	for i := len(es) - 1; i >= 0; i-- {
		if match(es[i]) {
			part := min(n, es[i].cost)
			es[i].cost -= part
			n -= part
		}
	}
}

// sum adds the costs of the events that match.
func (es events) sum(match func(event) bool) (total uint64) {
	for _, e := range es {
		if match(e) {
			total += e.cost
		}
	}
	return total
}

// atOf gives when the call with this id was admitted.
func (es events) atOf(id int) (at int64, ok bool) {
	for _, e := range es {
		if e.id == id {
			return e.at, true
		}
	}
	return 0, false
}

// slidingLog counts the events of the last period.
type slidingLog struct{ events events }

// now gives the key's own time: not before its newest event.
func (s *slidingLog) now(now int64) int64 {
	for _, e := range s.events {
		if e.cost > 0 {
			now = max(now, e.at)
		}
	}
	return now
}

func (s *slidingLog) fits(l caudal.Limit, now int64, cost uint64) bool {
	at := s.now(now)
	used := s.events.sum(func(e event) bool { return e.at+period(l) > at })
	return used+cost <= capacity(l)
}

func (s *slidingLog) charge(l caudal.Limit, now int64, cost uint64, id int) int64 {
	at := s.now(now)
	var kept events // what has left by now stays gone, even if this charge is taken back
	for _, e := range s.events {
		if e.at+period(l) > at {
			kept = append(kept, e)
		}
	}
	s.events = append(kept, event{at, cost, id})
	return 0
}

func (s *slidingLog) earliest(l caudal.Limit, now int64, cost uint64) int64 {
	return first(now, func(x int64) bool { return s.fits(l, x, cost) })
}

// refund takes from the entries of the instant that was charged: calls of one
// instant leave together, so it does not matter which of them is named.
func (s *slidingLog) refund(_ caudal.Limit, _ int64, n uint64, id int) {
	at, ok := s.events.atOf(id)
	s.events.take(n, func(e event) bool { return ok && e.at == at })
}

func (s *slidingLog) credit(_ caudal.Limit, _ int64, n uint64) {
	s.events.take(n, func(event) bool { return true })
}

// windowed counts the events of the present window, and those of the one before
// as far as weigh says.
type windowed struct {
	events events
	held   int64 // start of the latest window that was charged
	weigh  func(l caudal.Limit, previous uint64, left int64) uint64
}

// wholeWindow is a fixed window: what was before does not count.
func wholeWindow(caudal.Limit, uint64, int64) uint64 { return 0 }

// slidingShare is a sliding window: the previous window counts by the share of
// it that a period ending now still overlaps. Rounding down here is rounding the
// whole estimate down, since the present count is whole.
func slidingShare(l caudal.Limit, previous uint64, left int64) uint64 {
	share := new(big.Rat).SetFrac64(left, period(l))
	return floor(mul(share, whole(int64(previous)))).Uint64()
}

func (w *windowed) used(l caudal.Limit, now int64) uint64 {
	at := max(now, w.held)
	start, end := Window(l, at)
	current := w.events.sum(func(e event) bool { return start <= e.at && e.at < end })
	previous := w.events.sum(func(e event) bool { return start-period(l) <= e.at && e.at < start })
	into := (at - start) / tick(l) * tick(l)
	return current + w.weigh(l, previous, period(l)-into)
}

func (w *windowed) fits(l caudal.Limit, now int64, cost uint64) bool {
	return w.used(l, now)+cost <= capacity(l)
}

func (w *windowed) charge(l caudal.Limit, now int64, cost uint64, id int) int64 {
	at := max(now, w.held)
	w.events = append(w.events, event{at, cost, id})
	w.held, _ = Window(l, at)
	return 0
}

func (w *windowed) earliest(l caudal.Limit, now int64, cost uint64) int64 {
	return first(now, func(x int64) bool { return w.fits(l, x, cost) })
}

// refund takes from the window that was charged.
func (w *windowed) refund(l caudal.Limit, _ int64, n uint64, id int) {
	at, ok := w.events.atOf(id)
	start, end := Window(l, at)
	w.events.take(n, func(e event) bool { return ok && start <= e.at && e.at < end })
}

func (w *windowed) credit(l caudal.Limit, now int64, n uint64) {
	start, end := Window(l, max(now, w.held))
	w.events.take(n, func(e event) bool { return start <= e.at && e.at < end })
}

// Window finds the window of a limit around an instant by its name on the
// calendar: a window is all instants that share a name.
func Window(l caudal.Limit, now int64) (start, end int64) {
	zone := time.UTC
	if l.Timezone != "" {
		zone, _ = time.LoadLocation(l.Timezone)
	}
	calendar := l.Algorithm == caudal.FixedWindow && !l.Epoch && l.Multiplier <= 1 && l.Unit >= caudal.Day
	if !calendar {
		start = now - now%period(l)
		return start, start + period(l)
	}
	name := nameOf(l.Unit, zone, now)
	end = first(now, func(x int64) bool { return nameOf(l.Unit, zone, x) != name })
	start = -first(-now, func(x int64) bool { return nameOf(l.Unit, zone, -x) != name }) + 1
	return start, end
}

func nameOf(unit caudal.Unit, zone *time.Location, now int64) (name [2]int) {
	t := time.UnixMicro(now).In(zone)
	switch unit {
	case caudal.Day:
		return [2]int{t.Year(), t.YearDay()}
	case caudal.Week:
		year, week := t.ISOWeek()
		return [2]int{year, week}
	case caudal.Month:
		return [2]int{t.Year(), int(t.Month())}
	}
	return [2]int{t.Year(), 0}
}
