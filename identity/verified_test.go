package identity

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestC65OnlyKnownKeysIdentify(t *testing.T) {
	ring := new(KeyRing)
	v := resolver(t, Options{Keys: ring})
	want := func(key, apiKey, user, plan string) {
		t.Helper()
		for name, w := range map[string]string{"api_key": apiKey, "user": user, "plan": plan} {
			if got, ok := attribute(t, v, request("203.0.113.7:1", "X-Api-Key", key), name); got != w || ok != (w != "") {
				t.Errorf("%s of key %q = %q, %v, want %q", name, key, got, ok, w)
			}
		}
	}
	want("k1", "", "", "")
	ring.Set(readKeys(t, lineOf("k1", "acme", "pro")+`{"hash":"`+HashKey("k2").String()+`"}`))
	want("k1", "k1", "acme", "pro")
	want("k2", "k2", "", "")
	want("made-up", "", "", "")
	want("", "", "", "")
	ring.Set(new(Keys)) // revoked
	want("k1", "", "", "")
}

func TestUserFromAProxy(t *testing.T) {
	v := resolver(t, Options{UserHeader: "x-user", PlanHeader: "X-Plan"}, "10.0.0.0/8")
	for _, c := range []struct {
		peer   string
		header []string
		want   string
	}{
		{"10.0.0.9:1", []string{"X-User", "ann"}, "ann"},
		{"10.0.0.9:1", []string{"X-User", "ann", "X-User", "bob"}, ""},
		{"10.0.0.9:1", nil, ""},
		{"203.0.113.7:1", []string{"X-User", "ann"}, ""},
	} {
		if got, ok := attribute(t, v, request(c.peer, c.header...), "user"); got != c.want || ok != (c.want != "") {
			t.Errorf("user of %v from %s = %q, %v, want %q", c.header, c.peer, got, ok, c.want)
		}
	}
	if !v.SpeaksForProxy("X-User") || !v.SpeaksForProxy("X-Plan") || !v.SpeaksForProxy("X-Forwarded-For") || v.SpeaksForProxy("") || v.SpeaksForProxy("X-Api-Key") {
		t.Error("SpeaksForProxy does not tell the proxy's headers from others")
	}
	if _, err := New(Options{UserHeader: "X-User"}); err == nil {
		t.Error("New with a user header and no trusted proxy = nil, want an error")
	}
}

// posted is a request with a body whose length the header tells or not.
func posted(kind, body string, told bool) *http.Request {
	r := httptest.NewRequest("POST", "/login", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if !told {
		r.ContentLength = -1
	}
	return r
}

func TestBodyFields(t *testing.T) {
	const form, js = "application/x-www-form-urlencoded", "application/json; charset=utf-8"
	v := resolver(t, Options{MaxBody: 200})
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ kind, body, field, want string }{
		{js, `{"email":"ann@id.example","pin":1234,"ok":true,"no":null,"o":{"email":"x"}}`, "email", "ann@id.example"},
		{js, `{"email":" Ann@ID.example "}`, "email", "ann@id.example"}, // one account, however it is spelled
		{js, `{"email":"Ann"}`, "email", "Ann"},
		{form, `email=ANN%40id.example`, "email", "ann@id.example"},
		{js, `{"EMail":"ann"}`, "email", "ann"},
		{js, `{"\u0065mail":"\u0061nn"}`, "email", "ann"},
		{js, `{"pin":1234}`, "pin", "1234"},
		{js, `{"ok":true}`, "ok", "true"},
		{js, `{"no":null}`, "no", ""},
		{js, `{"o":{"email":"x"}}`, "o", ""},
		{js, `{"o":{"email":"x"}}`, "email", ""},
		{js, `{"email":"a","email":"a"}`, "email", "a"},
		{js, `{"email":"a","Email":"b"}`, "email", ""},
		{js, `{"email":"a"`, "email", ""},
		{js, `{"email":"a"} x`, "email", ""},
		{js, `["email"]`, "email", ""},
		{js, `{"email":"a","pad":"` + long + `"}`, "email", ""},
		{"application/vnd.api+json", `{"email":"a"}`, "email", "a"},
		{form, `email=ann%40id.example&x=1`, "email", "ann@id.example"},
		{form, `e%6Dail=a+b`, "email", "a b"},
		{form, `email=a&email=b`, "email", ""},
		{form, `email=`, "email", ""},
		{form, `email=a&pad=` + long, "email", ""},
		{"text/plain", `email=a`, "email", ""},
		{"multipart/form-data; boundary=b", "--b\r\n", "email", ""},
		{"", `{"email":"a"}`, "email", ""},
	} {
		for _, told := range []bool{true, false} {
			r := posted(c.kind, c.body, told)
			if got, ok := attribute(t, v, r, "body:"+c.field); got != c.want || ok != (c.want != "") {
				t.Errorf("body:%s of %s %.60q = %q, %v, want %q", c.field, c.kind, c.body, got, ok, c.want)
			}
			if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != c.body {
				t.Errorf("the body behind body:%s of %.60q = %.60q, %v, want it whole", c.field, c.body, rest, err)
			}
		}
	}
	packed := posted(js, `{"email":"a"}`, true)
	packed.Header.Set("Content-Encoding", "gzip")
	if got, ok := attribute(t, v, packed, "body:email"); ok {
		t.Errorf("body:email of a packed body = %q, want none", got)
	}
}

// TestBodyCutOff: a client that goes away in the middle of its body is seen as that
// by whoever reads the body next.
func TestBodyCutOff(t *testing.T) {
	v := resolver(t, Options{})
	r := posted("application/json", "", false)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"email":"a"}`), brokenReader{}))
	if got, ok := attribute(t, v, r, "body:email"); ok {
		t.Errorf("body:email = %q, want none", got)
	}
	if rest, err := io.ReadAll(r.Body); string(rest) != `{"email":"a"}` || err != io.ErrUnexpectedEOF {
		t.Errorf("the body = %q, %v, want what came and io.ErrUnexpectedEOF", rest, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestClientCert(t *testing.T) {
	v := resolver(t, Options{})
	one := &x509.Certificate{DNSNames: []string{"ann.id.example"}}
	u, err := url.Parse("spiffe://id.example/ann")
	if err != nil {
		t.Fatal(err)
	}
	many := &x509.Certificate{DNSNames: []string{"ann.id.example"}, URIs: []*url.URL{u}, EmailAddresses: []string{"ann@id.example"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}
	ask := func(state *tls.ConnectionState, name string) string {
		r := request("203.0.113.7:1")
		r.TLS = state
		got, _ := attribute(t, v, r, "client_cert:"+name)
		return got
	}
	verified := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	for _, c := range []struct {
		what, name string
		state      *tls.ConnectionState
		want       string
	}{
		{"no TLS", "san", nil, ""},
		{"a certificate that nobody vouches for", "san", &tls.ConnectionState{PeerCertificates: []*x509.Certificate{one}}, ""},
		{"one name", "SAN", verified(one), "ann.id.example"},
		{"one name", "uri", verified(one), ""},
		{"one name", "cn", verified(one), ""},
		{"many names", "uri", verified(many), "spiffe://id.example/ann"},
		{"many names", "email", verified(many), "ann@id.example"},
		{"many names", "ip", verified(many), "192.0.2.1"},
		{"many names", "san", verified(many), "\x00\x0eann.id.example\x0eann@id.example\x17spiffe://id.example/ann\x09192.0.2.1"},
	} {
		if got := ask(c.state, c.name); got != c.want {
			t.Errorf("%s: client_cert:%s = %q, want %q", c.what, c.name, got, c.want)
		}
	}
}

func TestVisitors(t *testing.T) {
	at := today
	visitors := NewVisitors([]byte("a secret of the tests"), func() time.Time { return at })
	v := resolver(t, Options{Visitors: visitors})
	with := func(value string) *http.Request { return request("203.0.113.7:1", "Cookie", VisitorCookie+"="+value) }
	cookie := visitors.Cookie(request("203.0.113.7:1"), true)
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.MaxAge != 7*24*3600 {
		t.Errorf("cookie = %v", cookie)
	}
	id, ok := attribute(t, v, with(cookie.Value), "visitor")
	if !ok || len(id) != 22 {
		t.Fatalf("visitor = %q, %v, want an identity", id, ok)
	}
	if other, _ := attribute(t, v, with(visitors.Cookie(request("203.0.113.7:1"), false).Value), "visitor"); other == id || other == "" {
		t.Errorf("another visitor = %q, want another identity than %q", other, id)
	}
	changed := []byte(cookie.Value)
	changed[5] ^= 1
	foreign := NewVisitors([]byte("another secret"), now).Cookie(request("203.0.113.7:1"), false).Value
	for _, value := range []string{"", "x", string(changed), cookie.Value + "A", foreign, cookie.Value + "; " + VisitorCookie + "=" + foreign} {
		if got, ok := attribute(t, v, with(value), "visitor"); ok {
			t.Errorf("visitor of cookie %q = %q, want none", value, got)
		}
	}
	for _, c := range []struct {
		age               time.Duration
		known, fresh, due bool
	}{
		{0, true, false, false}, {23 * time.Hour, true, false, false}, {25 * time.Hour, true, false, true},
		{7*24*time.Hour - 1, true, false, true}, {7 * 24 * time.Hour, false, true, false}, {-time.Hour, false, true, false},
	} {
		at = today.Add(c.age)
		_, known := attribute(t, v, with(cookie.Value), "visitor")
		fresh, due := visitors.Due(with(cookie.Value))
		if known != c.known || fresh != c.fresh || due != c.due {
			t.Errorf("a cookie aged %s: known %v, fresh %v, renewed %v, want %v, %v, %v", c.age, known, fresh, due, c.known, c.fresh, c.due)
		}
	}
	at = today.Add(48 * time.Hour)
	renewed := visitors.Cookie(with(cookie.Value), false)
	if got, _ := attribute(t, v, with(renewed.Value), "visitor"); got != id || renewed.Value == cookie.Value {
		t.Errorf("visitor of the renewed cookie = %q, want %q", got, id)
	}
}
