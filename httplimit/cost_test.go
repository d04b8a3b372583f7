package httplimit

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const spendingRules = `
domain: d
descriptors:
  - key: remote_address
    cost: { response_header: X-Spent, default: 2, max: 10 }
    rate_limit: { name: tokens, unit: hour, requests_per_unit: 20, algorithm: fixed_window }
`

// TestCostOfResponse: the most is charged first and credited down to what the
// response says. Each response with what it leaves of 20.
func TestCostOfResponse(t *testing.T) {
	spent := ""
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if spent == "panic" {
			panic(http.ErrAbortHandler)
		}
		if spent != "" {
			w.Header().Set("X-Spent", spent)
		}
		w.WriteHeader(http.StatusOK)
	})
	d := rules(t, spendingRules, nil, Options{Clock: newClock()})
	wrapped := d.Wrap(h)
	left := uint64(20)
	for _, step := range []struct {
		spent string
		cost  uint64
	}{{"1", 1}, {"0", 0}, {"", 2}, {"many", 2}, {"-3", 2}, {"3", 3}, {"panic", 2}} {
		spent = step.spent
		func() {
			defer func() { _ = recover() }()
			wantStatus(t, "a call that spends "+step.spent, call(wrapped, "GET", "/"), 200)
		}()
		left -= step.cost
		if got := remainingNow(t, d); got != left {
			t.Errorf("remaining after a response that says %q = %d, want %d", step.spent, got, left)
		}
	}
	// 8 are left: a call could cost up to 10, so it is denied at once.
	wantStatus(t, "a call that may cost too much", call(wrapped, "GET", "/"), 429)
}

// remainingNow gives what the one limit of the rules has left, by a call that is
// cancelled: denied calls report it too.
func remainingNow(t *testing.T, d *Decider) uint64 {
	t.Helper()
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "203.0.113.7:1"
	o := d.Decide(r)
	defer o.Release()
	n := o.Decisions[0].Remaining
	if o.Action == Pass {
		n += uint64(o.Decisions[0].Receipt.Cost)
		o.Cancel(t.Context())
	}
	return n
}

// TestOnDeny: a rule's own answer, with its variables escaped for its type.
func TestOnDeny(t *testing.T) {
	d := rules(t, `
domain: shop
on_deny: { status: 503, headers: { X-Reason: "{{.Rule}} of {{.Domain}}" } }
descriptors:
  - key: path
    value: /json
    on_deny:
      status: 402
      content_type: application/json
      body: '{"rule": "{{.Rule}}", "limit": {{.Limit}}, "wait": {{.RetryAfter}}, "left": {{.Remaining}}, "reset": {{.ResetAfter}}, "status": {{.Status}}}'
      headers: { cache-control: private }
    rate_limit: { name: 'a "b"', unit: minute, requests_per_unit: 1, algorithm: fixed_window }
  - key: path
    value: /plain
    rate_limit: { name: plain, unit: minute, requests_per_unit: 0 }
`, nil, Options{Clock: newClock()})
	h := d.Wrap(hello)
	wantStatus(t, "the first", call(h, "GET", "/json"), 200)
	denied := call(h, "GET", "/json")
	wantStatus(t, "the second", denied, 402)
	wantHeaders(t, "the second", denied.Header, map[string]string{"Content-Type": "application/json", "Retry-After": "60",
		"Cache-Control": "private", "X-Reason": "", "X-Ratelimit-Remaining": "0"})
	if got, want := body(denied), `{"rule": "a \"b\"", "limit": 1, "wait": 60, "left": 0, "reset": 60, "status": 402}`; got != want {
		t.Errorf("body = %s, want %s", got, want)
	}
	plain := call(h, "GET", "/plain")
	wantStatus(t, "the file's own", plain, 503)
	wantHeaders(t, "the file's own", plain.Header, map[string]string{"X-Reason": "plain of shop", "Content-Type": "application/problem+json", "Retry-After": ""})
	if got := body(plain); !strings.Contains(got, `"status":503`) || !strings.Contains(got, "quota-exceeded") {
		t.Errorf("body = %s, want the usual one with status 503", got)
	}
	head := call(h, "HEAD", "/json")
	wantStatus(t, "HEAD", head, 402)
	if got := body(head); got != "" {
		t.Errorf("HEAD has the body %q", got)
	}
	grpc := call(h, "POST", "/json", "Content-Type", "application/grpc")
	wantStatus(t, "gRPC", grpc, 200)
	wantHeaders(t, "gRPC", grpc.Header, map[string]string{"Grpc-Status": "8"})
}

// TestCostOfRequest: a header's cost is charged, and what cannot pass says so.
func TestCostOfRequest(t *testing.T) {
	c := newClock()
	h := rules(t, `
domain: d
descriptors:
  - key: remote_address
    cost: { header: X-Cost, max: 30 }
    rate_limit: { unit: minute, requests_per_unit: 20, algorithm: fixed_window }
`, nil, Options{Clock: c}).Wrap(hello)
	for _, step := range []struct {
		cost, remaining string
		status          int
	}{
		{"5", "15", 200}, {"", "14", 200}, {"x", "14", 429}, {"0", "13", 200}, {"14", "13", 429}, {"13", "0", 200}, {"30", "0", 429}, {"31", "0", 429},
	} {
		r := call(h, "GET", "/", "X-Cost", step.cost)
		wantStatus(t, "a call of cost "+step.cost, r, step.status)
		wantHeaders(t, "a call of cost "+step.cost, r.Header, map[string]string{"X-Ratelimit-Remaining": step.remaining})
	}
	c.advance(time.Minute)
	wantStatus(t, "a minute later", call(h, "GET", "/", "X-Cost", "20"), 200)
	c.advance(time.Minute)
	// A client that adds a small cost to that of its proxy pays the large one.
	r := call(h, "GET", "/", "X-Cost", "1", "X-Cost", "15")
	wantHeaders(t, "a call of two costs", r.Header, map[string]string{"X-Ratelimit-Remaining": "5"})
}
