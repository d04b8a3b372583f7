package caudal_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestCapacity(t *testing.T) {
	tests := []struct {
		limit string
		want  uint64
	}{
		{"100/m", 100},
		{"100/m burst 20", 20},
		{"1/s burst 4294967295", math.MaxUint32},
		{"50/s leaky_bucket queue 60", 61},
		{"50/s leaky_bucket queue 0", 1},
		{"50/s leaky_bucket queue 60 max_wait 1s", 51},        // floor(1 s x 50/s) + 1
		{"50/s leaky_bucket queue 60 max_wait 1.019999s", 51}, // 50.99995 turns
		{"50/s leaky_bucket queue 60 max_wait 1.02s", 52},     // 51 exactly
		{"50/s leaky_bucket queue 60 max_wait 1h", 61},        // the queue is shorter
		{"1/h leaky_bucket queue 60 max_wait 59m", 1},         // nobody can wait so short
		{"4294967295/s leaky_bucket queue 4294967295", math.MaxUint32 + 1},
		{"4294967295/s fixed_window", math.MaxUint32},
		{"5/m sliding_log", 5},
		{"5/m sliding_window", 5},
		{"0/m", 0},
		{"0/m burst 5", 0},
		{"0/m leaky_bucket queue 5 max_wait 1s", 0},
		{"0/m fixed_window", 0},
	}
	for _, tt := range tests {
		if got := parse(t, tt.limit).Capacity(); got != tt.want {
			t.Errorf("Capacity(%q) = %d, want %d", tt.limit, got, tt.want)
		}
	}
}

func TestValidateMessages(t *testing.T) {
	tb := caudal.PerMinute(5)
	tests := []struct {
		name  string
		limit caudal.Limit
		want  string // after "caudal: invalid limit: "; "" is valid
	}{
		{"zero value", caudal.Limit{}, "algorithm is not set: choose one of token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window"},
		{"unknown algorithm", caudal.Limit{Algorithm: 6, Unit: caudal.Second}, "algorithm is not set: choose one of token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window"},
		{"no unit", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1}, "unit is not set: choose one of second, minute, hour, day, week, month, year"},
		{"unknown unit", caudal.Per(1, 8), "unit is not set: choose one of second, minute, hour, day, week, month, year"},
		{"requests 0", caudal.PerMinute(0), ""},
		{"period of 200 years", caudal.Limit{Algorithm: caudal.SlidingLog, Requests: 1, Unit: caudal.Year, Multiplier: 200}, ""},
		{"period of 201 years", caudal.Limit{Algorithm: caudal.SlidingLog, Requests: 1, Unit: caudal.Year, Multiplier: 201}, "a period of 201 years is over 200 years: choose a shorter one"},
		{"the longest multiplier", caudal.Limit{Algorithm: caudal.SlidingLog, Requests: 1, Unit: caudal.Year, Multiplier: math.MaxUint32}, "a period of 4294967295 years is over 200 years: choose a shorter one"},
		{"burst of a window", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Second, Burst: 2}, "burst 2 does not go with fixed_window: only a token_bucket has a burst"},
		{"queue of a bucket", caudal.Limit{Algorithm: caudal.TokenBucket, Requests: 1, Unit: caudal.Second, Queue: 2}, "queue and max_wait do not go with token_bucket: only a leaky_bucket has a queue"},
		{"max_wait of a log", caudal.Limit{Algorithm: caudal.SlidingLog, Requests: 1, Unit: caudal.Second, MaxWait: 1}, "queue and max_wait do not go with sliding_log: only a leaky_bucket has a queue"},
		{"negative max_wait", tb.WithQueue(5, -time.Second), "max_wait -1s must be a whole number of microseconds, not negative"},
		{"max_wait of nanoseconds", tb.WithQueue(5, 1500*time.Nanosecond), "max_wait 1.5µs must be a whole number of microseconds, not negative"},
		{"epoch of a log", caudal.Limit{Algorithm: caudal.SlidingLog, Requests: 1, Unit: caudal.Week, Epoch: true}, "windows from the epoch do not go with sliding_log: they are for fixed_window only"},
		{"timezone of a bucket", caudal.Limit{Algorithm: caudal.TokenBucket, Requests: 1, Unit: caudal.Day, Timezone: "Europe/Madrid"}, `timezone "Europe/Madrid" does not go with token_bucket: it is for fixed_window only`},
		{"timezone of an hour", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Hour, Timezone: "Europe/Madrid"}, `timezone "Europe/Madrid" does not go with windows of a hour: it is for day, week, month and year`},
		{"timezone of 2 days", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Day, Multiplier: 2, Timezone: "Europe/Madrid"}, `timezone "Europe/Madrid" does not go with a unit_multiplier of 2: calendar windows are one unit long`},
		{"timezone from the epoch", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Week, Timezone: "Europe/Madrid", Epoch: true}, `timezone "Europe/Madrid" does not go with windows counted from the epoch`},
		{"unknown timezone", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Day, Timezone: "Europe/Atlantis"}, `timezone "Europe/Atlantis" is not known: use an IANA name such as Europe/Madrid`},
		{"the machine's timezone", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Day, Timezone: "Local"}, `timezone "Local" is not known: use an IANA name such as Europe/Madrid`},
		{"timezone outside the database", caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Day, Timezone: "../../etc/passwd"}, `timezone "../../etc/passwd" is not known: use an IANA name such as Europe/Madrid`},
		{"200 years to full", caudal.Per(1, caudal.Year).WithBurst(200), ""},
		{"201 years to full", caudal.Per(1, caudal.Year).WithBurst(201), "with 1 requests per year a burst of 201 takes over 200 years to recover: lower the burst or raise requests_per_unit"},
		{"the largest burst at 1/s", caudal.PerSecond(1).WithBurst(math.MaxUint32), ""},
		{"the largest burst at 1/m", caudal.PerMinute(1).WithBurst(math.MaxUint32), "with 1 requests per minute a burst of 4294967295 takes over 200 years to recover: lower the burst or raise requests_per_unit"},
		{"201 years of queue", caudal.Per(1, caudal.Year).WithQueue(200, 0), "with 1 requests per year a queue of 201 takes over 200 years to recover: lower the queue or raise requests_per_unit"},
		{"a long queue cut by max_wait", caudal.Per(1, caudal.Year).WithQueue(math.MaxUint32, time.Second), ""},
		{"C18 no limit beyond 2^32-1 exists; that one is exact", caudal.PerSecond(math.MaxUint32), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.limit.Validate()
			if tt.want == "" {
				if err != nil {
					t.Errorf("Validate(%+v) = %v, want valid", tt.limit, err)
				}
				return
			}
			if !errors.Is(err, caudal.ErrInvalidLimit) || err.Error() != "caudal: invalid limit: "+tt.want {
				t.Errorf("Validate(%+v)\n got %v\nwant caudal: invalid limit: %s", tt.limit, err, tt.want)
			}
			if _, err := tt.limit.Compile("", ""); err == nil {
				t.Errorf("Compile(%+v) accepts it", tt.limit)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, name := range caudal.Algorithms() {
		if a, ok := caudal.ParseAlgorithm(name); !ok || a.String() != name {
			t.Errorf("ParseAlgorithm(%q) = %v, %v", name, a, ok)
		}
	}
	for _, name := range caudal.Units() {
		if u, ok := caudal.ParseUnit(name); !ok || u.String() != name || u.Duration() <= 0 {
			t.Errorf("ParseUnit(%q) = %v, %v", name, u, ok)
		}
	}
	if u, ok := caudal.ParseUnit("MiNuTe"); !ok || u != caudal.Minute {
		t.Errorf("ParseUnit(MiNuTe) = %v, %v, want minute", u, ok)
	}
	for _, bad := range []string{"", "tokenbucket", "Token_Bucket", "minutes"} {
		if _, ok := caudal.ParseAlgorithm(bad); ok {
			t.Errorf("ParseAlgorithm(%q) is accepted", bad)
		}
		if _, ok := caudal.ParseUnit(bad); ok {
			t.Errorf("ParseUnit(%q) is accepted", bad)
		}
	}
	if got := caudal.Algorithm(9).String() + " " + caudal.Unit(0).String(); got != "algorithm(9) unit(0)" {
		t.Errorf("names of what has none: %q", got)
	}
	if d := caudal.Unit(9).Duration(); d != 0 {
		t.Errorf("Unit(9).Duration() = %s, want 0", d)
	}
}

func TestConstructors(t *testing.T) {
	for _, tt := range []struct {
		got  caudal.Limit
		want string
	}{
		{caudal.PerSecond(1), "1/second"},
		{caudal.PerMinute(2).WithBurst(5), "2/minute burst 5"},
		{caudal.PerHour(3).With(caudal.SlidingLog), "3/hour sliding_log"},
		{caudal.PerDay(4).With(caudal.FixedWindow), "4/day fixed_window"},
		{caudal.Per(5, caudal.Month).With(caudal.SlidingWindow), "5/month sliding_window"},
		{caudal.PerSecond(50).WithQueue(60, 2*time.Second), "50/second leaky_bucket queue 60 max_wait 2s"},
	} {
		if tt.got.String() != tt.want || tt.got.Validate() != nil {
			t.Errorf("%q, %v, want %q", tt.got, tt.got.Validate(), tt.want)
		}
	}
}

// TestIdentityOfScopes: what is in the identity changes the scope, and numbers do
// not.
func TestIdentityOfScopes(t *testing.T) {
	scope := func(text, scope string) string {
		c, err := parse(t, text).Compile("a name", scope)
		if err != nil {
			t.Fatal(err)
		}
		return c.Scope()
	}
	base := scope("5/day fixed_window", "s")
	for _, same := range []string{scope("9/day fixed_window", "s"), scope("0/day fixed_window", "s"), scope("5/1 day fixed_window", "s")} {
		if same != base {
			t.Errorf("scope %q, want %q: numbers are not part of it", same, base)
		}
	}
	seen := map[string]string{}
	for _, other := range [][2]string{
		{"5/day fixed_window", "s"}, {"5/day fixed_window", ""}, {"5/day fixed_window", "s2"}, {"5/day", "s"}, {"5/24h fixed_window", "s"},
		{"5/2 days fixed_window", "s"}, {"5/day fixed_window timezone Europe/Madrid", "s"}, {"5/day fixed_window timezone UTC", "s"},
		{"5/day fixed_window epoch", "s"}, {"5/day sliding_window", "s"}, {"5/day sliding_log", "s"}, {"5/day leaky_bucket", "s"},
	} {
		got := scope(other[0], other[1])
		if before, ok := seen[got]; ok {
			t.Errorf("%q and %q have one identity", before, other)
		}
		seen[got] = other[0] + " in " + other[1]
	}
}

func TestAppendPartCannotCollide(t *testing.T) {
	join := func(parts ...string) string {
		var b []byte
		for _, p := range parts {
			b = caudal.AppendPart(b, p)
		}
		return string(b)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{{"a", "bc"}, {"ab", "c"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"}, {"\x01a", "bc"}, {}} {
		key := join(parts...)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q read the same", parts, other)
		}
		seen[key] = parts
	}
}
