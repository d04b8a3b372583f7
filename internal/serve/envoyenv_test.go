package serve

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/envoyrls"
)

func TestB16EnvironmentOfTheReference(t *testing.T) {
	var c Config
	env, err := ReadEnvoyEnv([]string{
		"HOST=127.0.0.1", "PORT=18080", "GRPC_PORT=18081", "DEBUG_PORT=16070", "GRPC_MAX_CONNECTION_AGE=2h", "GRPC_MAX_CONNECTION_AGE_GRACE=1m",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/tls/c.pem", "GRPC_SERVER_TLS_KEY=/tls/k.pem", "GRPC_CLIENT_TLS_CACERT=/tls/ca.pem", "GRPC_CLIENT_TLS_SAN=envoy",
		"LOG_LEVEL=WARN", "LOG_FORMAT=json", "CONFIG_TYPE=FILE", "RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "MERGE_DOMAIN_CONFIG=true",
		"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=cluster", "REDIS_URL=a:6379,b:6379", "REDIS_AUTH=me:p@ss", "REDIS_TLS=true", "REDIS_TLS_CACERT=/tls/r.pem",
		"CACHE_KEY_PREFIX=edge:", "NEAR_LIMIT_RATIO=0.5", "SHADOW_MODE=false", "QUOTA_MODE=1", "RESPONSE_DYNAMIC_METADATA=true", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_LIMIT_HEADER=X-Limit", "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_PATH=/m",
		"EXPIRATION_JITTER_MAX_SECONDS=300", "PATH=/bin", "EMPTY=",
	}, &c)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		HTTPListen: []string{"127.0.0.1:18080"}, AdminListen: ":16070", Rules: []string{"/data/ratelimit/config"}, MergeDomains: true,
		Store: "rediss-cluster://me:p%40ss@a:6379,b:6379?ca=%2Ftls%2Fr.pem", StorePrefix: "edge:",
		RLS: RLS{Listen: []string{":18081"}, Certificates: Certificates{Cert: "/tls/c.pem", Key: "/tls/k.pem", ClientCA: "/tls/ca.pem", ClientName: "envoy"},
			MaxConnectionAge: 2 * time.Hour, MaxConnectionGrace: time.Minute, QuotaMode: true, StopIncrement: true, DynamicMetadata: true,
			Headers: &envoyrls.Headers{Limit: "X-Limit"}, NearRatio: 0.5, PrometheusListen: ":9090", PrometheusPath: "/m"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("settings\n got %+v\nwant %+v", c, want)
	}
	if got := strings.Join(env.Ignored, " "); got != "EXPIRATION_JITTER_MAX_SECONDS USE_STATSD" || env.LogLevel != "warn" || env.LogFormat != "json" {
		t.Errorf("environment = %+v, want two names ignored, warn and json", env)
	}
}

func TestB16DefaultsAndOwnSettingsFirst(t *testing.T) {
	var c Config
	if _, err := ReadEnvoyEnv(nil, &c); err != nil || !reflect.DeepEqual(c, Config{Rules: []string{"/srv/runtime_data/current/config"}}) {
		t.Errorf("settings of an empty environment = %+v, %v", c, err)
	}
	c = Config{Rules: []string{"own"}, Store: "memory", HTTPListen: []string{Off}, AdminListen: Off, RLS: RLS{Listen: []string{"unix:/own"}}}
	before := c
	if _, err := ReadEnvoyEnv([]string{"PORT=1", "GRPC_UDS=/other", "DEBUG_PORT=2", "RUNTIME_ROOT=/x", "REDIS_URL=r:1"}, &c); err != nil || !reflect.DeepEqual(c, before) {
		t.Errorf("own settings became %+v, %v, want %+v", c, err, before)
	}
}

func TestB16Stores(t *testing.T) {
	for _, row := range []struct{ env, want string }{
		{"REDIS_URL=r:6379", "redis://r:6379"},
		{"REDIS_URL=rediss://r:6380/2", "rediss://r:6380/2"},
		{"REDIS_URL=r:6379 REDIS_AUTH=secret", "redis://:secret@r:6379"},
		{"REDIS_URL=m,s1:26379,s2:26379 REDIS_TYPE=Sentinel REDIS_SENTINEL_AUTH=pw", "redis-sentinel://s1:26379,s2:26379/m?sentinel_password=pw"},
	} {
		var c Config
		if _, err := ReadEnvoyEnv(strings.Fields(row.env), &c); err != nil || c.Store != row.want {
			t.Errorf("%s: store %q, %v, want %q", row.env, c.Store, err, row.want)
		}
	}
}

func TestB16Refusals(t *testing.T) {
	for _, row := range []struct{ env, want string }{
		{"BACKEND_TYPE=memcache", "BACKEND_TYPE: memcache does not act here"},
		{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_TYPE: GRPC_XDS_SOTW does not act here"},
		{"BACKEND_TYPE=etcd", `BACKEND_TYPE: "etcd" is not known`},
		{"SHADOW_MODE=maybe", `SHADOW_MODE: "maybe" is neither true nor false`},
		{"PORT=http", `PORT: "http" is no port`},
		{"NEAR_LIMIT_RATIO=2", `NEAR_LIMIT_RATIO: "2" is no ratio`},
		{"GRPC_MAX_CONNECTION_AGE=1", `GRPC_MAX_CONNECTION_AGE: "1" is no time`},
		{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_USE_TLS: there is no certificate"},
		{"REDIS_URL=/run/redis.sock REDIS_SOCKET_TYPE=unix", "REDIS_SOCKET_TYPE: unix sockets"},
		{"LOG_LEVEL=loud", `LOG_LEVEL: "loud" is not known`},
	} {
		_, err := ReadEnvoyEnv(strings.Fields(row.env), &Config{})
		if err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: error = %v, want %q", row.env, err, row.want)
		}
	}
}
