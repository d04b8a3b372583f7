package decisionapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/decisionapi"
)

// spec is the part of the document that can be held against the handlers.
type spec struct {
	Paths map[string]map[string]struct {
		Responses map[string]any
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
		}
	}
}

func readSpec(t *testing.T, f *fixture) spec {
	t.Helper()
	w := httptest.NewRecorder()
	f.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.yaml", nil))
	var s spec
	if err := yaml.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET /v1/openapi.yaml = %d: %v", w.Code, err)
	}
	return s
}

func TestTheDocumentNamesEveryPath(t *testing.T) {
	f := start(t, decisionapi.Options{})
	s := readSpec(t, f)
	for path, methods := range s.Paths {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := httptest.NewRecorder()
			f.mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
			_, documented := methods[strings.ToLower(method)]
			if answered := w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed; answered != documented {
				t.Errorf("%s %s = %d; in the document: %v", method, path, w.Code, documented)
			}
		}
	}
	for _, path := range []string{"/v1/check", "/v1/refund", "/v1/renew", "/v1/release", "/v1/authorize", "/v1/openapi.yaml"} {
		if s.Paths[path] == nil {
			t.Errorf("the document has no %s", path)
		}
	}
}

// TestTheDocumentNamesEveryField sends what the document names, and looks for
// what is answered in it.
func TestTheDocumentNamesEveryField(t *testing.T) {
	f := start(t, decisionapi.Options{})
	s := readSpec(t, f)
	for schema, v := range decisionapi.Schemas() {
		got := slices.Sorted(func(yield func(string) bool) {
			for name := range s.Components.Schemas[schema].Properties {
				if !yield(name) {
					return
				}
			}
		})
		want := fieldsOf(reflect.TypeOf(v))
		if !slices.Equal(got, want) {
			t.Errorf("schema %s has the fields %q, the handlers %q", schema, got, want)
		}
	}
}

func fieldsOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestTheDocumentNamesEveryStatus collects the statuses of the calls that the
// other tests make, too.
func TestTheDocumentNamesEveryStatus(t *testing.T) {
	f := start(t, decisionapi.Options{})
	s := readSpec(t, f)
	long := `{"domain": "` + strings.Repeat("a", 1<<20) + `"}`
	check := f.check(login)
	receipt := check.refundBody(t, "")
	held := f.check(report).permitBody(t)
	seen := map[string][]int{
		"/v1/check": {f.post("/v1/check", login).Code, f.post("/v1/check", "{}").Code, f.post("/v1/check", long).Code},
		"/v1/refund": {f.post("/v1/refund", receipt).Code, f.post("/v1/refund", receipt).Code, f.post("/v1/refund", "{}").Code,
			f.post("/v1/refund", `{"receipt": {"id": "x"}}`).Code, f.post("/v1/refund", long).Code},
		"/v1/renew": {f.post("/v1/renew", held).Code, f.post("/v1/renew", "{}").Code, f.post("/v1/renew", `{"permit": {"id": "x"}}`).Code,
			f.post("/v1/renew", long).Code},
		"/v1/release": {f.post("/v1/release", held).Code, f.post("/v1/release", held).Code, f.post("/v1/release", "{}").Code,
			f.post("/v1/release", `{"permit": {"id": "x"}}`).Code, f.post("/v1/release", long).Code},
		"/v1/authorize": {f.ask(proxy, "", "X-Forwarded-Uri", "/").Code, f.ask(proxy, "", "X-Forwarded-Uri", "/closed").Code,
			f.ask(proxy, "", "X-Forwarded-Uri", "/private").Code, f.ask(proxy, "", "X-Forwarded-Uri", "/busy").Code, f.ask(proxy, "").Code},
	}
	for path, statuses := range seen {
		responses := s.Paths[path]["post"].Responses
		if responses == nil {
			responses = s.Paths[path]["get"].Responses
		}
		for _, status := range statuses {
			text, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			if responses[string(text)] == nil {
				t.Errorf("%s answered %d, which the document does not name", path, status)
			}
		}
	}
}
