package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
)

// street is a gateway with the first layer of examples/fairness in front of an API
// that is called directly, so that minutes of a busy address take a moment.
type street struct {
	clock    *clock
	visitors *identity.Visitors
	gateway  *Gateway
	passed   func(*http.Request) int // what the API answers
}

func newStreet(t *testing.T) *street {
	t.Helper()
	rules, err := os.ReadFile("../examples/fairness/rules/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &street{clock: newClock(), passed: func(*http.Request) int { return 200 }}
	s.visitors = identity.NewVisitors([]byte("a secret of the test"), func() time.Time { return time.UnixMicro(s.clock.Now().Wall) })
	v := who(t, identity.Options{Visitors: s.visitors}, "10.0.0.1/32")
	newcomers, err := caudal.New(memstore.New(memstore.Options{Clock: s.clock, MaxKeys: 10_000}),
		caudal.Limit{Requests: 20, Unit: caudal.Hour, Algorithm: caudal.SlidingWindow})
	if err != nil {
		t.Fatal(err)
	}
	up, _ := url.Parse("http://api.example")
	s.gateway, err = New(Options{Upstream: up, Identity: v, NewVisitors: newcomers, Logger: quiet(), Transport: s,
		Limits: limits(t, string(rules), v, httplimit.Options{Clock: s.clock})})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// RoundTrip is the API.
func (s *street) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.passed(r), Header: http.Header{}, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// ask sends a request of somebody at an address and gives the status, and the
// cookie that came with it.
func (s *street) ask(address string, r *http.Request) (status int, cookie string) {
	r.RemoteAddr = "10.0.0.1:1"
	r.Header.Set("X-Forwarded-For", address)
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.Name == identity.VisitorCookie {
			cookie = c.Name + "=" + c.Value
		}
	}
	return w.Code, cookie
}

// returning gives the cookie of somebody who was here before.
func (s *street) returning() string {
	c := s.visitors.Cookie(httptest.NewRequest("GET", "/", nil), false)
	return c.Name + "=" + c.Value
}

// tally counts answers.
type tally struct{ asked, passed int }

func (n *tally) add(status int) {
	n.asked++
	if status == 200 {
		n.passed++
	}
}

func (n tally) String() string { return fmt.Sprintf("%d of %d passed", n.passed, n.asked) }

const crowd = 1000 // people behind one address

// rush is two minutes of one address: a thousand people who were here before
// and ask every ten seconds; about once a second a newcomer, of whom each asks
// twice; and, unless it is nil, one who asks a hundred times a second.
func (s *street) rush(hostile func(i int, cookie string) *http.Request) (people, newcomers, enemy tally) {
	const address = "203.0.113.7"
	cookies := make([]string, crowd)
	for i := range cookies {
		cookies[i] = s.returning()
	}
	get := func(cookie string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		return r
	}
	last, first := "", map[int]string{}
	start := s.clock.Now()
	for tick := range 12_000 { // of 10 ms
		s.clock.setInstant(start.Add(time.Duration(tick) * 10 * time.Millisecond))
		status, _ := s.ask(address, get(cookies[tick%crowd])) // each every 10 s
		people.add(status)
		if tick%103 == 0 { // out of step with the bucket that they share
			who := tick / 103 / 2
			status, cookie := s.ask(address, get(first[who]))
			newcomers.add(status)
			if cookie != "" {
				first[who] = cookie
			}
		}
		if hostile == nil {
			continue
		}
		status, cookie := s.ask(address, hostile(tick, last))
		enemy.add(status)
		if cookie != "" {
			last = cookie
		}
	}
	return people, newcomers, enemy
}

func (c *clock) setInstant(at caudal.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
}

// invented is a request with every signal made up anew.
func invented(i int) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("User-Agent", fmt.Sprintf("agent/%d", i))
	r.Header.Set("X-Api-Key", fmt.Sprintf("key-%d", i))
	r.Header.Set("Authorization", fmt.Sprintf("Bearer token-%d", i))
	r.Header.Set("Accept-Language", fmt.Sprintf("x-%d", i))
	return r
}

// TestThousandBehindOneAddress: one of them is hostile and invents every signal it
// can. Those who were here before are denied nothing, newcomers share what the
// address has with it, and it gets no more than that. docs/identity.md shows the
// figures.
func TestThousandBehindOneAddress(t *testing.T) {
	for _, c := range []struct {
		name    string
		hostile func(i int, cookie string) *http.Request
		most    int // that the hostile one may have
	}{
		{"nobody is", nil, 0},
		{"cookies made up", func(i int, _ string) *http.Request {
			r := invented(i)
			r.Header.Set("Cookie", fmt.Sprintf("%s=AQ%092d; session=%d", identity.VisitorCookie, i, i))
			return r
		}, 60 + 2*120},
		{"every cookie kept that it gets", harvester(), 60 + 2*120 + 20*(20+2*30)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			people, newcomers, enemy := newStreet(t).rush(c.hostile)
			t.Logf("returning: %s; newcomers: %s; the hostile one: %s", people, newcomers, enemy)
			if people.passed != people.asked {
				t.Errorf("returning visitors: %s, want all", people)
			}
			if newcomers.passed == 0 || c.hostile == nil && newcomers.passed < newcomers.asked {
				t.Errorf("newcomers: %s, want some, and all where nobody is hostile", newcomers)
			}
			if enemy.passed > c.most || c.hostile != nil && enemy.passed == 0 {
				t.Errorf("the hostile one: %s, want at most %d", enemy, c.most)
			}
		})
	}
}

// harvester gives a hostile client that keeps the cookies it is given and asks as
// each of them in turn, and as a newcomer to get more.
func harvester() func(i int, cookie string) *http.Request {
	var kept []string
	return func(i int, cookie string) *http.Request {
		if cookie != "" && (len(kept) == 0 || kept[len(kept)-1] != cookie) {
			kept = append(kept, cookie)
		}
		r := invented(i)
		if n := i % (len(kept) + 1); n > 0 {
			r.Header.Set("Cookie", kept[n-1])
		}
		return r
	}
}

// spelled writes some letters as capitals, another choice for each number, and at
// times a space in front.
func spelled(s string, choice int) string {
	b := []byte(s)
	for i := range b {
		if choice>>(i%14)&1 == 1 && 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return strings.Repeat(" ", choice%3) + string(b)
}

// TestManyPasswordsForOneAccount: ten thousand from a thousand addresses, its name
// in as many spellings, meet the account's limit, and the owner's device is not locked out.
func TestManyPasswordsForOneAccount(t *testing.T) {
	s := newStreet(t)
	guesses := 0 // that the API saw
	s.passed = func(r *http.Request) int {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "right") {
			return 200
		}
		guesses++
		return 401
	}
	login := func(address, cookie, email, password string) int {
		r := httptest.NewRequest("POST", "/login", strings.NewReader(fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)))
		r.Header.Set("Content-Type", "application/json")
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		status, _ := s.ask(address, r)
		return status
	}
	owner := s.returning()
	denied := 0
	start := s.clock.Now()
	for i := range 10_000 {
		s.clock.setInstant(start.Add(time.Duration(i) * 100 * time.Millisecond)) // within 17 minutes
		address := fmt.Sprintf("198.51.%d.%d", i%1000/250, i%250+1)
		if login(address, "", spelled("ana@example.com", i), fmt.Sprintf("guess-%d", i)) == 429 {
			denied++
		}
		if i%1000 == 500 {
			if got := login("203.0.113.7", owner, "ana@example.com", "right"); got != 200 {
				t.Errorf("the owner's device after %d guesses = %d, want 200", i, got)
			}
		}
	}
	t.Logf("the API saw %d of 10000 guesses, %d were denied", guesses, denied)
	if guesses != 20 || denied != 9_980 {
		t.Errorf("the API saw %d guesses and %d were denied, want 20 and 9980", guesses, denied)
	}
	if got := login("203.0.113.9", "", "ben@example.com", "right"); got != 200 {
		t.Errorf("another account from a new device = %d, want 200", got)
	}
	if got := login("203.0.113.9", "", "ana@example.com", "right"); got != 429 {
		t.Errorf("the owner from a device that nobody knows, during the attack = %d, want 429", got)
	}
	s.clock.setInstant(start.Add(time.Hour + time.Minute))
	if got := login("203.0.113.9", "", "ana@example.com", "right"); got != 200 {
		t.Errorf("the same when the attack is over = %d, want 200", got)
	}
}

// TestDevicesThatAreKnown: a device has its own few guesses, at any address; one
// that alters its cookie is none that is known.
func TestDevicesThatAreKnown(t *testing.T) {
	s := newStreet(t)
	guesses := 0
	s.passed = func(*http.Request) int { guesses++; return 401 }
	guess := func(i int, cookie string) {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("email=ana%40example.com&password=x"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		s.ask(fmt.Sprintf("198.51.100.%d", i+1), r)
	}
	thief := s.returning()
	for i := range 100 {
		guess(i, thief)
	}
	if guesses != 10 {
		t.Errorf("the API saw %d guesses of one known device at 100 addresses, want 10", guesses)
	}
	for i := range 100 {
		guess(i, fmt.Sprintf("%s%02d", thief[:len(thief)-2], i))
	}
	if guesses != 10+20 {
		t.Errorf("with 100 altered cookies the API saw %d more, want the 20 of all that nobody knows", guesses-10)
	}
}
