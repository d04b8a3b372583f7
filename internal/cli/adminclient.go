package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/caudal-dev/caudal/internal/serve"
)

// adminFlags say which caudal a command speaks to, and show it the token.
type adminFlags struct {
	address, tokenFile string
	json               bool
	environ            []string
}

// The names of the environment for them: those of serve's settings.
const (
	adminEnv      = envPrefix + "ADMIN"
	adminTokenEnv = envPrefix + "ADMIN_TOKEN_FILE"
)

func addAdmin(flags *pflag.FlagSet, s Streams) *adminFlags {
	f := &adminFlags{environ: s.Environ}
	flags.StringVar(&f.address, "admin", "", "the `ADDRESS` of a caudal's admin listener, also unix:/path or a URL (default $"+adminEnv+", else "+serve.DefaultAdminListen+")")
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "the `FILE` that holds its token (default $"+adminTokenEnv+")")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return f
}

// fromEnv gives a name of the environment, the last one if it stands there twice.
func (f *adminFlags) fromEnv(name string) (value string) {
	for _, pair := range f.environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// maxAnswer bounds what is read of an answer, and adminWithin how long it may take.
const (
	maxAnswer   = 8 << 20
	adminWithin = 10 * time.Second
)

// ask sends a request and reads the answer into a value.
func (f *adminFlags) ask(ctx context.Context, method, path string, body, into any) error {
	address := cmp.Or(f.address, f.fromEnv(adminEnv), serve.DefaultAdminListen)
	url, client := f.target(address)
	ctx, cancel := context.WithTimeout(ctx, adminWithin)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(text))
	if err != nil {
		return usagef("write it as host:port, such as "+serve.DefaultAdminListen, "--admin %q is no address", address)
	}
	r.Header.Set("Content-Type", "application/json")
	if file := cmp.Or(f.tokenFile, f.fromEnv(adminTokenEnv)); file != "" {
		token, err := readToken(file)
		if err != nil {
			return fmt.Errorf("the admin token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	res, err := client.Do(r)
	if err != nil {
		return &failure{exitFailed, fmt.Sprintf("no caudal answers at %s: %v", address, err),
			"start one with caudal serve, or say where its admin listener is with --admin"}
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the answer of %s ends early: %w", address, err)
	}
	if res.StatusCode != http.StatusOK {
		return refused(address, res.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s is no admin listener of a caudal of this version: %w", address, err)
	}
	return nil
}

// target says how an address is reached.
func (f *adminFlags) target(address string) (url string, client *http.Client) {
	transport := &http.Transport{DisableKeepAlives: true}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return "http://localhost", &http.Client{Transport: transport}
	}
	if !strings.Contains(address, "://") {
		if strings.HasPrefix(address, ":") {
			address = "127.0.0.1" + address
		}
		address = "http://" + address
	}
	return strings.TrimRight(address, "/"), &http.Client{Transport: transport}
}

// refused is the error of an answer that refuses.
func refused(address string, status int, answer []byte) error {
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("%s answers %d: it is no admin listener of a caudal of this version", address, status)
	}
	hint := ""
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		hint = "name the file that holds the token with --admin-token-file"
	}
	return &failure{exitFailed, problem.Detail, hint}
}
