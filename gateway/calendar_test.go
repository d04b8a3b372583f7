package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // the zones, also where the system has none

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = caudal.At(at)
}

// quota is one test of a quota: a call at an instant, and when its window ends.
type quota struct {
	name, unit, timezone string
	at, ends             string // RFC 3339
}

// TestC07CalendarQuotas: weeks begin on Monday, months on the 1st, and the headers
// that a client sees agree.
func TestC07CalendarQuotas(t *testing.T) {
	for _, q := range []quota{
		{"day", "day", "", "2026-03-10T12:00:00Z", "2026-03-11T00:00:00Z"},
		{"week", "week", "", "2026-03-10T12:00:00Z", "2026-03-16T00:00:00Z"},
		{"month", "month", "", "2026-03-10T12:00:00Z", "2026-04-01T00:00:00Z"},
		{"year", "year", "", "2026-03-10T12:00:00Z", "2027-01-01T00:00:00Z"},
		{"the day before a leap day", "day", "", "2028-02-28T12:00:00Z", "2028-02-29T00:00:00Z"},
		{"a leap day", "day", "", "2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z"},
		{"the month of a leap day", "month", "", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"the same month of another year", "month", "", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{"a leap year", "year", "", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"the week of a leap day", "week", "", "2028-02-28T00:00:00Z", "2028-03-06T00:00:00Z"},
		{"the last second of a year", "month", "", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
	} {
		q.test(t, rule.Options{})
	}
}

// TestC07WindowsFromTheEpoch: as the reference counts them.
func TestC07WindowsFromTheEpoch(t *testing.T) {
	for _, q := range []quota{
		{"week", "week", "", "2026-03-10T12:00:00Z", "2026-03-12T00:00:00Z"}, // 129600 s
		{"month", "month", "", "2026-03-10T12:00:00Z", "2026-04-07T00:00:00Z"},
		{"year", "year", "", "2026-03-10T12:00:00Z", "2026-12-18T00:00:00Z"},
	} {
		q.test(t, rule.Options{CompatEnvoy: true})
	}
}

// TestC09QuotasThroughClockChanges: days of 23, 23.5, 24.5 and 25 hours, a midnight
// that does not exist, and longer windows that hold such a day.
func TestC09QuotasThroughClockChanges(t *testing.T) {
	for _, q := range []quota{
		{"23 hours", "day", "Europe/Berlin", "2026-03-29T00:30:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"23 hours, after the change", "day", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-30T00:00:00+02:00"},
		{"25 hours", "day", "Europe/Berlin", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"25 hours, the first 02:30", "day", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"25 hours, the second 02:30", "day", "Europe/Berlin", "2026-10-25T02:30:00+01:00", "2026-10-26T00:00:00+01:00"},
		{"23.5 hours", "day", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00"},
		{"24.5 hours", "day", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30"},
		{"no midnight", "day", "America/Santiago", "2026-09-05T12:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"the day without a midnight", "day", "America/Santiago", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"a week that loses an hour", "week", "Europe/Madrid", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"a month that loses an hour", "month", "Europe/Madrid", "2026-03-10T12:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{"a month that gains one", "month", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-12-01T00:00:00-05:00"},
		{"a leap day elsewhere", "day", "Pacific/Auckland", "2028-02-29T10:00:00+13:00", "2028-03-01T00:00:00+13:00"},
		{"a quarter hour off", "day", "Asia/Kathmandu", "2026-03-10T23:59:59+05:45", "2026-03-11T00:00:00+05:45"},
		{"a year", "year", "Europe/Madrid", "2026-06-01T00:00:00+02:00", "2027-01-01T00:00:00+01:00"},
	} {
		q.test(t, rule.Options{})
	}
}

// test makes two calls under a quota of two and one that is denied, another one a
// second before the window ends, and one when it does.
func (q quota) test(t *testing.T, o rule.Options) {
	t.Run(q.name, func(t *testing.T) {
		at, ends := instant(t, q.at), instant(t, q.ends)
		c := newClock()
		url := q.gateway(t, o, c)
		ask := func(what string, now time.Time, status, remaining int, reset time.Time) {
			t.Helper()
			c.set(now)
			res := do(t, "GET", url+"/", nil)
			wantStatus(t, what, res, status)
			want := map[string]string{"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": strconv.Itoa(remaining)}
			if !reset.IsZero() {
				left := int(reset.Sub(now) / time.Second)
				want["X-Ratelimit-Reset"] = strconv.FormatInt(reset.Unix(), 10)
				want["Ratelimit"] = fmt.Sprintf(`"q";r=%d;t=%d`, remaining, left)
				if status == http.StatusTooManyRequests {
					want["Retry-After"] = strconv.Itoa(left)
				}
			}
			wantHeaders(t, what, res.Header, want)
		}
		ask("the first call", at, 200, 1, ends)
		ask("the second", at, 200, 0, ends)
		ask("the third", at, 429, 0, ends)
		ask("one a second before the end", ends.Add(-time.Second), 429, 0, ends)
		ask("one at the end", ends, 200, 1, time.Time{})
	})
}

func (q quota) gateway(t *testing.T, o rule.Options, c *clock) string {
	t.Helper()
	text := "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: q, unit: " + q.unit + ", requests_per_unit: 2, algorithm: fixed_window"
	if q.timezone != "" {
		text += ", timezone: " + q.timezone
	}
	set, _, err := o.Parse("test.yaml", []byte(text+" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	v := who(t, identity.Options{})
	d, err := httplimit.NewDecider(domain, memstore.New(memstore.Options{Clock: c, MaxKeys: 100}), v, httplimit.Options{Clock: c, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{Limits: d, Identity: v})
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
