package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates, and writes them into a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	der, key := a.create(template, nil)
	a.key = key
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) create(template, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// sign makes a certificate for a name.
func (a *authority) sign(name string, serial int64) tls.Certificate {
	a.t.Helper()
	der, key := a.create(&x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts a certificate and its key into the directory, and says where.
func (a *authority) write(c tls.Certificate) Certificates {
	a.t.Helper()
	key, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		a.t.Fatal(err)
	}
	return Certificates{Key: a.file("key.pem", "EC PRIVATE KEY", key), Cert: a.file("cert.pem", "CERTIFICATE", c.Certificate[0])}
}

func (a *authority) file(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// secure is a client that trusts the authority, and makes a connection for each
// call.
func (a *authority) secure(own ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	transport := &http.Transport{Protocols: p, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "api.example", Certificates: own, MinVersion: tls.VersionTLS12}}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// serial asks over TLS and gives the serial number of the server's certificate, and
// the protocol.
func serial(t *testing.T, c *http.Client, addr string) (number int64, proto string) {
	t.Helper()
	res, err := c.Get("https://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("call over TLS = %d, want 200", res.StatusCode)
	}
	return res.TLS.PeerCertificates[0].SerialNumber.Int64(), res.Proto
}

func TestGatewayOverTLS(t *testing.T) {
	a := newAuthority(t)
	files := a.write(a.sign("api.example", 2))
	f := start(t, perMinute("d", 100), Config{TLS: files}, Deps{})
	c := a.secure()
	if n, proto := serial(t, c, f.Addr()); n != 2 || proto != "HTTP/2.0" {
		t.Errorf("certificate %d over %s, want 2 over HTTP/2.0", n, proto)
	}
	old := a.secure()
	old.Transport.(*http.Transport).Protocols.SetHTTP2(false)
	if _, proto := serial(t, old, f.Addr()); proto != "HTTP/1.1" {
		t.Errorf("a client without HTTP/2 is answered in %s, want HTTP/1.1", proto)
	}
	f.ask(client(t, "127.0.0.1"), "GET", "/").want(t, "without TLS", 400)
	if conn, err := tls.Dial("tcp", f.Addr(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is taken, want at least 1.2")
		conn.Close()
	}

	// A changed pair is noticed, and a bad one leaves the old in force and says so.
	a.write(a.sign("api.example", 3))
	f.lookWho() // the files have changed
	f.lookWho() // and come to rest
	if n, _ := serial(t, c, f.Addr()); n != 3 {
		t.Errorf("after a change: certificate %d, want 3", n)
	}
	rewrite(t, files.Cert, "broken")
	f.lookWho()
	f.lookWho()
	if n, _ := serial(t, c, f.Addr()); n != 3 {
		t.Errorf("with a broken file: certificate %d, want 3 still", n)
	}
	if log := f.log.String(); !strings.Contains(log, "not reloaded; the last good one stays in force") || !strings.Contains(log, "setting=tls_cert") {
		t.Errorf("the log says nothing of a bad certificate:\n%s", log)
	}
	a.write(a.sign("api.example", 4))
	if err := f.reloadWho(); err != nil { // what SIGHUP does
		t.Fatal(err)
	}
	if n, _ := serial(t, c, f.Addr()); n != 4 {
		t.Errorf("after SIGHUP: certificate %d, want 4", n)
	}
}

// TestClientCertificatesAreAttributes: those who show one are told apart by it.
func TestClientCertificatesAreAttributes(t *testing.T) {
	const rules = "domain: d\ndescriptors:\n  - key: 'client_cert:san'\n    missing: skip\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n"
	a, other := newAuthority(t), newAuthority(t)
	files := a.write(a.sign("api.example", 2))
	files.ClientCA = filepath.Join(a.dir, "ca.pem")
	ann, bob := a.secure(a.sign("ann.example", 3)), a.secure(a.sign("bob.example", 4))
	f := start(t, rules, Config{TLS: files}, Deps{})
	if strings.Contains(f.log.String(), "no request to the gateway has") {
		t.Errorf("the log says that nobody has client_cert:san:\n%s", f.log)
	}
	url := "https://" + f.Addr() + "/"
	do(t, ann, "GET", url).want(t, "ann", 200)
	do(t, ann, "GET", url).want(t, "ann again", 429)
	do(t, bob, "GET", url).want(t, "bob", 200)
	for what, c := range map[string]*http.Client{"no certificate": a.secure(), "one of another authority": a.secure(other.sign("ann.example", 5))} {
		if res, err := c.Get(url); err == nil {
			t.Errorf("a client with %s is answered %d, want its handshake to fail", what, res.StatusCode)
			res.Body.Close()
		}
	}
	files.ClientOptional = true
	f = start(t, rules, Config{TLS: files}, Deps{})
	url = "https://" + f.Addr() + "/"
	do(t, a.secure(), "GET", url).want(t, "no certificate where it is optional", 200)
	do(t, ann, "GET", url).want(t, "ann where it is optional", 200)
	do(t, ann, "GET", url).want(t, "ann again", 429)
}

func TestClientNameIsChecked(t *testing.T) {
	a := newAuthority(t)
	files := a.write(a.sign("api.example", 2))
	files.ClientCA, files.ClientName = filepath.Join(a.dir, "ca.pem"), "envoy.example"
	f := start(t, perMinute("d", 100), Config{TLS: files}, Deps{})
	url := "https://" + f.Addr() + "/"
	do(t, a.secure(a.sign("envoy.example", 3)), "GET", url).want(t, "the right name", 200)
	if res, err := a.secure(a.sign("other.example", 4)).Get(url); err == nil {
		t.Errorf("a client of another name is answered %d", res.StatusCode)
		res.Body.Close()
	}
}

// TestDecisionAPIOverTLS: on its addresses, and not on its sockets.
func TestDecisionAPIOverTLS(t *testing.T) {
	a := newAuthority(t)
	socket := filepath.Join(t.TempDir(), "api.sock")
	var log bytes.Buffer
	s, err := Start(Config{Text: perMinute("d", 100), TextName: "rules", HTTPTLS: a.write(a.sign("api.example", 2)),
		HTTPListen: []string{"127.0.0.1:0", "unix:" + socket}, RLS: RLS{Listen: []string{Off}}, AdminListen: Off}, Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	do(t, a.secure(), "GET", "https://"+s.APIAddrs()[0]+"/healthcheck").want(t, "over TLS", 200)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	do(t, c, "GET", "http://socket/healthcheck").want(t, "on the socket", 200)
}

func TestCertificatesRefused(t *testing.T) {
	a := newAuthority(t)
	good := a.write(a.sign("api.example", 2))
	up := says(t, "x")
	for want, c := range map[string]Config{
		"tls_key or tls_client_ca is set, but no tls_cert":                          {Upstream: up, TLS: Certificates{Key: good.Key}},
		"tls_cert is set, but no tls_key":                                           {Upstream: up, TLS: Certificates{Cert: good.Cert}},
		"tls_client_name or tls_client_optional is set, but no tls_client_ca":       {Upstream: up, TLS: Certificates{Cert: good.Cert, Key: good.Key, ClientOptional: true}},
		"http_tls_cert and the like are set, and that listener is off":              {Upstream: up, HTTPTLS: good},
		"tls_cert: certificate " + good.Cert + " with key " + good.Cert:             {Upstream: up, TLS: Certificates{Cert: good.Cert, Key: good.Cert}},
		"tls_cert: authorities of clients: " + good.Key + " holds no certificate":   {Upstream: up, TLS: Certificates{Cert: good.Cert, Key: good.Key, ClientCA: good.Key}},
		"tls_cert: certificate /nowhere/cert.pem with key /nowhere/key.pem: open /": {Upstream: up, TLS: Certificates{Cert: "/nowhere/cert.pem", Key: "/nowhere/key.pem"}},
	} {
		c.Text, c.TextName, c.Listen, c.AdminListen = perMinute("d", 1), "rules", "127.0.0.1:0", Off
		s, err := Start(c, Deps{Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want an error with %q", err, want)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
