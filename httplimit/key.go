package httplimit

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caudal-dev/caudal/identity"
)

// KeyFunc says which key a request is charged to. The empty key means that the
// limit does not apply to the request: there is no bucket that requests without
// a key share. An error means that no decision can be made; Options.OnError says
// what follows.
//
// Keep personal data out of keys that a shared store will hold.
type KeyFunc func(*http.Request) (string, error)

// ErrNoAddress is returned by ByIP for a request whose RemoteAddr is no address.
var ErrNoAddress = errors.New("httplimit: the request has no client address")

var noProxies, _ = identity.New(identity.Options{}) // the zero Options are valid

// ByIP charges the address of the peer; IPv6 addresses by their /64 network.
// Behind a proxy that is the proxy's address, one for all: use ByAddress there.
func ByIP(r *http.Request) (string, error) { return ByAddress(noProxies)(r) }

// ByAddress charges the client's address as a resolver sees it, which knows the
// proxies to trust.
func ByAddress(who *identity.Resolver) KeyFunc {
	return byAttribute(who, "remote_address", ErrNoAddress)
}

// ByAPIKey charges the API key as a resolver sees it. A request without one is
// not limited: combine it with ByIP through FirstOf.
func ByAPIKey(who *identity.Resolver) KeyFunc { return byAttribute(who, "api_key", nil) }

// ByHeader charges the value of a header, as sent. A request without it is not
// limited: combine it with ByIP through FirstOf.
func ByHeader(name string) KeyFunc { return byAttribute(noProxies, "header:"+name, nil) }

func byAttribute(who *identity.Resolver, attribute string, missing error) KeyFunc {
	return func(r *http.Request) (string, error) {
		var q identity.Request
		q.Reset(who, r)
		key, ok := q.Attribute(attribute)
		if !ok {
			return "", missing
		}
		return key, nil
	}
}

// FirstOf charges the first key that applies. Keys are told apart by the place of
// their function in the list ("0:", "1:" ...), so that nobody can write another's
// address into a header and use up its count.
func FirstOf(keys ...KeyFunc) KeyFunc {
	return func(r *http.Request) (string, error) {
		for i, f := range keys {
			key, err := f(r)
			if err != nil {
				return "", err
			}
			if key != "" {
				return strconv.Itoa(i) + ":" + key, nil
			}
		}
		return "", nil
	}
}
