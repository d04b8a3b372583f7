// Package storetest checks that a store keeps the contract of caudal.Store. Every
// store passes the same suite, in every mode that it has:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
//			return mystore.New(clock)
//		}, storetest.Options{})
//	}
//
// The suite is a table of rows. Each states a rule in words, which is printed
// when the row fails, and plays a short timeline on a fresh store. Abilities
// beyond Take (Refunder, Resetter, KeyStore, Forecaster, PermitStore) are tested where the
// store has them; a store with KeyStore plays every timeline a second time with
// TakeKey and Take in turns, which must address the same counters.
//
// Calls carry the instant of a [Clock] that only the test moves, so no row waits.
// [Benchmark] measures a store under the same contract.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// Options say what is particular about a store. The zero value is right for one
// that counts in memory on the clock that it is given.
type Options struct {
	// OneTimeline says that the store knows only one time, not a wall clock beside
	// a monotonic one: rows in which the two part are skipped.
	OneTimeline bool

	// OwnClock says that the zero Instant means the time of a clock that the test
	// cannot set, such as a server's: rows that leave the instant out are skipped.
	OwnClock bool

	// RealExpiry says that the store forgets counters by real time, whatever
	// instants the calls carry: rows with counters that are fresh again in under
	// two seconds are skipped.
	RealExpiry bool

	// SplitBatches says that a batch over several counters is not one step: a call
	// may then be denied that would have passed alone, but none passes too many.
	SplitBatches bool

	// ExactUntil is the last instant up to which the store is exact to the
	// microsecond; the zero Time is for ever. Rows that begin later are skipped.
	ExactUntil time.Time

	// Rounds is how often each race for one counter is repeated; 0 means 20.
	Rounds int

	// Traces is how many random traces each algorithm plays against the reference
	// model; 0 means 20.
	Traces int
}

// Open makes a fresh, empty store that takes the time of calls without an
// instant from the clock. It registers its own cleanup with t.
type Open func(t *testing.T, clock caudal.Clock) caudal.Store

// Run checks a store. It opens a fresh one for each row.
func Run(t *testing.T, open Open, opts Options) {
	if opts.Rounds == 0 {
		opts.Rounds = 20
	}
	if opts.Traces == 0 {
		opts.Traces = 20
	}
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			if why := r.skips(opts); why != "" {
				t.Skip(why)
			}
			for _, turns := range []bool{false, true} {
				clock := NewClock(Start)
				store := open(t, clock)
				if _, keyed := store.(caudal.KeyStore); turns && (r.steps == nil || !keyed) {
					return
				}
				r.play(t, store, clock, opts, turns)
			}
		})
	}
}

// row is one rule and how it is checked: by a timeline of one limit and, where
// that does not say enough, a function.
type row struct {
	name string
	rule string // in words, for whoever broke it

	limit string // as caudal.ParseLimit reads it
	steps []step
	run   func(s *script)

	start      time.Time // zero is Start
	twoClocks  bool      // wall and monotonic time part
	noInstant  bool      // calls leave the instant out
	shortLived bool      // counters are fresh again within two seconds
	refunds    bool      // needs a Refunder
	resets     bool      // needs a Resetter
	forecasts  bool      // needs a Forecaster
	permits    bool      // needs a PermitStore
}

func (r *row) skips(o Options) string {
	switch {
	case r.twoClocks && o.OneTimeline:
		return "the store knows one time only"
	case r.noInstant && o.OwnClock:
		return "the store's clock cannot be set"
	case r.shortLived && o.RealExpiry:
		return "the store forgets short-lived counters by real time"
	case !o.ExactUntil.IsZero() && r.start.After(o.ExactUntil):
		return "the store is not exact at that time"
	}
	return ""
}

// play runs a row on a store. With turns, every other call uses TakeKey.
func (r *row) play(t testing.TB, store caudal.Store, clock *Clock, opts Options, turns bool) {
	t.Helper()
	s := &script{TB: t, ctx: context.Background(), store: store, clock: clock, opts: opts, turns: turns, rule: r.rule, start: caudal.At(Start)}
	if !r.start.IsZero() {
		s.start = caudal.At(r.start)
		clock.Set(r.start)
	}
	s.refunder, _ = store.(caudal.Refunder)
	s.resetter, _ = store.(caudal.Resetter)
	s.forecaster, _ = store.(caudal.Forecaster)
	s.permits, _ = store.(caudal.PermitStore)
	switch {
	case r.refunds && s.refunder == nil, r.resets && s.resetter == nil, r.forecasts && s.forecaster == nil, r.permits && s.permits == nil:
		t.Skip("the store does not have the ability")
	}
	if r.steps != nil {
		s.timeline(r.limit, r.steps)
	}
	if r.run != nil {
		r.run(s)
	}
}

// rows is the whole table.
func rows() []row {
	var all []row
	for _, group := range [][]row{
		tokenBucketRows, leakyBucketRows, windowRows, calendarRows, slidingRows,
		everyAlgorithmRows(), changeRows, refundRows, queueRefundRows,
		timeRows, batchRows, modeRows, aloneRows, delayRows, fairRows, identityRows, abilityRows, permitRows, raceRows(), traceRows(),
	} {
		all = append(all, group...)
	}
	return all
}
