package storetest

import (
	"runtime"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
)

// TestNaiveStorePasses: the plainest store keeps the contract, so the rows ask
// for nothing beyond it.
func TestNaiveStorePasses(t *testing.T) {
	Run(t, func(_ *testing.T, clock caudal.Clock) caudal.Store { return newNaive(clock, "") }, Options{})
}

// bare hides the abilities of a store.
type bare struct{ caudal.Store }

func TestAbilitiesAreOptional(t *testing.T) {
	Run(t, func(_ *testing.T, clock caudal.Clock) caudal.Store { return bare{newNaive(clock, "")} }, Options{Rounds: 1, Traces: 1})
}

func TestOptionsSkipRows(t *testing.T) {
	for _, opts := range []Options{{OneTimeline: true}, {OwnClock: true}, {RealExpiry: true}} {
		skipped := 0
		for _, r := range rows() {
			if r.skips(opts) != "" {
				skipped++
			}
		}
		if skipped == 0 || skipped > len(rows())/4 {
			t.Errorf("%+v skips %d of %d rows, want some but few", opts, skipped, len(rows()))
		}
	}
}

// TestEveryFaultIsFound breaks one rule at a time and names a row that must see
// it: a suite that passes everything would be worth nothing.
func TestEveryFaultIsFound(t *testing.T) {
	for fault, row := range map[string]string{
		"identity without scope":                "Identity/Scope",
		"identity without algorithm and period": "Identity/Period",
		"keys end at a NUL":                     "TokenBucket/OddKeys",
		"forgets after ten minutes":             "Time/StateOutlivesOtherKeys",
		"forgets when the clock lags":           "FixedWindow/C06ClockOfAnotherNode",
		"wall time for all":                     "Time/C05WallClockJumpsAhead",
		"context not looked at":                 "SlidingLog/ContextThatIsOver",
		"zero instant is 1970":                  "Time/ZeroInstantIsNow",
		"peek counts":                           "TokenBucket/PeekCountsNothing",
		"quota is enforced":                     "Mode/QuotaUntilAllAreOver",
		"checks, then increments":               "Race/C37OneKey/FixedWindow",
		"charges limit by limit":                "Batch/AllOrNone",
		"denied for a microsecond longer":       "SlidingWindow/RetryAfterIsExact",
		"no summed cost":                        "Batch/CallsThatShareACounter",
		"summed cost wraps":                     "Batch/SummedCostAboveTheLimit",
		"TakeKey has counters of its own":       "TokenBucket/Capacity5OnePerSecond",
		"refunds any amount":                    "Refund/Invalid",
		"receipts work twice":                   "Refund/OnceOnly",
		"stops at a used receipt":               "Refund/TheOthersOfARequestAreDone",
		"gives back turns of calls that left":   "Cancel/ACallThatLeftGetsNothing",
		"refunds the present window":            "Refund/FixedWindow",
		"refunds the newest entry":              "Refund/SlidingLog",
		"reset clears everything":               "Reset/MakesFresh",
		"alone is together":                     "Alone/EachIsChargedByItself",
		"forgets denied calls":                  "Alone/CountDenied",
		"no least delay":                        "MinDelay/HoldsTheTurnAndThoseBehind",
		"permits never expire":                  "Permit/ExpiresWithItsLease",
		"expired permits can be renewed":        "Permit/ExpiresWithItsLease",
		"max is part of the identity":           "Permit/MaxChanges",
		"permits limit by limit":                "Permit/AllOrNone",
		"releases any permit":                   "Permit/C41ReleasedOnce",
		"a fair queue for all":                  "Fair/OneClientCannotFillTheQueue",
		"forecasts charge":                      "Forecast/RunsAhead",
	} {
		t.Run(strings.ReplaceAll(fault, " ", "_"), func(t *testing.T) {
			for _, r := range rows() {
				if r.name == row {
					if !fails(t, &r, fault) {
						t.Errorf("a store that %q passes %s", fault, row)
					}
					return
				}
			}
			t.Errorf("there is no row %s", row)
		})
	}
}

// fails plays a row on a store with a fault and reports whether it was found.
func fails(t *testing.T, r *row, fault string) bool {
	for _, turns := range []bool{false, true} {
		seen := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			clock := NewClock(Start)
			r.play(seen, newNaive(clock, fault), clock, Options{Rounds: 20, Traces: 1}, turns && r.steps != nil)
		}()
		<-done
		if seen.failed {
			return true
		}
	}
	return false
}

// recorder notes failures instead of reporting them.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Helper()               {}

func TestRowsAreNamedOnceAndExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] {
			t.Errorf("two rows are named %s", r.name)
		}
		seen[r.name] = true
		if r.rule == "" || r.steps == nil && r.run == nil {
			t.Errorf("row %s has no rule, or checks nothing", r.name)
		}
	}
}

func BenchmarkNaive(b *testing.B) {
	Benchmark(b, func(*testing.B) caudal.Store { return newNaive(caudal.NewSystemClock(), "") })
}
