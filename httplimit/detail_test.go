package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// teller writes down what it is told.
type teller struct{ told []string }

func (w *teller) Decided(string, *caudal.Compiled, Result) { w.told = append(w.told, "decided") }
func (w *teller) Failed(string, error)                     {}
func (w *teller) Detailed(d *Detail) {
	line := fmt.Sprintf("%s %s %s", d.Domain, d.Call.Limit.Name(), d.Result)
	if d.Decision != nil {
		line += fmt.Sprint(" remaining ", d.Decision.Remaining)
	}
	if d.Rule != nil {
		line += " of " + d.Rule.KeyParts(d.Call.Key)[0].Value
	}
	if d.Rule == nil {
		line += " of " + string(d.Call.Key)
	}
	if d.Who != nil {
		agent, _ := d.Who.Attribute("user_agent")
		line += " by " + agent
	}
	w.told = append(w.told, line)
}

// TestDetailObserverIsToldInsteadOfDecided: with rules, and with one limit, where
// nobody knows who asks.
func TestDetailObserverIsToldInsteadOfDecided(t *testing.T) {
	w := new(teller)
	store := memstore.New(memstore.Options{})
	d := rules(t, "domain: shop\ndescriptors:\n- {key: header:X-Key, rate_limit: {name: one, unit: hour, requests_per_unit: 1}}\n", store, Options{Observer: w})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Key", "k")
	r.Header.Set("User-Agent", "someone")
	for range 2 {
		d.Decide(r).Release()
	}
	single, err := New(caudal.Must(caudal.New(store, caudal.PerHour(1), caudal.WithName("single"))), ByHeader("X-Key"), Options{Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	single.Decide(r).Release()
	broken := rules(t, "domain: shop\ndescriptors:\n- {key: header:X-Key, rate_limit: {name: broken, unit: hour, requests_per_unit: 1}}\n", brokenStore{err: errors.New("gone")}, Options{Observer: w})
	broken.Decide(r).Release()
	want := []string{
		"shop one allowed remaining 0 of k by someone",
		"shop one denied remaining 0 of k by someone",
		" single allowed remaining 0 of k",
		"shop broken error_allowed of k by someone",
	}
	if fmt.Sprint(w.told) != fmt.Sprint(want) {
		t.Errorf("the observer was told\n%q, want\n%q", w.told, want)
	}
}
