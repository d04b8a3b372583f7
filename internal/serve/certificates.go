package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Certificates are the files by which a listener speaks TLS, in PEM form. They are
// read again when they change. The zero value is no TLS.
type Certificates struct {
	// Cert and Key are the certificate with what leads to its authority, and its
	// private key.
	Cert, Key string
	// ClientCA holds the authorities whose certificates clients must show; empty
	// lets clients in without any.
	ClientCA string
	// ClientName is a DNS name that a client's certificate must hold; empty takes
	// any that the authorities signed.
	ClientName string
	// ClientOptional lets clients in that show no certificate.
	ClientOptional bool
}

func (c *Certificates) given() bool { return *c != Certificates{} }

// check finds files that are missing. prefix begins the names of the settings.
func (c *Certificates) check(prefix string, listens bool) error {
	switch {
	case !c.given():
		return nil
	case !listens:
		return &Error{Missing: true, What: fmt.Sprintf("%scert and the like are set, and that listener is off", prefix), Hint: "leave them out"}
	case c.Cert == "":
		return &Error{Missing: true, What: fmt.Sprintf("%skey or %sclient_ca is set, but no %scert", prefix, prefix, prefix), Hint: "name the certificate's file, in PEM form"}
	case c.Key == "":
		return &Error{Missing: true, What: fmt.Sprintf("%scert is set, but no %skey", prefix, prefix), Hint: "name the file of the certificate's private key, in PEM form"}
	case c.ClientCA == "" && (c.ClientName != "" || c.ClientOptional):
		return &Error{Missing: true, What: fmt.Sprintf("%sclient_name or %sclient_optional is set, but no %sclient_ca", prefix, prefix, prefix),
			Hint: "name the file of the authorities that sign your clients' certificates"}
	}
	return nil
}

// certificates are what was read last. They are safe for concurrent use.
type certificates struct {
	files  Certificates
	protos []string
	last   atomic.Pointer[tls.Config]
}

// openCertificates reads certificates, and sees to it that they are read again when
// they change: handshakes that begin then use the new ones. It gives nil where
// there are none.
func (s *Server) openCertificates(prefix string, files Certificates, protos ...string) (*tls.Config, error) {
	if !files.given() {
		return nil, nil
	}
	c := &certificates{files: files, protos: protos}
	for _, f := range [][2]string{{"cert", files.Cert}, {"key", files.Key}, {"client_ca", files.ClientCA}} {
		if f[1] == "" {
			continue
		}
		if err := s.addFile(prefix+f[0], f[1], c.read); err != nil {
			return nil, &Error{What: prefix + "cert: " + err.Error(), Hint: "name files in PEM form that this user may read, and a key that belongs to the certificate"}
		}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.last.Load(), nil }}, nil
}

func (c *certificates) read() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: c.protos, Certificates: []tls.Certificate{pair}}
	if c.files.ClientCA != "" {
		if err := c.askClients(config); err != nil {
			return err
		}
	}
	c.last.Store(config)
	return nil
}

// askClients makes clients show certificates.
func (c *certificates) askClients(config *tls.Config) error {
	pem, err := os.ReadFile(c.files.ClientCA)
	if err != nil {
		return fmt.Errorf("authorities of clients: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("authorities of clients: %s holds no certificate in PEM form", c.files.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if c.files.ClientOptional {
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if c.files.ClientName != "" {
		config.VerifyConnection = c.verifyName
	}
	return nil
}

func (c *certificates) verifyName(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		if c.files.ClientOptional {
			return nil
		}
		return errors.New("no client certificate")
	}
	return s.PeerCertificates[0].VerifyHostname(c.files.ClientName)
}
