package decisionapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
)

// StatusHeader is the header of authorize that holds the status which the client
// should get. Without it no decision was made.
const StatusHeader = "Caudal-Status"

// maxHoldBound is the longest max_hold.
const maxHoldBound = time.Minute

// authorize decides about the request that a proxy has received.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	if !a.who.TrustedPeer(r) {
		a.undecided(w, r, "authorize was asked by a peer that is not trusted; add the proxy to trusted_proxies", "peer", r.RemoteAddr)
		return
	}
	p, err := authorizeParams(r.URL.RawQuery)
	if err != nil {
		a.undecided(w, r, "authorize was asked with a wrong parameter", "error", err.Error())
		return
	}
	original, err := p.original(r)
	if err == errAmbiguous {
		a.hints.hint("authorize got both X-Forwarded-Uri and X-Original-URI, and they do not tell of one request: a client may have sent one; add headers=forwarded or headers=original to the URL that the proxy asks")
		w.Header().Set(StatusHeader, strconv.Itoa(http.StatusForbidden))
		problem(w, r, http.StatusForbidden, "two families of headers say what the request is, and they differ")
		return
	}
	if err != nil {
		a.undecided(w, r, "authorize cannot tell which request it is asked about", "error", err.Error())
		return
	}
	if name := a.who.ClientIPHeader(); len(r.Header[name]) == 0 {
		a.hints.hint("the proxy that asks authorize does not name its client, so all its clients count as one; let it set the header", "header", name)
	}
	start := time.Now()
	o := a.decider.DecideWithin(original, p.maxHold)
	defer o.Release()
	a.opts.Took(time.Since(start))
	o.Hold(original)
	answerProxy(w, r, original, o, p.denyStatus)
}

// undecided answers 500, which proxies let pass, and leaves a hint in the log.
func (a *API) undecided(w http.ResponseWriter, r *http.Request, what string, attrs ...any) {
	a.hints.hint(what, attrs...)
	problem(w, r, http.StatusInternalServerError, what)
}

// answerProxy answers 200, or refuses as the gateway would, with the status that
// the proxy can take.
func answerProxy(w http.ResponseWriter, r, original *http.Request, o *httplimit.Outcome, denyStatus int) {
	h := w.Header()
	if o.Action == httplimit.Pass {
		o.SetHeaders(h)
		h.Set("Cache-Control", "no-store")
		h.Set(StatusHeader, "200")
		w.WriteHeader(http.StatusOK)
		return
	}
	quiet := *original // not taken for gRPC: a proxy reads the status
	quiet.Method, quiet.Header = r.Method, original.Header.Clone()
	quiet.Header.Del("Content-Type")
	o.Refuse(&statusWriter{ResponseWriter: w, denyStatus: denyStatus}, &quiet)
}

// statusWriter notes the status that the client should get, and replaces it by
// one that the proxy takes for a refusal.
type statusWriter struct {
	http.ResponseWriter
	denyStatus int
}

func (s *statusWriter) WriteHeader(status int) {
	s.Header().Set(StatusHeader, strconv.Itoa(status))
	if s.denyStatus != 0 {
		status = s.denyStatus
	}
	s.ResponseWriter.WriteHeader(status)
}

// params are what the URL of authorize says.
type params struct {
	denyStatus int
	maxHold    time.Duration
	headers    string
}

func authorizeParams(query string) (params, error) {
	p := params{maxHold: DefaultMaxHold}
	values, err := url.ParseQuery(query)
	if err != nil {
		return p, fmt.Errorf("the query cannot be read: %w", err)
	}
	for name, given := range values {
		value := given[len(given)-1]
		switch name {
		case "deny_status":
			p.denyStatus, err = strconv.Atoi(value)
			if err != nil || p.denyStatus < 400 || p.denyStatus > 599 {
				return p, fmt.Errorf("deny_status %.20q: use 400 to 599", value)
			}
		case "max_hold":
			p.maxHold, err = time.ParseDuration(value)
			if err != nil || p.maxHold < 0 || p.maxHold > maxHoldBound {
				return p, fmt.Errorf("max_hold %.20q: use a time such as 25ms, at most %s", value, maxHoldBound)
			}
		case "headers":
			if p.headers = value; value != "forwarded" && value != "original" {
				return p, fmt.Errorf("headers %.20q: use forwarded or original", value)
			}
		default:
			return p, fmt.Errorf("%.40q is no parameter: use deny_status, max_hold and headers", name)
		}
	}
	return p, nil
}

var errAmbiguous = fmt.Errorf("two headers say what the URI is")

// original makes the request that the proxy has received.
func (p *params) original(r *http.Request) (*http.Request, error) {
	forwarded, original := r.Header["X-Forwarded-Uri"], r.Header["X-Original-Uri"]
	method, uri, host := r.Header.Get("X-Forwarded-Method"), forwarded, r.Header.Get("X-Forwarded-Host")
	switch {
	case p.headers == "original", p.headers == "" && len(forwarded) == 0:
		method, uri, host = r.Header.Get("X-Original-Method"), original, ""
	case p.headers == "" && len(original) > 0 && !agree(r):
		return nil, errAmbiguous
	}
	switch len(uri) {
	case 0:
		return nil, fmt.Errorf("neither X-Forwarded-Uri nor X-Original-URI is there: see the configurations in deploy/")
	case 1:
	default:
		return nil, errAmbiguous
	}
	if method == "" {
		method = r.Method
	}
	if host == "" {
		host = r.Host
	}
	q := r.WithContext(r.Context())
	q.Method, q.Host, q.URL, q.Body, q.ContentLength = method, host, parseURI(uri[0]), http.NoBody, 0
	return q, nil
}

// agree reports whether both families of headers tell of one request. A proxy sets
// one of them, and its client may have sent the other: with the URI that the proxy
// names, so that nothing looks odd, and a method or host that the limits let pass.
func agree(r *http.Request) bool {
	if r.Header.Get("X-Forwarded-Uri") != r.Header.Get("X-Original-Uri") {
		return false
	}
	method, host := r.Header.Get("X-Forwarded-Method"), r.Header.Get("X-Forwarded-Host")
	return cmp.Or(method, r.Method) == cmp.Or(r.Header.Get("X-Original-Method"), r.Method) && (host == "" || host == r.Host)
}

// parseURI takes a request target apart without judging it: identity makes one
// path of all its spellings.
func parseURI(target string) *url.URL {
	if scheme := strings.Index(target, "://"); scheme > 0 && target[0] != '/' {
		rest := target[scheme+3:]
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target = rest[i:]
		} else {
			target = "/"
		}
	}
	path, query, _ := strings.Cut(target, "?")
	u := &url.URL{Path: path, RawPath: path, RawQuery: query}
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path = plain
	}
	return u
}
