package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

type mode byte

const (
	modeSingle mode = iota
	modeSentinel
	modeCluster
)

// target is where a URL points.
type target struct {
	mode           mode
	addrs          []string
	user, password string
	db             int
	master         string // of a Sentinel group
	sentinelUser   string
	sentinelPass   string
	tls            *tls.Config
	prefix         string
}

// schemes maps what a URL begins with to what is there, and whether it is TLS.
var schemes = map[string]struct {
	mode mode
	tls  bool
	port string
}{
	"redis":           {modeSingle, false, "6379"},
	"rediss":          {modeSingle, true, "6379"},
	"redis-sentinel":  {modeSentinel, false, "26379"},
	"rediss-sentinel": {modeSentinel, true, "26379"},
	"redis-cluster":   {modeCluster, false, "6379"},
	"rediss-cluster":  {modeCluster, true, "6379"},
}

// CheckURL says what is wrong with a store's URL, and reads the files of keys that
// it names. It connects to nothing. The error never shows the password.
func CheckURL(url string) error {
	_, err := parseTarget(url, nil)
	return err
}

// parseURL reads a store's URL. Errors never show the password.
func parseURL(raw string, base *tls.Config) (target, error) {
	t, err := parseTarget(raw, base)
	if err != nil {
		return target{}, &Error{"open", KindOther, false, fmt.Errorf("store URL: %w", err)}
	}
	return t, nil
}

func parseTarget(raw string, base *tls.Config) (target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	kind, known := schemes[scheme]
	if !ok || !known {
		return target{}, errors.New("it must begin with redis://, rediss:// (TLS), redis-sentinel:// or redis-cluster://")
	}
	t := target{mode: kind.mode}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if err := t.setUser(authority[:i]); err != nil {
			return target{}, err
		}
		hosts = authority[i+1:]
	}
	if err := t.setHosts(hosts, kind.port); err != nil {
		return target{}, err
	}
	if err := t.setPath(path); err != nil {
		return target{}, err
	}
	return t, t.setQuery(query, kind.tls, base)
}

func (t *target) setUser(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err error
	if t.user, err = url.PathUnescape(user); err != nil {
		return errors.New("the user has a wrong percent escape: write % as %25")
	}
	if t.password, err = url.PathUnescape(password); err != nil {
		return errors.New("the password has a wrong percent escape: write % as %25")
	}
	return nil
}

func (t *target) setHosts(text, port string) error {
	for host := range strings.SplitSeq(text, ",") {
		if host == "" {
			return errors.New("a host is empty: write host:port, several with commas between them")
		}
		if name, p, err := net.SplitHostPort(host); err == nil {
			if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || name == "" {
				return fmt.Errorf("%q is not a host and a port", host)
			}
		} else {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
			if _, _, err := net.SplitHostPort(host); err != nil {
				return fmt.Errorf("%q is not a host and a port", host)
			}
		}
		t.addrs = append(t.addrs, host)
	}
	if t.mode == modeSingle && len(t.addrs) > 1 {
		return errors.New("several hosts go with redis-sentinel:// or redis-cluster:// only")
	}
	return nil
}

func (t *target) setPath(path string) error {
	db := path
	if t.mode == modeSentinel {
		t.master, db, _ = strings.Cut(path, "/")
		if t.master == "" {
			return errors.New("the master's name is missing: redis-sentinel://host:port,host:port/NAME")
		}
	}
	if db == "" {
		return nil
	}
	if t.mode == modeCluster {
		return errors.New("a Cluster has no databases: leave out /" + db)
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return fmt.Errorf("the database %q is not a number", db)
	}
	t.db = n
	return nil
}

// queryKeys are the options of a URL.
var queryKeys = []string{"ca", "cert", "key", "server_name", "insecure", "sentinel_user", "sentinel_password"}

func (t *target) setQuery(text string, useTLS bool, base *tls.Config) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the part behind ? cannot be read: write name=value&name=value")
	}
	for key := range query {
		if !slices.Contains(queryKeys, key) {
			return fmt.Errorf("option %q is not known: there are %s", key, strings.Join(queryKeys, ", "))
		}
	}
	t.sentinelUser, t.sentinelPass = query.Get("sentinel_user"), query.Get("sentinel_password")
	if !useTLS {
		for _, key := range queryKeys[:5] {
			if query.Has(key) {
				return fmt.Errorf("option %q goes with TLS only: begin the URL with rediss", key)
			}
		}
		return nil
	}
	if base != nil {
		t.tls = base.Clone()
	} else {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return t.setTLS(query)
}

func (t *target) setTLS(query url.Values) error {
	if file := query.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: no certificate in %s", file)
		}
	}
	if cert, key := query.Get("cert"), query.Get("key"); cert != "" || key != "" {
		if cert == "" || key == "" {
			return errors.New("cert and key go together")
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("cert and key: %w", err)
		}
		t.tls.Certificates = []tls.Certificate{pair}
	}
	if name := query.Get("server_name"); name != "" {
		t.tls.ServerName = name
	}
	if text := query.Get("insecure"); text != "" {
		insecure, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("insecure is %q: write true or false", text)
		}
		t.tls.InsecureSkipVerify = insecure
	}
	return nil
}

// option gives the client's options.
func (t target) option() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:  t.addrs,
		Username:     t.user,
		Password:     t.password,
		SelectDB:     t.db,
		TLSConfig:    t.tls,
		ClientName:   "caudal",
		DisableCache: true,
		// A script that was sent is never sent again: it may have been charged.
		DisableRetry: true,
		// One connection per node: pipelining wants callers together.
		PipelineMultiplex: -1,
		AlwaysPipelining:  true,
		ConnWriteTimeout:  dialTimeout,
	}
	o.Dialer.Timeout, o.Dialer.KeepAlive = dialTimeout, keepAlive
	switch t.mode {
	case modeSingle:
		o.ForceSingleClient = true
	case modeSentinel:
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master, Username: t.sentinelUser, Password: t.sentinelPass,
			TLSConfig: t.tls, Dialer: o.Dialer, ClientName: "caudal",
			TopologyRefreshInterval: sentinelRefresh,
		}
	}
	return o
}
