package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// Options are the settings of a Transport. The zero value is usable.
type Options struct {
	// Backoff gives the delays.
	Backoff Backoff
	// MaxAttempts bounds the attempts of one call, the first included. Default 4;
	// 1 never tries again.
	MaxAttempts int
	// MaxRetryAfter is the longest that a server may ask to wait. A call that is
	// asked to wait longer is not tried again. Default one minute.
	MaxRetryAfter time.Duration
	// Budget bounds the retries of all calls that share it. Default
	// NewBudget(20, 0.2), for this transport.
	Budget *Budget

	// Statuses are the statuses to try again. Default 429, 502, 503 and 504.
	Statuses []int
	// RefusedIsSafe says that a 429 of these servers means that nothing was done,
	// so that it may be tried again whatever the method.
	RefusedIsSafe bool
	// Idempotent says whether a request may be sent twice. Default: by its method,
	// or when it has an Idempotency-Key or X-Idempotency-Key.
	Idempotent func(*http.Request) bool

	// Outbound holds attempts back until they have their turn.
	Outbound Outbound
	// Key names who is charged for a request under Outbound. Default: the host of
	// its URL, with the port as written.
	Key func(*http.Request) string
	// Cost is what an attempt takes under Outbound. Default 1.
	Cost func(*http.Request) uint32
}

func (o Options) withDefaults() Options {
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 4
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = time.Minute
	}
	if o.Budget == nil {
		o.Budget = NewBudget(20, 0.2)
	}
	if o.Statuses == nil {
		o.Statuses = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	o.Statuses = slices.Clone(o.Statuses)
	if o.Idempotent == nil {
		o.Idempotent = Idempotent
	}
	if o.Key == nil {
		o.Key = func(r *http.Request) string { return r.URL.Host }
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) uint32 { return 1 }
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.MaxAttempts < 1:
		return fmt.Errorf("retry: %d attempts: allow at least 1", o.MaxAttempts)
	case o.MaxRetryAfter < 0:
		return fmt.Errorf("retry: a longest wait of %s: it cannot be negative", o.MaxRetryAfter)
	}
	return o.Backoff.Validate()
}

// Transport is an http.RoundTripper that tries again. Make it with NewTransport.
// It is safe for concurrent use.
type Transport struct {
	next http.RoundTripper
	opts Options
}

// NewTransport puts retries in front of a transport; nil means
// http.DefaultTransport. Redirects are followed by http.Client above it: each hop
// is a call of its own.
func NewTransport(next http.RoundTripper, o Options) (*Transport, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return &Transport{next: next, opts: o}, nil
}

// CloseIdleConnections passes on what http.Client asks for.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request, and again while that may help. It gives the last
// answer or error as it came. A request that the outbound limit holds back gives a
// *LimitedError, or, when an answer was had before, that answer.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := t.turn(ctx, req); err != nil {
		closeBody(req)
		return nil, err
	}
	delays := t.opts.Backoff.Start()
	response, err := t.next.RoundTrip(req)
	for attempt := 1; attempt < t.opts.MaxAttempts; attempt++ {
		if !t.again(req, response, err) {
			break
		}
		wait, ok := t.wait(response, delays)
		if !ok || !fits(ctx, wait) || !t.opts.Budget.Spend() {
			return response, err
		}
		keep(response)
		retry, ok := t.prepare(ctx, req, wait)
		if ctx.Err() != nil {
			discard(response)
			return nil, ctx.Err()
		}
		if !ok {
			return response, err
		}
		discard(response)
		response, err = t.next.RoundTrip(retry)
	}
	if err == nil && !slices.Contains(t.opts.Statuses, response.StatusCode) {
		t.opts.Budget.Earn()
	}
	return response, err
}

func (t *Transport) turn(ctx context.Context, req *http.Request) error {
	if t.opts.Outbound.Limiter == nil {
		return nil
	}
	return t.opts.Outbound.Wait(ctx, t.opts.Key(req), t.opts.Cost(req))
}

// again reports whether an answer is worth another attempt that may be made.
func (t *Transport) again(req *http.Request, response *http.Response, err error) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil || req.Context().Err() != nil {
		return false
	}
	if err != nil {
		return transient(err) && t.opts.Idempotent(req)
	}
	if !slices.Contains(t.opts.Statuses, response.StatusCode) {
		return false
	}
	return t.opts.Idempotent(req) || t.opts.RefusedIsSafe && response.StatusCode == http.StatusTooManyRequests
}

// wait gives the time until the next attempt: what the server asks for, and the
// backoff on top. ok is false when the server asks for too much.
func (t *Transport) wait(response *http.Response, delays *Delays) (wait time.Duration, ok bool) {
	wait = delays.Next()
	if response == nil {
		return wait, true
	}
	floor, asked := After(response.Header, time.Now())
	if asked && floor > t.opts.MaxRetryAfter {
		return 0, false
	}
	return floor + wait, true
}

// prepare waits, and gives a copy of the request with a body of its own. ok is
// false when there is none to be sent: the answer at hand is the one to give then.
func (t *Transport) prepare(ctx context.Context, req *http.Request, wait time.Duration) (*http.Request, bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, false
	}
	if t.turn(ctx, req) != nil {
		return nil, false
	}
	retry := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, false
		}
		retry.Body = body
	}
	return retry, true
}

// Idempotent reports whether a request may be sent twice, by its method or because
// it has a key by which the server can tell. It is what net/http itself holds safe to send twice, with the methods
// that RFC 9110 calls idempotent.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	// A key sent empty says nothing: only one with a value lets the server tell.
	return req.Header.Get("Idempotency-Key") != "" || req.Header.Get("X-Idempotency-Key") != ""
}

// transient reports whether an error of the network may pass. A name that does not
// exist, a certificate or a protocol that is refused will be so again.
func transient(err error) bool {
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound || errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// fits reports whether a wait ends before the context does.
func fits(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || wait < time.Until(deadline)
}

// maxKept is how much of an answer is kept in memory during the wait, so that its
// connection is free for others meanwhile.
const maxKept = 16 << 10

// keep takes in the body of an answer that may yet be the last, during the wait and
// not before it: a server in trouble may begin a body and never end it. One that is
// longer, or broken, is left as it is, behind what was read of it.
func keep(response *http.Response) {
	if response == nil {
		return
	}
	k := &kept{rest: response.Body, read: make(chan struct{})}
	response.Body = k
	go k.take()
}

// kept is a body that is being taken in. Whoever reads it waits for that.
type kept struct {
	rest io.ReadCloser
	read chan struct{} // closed when data can be read
	data io.Reader
}

func (k *kept) take() {
	defer close(k.read)
	defer func() {
		if v := recover(); v != nil { // nobody else could: it is a goroutine of ours
			k.data = failing{fmt.Errorf("retry: the body of an answer panicked: %v", v)}
		}
	}()
	data, err := io.ReadAll(io.LimitReader(k.rest, maxKept+1))
	switch {
	case err != nil:
		k.data = io.MultiReader(bytes.NewReader(data), failing{err})
	case len(data) > maxKept:
		k.data = io.MultiReader(bytes.NewReader(data), k.rest)
	default:
		_ = k.rest.Close() // read to its end: there is nothing left to fail
		k.data = bytes.NewReader(data)
	}
}

func (k *kept) Read(p []byte) (int, error) {
	<-k.read
	return k.data.Read(p)
}

// Close ends the taking in as well.
func (k *kept) Close() error { return k.rest.Close() }

// failing is where a body broke off.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func discard(response *http.Response) {
	if response != nil {
		_ = response.Body.Close() // nobody reads it
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // never sent
	}
}
