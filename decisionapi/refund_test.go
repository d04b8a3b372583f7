package decisionapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/decisionapi"
)

func TestRefundWorksOnceWhicheverInstanceIsAsked(t *testing.T) {
	secret := []byte("sixteen bytes and more")
	one := start(t, decisionapi.Options{Secret: secret})
	two := startOn(t, one.clock, one.store, decisionapi.Options{Secret: secret})
	const alice = `{"attributes": {"api_key": "alice"}, "cost": 6}`
	a := one.check(alice)
	a.want(t, "6 of 10", 4.0, "limits", 0, "remaining")
	r := two.post("/v1/refund", a.refundBody(t, `, "n": 5`))
	r.want(t, "refund of 5", 5.0, "refunded")
	two.check(`{"attributes": {"api_key": "alice"}, "peek": true}`).want(t, "after the refund", 9.0, "limits", 0, "remaining")
	for _, f := range []*fixture{one, two} {
		if r := f.post("/v1/refund", a.refundBody(t, `, "n": 1`)); r.Code != http.StatusConflict {
			t.Errorf("a second refund = %d %s, want 409", r.Code, r.Body)
		}
	}
	all := one.check(alice)
	two.post("/v1/refund", all.refundBody(t, "")).want(t, "refund without n", 6.0, "refunded")
}

func TestRefundOfSeveralLimitsAtOnce(t *testing.T) {
	f := start(t, decisionapi.Options{})
	const both = `{"attributes": {"api_key": "alice", "path": "/login", "remote_address": "203.0.113.7"}}`
	a := f.check(both)
	f.post("/v1/refund", a.refundBody(t, ""))
	peek := f.check(strings.Replace(both, `{"attr`, `{"peek": true, "attr`, 1))
	peek.want(t, "after the refund", 3.0, "limits", 0, "remaining")
	peek.want(t, "after the refund", 10.0, "limits", 1, "remaining")
}

func TestOnlyOneOfManyRefundsWorks(t *testing.T) {
	f := start(t, decisionapi.Options{})
	body := f.check(login).refundBody(t, "")
	var worked, refused atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch r := f.post("/v1/refund", body); r.Code {
			case http.StatusOK:
				worked.Add(1)
			case http.StatusConflict:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if worked.Load() != 1 || refused.Load() != 15 {
		t.Errorf("of 16 refunds %d worked and %d were refused with 409, want 1 and 15", worked.Load(), refused.Load())
	}
}

func TestReceiptsExpireWithTheirCharge(t *testing.T) {
	f := start(t, decisionapi.Options{})
	a, b := f.check(login), f.check(login)
	f.clock.advance(2 * time.Minute)
	if r := f.post("/v1/refund", a.refundBody(t, "")); r.Code != http.StatusOK {
		t.Errorf("refund a minute after the charge stopped counting = %d %s, want 200", r.Code, r.Body)
	}
	f.clock.advance(time.Microsecond)
	if r := f.post("/v1/refund", b.refundBody(t, "")); r.Code != http.StatusGone {
		t.Errorf("refund a microsecond later = %d %s, want 410", r.Code, r.Body)
	}
}

func TestReceiptsCannotBeMadeUp(t *testing.T) {
	f := start(t, decisionapi.Options{})
	other := startOn(t, f.clock, f.store, decisionapi.Options{}) // another secret
	var made struct {
		Receipt struct{ ID, MAC string }
	}
	a := f.check(login)
	if err := json.Unmarshal(a.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	id, mac := made.Receipt.ID, made.Receipt.MAC
	flip := func(s string, i int) string {
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		return s[:i] + string(c) + s[i+1:]
	}
	for _, tc := range []struct{ name, id, mac string }{
		{"nothing", "", ""},
		{"no MAC", id, ""},
		{"a short MAC", id, mac[:8]},
		{"another MAC", id, flip(mac, 3)},
		{"another cost", flip(id, len(id)-2), mac},
		{"another expiry", flip(id, 4), mac},
		{"cut off", id[:len(id)-4], mac},
		{"no base64", "%%", mac},
		{"endless", strings.Repeat("A", 100_000), mac},
	} {
		body, err := json.Marshal(map[string]any{"receipt": map[string]string{"id": tc.id, "mac": tc.mac}})
		if err != nil {
			t.Fatal(err)
		}
		if r := f.post("/v1/refund", string(body)); r.Code != http.StatusForbidden {
			t.Errorf("%s: refund = %d %s, want 403", tc.name, r.Code, r.Body)
		}
	}
	if r := other.post("/v1/refund", a.refundBody(t, "")); r.Code != http.StatusForbidden {
		t.Errorf("refund under another secret = %d %s, want 403", r.Code, r.Body)
	}
	for body, want := range map[string]string{
		`{}`:                        "send the receipt",
		a.refundBody(t, `,"n":2`):   "n: 2 is more than the 1 that was charged",
		a.refundBody(t, `,"n":"1"`): "n: a JSON string will not do",
		a.refundBody(t, `,"m":1`):   `unknown field "m"`,
	} {
		r := f.post("/v1/refund", body)
		if detail, _ := r.json["detail"].(string); r.Code != http.StatusBadRequest || !strings.Contains(detail, want) {
			t.Errorf("refund %s = %d %q, want 400 %q", body, r.Code, detail, want)
		}
	}
	if r := f.post("/v1/refund", a.refundBody(t, "")); r.Code != http.StatusOK {
		t.Errorf("refund of the true receipt = %d %s, want 200", r.Code, r.Body)
	}
}
