package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenOptions say which JSON Web Tokens are believed.
type TokenOptions struct {
	// KeyFile holds what tokens are verified with: public keys or certificates in
	// PEM, a JSON Web Key Set, or a shared secret of at least 32 bytes. Required.
	KeyFile string

	// Issuer and Audience must be what the token says, where they are set.
	Issuer, Audience string

	// UserClaim and PlanClaim are the claims that are the attributes user and plan.
	// Defaults sub and plan.
	UserClaim, PlanClaim string

	// Now tells the time, for tokens that have expired. Default time.Now.
	Now func() time.Time
}

// tokenLeeway is how far the clocks of the issuer and of this machine may differ.
const tokenLeeway = 10 * time.Second

// maxToken bounds the length of a token, so that nobody can make the verification
// of made-up ones costly.
const maxToken = 8 << 10

// Tokens verifies JSON Web Tokens. A token must have an expiry. Its algorithm must
// be one that belongs to the key, whatever the token says: RS and PS to RSA keys,
// ES to keys of their curve, EdDSA to Ed25519, HS to secrets; none is never
// believed. Make it with NewTokens. It is safe for concurrent use.
type Tokens struct {
	opts   TokenOptions
	parser *jwt.Parser
	keys   atomic.Pointer[[]tokenKey]
}

// NewTokens reads the keys and makes what verifies tokens.
func NewTokens(o TokenOptions) (*Tokens, error) {
	if o.UserClaim == "" {
		o.UserClaim = "sub"
	}
	if o.PlanClaim == "" {
		o.PlanClaim = "plan"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	options := []jwt.ParserOption{jwt.WithJSONNumber(), jwt.WithExpirationRequired(), jwt.WithLeeway(tokenLeeway),
		jwt.WithTimeFunc(o.Now), jwt.WithStrictDecoding()}
	if o.Issuer != "" {
		options = append(options, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		options = append(options, jwt.WithAudience(o.Audience))
	}
	t := &Tokens{opts: o, parser: jwt.NewParser(options...)}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the keys again. When they cannot be used it gives an error, and the
// last good ones stay.
func (t *Tokens) Reload() error {
	keys, err := loadTokenKeys(t.opts.KeyFile)
	if err != nil {
		return err
	}
	t.keys.Store(&keys)
	return nil
}

// claims are what a verified token says.
type claims jwt.MapClaims

// text gives a claim that is a plain value; "" for others and when there is none.
func (c claims) text(name string) string {
	switch v := c[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}

var errNoToken = errors.New("identity: no token")

// verify gives the claims of a token that is in order.
func (t *Tokens) verify(token string) (claims, error) {
	if token == "" || len(token) > maxToken {
		return nil, errNoToken
	}
	c := jwt.MapClaims{}
	if _, err := t.parser.ParseWithClaims(token, c, t.keysFor); err != nil {
		return nil, err
	}
	return claims(c), nil
}

// keysFor gives the keys that a token may be signed with: those of its algorithm
// and, where both sides name one, its key's name.
func (t *Tokens) keysFor(token *jwt.Token) (any, error) {
	alg := token.Method.Alg()
	kid, _ := token.Header["kid"].(string)
	var set jwt.VerificationKeySet
	for _, k := range *t.keys.Load() {
		if slices.Contains(k.algorithms, alg) && (kid == "" || k.name == "" || k.name == kid) {
			set.Keys = append(set.Keys, k.key)
		}
	}
	return set, nil // an empty set verifies nothing
}
