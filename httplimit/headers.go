package httplimit

import (
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
)

// The names of headers as net/http spells them.
const (
	headerLimit     = "X-Ratelimit-Limit"
	headerRemaining = "X-Ratelimit-Remaining"
	headerReset     = "X-Ratelimit-Reset"
	headerPolicy    = "Ratelimit-Policy"
	headerState     = "Ratelimit"
)

// SetHeaders writes the configured header families into h. Where h holds them
// already, from another limiter on the way, the lists are joined, and the three
// older headers are those of the limiter with less remaining.
func (o *Outcome) SetHeaders(h http.Header) {
	limits := len(o.Decisions) > 0 && o.Verdict.Nearest >= 0
	if o.core.opts.DryRun || !limits && len(o.Grants) == 0 {
		return
	}
	if o.core.opts.Families&Draft != 0 {
		o.setDraft(h)
	}
	if o.core.opts.Families&Legacy != 0 {
		o.setLegacy(h)
	}
}

func (o *Outcome) setLegacy(h http.Header) {
	var d *caudal.Decision
	if i, denied := o.permitDenied(); denied {
		d = &caudal.Decision{Limit: o.Grants[i].Max, ResetAfter: permitRetry}
	} else if len(o.Decisions) > 0 && o.Verdict.Nearest >= 0 {
		d = &o.Decisions[o.Verdict.Nearest]
	} else {
		return // permits that are free tell a client nothing about its next call
	}
	if present := h[headerRemaining]; len(present) > 0 {
		// A value that is no number is left alone: it means something to somebody.
		if n, err := strconv.ParseUint(present[0], 10, 64); err != nil || n <= d.Remaining {
			return
		}
	}
	reset := ceilSeconds(d.ResetAfter)
	if o.core.opts.Reset == ResetEpoch {
		reset = ceilSeconds(time.Duration(o.wall%1e6)*time.Microsecond+d.ResetAfter) + o.wall/1e6
	}
	b := strconv.AppendUint(o.buf[:0], d.Limit, 10)
	first := len(b)
	b = strconv.AppendUint(b, d.Remaining, 10)
	second := len(b)
	b = strconv.AppendInt(b, reset, 10)
	text := string(b) // one for all three
	values := []string{text[:first], text[first:second], text[second:]}
	h[headerLimit], h[headerRemaining], h[headerReset] = values[0:1:1], values[1:2:2], values[2:3:3]
	o.buf = b
}

// setDraft writes RateLimit-Policy and RateLimit, one item for each enforced
// limit. A field that holds something else than such a list (an older draft) is
// left as it is: one bad member makes clients drop the whole field.
func (o *Outcome) setDraft(h http.Header) {
	if !isList(h[headerPolicy]) || !isList(h[headerState]) {
		return
	}
	quota := caudal.QuotaEnforced(o.Calls, o.Decisions)
	policy, state := o.buf[:0], o.state[:0]
	for i := range o.Decisions {
		limit, d := o.Calls[i].Limit, &o.Decisions[i]
		if !caudal.Enforced(o.Calls[i].Mode, quota) || d.Unasked {
			continue
		}
		if len(policy) > 0 {
			policy, state = append(policy, ", "...), append(state, ", "...)
		}
		policy = appendString(policy, policyName(limit))
		policy = appendInteger(append(policy, ";q="...), d.Limit)
		policy = appendInteger(append(policy, ";w="...), uint64(window(limit, d)))
		state = appendString(state, policyName(limit))
		state = appendInteger(append(state, ";r="...), d.Remaining)
		if t := o.effective(limit, d); t > 0 {
			state = appendInteger(append(state, ";t="...), uint64(t))
		}
	}
	policy, state = o.setPermits(policy, state)
	if len(policy) == 0 {
		return
	}
	if present := h[headerPolicy]; len(present) > 0 {
		o.core.warnOfTwice(o.domain, present, string(policy))
	}
	n := len(policy)
	policy = append(policy, state...)
	text := string(policy) // one for both
	values := []string{text[:n], text[n:]}
	join(h, headerPolicy, values[0:1:1])
	join(h, headerState, values[1:2:2])
	o.buf, o.state = policy, state
}

// policyName gives the name under which clients see a limit.
func policyName(limit *caudal.Compiled) string {
	if name := limit.Name(); name != "" {
		return name
	}
	return "default"
}

// window gives the seconds in which the quota is allotted: the period, or where
// a bucket refills, the time from empty to full.
func window(limit *caudal.Compiled, d *caudal.Decision) int64 {
	switch limit.Algorithm() {
	case caudal.TokenBucket, caudal.LeakyBucket:
		if limit.Requests() > 0 {
			return max(1, ceilMicros(timeFor(limit, d.Limit)))
		}
	}
	return max(1, ceilMicros(limit.PeriodMicros()))
}

// effective gives the seconds within which the client may use no more than what
// remains, and 0 when there is no such time because nothing ever will.
func (o *Outcome) effective(limit *caudal.Compiled, d *caudal.Decision) int64 {
	switch {
	case limit.Requests() == 0 || d.Never && d.Remaining == 0:
		return 0
	case !d.Allowed && !d.Never:
		return max(1, ceilSeconds(d.RetryAfter))
	}
	switch limit.Algorithm() {
	case caudal.TokenBucket:
		if d.Remaining > 0 {
			// What remains over this time is the rate: a client that divides the one
			// by the other never goes faster.
			return max(1, ceilMicros(timeFor(limit, d.Remaining)))
		}
		// Full but for one token comes that much before full.
		return max(1, ceilMicros(d.ResetAfter.Microseconds()-timeFor(limit, d.Limit-1)))
	case caudal.SlidingLog:
		if d.Remaining > 0 {
			return window(limit, d)
		}
	case caudal.FixedWindow, caudal.SlidingWindow:
		_, end := limit.Window(o.wall)
		return max(1, ceilMicros(end-o.wall))
	}
	return max(1, ceilSeconds(d.ResetAfter))
}

// timeFor gives the microseconds in which a bucket regains n, rounded down.
func timeFor(limit *caudal.Compiled, n uint64) int64 {
	hi, lo := bits.Mul64(n, uint64(limit.PeriodMicros()))
	if hi >= limit.Requests() {
		return maxInteger // no valid limit takes so long; see caudal.MaxTimeToFull
	}
	q, _ := bits.Div64(hi, lo, limit.Requests())
	return int64(min(q, maxInteger))
}

func ceilMicros(us int64) int64 { return (us + 999_999) / 1_000_000 }

// ceilSeconds gives whole seconds, rounded up.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// maxInteger is the largest integer of a structured field: 15 digits.
const maxInteger = 999_999_999_999_999

func appendInteger(b []byte, n uint64) []byte { return strconv.AppendUint(b, min(n, maxInteger), 10) }

// appendString writes a structured-field string. Such a string holds printable
// ASCII only; other bytes are written the way URLs do.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// isList reports whether lines can be the beginning of a list of strings, as an
// empty field can.
func isList(lines []string) bool {
	for _, line := range lines {
		if !strings.HasPrefix(strings.TrimLeft(line, " \t"), `"`) {
			return false
		}
	}
	return true
}

// join puts a value into a header, behind what is there already. value has room for
// no more, so that whoever adds to the header does not write into the next one's.
func join(h http.Header, name string, value []string) {
	if present := h[name]; len(present) > 0 {
		value[0] = strings.Join(present, ", ") + ", " + value[0]
	}
	h[name] = value
}

// set is Header.Set for names that are canonical already.
func set(h http.Header, name, value string) { h[name] = []string{value} }
