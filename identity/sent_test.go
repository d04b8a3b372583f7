package identity

import (
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func TestSentGivesEveryValueOfSeveral(t *testing.T) {
	ring := new(KeyRing)
	ring.Set(readKeys(t, lineOf("k1", "acme", "pro")+lineOf("k2", "bob", "free")))
	v := resolver(t, Options{Keys: ring})
	bearer := resolver(t, Options{BearerAPIKey: true})
	for _, c := range []struct {
		v         *Resolver
		header    []string
		attribute string
		want      []string
	}{
		{v, []string{"X-Api-Key", "k1"}, "api_key", nil},
		{v, []string{"X-Api-Key", "k1", "X-Api-Key", "k1"}, "api_key", nil},
		{v, []string{"X-Api-Key", "k1", "X-Api-Key", "x"}, "api_key", []string{"k1", "x"}},
		{v, []string{"X-Api-Key", "k1", "X-Api-Key", "x"}, "user", []string{"acme", ""}},
		{v, []string{"X-Api-Key", "k1", "X-Api-Key", "k2"}, "plan", []string{"pro", "free", ""}},
		{v, []string{"X-Api-Key", "k1"}, "user", nil},
		{bearer, []string{"X-Api-Key", "x", "Authorization", "Bearer k1"}, "api_key", []string{"x", "k1"}},
		{v, []string{"X-A", "1", "X-A", "2"}, "header:X-A", []string{"1", "2"}},
		{v, []string{"Cookie", "a=1; a=2"}, "cookie:a", []string{"1", "2"}},
		{v, nil, "path", nil},
	} {
		var q Request
		q.Reset(c.v, request("203.0.113.7:1", c.header...))
		if got := q.Sent(c.attribute); !slices.Equal(got, c.want) {
			t.Errorf("Sent(%s) of %v = %q, want %q", c.attribute, c.header, got, c.want)
		}
	}
}

func TestSentVerifiesEveryToken(t *testing.T) {
	// Two lines of Authorization: nobody is identified, and both are told of.
	secret := []byte(strings.Repeat("secret!!", 8))
	v := resolver(t, Options{Tokens: tokens(t, secret, TokenOptions{})})
	token := signed(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "eve"})
	var q Request
	q.Reset(v, request("203.0.113.7:1", "Authorization", "Bearer "+token, "Authorization", "Basic abc"))
	if user, ok := q.Attribute("user"); ok {
		t.Fatalf("user of a token and something else = %q, want none", user)
	}
	if got := q.Sent("user"); !slices.Contains(got, "eve") {
		t.Errorf("Sent(user) = %q, want eve among them", got)
	}
}
