package decisionapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/memstore"
)

const report = `{"attributes": {"path": "/report"}}`

// permitBody is a body that names the answer's permit.
func (a answer) permitBody(t *testing.T) string {
	t.Helper()
	permit, err := json.Marshal(a.json["permit"])
	if err != nil || a.json["permit"] == nil {
		t.Fatalf("no permit in %s (%v)", a.Body, err)
	}
	return `{"permit": ` + string(permit) + `}`
}

// TestPermitsAreHeldUntilReleased: two calls run, a third is denied and charged
// nothing, and any instance gives a permit back, once.
func TestPermitsAreHeldUntilReleased(t *testing.T) {
	secret := []byte("sixteen bytes and more")
	one := start(t, decisionapi.Options{Secret: secret})
	two := startOn(t, one.clock, one.store, decisionapi.Options{Secret: secret})
	first := one.check(report)
	first.want(t, "the first", 30.0, "permit", "lease")
	first.want(t, "the first", true, "concurrency", 0, "acquired")
	first.want(t, "the first", "path=/report concurrency", "concurrency", 0, "name")
	two.check(report).want(t, "the second", 2.0, "concurrency", 0, "in_use")
	third := two.check(report)
	third.want(t, "the third", false, "allowed")
	third.want(t, "the third", 1.0, "retry_after")
	third.want(t, "the third", "path=/report concurrency", "nearest")
	third.want(t, "the third", 8.0, "limits", 0, "remaining")
	third.want(t, "the third", false, "limits", 0, "charged")
	for _, field := range []string{"receipt", "permit"} {
		if third.json[field] != nil {
			t.Errorf("the third has a %s: %s", field, third.Body)
		}
	}
	two.post("/v1/release", first.permitBody(t)).want(t, "release", true, "released")
	for _, path := range []string{"/v1/release", "/v1/renew"} {
		if r := one.post(path, first.permitBody(t)); r.Code != http.StatusGone {
			t.Errorf("%s of a released permit = %d %s, want 410", path, r.Code, r.Body)
		}
	}
	one.check(report).want(t, "after the release", 2.0, "concurrency", 0, "in_use")
	one.check(report).want(t, "after that", false, "allowed")
}

// TestManyPermitsOfOneCall: a permit of more limits than a receipt holds goes back.
func TestManyPermitsOfOneCall(t *testing.T) {
	rules, sent := "domain: many\ndescriptors:\n", []string{}
	const one = "concurrency: { max: 1, lease: 30s }\n"
	for i := range 50 {
		rules += fmt.Sprintf("  - key: header:H%d\n    %s    descriptors:\n      - key: path\n        %s", i, one, one)
		sent = append(sent, fmt.Sprintf(`"header:H%d": "x"`, i))
	}
	c := &clock{now: time.Date(2026, 3, 4, 10, 5, 30, 0, time.UTC)}
	store := memstore.New(memstore.Options{Clock: c})
	t.Cleanup(func() { _ = store.Close() })
	f := startRules(t, c, store, rules, decisionapi.Options{})
	call := `{"attributes": {"path": "/", ` + strings.Join(sent, ", ") + `}}`
	first := f.check(call)
	first.want(t, "the first", true, "concurrency", 99, "acquired")
	f.check(call).want(t, "while the first is held", false, "allowed")
	f.post("/v1/renew", first.permitBody(t)).want(t, "renew", 30.0, "lease")
	f.post("/v1/release", first.permitBody(t)).want(t, "release", true, "released")
	f.check(call).want(t, "after the release", true, "concurrency", 99, "acquired")
}

func TestPermitsEndWithTheirLease(t *testing.T) {
	f := start(t, decisionapi.Options{})
	kept, lost := f.check(report), f.check(report)
	for range 3 {
		f.clock.advance(20 * time.Second)
		f.post("/v1/renew", kept.permitBody(t)).want(t, "renew", 30.0, "lease")
	}
	if r := f.post("/v1/renew", lost.permitBody(t)); r.Code != http.StatusGone {
		t.Errorf("renewing a permit after its lease = %d %s, want 410", r.Code, r.Body)
	}
	f.check(report).want(t, "beside the one that was kept", 2.0, "concurrency", 0, "in_use")
}

func TestPeekTakesNoPermit(t *testing.T) {
	f := start(t, decisionapi.Options{})
	peek := strings.Replace(report, `{"attr`, `{"peek": true, "attr`, 1)
	for range 5 {
		a := f.check(peek)
		a.want(t, "peek", true, "allowed")
		a.want(t, "peek", 0.0, "concurrency", 0, "in_use")
		if a.json["permit"] != nil {
			t.Errorf("a peek has a permit: %s", a.Body)
		}
	}
}

func TestPermitsCannotBeMadeUp(t *testing.T) {
	f := start(t, decisionapi.Options{})
	other := startOn(t, f.clock, f.store, decisionapi.Options{}) // another secret
	a := f.check(report)
	receipt := strings.Replace(a.refundBody(t, ""), `"receipt"`, `"permit"`, 1)
	receipt = strings.Replace(receipt, `"cost":1,`, "", 1)
	for what, body := range map[string]string{"of another secret": other.check(report).permitBody(t), "that is a receipt": receipt,
		"that was changed": strings.Replace(a.permitBody(t), `"id":"A`, `"id":"B`, 1)} {
		if r := f.post("/v1/release", body); r.Code != http.StatusForbidden {
			t.Errorf("release of a permit %s = %d %s, want 403", what, r.Code, r.Body)
		}
	}
}

func TestOnlyOneOfManyReleasesWorks(t *testing.T) {
	f := start(t, decisionapi.Options{})
	body := f.check(report).permitBody(t)
	var worked, gone atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch f.post("/v1/release", body).Code {
			case http.StatusOK:
				worked.Add(1)
			case http.StatusGone:
				gone.Add(1)
			}
		})
	}
	all.Wait()
	if worked.Load() != 1 || gone.Load() != 15 {
		t.Errorf("of 16 releases %d worked and %d found it gone, want 1 and 15", worked.Load(), gone.Load())
	}
}

// TestAuthorizeTakesNoPermits: nobody would give them back.
func TestAuthorizeTakesNoPermits(t *testing.T) {
	f := start(t, decisionapi.Options{})
	for range 5 {
		if r := f.ask(proxy, "", "X-Forwarded-Uri", "/report"); r.Code != http.StatusOK {
			t.Errorf("authorize = %d, want 200", r.Code)
		}
	}
}

func TestStoreWithoutPermits(t *testing.T) {
	f := start(t, decisionapi.Options{})
	bare := startOn(t, f.clock, struct{ caudal.Store }{f.store}, decisionapi.Options{Secret: []byte("sixteen bytes and more")})
	able := startOn(t, f.clock, f.store, decisionapi.Options{Secret: []byte("sixteen bytes and more")})
	bare.check(report).want(t, "a check without permits", true, "allowed")
	if r := bare.post("/v1/release", able.check(report).permitBody(t)); r.Code != http.StatusNotImplemented {
		t.Errorf("release = %d %s, want 501", r.Code, r.Body)
	}
}
