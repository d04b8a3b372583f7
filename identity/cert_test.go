package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// clientOf makes a certificate for a client, signed by itself, also in the form in
// which others believe it.
func clientOf(t *testing.T, name string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, parsed
}

// TestClientCertOverTLS: a certificate identifies when the server has verified it,
// and not when it only takes what clients show.
func TestClientCertOverTLS(t *testing.T) {
	ann, annParsed := clientOf(t, "ann.id.example")
	stranger, _ := clientOf(t, "ann.id.example")
	v := resolver(t, Options{})
	believed := x509.NewCertPool()
	believed.AddCert(annParsed)
	for _, c := range []struct {
		what string
		auth tls.ClientAuthType
		cert *tls.Certificate
		want string
	}{
		{"verified", tls.VerifyClientCertIfGiven, &ann, "ann.id.example"},
		{"none", tls.VerifyClientCertIfGiven, nil, ""},
		{"shown, and not verified", tls.RequestClientCert, &stranger, ""},
	} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q Request
			q.Reset(v, r)
			name, _ := q.Attribute("client_cert:san")
			_, _ = io.WriteString(w, name)
		}))
		srv.TLS = &tls.Config{ClientAuth: c.auth, ClientCAs: believed}
		srv.StartTLS()
		client := srv.Client()
		if c.cert != nil {
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*c.cert}
		}
		res, err := client.Get(srv.URL)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		got, _ := io.ReadAll(res.Body)
		res.Body.Close()
		srv.Close()
		if string(got) != c.want {
			t.Errorf("a certificate that is %s: client_cert:san = %q, want %q", c.what, got, c.want)
		}
	}
}
