package cli

import (
	"fmt"
	"testing"
	"time"
)

// TestEveryRouteSettingActs sets them all, and what all routes have beside.
func TestEveryRouteSettingActs(t *testing.T) {
	s, err := configureWith(t, `
routes:
  - host: "*.example.com"
    path: /api
    strip_path: true
    upstream: https://api.internal/base
    upstream_host: true
    domain: public
    timeout: 1s
    dial_timeout: 2s
    tls_timeout: 3s
    header_timeout: off
    max_body_bytes: 5
    retries: 2
    retry_statuses: [503, 504]
    exempt_paths: [/up, /well]
    shed: true
  - upstream: h2c://127.0.0.1:3000
    max_body_bytes: off
    retries: 0
    exempt_paths: none
    shed: false
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Routes) != 2 {
		t.Fatalf("%d routes arrive, want 2", len(s.Routes))
	}
	r := s.Routes[0]
	got := fmt.Sprintln(r.Host, r.Path, r.StripPath, r.Upstream, r.UpstreamHost, r.Domain, r.Timeouts.Total, r.Timeouts.Dial, r.Timeouts.TLSHandshake,
		r.Timeouts.ResponseHeader < 0, r.MaxBody, r.Retries, r.Exempt, r.Shed.Enabled, r.Shed.Disabled)
	want := fmt.Sprintln("*.example.com", "/api", true, "https://api.internal/base", true, "public", time.Second, 2*time.Second, 3*time.Second,
		true, 5, "{2 [503 504] 0}", "[/up /well]", true, false)
	if got != want {
		t.Errorf("the first route arrives as\n%s\nwant\n%s", got, want)
	}
	r = s.Routes[1]
	if r.Upstream.Scheme != "h2c" || r.MaxBody != -1 || r.Retries.Max != -1 || r.Exempt == nil || len(r.Exempt) != 0 || r.Shed.Enabled || !r.Shed.Disabled {
		t.Errorf("the second route arrives as %+v, want no bound, no retries, nothing exempt", r)
	}
	for _, setting := range routeSettings {
		if setting.help == "" {
			t.Errorf("routes: %s has no help", setting.name)
		}
	}
}
