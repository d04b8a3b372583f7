package serve

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

func cutFamily(key string) (family, name string, ok bool) {
	family, name, ok = strings.Cut(key, ":")
	return family, name, ok
}

// hints looks at the requests of the gateway for signs of settings that make many
// clients one, or one client many. Each is told when first seen, and again an hour
// later at the earliest.
type hints struct {
	s    *Server
	who  *identity.Resolver
	keys atomic.Pointer[headerKeys]
	told [hintKinds]atomic.Int64 // when, in Unix seconds

	// The beginning: whether all requests so far came from one address.
	requests atomic.Int64
	first    atomic.Pointer[netip.Addr]
	several  atomic.Bool
}

// The kinds of hint.
const (
	hintUntrusted = iota // a forwarding header of a peer that is not trusted
	hintUnnamed          // a trusted proxy that names no client
	hintForwarded        // one that does so in the header Forwarded
	hintOneClient        // all requests from one address
	hintPort             // an address with a port as a key
	hintKinds
)

// hintEvery is how long one kind of hint is not told again.
const hintEvery = time.Hour

// oneClientAfter is how many requests from one address, and none from another, are
// a sign that the clients' addresses are not seen.
const oneClientAfter = 1000

// headerKeys are the headers that rules count by.
type headerKeys struct {
	domain *rule.Domain
	names  []string
}

// watchRequests puts the hints in front of a handler.
func (s *Server) watchRequests(who *identity.Resolver, next http.Handler) http.Handler {
	h := &hints{s: s, who: who}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.look(r)
		next.ServeHTTP(w, r)
	})
}

func (h *hints) look(r *http.Request) {
	name := h.who.ClientIPHeader()
	switch named := len(r.Header[name]) > 0; {
	case !h.who.TrustedPeer(r):
		if named {
			h.tell(hintUntrusted, "a peer that is not trusted names a client; it is not believed, and counts as the client itself",
				"header", name, "peer", shown(h.who.Peer(r)), "mend", "if the peer is a proxy of yours, add it to trusted_proxies; else it made the header up")
		}
	case named:
	case len(r.Header["Forwarded"]) > 0:
		h.tell(hintForwarded, "a trusted proxy names its client in the header Forwarded, which is not read, so all its clients count as one",
			"peer", r.RemoteAddr, "mend", "let the proxy set "+name+", or name in client_ip_header what it sets")
	default:
		h.tell(hintUnnamed, "a trusted proxy does not name its client, so all its clients count as one",
			"peer", r.RemoteAddr, "header", name, "mend", "let the proxy set the header, or name in client_ip_header what it sets")
	}
	h.oneClient(r)
	h.port(r)
}

// oneClient looks whether the first requests all come from one address.
func (h *hints) oneClient(r *http.Request) {
	if h.several.Load() {
		return
	}
	client := h.who.Client(r)
	if first := h.first.Load(); first == nil {
		h.first.CompareAndSwap(nil, &client)
	} else if *first != client {
		h.several.Store(true)
		return
	}
	if h.requests.Add(1) == oneClientAfter {
		h.several.Store(true) // said once is enough
		h.tell(hintOneClient, "all requests so far count as one client's", "requests", oneClientAfter, "address", shown(client),
			"mend", "if that is a proxy or a load balancer, add it to trusted_proxies and let it set "+h.who.ClientIPHeader())
	}
}

// port looks for addresses with a port in headers that rules count by: each
// connection would be another client.
func (h *hints) port(r *http.Request) {
	domain := h.s.decider.Domain()
	keys := h.keys.Load()
	if keys == nil || keys.domain != domain {
		keys = &headerKeys{domain: domain}
		for _, key := range domain.Keys() {
			if family, name, ok := cutFamily(key); ok && family == "header" {
				keys.names = append(keys.names, name)
			}
		}
		slices.Sort(keys.names)
		h.keys.Store(keys)
	}
	for _, name := range keys.names {
		value := r.Header.Get(name)
		if len(value) < len("1.1.1.1:1") || len(value) > 64 || strings.IndexByte(value, ':') < 0 {
			continue
		}
		if _, err := netip.ParseAddrPort(value); err == nil {
			h.tell(hintPort, "rules count by a header that holds an address with a port, so each connection is another client",
				"header", name, "mend", "count by remote_address, and name the header in client_ip_header")
		}
	}
}

// shown gives an address for the log: as it is where it is of a network of one's own,
// and else, as it may be a person's, by the beginning of its hash.
func shown(a netip.Addr) string {
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() {
		return a.String()
	}
	return "hash:" + identity.HashKey(a.String()).String()[:16]
}

func (h *hints) tell(kind int, what string, attrs ...any) {
	now, last := time.Now().Unix(), h.told[kind].Load()
	if last != 0 && now-last < int64(hintEvery/time.Second) || !h.told[kind].CompareAndSwap(last, now) {
		return
	}
	h.s.log.Warn(what, attrs...)
}
