package retry_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/retry"
)

// stopped is a clock that stands still, so that the output is always the same.
type stopped struct{}

func (stopped) Now() caudal.Instant { return caudal.At(time.Unix(1_800_000_000, 0)) }

func Example() {
	refused := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refused++; refused <= 2 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprintln(w, "hello")
	}))
	defer api.Close()

	transport, err := retry.NewTransport(http.DefaultTransport, retry.Options{
		Backoff: retry.Backoff{Base: time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}

	response, err := client.Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode, "after", refused, "attempts")
	// Output: 200 after 3 attempts
}

// A paid API allows a number of calls a day. Calls beyond it are not sent at all.
func ExampleOutbound() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	defer api.Close()

	budget := caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 2, Unit: caudal.Day}
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped{}}), budget))
	transport, err := retry.NewTransport(nil, retry.Options{
		Outbound: retry.Outbound{Limiter: limiter, MaxWait: time.Second, FailClosed: true},
		Key:      func(*http.Request) string { return "geocoder" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}

	for range 3 {
		response, err := client.Get(api.URL)
		if errors.Is(err, retry.ErrLimited) {
			fmt.Println("held back: the budget of today is used up")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// held back: the budget of today is used up
}

func ExampleBackoff() {
	delays := retry.Backoff{Base: time.Second, Max: 5 * time.Second, Jitter: retry.NoJitter}.Start()
	for range 4 {
		fmt.Println(delays.Next())
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 5s
}
