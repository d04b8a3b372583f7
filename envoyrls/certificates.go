package envoyrls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificates are files with a server's certificate and key, read again when they
// change. Config makes them a TLS configuration.
type Certificates struct {
	// Cert and Key are PEM files: the certificate with what leads to its authority,
	// and its private key.
	Cert, Key string
	// ClientCA is a PEM file of the authorities whose certificates clients must
	// show; empty lets clients in without any.
	ClientCA string
	// ClientName is a DNS name that a client's certificate must hold; empty takes
	// any that the authorities signed.
	ClientName string
	// Logger gets a line when changed files cannot be used, and the last good ones
	// stay. Default slog.Default().
	Logger *slog.Logger
}

// checkEvery is how often at most the files are looked at, when a client connects.
const checkEvery = time.Second

// Config reads the files and makes a configuration that follows them: new
// connections use the newest that could be read.
func (c Certificates) Config() (*tls.Config, error) {
	if c.ClientName != "" && c.ClientCA == "" {
		return nil, errors.New("envoyrls: a client's name is checked only against authorities: set ClientCA too")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	f := &certificateFiles{Certificates: c}
	f.seen = f.look()
	config, err := f.read()
	if err != nil {
		return nil, err
	}
	f.config, f.checked = config, time.Now()
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetConfigForClient: f.current}, nil
}

// certificateFiles is what was read last.
type certificateFiles struct {
	Certificates

	mu      sync.Mutex
	config  *tls.Config
	seen    [3]fileState
	checked time.Time
}

// fileState tells whether a file has changed.
type fileState struct {
	modified time.Time
	size     int64
}

// look is by os.Stat, which follows the symbolic links of mounted secrets.
func (f *certificateFiles) look() (states [3]fileState) {
	for i, name := range [3]string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); name != "" && err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

// current is called for each client that connects.
func (f *certificateFiles) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.checked) >= checkEvery {
		f.checked = now
		if states := f.look(); states != f.seen {
			f.seen = states
			config, err := f.read()
			if err != nil {
				f.Logger.Error("changed certificates cannot be used, the last good ones stay", "error", err)
			} else {
				f.config = config
			}
		}
	}
	return f.config, nil
}

func (f *certificateFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("envoyrls: certificate %q with key %q: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}}
	if f.ClientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("envoyrls: authorities of clients: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("envoyrls: authorities of clients: %q holds no certificate in PEM form", f.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if f.ClientName != "" {
		config.VerifyConnection = f.verifyName
	}
	return config, nil
}

func (f *certificateFiles) verifyName(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("no client certificate")
	}
	return s.PeerCertificates[0].VerifyHostname(f.ClientName)
}
