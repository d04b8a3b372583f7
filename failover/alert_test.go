package failover

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// webhook answers requests by a list, the last for ever, and keeps what it got.
type webhook struct {
	mu      sync.Mutex
	answers []func(*http.Request) (*http.Response, error)
	got     []Message
	at      []time.Time
}

func (w *webhook) RoundTrip(r *http.Request) (*http.Response, error) {
	var m Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.got, w.at = append(w.got, m), append(w.at, time.Now())
	answer := w.answers[0]
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	w.mu.Unlock()
	return answer(r)
}

func status(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Location": {"http://elsewhere.example/"}}, Body: io.NopCloser(strings.NewReader("fine"))}, nil
	}
}

func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func unreachable(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

const secretURL = "https://user:password@hooks.example.com/T000/secret?token=hidden"

func newAlert(t *testing.T, w *webhook, log io.Writer) *Alert {
	t.Helper()
	a, err := NewAlert(secretURL, AlertOptions{Instance: "web-1", Transport: w, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAlertIsTriedAgainAndGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answers  []func(*http.Request) (*http.Response, error)
		attempts int
		gaveUp   bool
	}{
		{"taken", []func(*http.Request) (*http.Response, error){status(204)}, 1, false},
		{"second time", []func(*http.Request) (*http.Response, error){status(503), status(200)}, 2, false},
		{"after silence, no route and 429", []func(*http.Request) (*http.Response, error){silent, unreachable, status(429), status(200)}, 4, false},
		{"never", []func(*http.Request) (*http.Response, error){status(500)}, 5, true},
		{"silent", []func(*http.Request) (*http.Response, error){silent}, 5, true},
		{"refused for good", []func(*http.Request) (*http.Response, error){status(404)}, 1, true},
		{"redirected", []func(*http.Request) (*http.Response, error){status(302)}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, log := &webhook{answers: tt.answers}, &bytes.Buffer{}
				a := newAlert(t, w, log)
				begun := time.Now()
				a.Send(State{Degraded: true, Since: begun, Kind: "timeout", Err: errors.New("dial redis://user:redispass@10.0.0.5"), Instances: 3})
				if took := time.Since(begun); took != 0 {
					t.Errorf("Send took %s, want no time", took)
				}
				time.Sleep(10 * minute)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if len(w.got) != tt.attempts {
					t.Errorf("%d attempts, want %d", len(w.got), tt.attempts)
				}
				if m := w.got[0]; m.Event != "store_degraded" || m.Kind != "timeout" || m.Instance != "web-1" || m.Instances != 3 || !m.Since.Equal(begun) || !strings.Contains(m.Text, "slow or gone") {
					t.Errorf("posted %+v", m)
				}
				if length := w.at[len(w.at)-1].Sub(begun); length > 2*minute {
					t.Errorf("tried for %s, want it bounded", length)
				}
				if gaveUp := log.Len() > 0; gaveUp != tt.gaveUp {
					t.Errorf("logged %q, want a line: %v", log, tt.gaveUp)
				}
				for _, secret := range []string{"user", "password", "T000", "secret", "token", "hidden", "redispass"} {
					if strings.Contains(log.String(), secret) {
						t.Errorf("the log has the secret %q: %s", secret, log)
					}
				}
				if tt.gaveUp && !strings.Contains(log.String(), "to=https://hooks.example.com") {
					t.Errorf("the log does not say where: %s", log)
				}
			})
		})
	}
}

// TestAlertOfAnOutage connects a Store and an Alert whose webhook is silent: no
// decision waits for it, and Close does not either.
func TestAlertOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &webhook{answers: []func(*http.Request) (*http.Response, error){status(200), silent}}
		a := newAlert(t, w, io.Discard)
		store := newFake(nil)
		s := New(store, Options{OnChange: a.Send})
		store.set(fails(errRefused))
		degraded(t, s)
		time.Sleep(time.Second)
		store.set(nil)
		time.Sleep(time.Second)
		begun := time.Now()
		if d := take(t, s, limit(t, "10/h"), "k"); d.Degraded || time.Since(begun) > 0 {
			t.Errorf("%s after %s", show(d), time.Since(begun))
		}
		mustClose(t, s)
		if err := a.Close(); err != nil || time.Since(begun) > 0 {
			t.Errorf("Close() = %v after %s, want at once", err, time.Since(begun))
		}
		if len(w.got) != 2 || w.got[0].Event != "store_degraded" || w.got[1].Event != "store_recovered" {
			t.Errorf("posted %+v, want one message for each change", w.got)
		}
	})
}

// TestAlertOverTheNetwork posts to a real server.
func TestAlertOverTheNetwork(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.String() + " " + r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer server.Close()
	a, err := NewAlert(server.URL+"/hook?k=v", AlertOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Send(State{Since: time.Unix(0, 0), Kind: "timeout", Instances: 1})
	want := `POST /hook?k=v application/json {"event":"store_recovered","text":"caudal: the store is back, limits are exact again","since":"1970-01-01T00:00:00Z","kind":"timeout","instances":1}`
	if line := <-got; line != want {
		t.Errorf("posted %s\nwant   %s", line, want)
	}
}

func TestAlertRefusesWhatIsNoURL(t *testing.T) {
	for _, bad := range []string{"", "hooks.example.com", "ftp://user:secret@x", "http://", "://secret", "https:///secret", "\x7f"} {
		if a, err := NewAlert(bad, AlertOptions{}); err == nil {
			t.Errorf("NewAlert(%q) = no error", bad)
			a.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("NewAlert(%q) = error %v, which has a secret", bad, err)
		}
	}
}
