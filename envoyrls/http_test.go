package envoyrls_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
)

func post(t *testing.T, h http.Handler, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestB14JSON(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limit: {name: one, unit: minute, requests_per_unit: 1}}\n- {key: m, rate_limit: {unit: second, unit_multiplier: 35, requests_per_unit: 5}}\n",
		envoyrls.Options{Compat: true}, nil)
	ask := `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]},{"entries":[{"key":"none","value":"v"}]}]}`
	limit := `"currentLimit":{"name":"one","requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"60s"`
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"first", ask, 200, `{"overallCode":"OK","statuses":[{"code":"OK",` + limit + `},{"code":"OK"}]}`},
		{"over", ask, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",` + limit + `},{"code":"OK"}]}`},
		{"snake case, hits and a multiplier", `{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"m","value":"v"}]}]}`, 200,
			`{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,"unit":"SECOND","unitMultiplier":35},"limitRemaining":3,"durationUntilReset":"25s"}]}`},
		{"empty", ``, 400, ""},
		{"no JSON", `{"domain":`, 400, ""},
		{"unknown field", `{"domain":"d","descriptor":[]}`, 400, ""},
		{"null descriptor", `{"domain":"d","descriptors":[null]}`, 400, ""},
		{"no descriptors", `{"domain":"d"}`, 400, "rate limit descriptor list must not be empty"},
		{"invalid UTF-8", "{\"domain\":\"\xff\",\"descriptors\":[{}]}", 400, ""},
		{"too large", `{"domain":"` + strings.Repeat("d", envoyrls.MaxBody) + `"}`, 413, "the body is too large: at most 1048576 bytes"},
	} {
		status, body := post(t, f.service.JSON(), c.body)
		if status != c.status || c.want != "" && body != c.want {
			t.Errorf("%s: %d %s\nwant %d %s", c.name, status, body, c.status, c.want)
		}
	}
}

func TestB14JSONByAnyMethod(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 9}}\n", envoyrls.Options{}, nil)
	w := httptest.NewRecorder()
	body := strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
	f.service.JSON().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/json", body))
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("GET /json = %d %s, want 200 application/json", w.Code, w.Header().Get("Content-Type"))
	}
}

func TestJSONWithoutDecisionIs503(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 9}}\n", envoyrls.Options{},
		func(testing.TB, caudal.Clock) caudal.Store {
			return badStore{take: func([]caudal.Decision) error { return caudal.ErrStore }}
		})
	status, _ := post(t, f.service.JSON(), `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
	if status != 503 {
		t.Errorf("POST /json without a store = %d, want 503", status)
	}
}

func get(h http.Handler) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	body, _ := io.ReadAll(w.Result().Body) // from memory
	return w.Code, string(body)
}

func TestB19Healthcheck(t *testing.T) {
	f := start(t, windows+"- {key: k}\n", envoyrls.Options{}, nil)
	if code, body := get(f.service.Healthcheck()); code != 200 || body != "OK" {
		t.Errorf("healthcheck = %d %q, want 200 OK", code, body)
	}
	f.server.SetServing(false)
	if code, body := get(f.service.Healthcheck()); code != 500 || body != "" {
		t.Errorf("healthcheck of an unhealthy service = %d %q, want 500 and nothing", code, body)
	}
}

func TestB14Config(t *testing.T) {
	rules := "domain: d\ndescriptors:\n- {key: u, rate_limit: {unlimited: true}}\n- {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 7}}\n" +
		"- key: a\n  value: b*\n  descriptors: [{key: c, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 20}}]\n"
	compat := "d.a_b*.c: unit=MINUTE requests_per_unit=20, shadow_mode: false, quota_mode: true\n" +
		"d.s: unit=DAY requests_per_unit=7, shadow_mode: true, quota_mode: false\n" +
		"d.u: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n"
	f := start(t, rules, envoyrls.Options{Compat: true}, nil)
	if _, got := get(f.service.Config()); got != compat {
		t.Errorf("config\n got %s\nwant %s", got, compat)
	}
	f = start(t, rules, envoyrls.Options{}, nil)
	if _, got := get(f.service.Config()); !strings.Contains(got, "d.s: unit=DAY requests_per_unit=7, shadow_mode: true, quota_mode: false (7/day)\n") {
		t.Errorf("config without Compat names no algorithm:\n%s", got)
	}
	f = startSet(t, nil, envoyrls.Options{}, nil)
	if code, got := get(f.service.Config()); code != 200 || got != "" {
		t.Errorf("config without rules = %d %q, want 200 and nothing", code, got)
	}
}
