package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// rules are the limit of each API key as caudal reads it.
func (w work) rules() string {
	return fmt.Sprintf("domain: bench\ndescriptors:\n  - key: api_key\n    rate_limit: { unit: %s, requests_per_unit: %d }\n", w.unit, w.calls)
}

func startGRPCFloor(ctx context.Context, m *machine, w work) (*running, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	pid, err := m.run(ctx, address, nil, m.caudal, "bench", "floor", "--listen", address)
	if err != nil {
		return nil, err
	}
	return askByGRPC(ctx, pid, address, askRLS(w.keys))
}

func startRLS(ctx context.Context, m *machine, w work) (*running, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	rules, err := m.write(w.name+"-rls.yaml", w.rules())
	if err != nil {
		return nil, err
	}
	pid, err := m.run(ctx, address, nil, m.caudal, "serve", "--rules", rules, "--store", "memory", "--listen", "off",
		"--grpc-listen", address, "--http-listen", "off", "--admin-listen", "off", "--log-level", "error")
	if err != nil {
		return nil, err
	}
	return askByGRPC(ctx, pid, address, askRLS(w.keys))
}

func startGubernator(ctx context.Context, m *machine, w work) (*running, error) {
	program, err := m.gubernator()
	if err != nil {
		return nil, err
	}
	var free [3]string
	for i := range free {
		if free[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	pid, err := m.run(ctx, free[0], []string{
		"GUBER_GRPC_ADDRESS=" + free[0], "GUBER_HTTP_ADDRESS=" + free[1],
		"GUBER_MEMBERLIST_ADDRESS=" + free[2], "GUBER_MEMBERLIST_BIND_ADDRESS=" + free[2], "GUBER_MEMBERLIST_KNOWN_NODES=" + free[2],
		"GUBER_CACHE_SIZE=400000", // it holds all keys
		"GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none",
	}, program)
	if err != nil {
		return nil, err
	}
	return askByGRPC(ctx, pid, free[0], askGubernator(w))
}

// startProxy starts the gateway without limits.
func startProxy(ctx context.Context, m *machine, w work) (*running, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	pid, err := m.run(ctx, address, nil, m.caudal, "bench", "proxy", "--upstream", "http://"+m.upstream.Addr().String(), "--listen", address)
	return askByHTTP(pid, address, w.keys), err
}

func startGateway(ctx context.Context, m *machine, w work) (*running, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	rules, err := m.write(w.name+"-gateway.yaml", w.rules())
	if err != nil {
		return nil, err
	}
	pid, err := m.run(ctx, address, nil, m.caudal, "serve", "--upstream", "http://"+m.upstream.Addr().String(), "--rules", rules,
		"--store", "memory", "--listen", address, "--admin-listen", "off", "--log-level", "error")
	return askByHTTP(pid, address, w.keys), err
}

// nginxConf runs nginx in one process, so that its processor time is that of one.
// A burst lets a key have several calls in one millisecond.
const nginxConf = `daemon off; master_process off; pid DIR/pid; error_log /dev/null crit;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  limit_req_zone $http_x_api_key zone=keys:64m rate=RATE; limit_req_status 429;
  upstream api { server UPSTREAM; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen ADDRESS;
    location / { LIMIT proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`

func startNginx(ctx context.Context, m *machine, w work, limited bool) (*running, error) {
	program, err := find("nginx", "apt-get install nginx")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	limit := ""
	switch {
	case limited && w.denied:
		limit = "limit_req zone=keys;"
	case limited:
		limit = fmt.Sprintf("limit_req zone=keys burst=%d nodelay;", w.calls)
	}
	name := fmt.Sprintf("%s-nginx-%v", w.name, limited)
	conf, err := m.write(name+".conf", strings.NewReplacer("DIR", filepath.Join(m.dir, name), "RATE", fmt.Sprintf("%dr/%.1s", w.calls, w.unit),
		"UPSTREAM", m.upstream.Addr().String(), "ADDRESS", address, "LIMIT", limit).Replace(nginxConf))
	if err != nil {
		return nil, err
	}
	if err := m.folder(name); err != nil {
		return nil, err
	}
	pid, err := m.run(ctx, address, nil, program, "-p", m.dir, "-c", conf, "-e", "stderr")
	return askByHTTP(pid, address, w.keys), err
}
