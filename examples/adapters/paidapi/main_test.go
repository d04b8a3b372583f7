package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caudal-dev/caudal/memstore"
)

// TestBudgetIsNeverOverspent lets three clients that share a store call at once. One
// in memory stands for Redis: both pass the same conformance suite.
func TestBudgetIsNeverOverspent(t *testing.T) {
	var paid, unsent atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { paid.Add(1) }))
	defer api.Close()
	store := memstore.New(memstore.Options{})

	var wg sync.WaitGroup
	for range 3 {
		client, err := NewClient(store, 20, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			wg.Go(func() {
				status, err := call(t.Context(), client, api.URL)
				if err != nil {
					t.Error(err)
				}
				if strings.HasPrefix(status, "not sent") {
					unsent.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if paid.Load() != 20 || unsent.Load() != 70 {
		t.Errorf("90 calls: %d were sent and %d held back, want 20 and 70", paid.Load(), unsent.Load())
	}
}
