// Command paidapi shows a budget of a paid API that several programs share: 1000
// calls a day, counted in one Redis, never overspent.
//
//	go run ./paidapi -redis redis://127.0.0.1:6379 -url https://geocoder.example.com/ -calls 20
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/retry"
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "where the budget is counted")
	url := flag.String("url", "", "the paid API")
	calls := flag.Int("calls", 1, "how many calls to make")
	flag.Parse()
	if err := run(context.Background(), *redis, *url, *calls); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, redis, url string, calls int) error {
	store, err := redisstore.Open(ctx, redis, redisstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := NewClient(store, 1000, nil)
	if err != nil {
		return err
	}
	for range calls {
		status, err := call(ctx, client, url)
		if err != nil {
			return err
		}
		fmt.Println(status)
	}
	return nil
}

// NewClient makes a client that calls at most perDay times between one midnight in
// UTC and the next, together with all others on the same store. What is beyond is
// not sent, and gives retry.ErrLimited.
func NewClient(store caudal.Store, perDay uint32, next http.RoundTripper) (*http.Client, error) {
	budget := caudal.Limit{Algorithm: caudal.FixedWindow, Requests: perDay, Unit: caudal.Day}
	limiter, err := caudal.New(store, budget, caudal.WithName("geocoder"))
	if err != nil {
		return nil, err
	}
	transport, err := retry.NewTransport(next, retry.Options{
		Outbound: retry.Outbound{
			Limiter:    limiter,
			MaxWait:    time.Second, // nobody waits for tomorrow
			FailClosed: true,        // without Redis nobody knows what is left
		},
		// One budget for all of the API, whichever host answers. Each attempt counts: who
		// is paid by the call may well charge for those that failed.
		Key: func(*http.Request) string { return "geocoder" },
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

func call(ctx context.Context, client *http.Client, url string) (status string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(req)
	if limited := (*retry.LimitedError)(nil); errors.As(err, &limited) && limited.Err == nil {
		return fmt.Sprintf("not sent: the budget of today is used up; it is whole again in %s", limited.Decision.RetryAfter.Round(time.Second)), nil
	}
	if err != nil {
		return "", err
	}
	return response.Status, response.Body.Close()
}
