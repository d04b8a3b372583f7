package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// today is when the tokens of the tests are looked at.
var today = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func now() time.Time { return today }

func pemOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func keyFile(t *testing.T, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func tokens(t *testing.T, text []byte, o TokenOptions) *Tokens {
	t.Helper()
	o.KeyFile, o.Now = keyFile(t, text), now
	v, err := NewTokens(o)
	if err != nil {
		t.Fatalf("NewTokens = %v", err)
	}
	return v
}

// signed makes a token that holds for an hour, with more claims or others.
func signed(t *testing.T, method jwt.SigningMethod, key any, kid string, more jwt.MapClaims) string {
	t.Helper()
	c := jwt.MapClaims{"sub": "ann", "plan": "pro", "exp": today.Add(time.Hour).Unix()}
	for name, v := range more {
		if c[name] = v; v == nil {
			delete(c, name)
		}
	}
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func bearer(token string) *http.Request {
	r := request("203.0.113.7:1")
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

type pair struct {
	method  jwt.SigningMethod
	private any
	public  any
}

func pairs(t *testing.T) map[string]pair {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]pair{"RS256": {jwt.SigningMethodRS256, r, &r.PublicKey}, "PS384": {jwt.SigningMethodPS384, r, &r.PublicKey}}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = pair{jwt.GetSigningMethod(name), k, &k.PublicKey}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all["EdDSA"] = pair{jwt.SigningMethodEdDSA, private, public}
	return all
}

func TestTokensOfEachKind(t *testing.T) {
	for name, p := range pairs(t) {
		text := pemOf(t, p.public)
		v := resolver(t, Options{Tokens: tokens(t, text, TokenOptions{})})
		r := bearer(signed(t, p.method, p.private, "", jwt.MapClaims{"n": 7, "ok": true, "list": []int{1}}))
		for attr, want := range map[string]string{"user": "ann", "plan": "pro", "jwt:sub": "ann", "jwt:n": "7", "jwt:ok": "true", "jwt:list": "", "jwt:none": ""} {
			if got, ok := attribute(t, v, r, attr); got != want || ok != (want != "") {
				t.Errorf("%s: %s = %q, %v, want %q", name, attr, got, ok, want)
			}
		}
		// The public key is no secret: nobody may sign with it.
		confused := signed(t, jwt.SigningMethodHS256, text, "", nil)
		if got, ok := attribute(t, v, bearer(confused), "user"); ok {
			t.Errorf("%s: a token signed HS256 with the public key is %q's", name, got)
		}
		unsigned := signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", nil)
		if got, ok := attribute(t, v, bearer(unsigned), "user"); ok {
			t.Errorf("%s: a token without signature is %q's", name, got)
		}
	}
}

func TestC90UnverifiedTokensIdentifyNobody(t *testing.T) {
	secret := []byte(strings.Repeat("secret!!", 8))
	o := TokenOptions{Issuer: "https://id.example", Audience: "api"}
	v := resolver(t, Options{Tokens: tokens(t, secret, o)})
	good := jwt.MapClaims{"iss": "https://id.example", "aud": "api"}
	with := func(name string, value any) jwt.MapClaims {
		c := jwt.MapClaims{name: value}
		for n, v := range good {
			if _, set := c[n]; !set {
				c[n] = v
			}
		}
		return c
	}
	sign := func(c jwt.MapClaims) string { return signed(t, jwt.SigningMethodHS256, secret, "", c) }
	fine := sign(good)
	for _, c := range []struct {
		what, token string
		want        bool
	}{
		{"in order", fine, true},
		{"several audiences", sign(with("aud", []string{"other", "api"})), true},
		{"expired within the leeway", sign(with("exp", today.Add(-5*time.Second).Unix())), true},
		{"expired", sign(with("exp", today.Add(-time.Minute).Unix())), false},
		{"without expiry", sign(with("exp", nil)), false},
		{"not yet valid", sign(with("nbf", today.Add(time.Minute).Unix())), false},
		{"another issuer", sign(with("iss", "https://evil.example")), false},
		{"another audience", sign(with("aud", "other")), false},
		{"without audience", sign(with("aud", nil)), false},
		{"another secret", signed(t, jwt.SigningMethodHS256, []byte(strings.Repeat("guess", 9)), "", good), false},
		{"a changed signature", fine[:len(fine)-4] + "AAAA", false},
		{"made up", "a.b.c", false},
		{"nothing", "", false},
		{"too long", sign(with("pad", strings.Repeat("x", maxToken))), false},
	} {
		if got, ok := attribute(t, v, bearer(c.token), "user"); ok != c.want {
			t.Errorf("a token %s: user = %q, %v, want %v", c.what, got, ok, c.want)
		}
	}
	r := bearer(fine)
	r.Header.Add("Authorization", "Bearer "+sign(with("sub", "bob")))
	if got, ok := attribute(t, v, r, "user"); ok {
		t.Errorf("two tokens: user = %q, want none", got)
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwks writes a key set by the names of the pairs, which are the kids.
func jwks(t *testing.T, all map[string]pair, names ...string) []byte {
	t.Helper()
	var keys []string
	for _, name := range names {
		switch k := all[name].public.(type) {
		case *rsa.PublicKey:
			keys = append(keys, fmt.Sprintf(`{"kty":"RSA","kid":%q,"use":"sig","n":%q,"e":"AQAB"}`, name, b64(k.N.Bytes())))
		case *ecdsa.PublicKey:
			p, err := k.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			n := (len(p) - 1) / 2
			keys = append(keys, fmt.Sprintf(`{"kty":"EC","kid":%q,"alg":%q,"crv":%q,"x":%q,"y":%q}`, name, name, k.Curve.Params().Name, b64(p[1:1+n]), b64(p[1+n:])))
		case ed25519.PublicKey:
			keys = append(keys, fmt.Sprintf(`{"kty":"OKP","kid":%q,"crv":"Ed25519","x":%q}`, name, b64(k)))
		}
	}
	return []byte(`{"keys":[{"kty":"RSA","use":"enc"},` + strings.Join(keys, ",") + `]}`)
}

func TestKeySet(t *testing.T) {
	all := pairs(t)
	v := tokens(t, jwks(t, all, "RS256", "ES256", "EdDSA"), TokenOptions{UserClaim: "email", PlanClaim: "https://id.example/plan"})
	who := resolver(t, Options{Tokens: v})
	claims := jwt.MapClaims{"email": "ann@id.example", "https://id.example/plan": "gold"}
	user := func(name, kid string) string {
		got, _ := attribute(t, who, bearer(signed(t, all[name].method, all[name].private, kid, claims)), "user")
		return got
	}
	for _, c := range []struct{ name, kid, want string }{
		{"RS256", "RS256", "ann@id.example"}, {"ES256", "ES256", "ann@id.example"}, {"EdDSA", "", "ann@id.example"},
		{"RS256", "ES256", ""}, {"RS256", "unknown", ""}, {"ES384", "ES384", ""},
	} {
		if got := user(c.name, c.kid); got != c.want {
			t.Errorf("user of a token %s with kid %q = %q, want %q", c.name, c.kid, got, c.want)
		}
	}
	// The issuer takes another key.
	if err := os.WriteFile(v.opts.KeyFile, jwks(t, all, "ES384"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Reload(); err != nil {
		t.Fatal(err)
	}
	if user("RS256", "RS256") != "" || user("ES384", "ES384") == "" {
		t.Error("after a change of keys: want the new one to count, and the old one no longer")
	}
	if err := os.WriteFile(v.opts.KeyFile, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Reload(); err == nil || user("ES384", "ES384") == "" {
		t.Errorf("Reload of an empty set = %v, want an error and the last good keys", err)
	}
}

func TestTokenKeysRefuse(t *testing.T) {
	all := pairs(t)
	der, err := x509.MarshalPKCS8PrivateKey(all["EdDSA"].private)
	if err != nil {
		t.Fatal(err)
	}
	weak, _ := os.ReadFile("testdata/weak.pem")
	for _, c := range []struct {
		what string
		text []byte
		want string
	}{
		{"a short secret", []byte("hunter2"), "a secret of 7 bytes: use at least 32"},
		{"a private key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "holds a private key"},
		{"text around", append([]byte("x\n"), append(pemOf(t, all["EdDSA"].public), "y\n"...)...), "holds something that is no PEM"},
		{"another block", pem.EncodeToMemory(&pem.Block{Type: "MESSAGE", Bytes: der}), "holds a MESSAGE"},
		{"weak RSA", weak, "an RSA key of 1024 bits"},
		{"bad JSON", []byte(`{"keys":`), "is no JSON Web Key Set"},
		{"no keys", []byte(`{"keys":[]}`), "0 keys"},
		{"a private JWK", []byte(`{"keys":[{"kty":"EC","d":"AAAA"}]}`), "holds a private key"},
		{"an unknown kind", []byte(`{"keys":[{"kty":"X","kid":"a"}]}`), `key 1 (kid "a"): kty "X" is not known`},
		{"an alg of another kind", []byte(strings.Replace(string(jwks(t, all, "EdDSA")), `"kty":"OKP"`, `"kty":"OKP","alg":"HS256"`, 1)), `alg "HS256" does not belong`},
		{"no point", []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` + b64(make([]byte, 32)) + `"}]}`), "no point of the curve"},
	} {
		v, err := NewTokens(TokenOptions{KeyFile: keyFile(t, c.text)})
		if err == nil || v != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewTokens with %s = %v, %v, want %q", c.what, v, err, c.want)
		}
	}
	if _, err := NewTokens(TokenOptions{KeyFile: "testdata/none"}); err == nil {
		t.Error("NewTokens without a file = nil, want an error")
	}
	if _, err := New(Options{BearerAPIKey: true, Tokens: new(Tokens)}); err == nil {
		t.Error("New with a bearer API key and tokens = nil, want an error")
	}
}
