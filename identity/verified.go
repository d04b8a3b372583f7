package identity

// known looks an API key up, once for each request.
func (q *Request) known(key string) bool {
	if q.key == notAsked {
		q.key = notFound
		if key != "" {
			if info, ok := q.resolver.keys.Keys().Find(HashKey(key)); ok {
				q.key, q.info = found, info
			}
		}
	}
	return q.key == found
}

// keyInfo gives what is known of the request's API key, if anything.
func (q *Request) keyInfo() (KeyInfo, bool) {
	if q.resolver.keys == nil || !q.known(q.sentKey()) {
		return KeyInfo{}, false
	}
	return q.info, true
}

// OwnLimits gives the numbers that the API key has of its own, once the key, the user
// or the plan was asked for; the rules that count by one of them have asked.
func (q *Request) OwnLimits() []OwnLimit {
	if q.key != found {
		return nil
	}
	return q.info.Limits()
}

// user gives who is asking, by what is verified: the keys file, else the claim of
// a token, else the header of a trusted proxy. Where the key is known, the others
// do not count: a client must not choose among identities.
func (q *Request) user() string {
	if info, ok := q.keyInfo(); ok {
		return info.User
	}
	if c, ok := q.verifiedClaims(); ok {
		return c.text(q.resolver.tokens.opts.UserClaim)
	}
	return q.fromProxy(q.resolver.userHeader)
}

// plan gives what the user pays for; it comes from where the user does.
func (q *Request) plan() string {
	if info, ok := q.keyInfo(); ok {
		return info.Plan
	}
	if c, ok := q.verifiedClaims(); ok {
		return c.text(q.resolver.tokens.opts.PlanClaim)
	}
	return q.fromProxy(q.resolver.planHeader)
}

// fromProxy gives a header that only trusted proxies may set.
func (q *Request) fromProxy(name string) string {
	if name == "" || !q.resolver.TrustedPeer(q.r) {
		return ""
	}
	if lines := q.r.Header[name]; len(lines) > 0 && alike(lines) {
		return lines[0]
	}
	return ""
}

// claim gives a claim of a verified token.
func (q *Request) claim(name string) string {
	if c, ok := q.verifiedClaims(); ok {
		return c.text(name)
	}
	return ""
}

// verifiedClaims verifies the bearer token, once for each request.
func (q *Request) verifiedClaims() (claims, bool) {
	tokens := q.resolver.tokens
	if tokens == nil {
		return nil, false
	}
	if q.token == notAsked {
		q.token = notFound
		lines := q.r.Header["Authorization"]
		if len(lines) > 0 && alike(lines) {
			if c, err := tokens.verify(bearerToken(lines[0])); err == nil {
				q.token, q.claims = found, c
			}
		}
	}
	return q.claims, q.token == found
}

// Client names who the request comes from by the first of what the client cannot
// make up: the user, a known API key, a visitor's cookie, the address as it is
// grouped. It is for sharing something among clients, and not for showing.
func (q *Request) Client() string {
	if user := q.user(); user != "" {
		return "user " + user
	}
	if q.resolver.keys != nil {
		if key := q.apiKey(); key != "" {
			return "key " + key
		}
	}
	if visitor := q.visitor(); visitor != "" {
		return "visitor " + visitor
	}
	return q.remoteAddress()
}
