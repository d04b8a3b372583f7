package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files of a certificate authority made for one test, and what
// it signed: a server for 127.0.0.1 and localhost, and a client.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

// MakeCertificates makes certificates. The server's is valid until notAfter; pass
// an instant that has passed for one that expired.
func MakeCertificates(t testing.TB, notAfter time.Time) *Certificates {
	t.Helper()
	dir := t.TempDir()
	caKey := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c := &Certificates{CA: filepath.Join(dir, "ca.pem")}
	writePEM(t, c.CA, "CERTIFICATE", sign(t, ca, ca, caKey, caKey))
	issue := func(name string, serial int64, until time.Time, usage x509.ExtKeyUsage) (cert, key string) {
		k := newKey(t)
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
			DNSNames: []string{"localhost", "redis.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature,
		}
		cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
		writePEM(t, cert, "CERTIFICATE", sign(t, leaf, ca, k, caKey))
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, key, "PRIVATE KEY", der)
		return cert, key
	}
	c.ServerCert, c.ServerKey = issue("server", 2, notAfter, x509.ExtKeyUsageServerAuth)
	c.ClientCert, c.ClientKey = issue("client", 3, time.Now().Add(24*time.Hour), x509.ExtKeyUsageClientAuth)
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sign gives the certificate of a key, signed by its issuer's.
func sign(t testing.TB, cert, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
