package proxytest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Proxy is a kind of proxy with the configuration of deploy/ for it.
type Proxy struct {
	Name  string
	start func(t testing.TB, c config) *Program
}

// config is where a proxy listens, asks and sends, and how long it waits for a
// decision: as shipped, or for seconds, for tests that want to see each one also
// on a busy machine.
type config struct {
	deploy, dir, front, caudal, app string
	patient                         bool
}

// ifPatient gives pairs to replace, none of them when the proxy waits as shipped.
func (c config) ifPatient(pairs ...string) []string {
	if !c.patient {
		return nil
	}
	return pairs
}

// Proxies are those that run here.
var Proxies = []Proxy{
	{"nginx", startNginx},
	{"caddy", startCaddy},
	{"haproxy", startHAProxy},
}

// Start runs the proxy until the test ends and gives its address. deploy is the
// folder of that name in the repository; caudal and app are addresses. A patient
// one waits seconds for a decision, another as long as it is shipped to.
func (p Proxy) Start(t testing.TB, deploy, caudal, app string, patient bool) (address string) {
	t.Helper()
	address = FreeAddress(t)
	p.start(t, config{deploy, t.TempDir(), address, caudal, app, patient}).WaitListening(t, "tcp", address)
	return address
}

// configure copies a shipped configuration with other addresses. Each of them
// must be in it.
func configure(t testing.TB, from, to string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%s does not hold %q", from, replace[i])
		}
	}
	if err := os.WriteFile(to, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startNginx(t testing.TB, c config) *Program {
	configure(t, filepath.Join(c.deploy, "nginx/caudal.conf"), filepath.Join(c.dir, "caudal.conf"), append(
		c.ifPatient("timeout 20ms", "timeout 5s", "timeout 30ms", "timeout 5s"),
		"server 127.0.0.1:8080", "server "+c.caudal, "server 127.0.0.1:3000", "server "+c.app, "listen 80", "listen "+c.front)...)
	main := "daemon off; master_process off; pid " + c.dir + "/pid; error_log stderr notice;\n" +
		"events { worker_connections 256; }\nhttp { access_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += name + "_temp_path " + c.dir + "/" + name + ";\n"
	}
	main += "include " + c.dir + "/caudal.conf;\n}\n"
	if err := os.WriteFile(filepath.Join(c.dir, "nginx.conf"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, nil, program(t, "nginx"), "-p", c.dir, "-c", filepath.Join(c.dir, "nginx.conf"), "-e", "stderr")
}

func startCaddy(t testing.TB, c config) *Program {
	file := filepath.Join(c.dir, "Caddyfile")
	_, port, err := net.SplitHostPort(c.front)
	if err != nil {
		t.Fatal(err)
	}
	configure(t, filepath.Join(c.deploy, "caddy/Caddyfile"), file, append(
		c.ifPatient("timeout 20ms", "timeout 5s", "timeout 30ms", "timeout 5s"),
		":80 {", "{\n\tadmin off\n\tauto_https off\n}\n:"+port+" {\n\tbind 127.0.0.1", "127.0.0.1:8080", c.caudal, "127.0.0.1:3000", c.app)...)
	env := []string{"HOME=" + c.dir, "XDG_DATA_HOME=" + c.dir, "XDG_CONFIG_HOME=" + c.dir}
	return Start(t, env, program(t, "caddy"), "run", "--config", file, "--adapter", "caddyfile")
}

func startHAProxy(t testing.TB, c config) *Program {
	lua := filepath.Join(c.dir, "caudal.lua")
	configure(t, filepath.Join(c.deploy, "haproxy/caudal.lua"), lua, c.ifPatient("timeout = 0.03", "timeout = 5")...)
	file := filepath.Join(c.dir, "haproxy.cfg")
	configure(t, filepath.Join(c.deploy, "haproxy/haproxy.cfg"), file, "/etc/haproxy/caudal.lua", lua, "127.0.0.1:8080", c.caudal,
		"bind :80", "bind "+c.front, "127.0.0.1:3000", c.app)
	return Start(t, nil, program(t, "haproxy"), "-f", file, "-db")
}
