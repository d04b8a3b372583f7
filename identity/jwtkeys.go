package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
)

// tokenKey is a key with the algorithms that belong to it.
type tokenKey struct {
	name       string // kid; empty when it has none
	algorithms []string
	key        any
}

// Bounds of the file with keys for tokens.
const (
	maxTokenKeyFile = 1 << 20
	maxTokenKeys    = 64
	minSecret       = 32   // bytes
	minRSABits      = 2048 // less can be factored
)

// loadTokenKeys reads a JSON Web Key Set, PEM blocks or a secret.
func loadTokenKeys(file string) ([]tokenKey, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("identity: cannot read the keys for tokens: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("identity: cannot read the keys for tokens: %w", err)
	}
	keys, err := parseTokenKeys(bytes.TrimSpace(data))
	if err == nil && (len(keys) == 0 || len(keys) > maxTokenKeys || len(data) > maxTokenKeyFile) {
		err = fmt.Errorf("%d keys: put in 1 to %d", len(keys), maxTokenKeys)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %s: %w", file, err)
	}
	return keys, nil
}

func parseTokenKeys(data []byte) ([]tokenKey, error) {
	switch {
	case bytes.HasPrefix(data, []byte("{")):
		return parseJWKS(data)
	case bytes.Contains(data, []byte("-----BEGIN")):
		return parsePEM(data) // never a secret: everybody may know a public key
	case len(data) < minSecret:
		return nil, fmt.Errorf("a secret of %d bytes: use at least %d, such as openssl rand -base64 48 gives", len(data), minSecret)
	}
	return []tokenKey{secretKey(data)}, nil
}

func secretKey(secret []byte) tokenKey {
	return tokenKey{algorithms: []string{"HS256", "HS384", "HS512"}, key: secret}
}

var errPrivate = errors.New("holds a private key: verifying needs the public one only; keep the other with the issuer")

func parsePEM(data []byte) ([]tokenKey, error) {
	var keys []tokenKey
	for rest := data; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("holds something that is no PEM: keep blocks from BEGIN to END only")
		}
		var public any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			public, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			public, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				public = c.PublicKey
			}
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
			err = errPrivate
		default:
			err = fmt.Errorf("holds a %s: use PUBLIC KEY or CERTIFICATE", block.Type)
		}
		if err != nil {
			return nil, err
		}
		key, err := publicKey(public)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// publicKey binds a key to its algorithms.
func publicKey(public crypto.PublicKey) (tokenKey, error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return tokenKey{}, fmt.Errorf("an RSA key of %d bits: use at least %d", k.N.BitLen(), minRSABits)
		}
		return tokenKey{algorithms: []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, key: k}, nil
	case *ecdsa.PublicKey:
		for alg, curve := range curves {
			if curve.elliptic == k.Curve {
				return tokenKey{algorithms: []string{alg}, key: k}, nil
			}
		}
		return tokenKey{}, fmt.Errorf("a key on the curve %s: use P-256, P-384 or P-521", k.Curve.Params().Name)
	case ed25519.PublicKey:
		return tokenKey{algorithms: []string{"EdDSA"}, key: k}, nil
	}
	return tokenKey{}, fmt.Errorf("a key of the type %T: use RSA, ECDSA or Ed25519", public)
}

// curves are those of each algorithm.
var curves = map[string]struct {
	name     string
	elliptic elliptic.Curve
}{
	"ES256": {"P-256", elliptic.P256()}, "ES384": {"P-384", elliptic.P384()}, "ES512": {"P-521", elliptic.P521()},
}

// jwk is one JSON Web Key (RFC 7517), as far as it matters here.
type jwk struct {
	Kty, Kid, Use, Alg, Crv string
	N, E, X, Y, D, K        base64URL
}

type base64URL []byte

// UnmarshalText decodes what RFC 7517 calls base64url.
func (b *base64URL) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.DecodeString(string(text))
	return err
}

func parseJWKS(data []byte) ([]tokenKey, error) {
	var set struct{ Keys []jwk }
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	var keys []tokenKey
	for i, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue // for encryption
		}
		key, err := j.key()
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %.40q): %w", i+1, j.Kid, err)
		}
		if j.Alg != "" {
			if !slices.Contains(key.algorithms, j.Alg) {
				return nil, fmt.Errorf("key %d (kid %.40q): alg %.20q does not belong to a key of this kind", i+1, j.Kid, j.Alg)
			}
			key.algorithms = []string{j.Alg}
		}
		key.name = j.Kid
		keys = append(keys, key)
	}
	return keys, nil
}

func (j *jwk) key() (tokenKey, error) {
	if len(j.D) > 0 {
		return tokenKey{}, errPrivate
	}
	switch j.Kty {
	case "oct":
		if len(j.K) < minSecret {
			return tokenKey{}, fmt.Errorf("a secret of %d bytes: use at least %d", len(j.K), minSecret)
		}
		return secretKey(j.K), nil
	case "RSA":
		e := new(big.Int).SetBytes(j.E)
		if !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return tokenKey{}, errors.New("an RSA key with the exponent e missing or too large")
		}
		return publicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(j.N), E: int(e.Int64())})
	case "EC":
		for _, c := range curves {
			if c.name == j.Crv {
				size := (c.elliptic.Params().BitSize + 7) / 8
				if len(j.X) != size || len(j.Y) != size {
					return tokenKey{}, fmt.Errorf("x and y must have %d bytes on the curve %s", size, j.Crv)
				}
				public, err := ecdsa.ParseUncompressedPublicKey(c.elliptic, slices.Concat([]byte{4}, j.X, j.Y))
				if err != nil {
					return tokenKey{}, errors.New("x and y are no point of the curve")
				}
				return publicKey(public)
			}
		}
		return tokenKey{}, fmt.Errorf("the curve %.20q is not known: use P-256, P-384 or P-521", j.Crv)
	case "OKP":
		if j.Crv != "Ed25519" || len(j.X) != ed25519.PublicKeySize {
			return tokenKey{}, errors.New("of the kind OKP only Ed25519 keys of 32 bytes are known")
		}
		return publicKey(ed25519.PublicKey(j.X))
	}
	return tokenKey{}, fmt.Errorf("kty %.20q is not known: use RSA, EC, OKP or oct", j.Kty)
}
