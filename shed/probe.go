package shed

import (
	"math"
	"time"
)

// probe keeps the limit from drifting. Under an overload that lasts, long
// response times become what a limiter knows as normal, and it lets the queue in
// the upstream grow. So every probeEvery of overload, the calls under way are let down
// to a quarter for a moment, and how long an answer takes then tells how long one
// takes without a queue. By Little's law, that time and the rate of answers give
// how many calls the upstream works at. The limit may be twice as many, and not
// fewer: a limiter that looks for a lower one idles the upstream meanwhile.
//
// Where no call had to wait there is no need: what answers take is the time.
type probe struct {
	rest float64 // seconds that an answer takes when the upstream is not crowded; 0 unknown
	rate float64 // answers a second when it is; 0 unknown

	began     time.Time // of the present second
	answers   int       // in it
	took      float64   // by them, in seconds
	crowded   bool      // a call had to wait in it
	disturbed bool      // there was a probe in it

	next      time.Time // earliest next probe
	probing   bool
	since     time.Time // of the probe
	measuring time.Time // since when the calls under way are few; zero before
	taken     int       // calls let in to be measured
	samples   int       // of them, answered
	sum       float64
}

const (
	probeEvery   = 15 * time.Second
	probeSamples = 20
	probeLeast   = 5 // samples that will do after probeLong
	probeLong    = time.Second
	probeLongest = 3 * time.Second
	tooMany      = 2 // times as many calls as the upstream works at may be under way,
	andSome      = 4 // and this many more: a small upstream's are over by chance
)

// least gives how many calls the upstream works at; 0 when nothing is known.
func (p *probe) least() int { return int(p.rate * p.rest) }

// bound gives the most calls that may be under way; 0 when nothing is known.
func (p *probe) bound() int {
	if p.rest == 0 || p.rate == 0 {
		return 0
	}
	return int(math.Ceil(tooMany*p.rate*p.rest)) + andSome
}

// take reports whether a call that is let in now is one of those that are measured.
// They are the first so many and not those answered first, which are the quick ones.
func (p *probe) take() bool {
	if !p.probing || p.measuring.IsZero() || p.taken == probeSamples {
		return false
	}
	p.taken++
	return true
}

// answer takes in a call that was answered.
func (p *probe) answer(took time.Duration, measured bool) {
	p.answers++
	p.took += took.Seconds()
	if measured && p.probing {
		p.samples++
		p.sum += took.Seconds()
	}
}

// lost notes that a measured call ended without an answer.
func (p *probe) lost() {
	if p.probing {
		p.taken--
	}
}

// finish ends a probe that knows enough, or lasts too long.
func (p *probe) finish(now time.Time) {
	all := p.taken == probeSamples && p.samples >= p.taken
	some := !p.measuring.IsZero() && now.Sub(p.measuring) > probeLong && p.samples >= probeLeast
	if all || some {
		p.rest = p.sum / float64(p.samples)
	}
	if all || some || now.Sub(p.since) > probeLongest {
		p.end(now)
	}
}

func (p *probe) end(now time.Time) { p.probing, p.next = false, now.Add(probeEvery) }

// pass notes the time, and how many calls are under way; few is how many are so
// few that the upstream is not crowded.
func (p *probe) pass(now time.Time, inflight, few int) {
	if p.probing {
		if p.measuring.IsZero() && inflight <= few {
			p.measuring = now
		}
		p.finish(now)
	}
	elapsed := now.Sub(p.began)
	if elapsed < time.Second {
		return
	}
	switch {
	case p.disturbed || elapsed > 2*time.Second: // a gap says nothing
	case p.crowded:
		p.rate = approach(p.rate, float64(p.answers)/elapsed.Seconds())
	case p.answers >= probeSamples:
		p.rest = approach(p.rest, p.took/float64(p.answers))
	}
	if p.crowded && !p.probing && p.rate > 0 && !now.Before(p.next) {
		p.probing, p.since, p.measuring, p.taken, p.samples, p.sum = true, now, time.Time{}, 0, 0, 0
	}
	p.began, p.answers, p.took, p.crowded, p.disturbed = now, 0, 0, false, p.probing
}

// approach is a moving average that begins with its first value.
func approach(average, value float64) float64 {
	if average == 0 {
		return value
	}
	return average + (value-average)/4
}
