package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

// VisitorCookie is the name of the cookie by which visitors are known again.
const VisitorCookie = "caudal_visitor"

// How long a visitor's cookie holds, and how old it is when a new one with the same
// identity takes its place.
const (
	visitorLife  = 7 * 24 * time.Hour
	visitorRenew = 24 * time.Hour
)

// visitorVersion begins the cookie and is signed with the rest: another format gets
// another number.
const visitorVersion = 1

// Visitors signs and verifies cookies that tell visitors apart who have neither a
// key nor a user. The cookie holds a random identity and when it was given, signed
// with HMAC-SHA-256, and nothing about the person. Make it with NewVisitors. It is
// safe for concurrent use.
type Visitors struct {
	key []byte
	now func() time.Time
}

// NewVisitors makes it from a secret, of which a key of its own is derived.
// Instances behind one name need the same secret. nil is a random one: then nobody
// is known again after a restart. now tells the time; nil is time.Now.
func NewVisitors(secret []byte, now func() time.Time) *Visitors {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	if now == nil {
		now = time.Now
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("caudal visitor cookie"))
	return &Visitors{mac.Sum(nil), now}
}

// The parts of a cookie, in bytes: version, identity, time of issue (Unix seconds),
// signature.
const (
	visitorID     = 16
	visitorSigned = 1 + visitorID + 8
	visitorBytes  = visitorSigned + sha256.Size
)

// Visitor gives who the request says to be, and since when; ok is false when it
// has no cookie, or one that is made up, has expired or comes from the future.
func (v *Visitors) Visitor(r *http.Request) (id string, issued time.Time, ok bool) {
	cookies := r.CookiesNamed(VisitorCookie)
	if len(cookies) != 1 || len(cookies[0].Value) != base64.RawURLEncoding.EncodedLen(visitorBytes) {
		return "", time.Time{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cookies[0].Value)
	if err != nil || b[0] != visitorVersion || !hmac.Equal(v.sign(b[:visitorSigned]), b[visitorSigned:]) {
		return "", time.Time{}, false
	}
	issued = time.Unix(int64(binary.BigEndian.Uint64(b[1+visitorID:visitorSigned])), 0)
	if age := v.now().Sub(issued); age < -time.Minute || age >= visitorLife {
		return "", time.Time{}, false
	}
	return base64.RawURLEncoding.EncodeToString(b[1 : 1+visitorID]), issued, true
}

// Due says which cookie a response to the request should set: fresh is true for a
// newcomer, who gets a new identity; renew for somebody whose cookie is old.
func (v *Visitors) Due(r *http.Request) (fresh, renew bool) {
	_, issued, ok := v.Visitor(r)
	return !ok, ok && v.now().Sub(issued) >= visitorRenew
}

// Cookie makes the cookie that Due has asked for. Scripts cannot read it, and it
// goes over TLS only where secure is set.
func (v *Visitors) Cookie(r *http.Request, secure bool) *http.Cookie {
	b := make([]byte, visitorSigned, visitorBytes)
	b[0] = visitorVersion
	if id, _, ok := v.Visitor(r); ok {
		_, _ = base64.RawURLEncoding.Decode(b[1:], []byte(id)) // it was made by the same
	} else {
		_, _ = rand.Read(b[1 : 1+visitorID]) // never fails
	}
	binary.BigEndian.PutUint64(b[1+visitorID:], uint64(v.now().Unix()))
	return &http.Cookie{Name: VisitorCookie, Value: base64.RawURLEncoding.EncodeToString(append(b, v.sign(b)...)), Path: "/",
		MaxAge: int(visitorLife / time.Second), HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
}

func (v *Visitors) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, v.key)
	mac.Write(b)
	return mac.Sum(nil)
}

// visitor gives the identity of a cookie that was verified.
func (q *Request) visitor() string {
	if q.resolver.visitors == nil {
		return ""
	}
	id, _, _ := q.resolver.visitors.Visitor(q.r)
	return id
}
