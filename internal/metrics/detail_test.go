package metrics

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// caller is a request with attributes.
type caller map[string]string

func (c caller) Attribute(name string) (string, bool) { v, ok := c[name]; return v, ok }
func (c caller) Address() netip.Addr {
	a, _ := netip.ParseAddr(c["remote_address"])
	return a
}

// decide tells m what the first limit that applies said about a caller.
func decide(t testing.TB, m *Metrics, d *rule.Domain, who caller, result httplimit.Result, decision caudal.Decision) {
	t.Helper()
	var match rule.Match
	d.Match(who, &match)
	if len(match.Calls) == 0 {
		t.Fatalf("no limit for %v", who)
	}
	m.Detailed(&httplimit.Detail{Domain: d.Name(), Call: &match.Calls[0], Result: result, Decision: &decision, Rule: match.Limits[0], Who: who})
}

func watching(t testing.TB, text string, o Options) (*Metrics, *rule.Domain) {
	m, d := New(o), load(t, text)
	m.SetRules(d, "abc", time.Now())
	return m, d
}

const byUser = `
domain: shop
descriptors:
  - key: user
    rate_limit: { name: by-user, unit: minute, requests_per_unit: 100 }
`

const byKey = `
domain: shop
descriptors:
  - key: api_key
    rate_limit: { name: by-key, unit: minute, requests_per_unit: 100 }
`

const byAddress = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: by-address, unit: minute, requests_per_unit: 100 }
`

var full = caudal.Decision{Limit: 100}

func TestMostDeniedKeys(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	for i := range 50 {
		for range i + 1 {
			decide(t, m, d, caller{"api_key": fmt.Sprintf("k-%d", i)}, httplimit.Denied, full)
		}
	}
	top := m.Denied("shop", "by-key", 3)
	if len(top.Entries) != 3 || top.Total != 50*51/2 || top.Missed != 0 {
		t.Fatalf("Denied = %+v, want 3 entries of 1275", top)
	}
	want := identity.HashKey("k-49").String()
	if e := top.Entries[0]; e.Count != 50 || e.ErrorBound != 0 || e.Hash != want || e.Label != "api_key=#"+want[:12] {
		t.Errorf("most denied = %+v, want 50 of %s", e, want)
	}
	if strings.Contains(fmt.Sprint(top), "k-4") {
		t.Errorf("a key is shown in the clear: %+v", top)
	}
	shown, d := watching(t, byKey, Options{ShowKeys: true})
	decide(t, shown, d, caller{"api_key": "k-1"}, httplimit.ShadowDenied, full)
	if e := shown.Denied("shop", "by-key", 1).Entries; len(e) != 1 || e[0].Label != "api_key=k-1" || e[0].Hash != "" {
		t.Errorf("with ShowKeys = %+v, want api_key=k-1", e)
	}
	if top := m.Denied("shop", "gone", 3); top.Entries != nil {
		t.Errorf("Denied of no rule = %+v, want none", top)
	}
}

func TestUsersAreShownUnlessOthersNamedThem(t *testing.T) {
	m, d := watching(t, byUser, Options{})
	decide(t, m, d, caller{"user": "alice\n"}, httplimit.Denied, full)
	if e := m.Denied("shop", "by-user", 1).Entries[0]; e.Label != `user=alice\n` || e.Hash != "" {
		t.Errorf("a verified user is shown as %+v, want user=alice\\n", e)
	}
	decide(t, m, d, caller{"remote_address": "192.0.2.7"}, httplimit.Denied, full)
	e := m.Denied("shop", "by-user", 2).Entries[1]
	if want := identity.HashKey("192.0.2.7").String(); e.Hash != want || !strings.HasPrefix(e.Label, "user absent, remote_address=#") {
		t.Errorf("who has no user is shown as %+v, want the hash of the address", e)
	}

	var match rule.Match
	entries := []rule.Entry{{Key: "user", Value: "mail@example.org"}}
	d.MatchDescriptor(entries, &match)
	m.Detailed(&httplimit.Detail{Domain: "shop", Call: &match.Calls[0], Result: httplimit.Denied, Decision: &full, Rule: match.Limits[0], Entries: entries})
	if got := fmt.Sprint(m.Denied("shop", "by-user", 9)); strings.Contains(got, "mail@") {
		t.Errorf("a user whom somebody else named is shown in the clear: %s", got)
	}
}

func TestBusiestKeyAndItsShare(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	calls := 60_000
	for i := range calls {
		who := caller{"api_key": "busy"}
		if i%2 == 0 {
			who["api_key"] = fmt.Sprintf("k-%d", i%1000)
		}
		decide(t, m, d, who, httplimit.Allowed, caudal.Decision{Allowed: true, Limit: 100, Remaining: 99})
	}
	m.Tick(time.Unix(1000, 0))
	top := m.Active("shop", "by-key", 1)
	if len(top.Entries) != 1 || top.Entries[0].Hash != identity.HashKey("busy").String() {
		t.Fatalf("Active = %+v, want busy", top)
	}
	if l := m.Live()[0]; l.TopShare < 0.3 || l.TopShare > 0.65 {
		t.Errorf("TopShare of half the calls = %v", l.TopShare)
	}
	if got := scrape(t, m, "caudal_top_key_share"); strings.HasSuffix(got, " 0") || got == "" {
		t.Errorf("scrape has %q, want a share", got)
	}
	if near := m.Live()[0].NearLimit; near != 0 {
		t.Errorf("NearLimit = %d with 99 of 100 left, want 0", near)
	}
}

func TestNearLimitKeysAreCountedOnce(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	now := time.Unix(1000, 0)
	m.Tick(now)
	for range 3 {
		for i := range 500 {
			decide(t, m, d, caller{"api_key": fmt.Sprintf("k-%d", i)}, httplimit.Allowed, caudal.Decision{Allowed: true, Limit: 100, Remaining: 19})
		}
	}
	if near := m.Live()[0].NearLimit; near < 400 || near > 600 {
		t.Errorf("NearLimit of 500 keys = %d", near)
	}
	for range 2 {
		now = now.Add(time.Minute)
		m.Tick(now)
	}
	if near := m.Live()[0].NearLimit; near != 0 {
		t.Errorf("NearLimit two minutes later = %d, want 0", near)
	}
}

func TestHistoryIsOneEntryASecond(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	now := time.Unix(1000, 0)
	m.Tick(now)
	for second := range 20 {
		for range second {
			decide(t, m, d, caller{"api_key": "k"}, httplimit.Allowed, caudal.Decision{Allowed: true, Limit: 100, Remaining: 99})
		}
		decide(t, m, d, caller{"api_key": "k"}, httplimit.Denied, full)
		now = now.Add(time.Second)
		m.Tick(now)
		m.Tick(now) // a second time in a second adds none
	}
	got, at := m.History("shop", "by-key", 3)
	if fmt.Sprint(got) != "[{17 1 0} {18 1 0} {19 1 0}]" || !at.Equal(now) {
		t.Errorf("History = %v at %v, want the last three seconds", got, at)
	}
	l := m.Live()[0]
	if l.Allowed != 14.5 || l.Denied != 1 || l.Total["allowed"] != 190 {
		t.Errorf("Live = %+v, want 14.5 allowed a second over the last ten, 190 in all", l)
	}
	for range 10 {
		decide(t, m, d, caller{"api_key": "k"}, httplimit.ShadowDenied, full)
	}
	m.Tick(now.Add(4 * time.Second)) // late
	if got, _ := m.History("", "", 4); fmt.Sprint(got) != "[{0 0 2} {0 0 2} {0 0 3} {0 0 3}]" {
		t.Errorf("History of a tick that came late = %v, want 10 over four seconds", got)
	}
	m.Tick(now.Add(24 * time.Hour))
	if got, _ := m.History("shop", "by-key", 1<<20); len(got) != historySeconds {
		t.Errorf("History has %d seconds after a day, want %d", len(got), historySeconds)
	}
}

func suspected(m *Metrics) string {
	f := m.Live()[0].FalsePositives
	return fmt.Sprintf("verified_user %d, barely_over %d, shared_address %d", f["verified_user"], f["barely_over"], f["shared_address"])
}

func TestLikelyFalsePositives(t *testing.T) {
	who := caller{"remote_address": "192.0.2.7"}
	t.Run("a client that hammers is barely over at first only", func(t *testing.T) {
		m, d := watching(t, byAddress, Options{})
		for range 1000 {
			decide(t, m, d, who, httplimit.Denied, full)
		}
		if got := suspected(m); got != "verified_user 0, barely_over 10, shared_address 0" {
			t.Errorf("1000 denials = %s", got)
		}
	})
	t.Run("verified users, at most 256 a second", func(t *testing.T) {
		m, d := watching(t, byUser, Options{})
		for range 1000 {
			decide(t, m, d, caller{"user": "alice"}, httplimit.Denied, full)
		}
		m.Tick(time.Unix(1000, 0))
		decide(t, m, d, caller{"user": "alice"}, httplimit.Denied, full)
		if got := suspected(m); got != "verified_user 257, barely_over 10, shared_address 0" {
			t.Errorf("1001 denials of a user = %s", got)
		}
	})
	t.Run("visitors who share an address", func(t *testing.T) {
		m, d := watching(t, byAddress, Options{})
		for i := range 200 {
			decide(t, m, d, caller{"remote_address": "192.0.2.7", "visitor": fmt.Sprint(i % 50)}, httplimit.Denied, full)
			decide(t, m, d, caller{"remote_address": "192.0.2.8", "visitor": "alone"}, httplimit.Denied, full)
		}
		// 256 are asked, every other one of the crowd, whose first two are no crowd yet.
		if got := suspected(m); !strings.HasSuffix(got, "shared_address 126") {
			t.Errorf("128 visitors asked of one address = %s, want 126 of a shared one", got)
		}
	})
	t.Run("limits that do not enforce hurt nobody", func(t *testing.T) {
		m, d := watching(t, byUser, Options{})
		decide(t, m, d, caller{"user": "alice"}, httplimit.ShadowDenied, full)
		if got := suspected(m); got != "verified_user 0, barely_over 0, shared_address 0" {
			t.Errorf("a shadow denial = %s", got)
		}
	})
}

func TestDetailedAllocatesNothing(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	var match rule.Match
	who := caller{"api_key": "k-1"}
	d.Match(who, &match)
	for _, result := range []httplimit.Result{httplimit.Allowed, httplimit.Denied} {
		detail := &httplimit.Detail{Domain: "shop", Call: &match.Calls[0], Result: result, Decision: &full, Rule: match.Limits[0], Who: who}
		m.Detailed(detail)
		if n := testing.AllocsPerRun(1000, func() { m.Detailed(detail) }); n != 0 {
			t.Errorf("Detailed of a call that was %s allocates %v times, want 0", result, n)
		}
	}
}

// TestDetailedCountsExactlyWhileOthersLook: many cores, with scrapes, seconds and a
// reload in between.
func TestDetailedCountsExactlyWhileOthersLook(t *testing.T) {
	m, d := watching(t, byKey, Options{})
	const goroutines, each = 8, 3000
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				result, decision := httplimit.Allowed, caudal.Decision{Allowed: true, Limit: 100}
				if i%3 == 0 {
					result, decision = httplimit.Denied, full
				}
				decide(t, m, d, caller{"api_key": fmt.Sprintf("k-%d", i%(g+1)), "user": "u"}, result, decision)
			}
		})
	}
	for i := range 50 {
		m.Tick(time.Unix(int64(1000+i*60), 0))
		m.Live()
		m.History("", "", 900)
		m.Denied("shop", "by-key", 5)
		scrape(t, m, "caudal_")
		if i == 25 {
			m.SetRules(load(t, byKey), "def", time.Now())
		}
	}
	wg.Wait()
	total := m.Live()[0].Total
	if total["allowed"] != goroutines*each*2/3 || total["denied"] != goroutines*each/3 {
		t.Errorf("counted %v, want 16000 allowed and 8000 denied", total)
	}
	m.Tick(time.Unix(1_000_000, 0))
	seconds, _ := m.History("shop", "by-key", 900)
	var sum uint32
	for _, s := range seconds {
		sum += s.Allowed + s.Denied
	}
	if sum > goroutines*each {
		t.Errorf("history sums up to %d of %d", sum, goroutines*each)
	}
}
