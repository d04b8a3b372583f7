package identity

import "strings"

// maxSentTokens bounds the tokens of one request that are verified.
const maxSentTokens = 4

// Sent gives the values with which a request came for an attribute, where they are
// several: Attribute gives none of them then, or a list. It is for finding out
// whether the request is of somebody who is known by one of them, such as a client
// that was blocked: a server behind may read any of them. It is nil for a request
// that came with one value, and for attributes that cannot come several times.
func (q *Request) Sent(attribute string) []string {
	var values []string
	switch kind, name, _ := strings.Cut(attribute, ":"); kind {
	case "api_key":
		values = q.sentKeys()
	case "user", "plan":
		values = q.sentIdentities(attribute)
	case "header":
		values = q.r.Header.Values(name)
	case "cookie":
		for _, c := range q.r.CookiesNamed(name) {
			values = append(values, c.Value)
		}
	}
	if alike(values) {
		return nil
	}
	return values
}

// sentIdentities gives the users, or plans, of all keys and tokens of a request.
func (q *Request) sentIdentities(attribute string) (values []string) {
	v := q.resolver
	if keys := q.sentKeys(); v.keys != nil && !alike(keys) {
		for _, key := range keys {
			if info, ok := v.keys.Keys().Find(HashKey(key)); ok {
				values = append(values, pick(attribute, info.User, info.Plan))
			}
		}
	}
	lines := q.r.Header["Authorization"]
	if v.tokens == nil || alike(lines) {
		return append(values, "") // so that one value differs from none
	}
	for _, line := range lines[:min(len(lines), maxSentTokens)] {
		if c, err := v.tokens.verify(bearerToken(line)); err == nil {
			values = append(values, pick(attribute, c.text(v.tokens.opts.UserClaim), c.text(v.tokens.opts.PlanClaim)))
		}
	}
	return append(values, "")
}

func pick(attribute, user, plan string) string {
	if attribute == "user" {
		return user
	}
	return plan
}
