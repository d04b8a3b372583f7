package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// AlertOptions shape an Alert. The zero value is ready to use.
type AlertOptions struct {
	// Instance names this process in the message, such as the host's name.
	Instance string
	// Timeout bounds one attempt; 0 means 5 seconds.
	Timeout time.Duration
	// Attempts bounds how often one message is tried; 0 means 5.
	Attempts int
	// Backoff is the wait before the second attempt, doubled for each one more and
	// varied by half; 0 means 1 second.
	Backoff time.Duration
	// Transport sends requests; nil means one like http.DefaultTransport.
	Transport http.RoundTripper
	// Logger is told of messages that were given up; nil means slog.Default.
	Logger *slog.Logger
}

// Alert tells a webhook when the store is lost and when it is back: it posts a
// Message as JSON. An answer of 429 or 5xx, or none, is tried again, a bounded
// number of times; redirects are not followed. Use NewAlert, pass Send to
// Options.OnChange, and Close it.
type Alert struct {
	o      AlertOptions
	url    string
	where  string // the URL without what may be secret
	client *http.Client

	changes changes
	ctx     context.Context
	cancel  context.CancelFunc
	owned   sync.WaitGroup
}

// Message is what an Alert posts.
type Message struct {
	// Event is "store_degraded" or "store_recovered".
	Event string `json:"event"`
	// Text says it in a sentence; chat services show it as it is.
	Text string `json:"text"`
	// Since is when it became so.
	Since time.Time `json:"since"`
	// Kind is the kind of the last failure, such as "timeout".
	Kind string `json:"kind,omitempty"`
	// Instance names the process, as AlertOptions do.
	Instance string `json:"instance,omitempty"`
	// Instances is how many are thought to share the store.
	Instances int `json:"instances"`
}

// NewAlert makes an Alert for an http or https URL. The URL may hold secrets
// (user, path, query): it is never logged beyond its host, nor part of an error.
func NewAlert(rawURL string, o AlertOptions) (*Alert, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("failover: the alert URL must be one such as https://host/path")
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Attempts <= 0 {
		o.Attempts = 5
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := &Alert{o: o, url: rawURL, where: u.Scheme + "://" + u.Host}
	if t, ok := http.DefaultTransport.(*http.Transport); ok && o.Transport == nil {
		o.Transport = t.Clone() // our own, so that Close can close its connections
	}
	a.client = &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a.changes.wake = make(chan struct{}, 1)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.owned.Go(a.run)
	return a, nil
}

// Send queues a message about a change and returns at once. Of more than 16 that
// wait the oldest are dropped.
func (a *Alert) Send(st State) { a.changes.add(st) }

// Close gives up what has not been delivered and waits for the goroutine to end.
// It always returns nil.
func (a *Alert) Close() error {
	a.cancel()
	a.owned.Wait()
	a.client.CloseIdleConnections()
	return nil
}

func (a *Alert) run() {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.changes.wake:
		}
		for st, ok := a.changes.take(); ok; st, ok = a.changes.take() {
			m := a.message(st)
			if err := a.deliver(m); err != nil && a.ctx.Err() == nil {
				a.o.Logger.Error("an alert could not be delivered", "event", m.Event, "to", a.where, "attempts", a.o.Attempts, "error", err)
			}
		}
	}
}

func (a *Alert) message(st State) Message {
	m := Message{Event: "store_recovered", Since: st.Since.UTC(), Kind: st.Kind, Instance: a.o.Instance, Instances: st.Instances}
	m.Text = "caudal: the store is back, limits are exact again"
	if st.Degraded {
		m.Event = "store_degraded"
		m.Text = "caudal: the store is slow or gone (" + st.Kind + "), limits act as their on_store_error says"
	}
	if m.Instance != "" {
		m.Text += ", on " + m.Instance
	}
	return m
}

// deliver tries a message until it is taken, refused for good, or given up.
func (a *Alert) deliver(m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	backoff := a.o.Backoff
	for n := 1; ; n++ {
		again, err := a.post(body)
		if err == nil || !again || n >= a.o.Attempts {
			return err
		}
		wait := time.NewTimer(backoff/2 + rand.N(backoff))
		select {
		case <-wait.C:
		case <-a.ctx.Done():
			wait.Stop()
			return a.ctx.Err()
		}
		backoff *= 2
	}
}

// post makes one attempt; again says that another may succeed.
func (a *Alert) post(body []byte) (again bool, err error) {
	ctx, stop := context.WithTimeout(a.ctx, a.o.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the request could not be made")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		var named *url.Error // its text has the whole URL
		if errors.As(err, &named) {
			err = named.Err
		}
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4096) // so that the connection can be used again
	if res.StatusCode < 300 {
		return false, nil
	}
	return res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500, fmt.Errorf("it answered with status %d", res.StatusCode)
}
