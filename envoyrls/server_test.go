package envoyrls_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/memstore"
)

const someRules = windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 100}}\n"

func TestB19Health(t *testing.T) {
	f := start(t, someRules, envoyrls.Options{}, nil)
	check := func(name string) string {
		answer, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			return status.Code(err).String()
		}
		return answer.Status.String()
	}
	for _, c := range []struct {
		serving      bool
		name, answer string
	}{
		{true, "ratelimit", "SERVING"}, {true, "", "SERVING"}, {true, "other", "NotFound"},
		{false, "ratelimit", "NOT_SERVING"}, {false, "", "SERVING"},
	} {
		f.server.SetServing(c.serving)
		if got := check(c.name); got != c.answer {
			t.Errorf("serving %t: health of %q = %s, want %s", c.serving, c.name, got, c.answer)
		}
	}
}

func TestReflectionListsTheProtocol(t *testing.T) {
	f := start(t, someRules, envoyrls.Options{}, nil)
	stream, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("reflection lists %q, want the protocol among them", names)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// serveOn serves on a listener and gives a way to dial it.
func serveOn(t *testing.T, network, address string, o envoyrls.ServerOptions) (addr string) {
	t.Helper()
	service, err := envoyrls.New(parse(t, false, someRules), memstore.New(memstore.Options{}), envoyrls.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server, err := envoyrls.NewServer(service, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // connections that never read may outlive the grace
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
	return l.Addr().String()
}

func askAt(t *testing.T, target string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, one("k=v"))
	return err
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rls.sock")
	serveOn(t, "unix", path, envoyrls.ServerOptions{})
	if err := askAt(t, "unix:"+path, insecure.NewCredentials()); err != nil {
		t.Errorf("over a unix socket: %v, want an answer", err)
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate for a name.
func (a *authority) sign(name string, serial int64) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// credentials are those of a client that trusts the authority, and sees the
// server's certificate.
func (a *authority) credentials(seen *int64, own ...tls.Certificate) credentials.TransportCredentials {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "rls.example", Certificates: own, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			*seen = s.PeerCertificates[0].SerialNumber.Int64()
			return nil
		}})
}

func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.sign("rls.example", 2)},
		ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	addr := serveOn(t, "tcp", "127.0.0.1:0", envoyrls.ServerOptions{TLS: config})
	var seen int64
	other := newAuthority(t)
	for _, c := range []struct {
		name string
		own  []tls.Certificate
		ok   bool
	}{
		{"a certificate", []tls.Certificate{a.sign("envoy.example", 3)}, true},
		{"another authority", []tls.Certificate{other.sign("envoy.example", 5)}, false},
		{"no certificate", nil, false},
	} {
		err := askAt(t, addr, a.credentials(&seen, c.own...))
		if (err == nil) != c.ok {
			t.Errorf("client with %s: %v, want an answer: %t", c.name, err, c.ok)
		}
	}
	if err := askAt(t, addr, insecure.NewCredentials()); status.Code(err) != codes.Unavailable {
		t.Errorf("client without TLS: %v, want Unavailable", err)
	}
}

// TestMetadataIsBounded: a call whose metadata would fill the memory is refused before
// it is all there, and the connection goes on.
func TestMetadataIsBounded(t *testing.T) {
	f := start(t, someRules, envoyrls.Options{}, nil)
	client := healthpb.NewHealthClient(f.conn)
	large := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("x", 1<<20))
	if _, err := client.Check(large, &healthpb.HealthCheckRequest{}); err == nil {
		t.Error("a call with 1 MiB of metadata = nil, want it refused")
	}
	some := metadata.AppendToOutgoingContext(t.Context(), "x-some", strings.Repeat("x", 32<<10))
	if _, err := client.Check(some, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a call with 32 KiB of metadata = %v, want it answered", err)
	}
}
