package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caudal-dev/caudal/httplimit"
)

// MinToken is the shortest token, in bytes.
const MinToken = 16

// guard lets operators in.
type guard struct {
	token  [sha256.Size]byte
	has    bool
	origin *http.CrossOriginProtection
}

func newGuard(token []byte) guard {
	return guard{token: sha256.Sum256(token), has: len(token) > 0, origin: http.NewCrossOriginProtection()}
}

var (
	errToken   = errors.New("this needs the admin token: send Authorization: Bearer TOKEN (caudal commands: --admin-token-file FILE)")
	errNoToken = errors.New("this is for clients on this machine, directly and not through a proxy: ask 127.0.0.1, or set admin_token_file and send the token")
	errHost    = errors.New("this is for 127.0.0.1 and localhost: a name that leads here may stand in somebody's page")
)

// allows says why a request may not come in; nil when it may.
func (g *guard) allows(r *http.Request) (status int, err error) {
	if err := g.origin.Check(r); err != nil {
		return http.StatusForbidden, errors.New("this is not for pages of other sites")
	}
	if g.has {
		// Hashes are compared, so that not even the token's length shows in the time.
		sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(sent))
		if !ok || subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
			return http.StatusUnauthorized, errToken
		}
		return 0, nil
	}
	if !FromHere(r) {
		return http.StatusForbidden, errNoToken
	}
	if !isPlainHost(r.Host) && !overSocket(r) {
		return http.StatusForbidden, errHost
	}
	return 0, nil
}

// proxied are headers that show that a request came through somebody.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// FromHere reports whether a request comes from a client on this machine itself,
// also over a socket in the file system.
func FromHere(r *http.Request) bool {
	for _, name := range proxied {
		if _, there := r.Header[name]; there {
			return false
		}
	}
	if overSocket(r) {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

func overSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// isPlainHost reports whether a Host is an address or localhost.
func isPlainHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// reads lets a request in that changes nothing.
func (a *API) reads(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if status, err := a.guard.allows(r); err != nil {
			if status == http.StatusUnauthorized {
				w.Header().Set("Www-Authenticate", `Bearer realm="caudal admin"`)
			}
			problem(w, r, status, err)
			return
		}
		next(w, r)
	})
}

// posts lets a request in that brings JSON: a form of another site's page cannot.
func (a *API) posts(next http.HandlerFunc) http.Handler {
	return a.reads(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
			problem(w, r, http.StatusUnsupportedMediaType, errors.New("send Content-Type: application/json"))
			return
		}
		next(w, r)
	})
}

func problem(w http.ResponseWriter, r *http.Request, status int, err error) {
	plain := &http.Request{Method: r.Method} // without the header by which it could be taken for gRPC
	httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}.Write(w, plain)
}
