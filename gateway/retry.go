package gateway

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/caudal-dev/caudal/retry"
)

// Retries say when the gateway tries a call again that the upstream failed. The
// client is charged once, however often that is. Only calls that may be sent twice
// are: by their method (GET, HEAD, OPTIONS, TRACE, PUT, DELETE), or with an
// Idempotency-Key, and with a body that fits into memory. A budget holds for each
// route: when most of its calls fail, they are tried once only.
type Retries struct {
	// Max is how often one call is tried again. Default 0: never; at most 10. On a
	// Route a negative one is never.
	Max int
	// Statuses are tried again beside connections that failed. Default 502, 503 and
	// 504. 429 cannot be among them: who is told to come later must not be pressed.
	Statuses []int
	// MaxBody is the longest body that is kept to be sent again, in bytes. Default
	// 64 KiB.
	MaxBody int64
}

// MaxRetries is how often one call may be tried again.
const MaxRetries = 10

const maxRetriedBody = 64 << 10

// or gives the settings with those that are zero taken from others.
func (o Retries) or(others Retries) Retries {
	if o.Max < 0 {
		return o
	}
	o.Max = cmp.Or(o.Max, others.Max)
	o.MaxBody = cmp.Or(o.MaxBody, others.MaxBody)
	if o.Statuses == nil {
		o.Statuses = others.Statuses
	}
	return o
}

func (o *Retries) validate() error {
	switch {
	case o.Max > MaxRetries:
		return fmt.Errorf("%d retries: there may be %d", o.Max, MaxRetries)
	case o.Max <= 0 && len(o.Statuses) > 0:
		return fmt.Errorf("retried statuses are set, but no retries: say how many")
	case o.MaxBody < 0 || o.MaxBody > 16<<20:
		return fmt.Errorf("a retried body of %d bytes: there may be %d", o.MaxBody, 16<<20)
	}
	for _, status := range o.Statuses {
		if status < 500 || status > 599 {
			return fmt.Errorf("retried status %d: only those from 500 to 599 are the upstream's failures", status)
		}
	}
	return nil
}

// wrap puts retries in front of a transport, where there are any. Waits are short:
// a client is waiting, and a server that asks for more time gets it by the client.
func (o Retries) wrap(next http.RoundTripper) (http.RoundTripper, error) {
	if o.Max <= 0 {
		return next, nil
	}
	statuses := o.Statuses
	if statuses == nil {
		statuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	again, err := retry.NewTransport(once{next}, retry.Options{MaxAttempts: o.Max + 1, Statuses: slices.Clone(statuses),
		MaxRetryAfter: time.Nanosecond, Backoff: retry.Backoff{Base: 25 * time.Millisecond, Max: 250 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	most := o.MaxBody
	if most == 0 {
		most = maxRetriedBody
	}
	return &retrying{next: next, again: again, maxBody: most}, nil
}

// retrying sends calls that can be sent again by one way, and others by another.
type retrying struct {
	next, again http.RoundTripper
	maxBody     int64
}

func (t *retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.again.RoundTrip(r)
	}
	if !retry.Idempotent(r) || r.ContentLength < 0 || r.ContentLength > t.maxBody || len(r.Trailer) > 0 || r.Header.Get("Expect") != "" {
		return t.next.RoundTrip(r)
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	_ = r.Body.Close() // read to its end
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return t.again.RoundTrip(r)
}

// CloseIdleConnections closes connections that nobody uses.
func (t *retrying) CloseIdleConnections() { closeIdle(t.next) }

// once takes away the reason to try again from calls that the upstream took and did
// not answer in time: it is busy with them still.
type once struct{ http.RoundTripper }

func (t once) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	var timeout net.Error
	var dial *net.OpError
	if err != nil && errors.As(err, &timeout) && timeout.Timeout() && !(errors.As(err, &dial) && dial.Op == "dial") {
		err = &slowError{err}
	}
	return res, err
}

// slowError is an upstream that did not answer in time. It is no net.Error.
type slowError struct{ err error }

func (e *slowError) Error() string { return e.err.Error() }
