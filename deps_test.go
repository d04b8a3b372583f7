package caudal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/caudal-dev/caudal"

// layer says what a package of this module may import from this module, and why
// no more. "." is the root package; "*" is everything.
type layer struct {
	imports []string
	why     string
}

// layers is the direction of the arrows: core <- algorithm <- stores; rule and
// identity know no store; what faces the network knows the core's contract and
// no concrete store; only the wiring knows all. Tests may import more; see
// testLayers.
var layers = map[string]layer{
	".":                {[]string{"internal/keyhash", "internal/fastdiv"}, "the contract stands on the standard library only"},
	"internal/keyhash": {nil, "hashing keys needs nothing of ours"},
	"internal/fastdiv": {nil, "arithmetic needs nothing of ours"},
	"algorithm":        {[]string{"."}, "pure functions of a limit, an instant and a state"},

	"memstore":   {[]string{".", "algorithm", "internal/keyhash"}, "a store knows the contract and the algorithms"},
	"redisstore": {[]string{".", "algorithm", "internal/keyhash"}, "a store knows the contract and the algorithms"},
	"failover":   {[]string{".", "memstore", "internal/keyhash"}, "wraps any shared store, and counts in memory when that is gone"},
	"storetest":  {[]string{".", "algorithm", "internal/refmodel"}, "the suite knows the contract and the model, not who passes it"},

	"rule":     {[]string{"."}, "rules speak of limits and know no store"},
	"ruletest": {[]string{".", "rule", "identity", "httplimit", "memstore", "internal/spell"}, "runs test files through the real limiter, in memory"},
	"control":  {[]string{".", "rule"}, "what operators say is about requests, and its store is whoever keeps notes"},
	"identity": {[]string{"."}, "who is asking does not depend on how it is counted"},

	"shed":            {[]string{"rule"}, "priorities are the rules'; it knows no limits and no HTTP"},
	"httplimit":       {[]string{".", "rule", "identity", "shed", "control"}, "adapters see a store only through the contract"},
	"gateway":         {[]string{".", "rule", "identity", "control", "httplimit", "shed", "retry"}, "adapters see a store only through the contract; it tries again as clients do"},
	"decisionapi":     {[]string{".", "rule", "identity", "control", "httplimit"}, "adapters see a store only through the contract"},
	"grpclimit":       {[]string{".", "rule", "identity", "control", "httplimit"}, "adapters see a store only through the contract; rules are decided by httplimit's Decider, so that HTTP and gRPC cannot differ"},
	"envoyrls":        {[]string{".", "rule", "identity", "control", "httplimit"}, "adapters see a store only through the contract; the observer is httplimit's"},
	"retry":           {[]string{"."}, "the client's side knows what HTTP says, and a limiter to hold calls back with"},
	"retry/grpcretry": {[]string{".", "retry"}, "gRPC's half of retry, so that clients of HTTP do not link gRPC"},
	"accesslog":       {nil, "reading logs has nothing to do with limits"},
	"replay":          {[]string{".", "rule", "identity", "accesslog", "memstore"}, "runs real logs through the real rules, in memory"},
	"dashboard":       {[]string{".", "rule"}, "shows snapshots that it is handed"},

	"internal/benchreport": {nil, "reads the output of go test -bench"},
	"internal/rlsbench":    {nil, "a client of a published protocol knows nothing of who serves it"},
	"internal/metrics":     {[]string{".", "rule", "shed", "identity", "control", "httplimit", "internal/topk"}, "metrics are one observer among others; identity says how values are hashed"},
	"internal/tracing":     {[]string{".", "httplimit"}, "traces are one observer among others"},
	"internal/topk":        {nil, "counting needs nothing of ours"},
	"internal/admin":       {[]string{".", "rule", "identity", "control", "httplimit"}, "answers operators from what it is handed"},
	"internal/spell":       {nil, "words need nothing of ours"},
	"internal/rulewatch":   {[]string{"rule"}, "notices that rules have changed; what follows is for others"},
	"internal/serve":       {[]string{"*"}, "the wiring knows all"},
	"internal/cli":         {[]string{"*"}, "the commands know all"},
	"internal/testutil":    {[]string{"*"}, "only tests import it"},
	"internal/proxytest":   {[]string{"*"}, "only tests import it"},
	"internal/gwbench":     {[]string{"internal/rlsbench"}, "measures gateways from outside"},
	"internal/storebench":  {[]string{"."}, "measures stores through the contract"},
	"internal/redistest":   {nil, "starting servers needs nothing of ours"},
	"internal/faults":      {[]string{"rule", "identity", "httplimit"}, "tests of the whole with real faults; it has no code"},
	"internal/refmodel":    {[]string{"."}, "a second opinion shares no code with the first"},
	"cmd/caudal":           {[]string{"internal/serve", "internal/cli"}, "main is signals and exit codes"},
}

// testLayers may be imported by the tests of any package beside what the package
// itself may import: fakes and the suite.
var testLayers = []string{".", "algorithm", "memstore", "redisstore", "failover", "storetest", "internal/testutil", "internal/redistest", "internal/refmodel"}

// houseTests are what the tests of the house rules, in the root folder, may
// import: they check the pages of the whole repository.
var houseTests = []string{"rule", "ruletest"}

// onlyTests are imported by tests alone, and by one another.
var onlyTests = []string{"storetest", "internal/testutil", "internal/redistest", "internal/refmodel", "internal/proxytest"}

// libraries says which packages may import a module of others. A library is
// named by the package that is about it, so that it can be exchanged there.
var libraries = map[string]layer{
	"github.com/golang-jwt/jwt/v5":            {[]string{"identity"}, "verifying who is asking"},
	"go.yaml.in/yaml/v3":                      {[]string{"rule", "ruletest", "internal/serve", "internal/cli"}, "YAML is the format of rules and of caudal.yaml"},
	"github.com/redis/rueidis":                {[]string{"redisstore", "internal/storebench"}, "only the Redis store speaks to Redis; the floor that it is measured against uses the same client"},
	"github.com/redis/go-redis/v9":            {[]string{"redisstore"}, "only the Redis store speaks to Redis"},
	"github.com/sony/gobreaker/v2":            {[]string{"failover"}, "the circuit breaker around a store"},
	"google.golang.org/grpc":                  {[]string{"envoyrls", "grpclimit", "retry/grpcretry", "internal/serve", "internal/rlsbench", "internal/tracing"}, "only what faces gRPC"},
	"google.golang.org/genproto":              {[]string{"grpclimit", "retry/grpcretry"}, "the details of a gRPC status"},
	"google.golang.org/protobuf":              {[]string{"envoyrls", "grpclimit", "retry/grpcretry", "internal/serve"}, "only what faces gRPC"},
	"github.com/envoyproxy/go-control-plane":  {[]string{"envoyrls", "internal/serve", "internal/rlsbench"}, "Envoy's messages"},
	"github.com/HdrHistogram/hdrhistogram-go": {[]string{"internal/rlsbench", "internal/gwbench", "internal/storebench"}, "quantiles of millions of times in little memory"},
	"github.com/prometheus/client_golang":     {[]string{"internal/metrics", "internal/serve", "envoyrls"}, "metrics are one observer among others"},
	"github.com/prometheus/client_model":      {[]string{"internal/metrics", "internal/serve", "envoyrls"}, "metrics are one observer among others"},
	"github.com/prometheus/common":            {[]string{"internal/metrics", "internal/serve", "envoyrls"}, "metrics are one observer among others"},
	"github.com/spf13/cobra":                  {[]string{"cmd/caudal", "internal/cli"}, "commands and flags"},
	"github.com/spf13/pflag":                  {[]string{"cmd/caudal", "internal/cli", "internal/serve"}, "commands and flags"},
	"github.com/failsafe-go/failsafe-go":      {[]string{"shed"}, "the adaptive limit under load shedding"},
	"github.com/fsnotify/fsnotify":            {[]string{"internal/rulewatch"}, "reloading when a file changes"},
	"go.opentelemetry.io/otel":                {[]string{"internal/tracing"}, "traces are one observer among others"},
	"github.com/go-logr/logr":                 {[]string{"internal/tracing"}, "what OpenTelemetry says in the log"},
	"golang.org/x/net":                        {[]string{"gateway", "internal/serve"}, "HTTP/2 details that net/http keeps to itself"},
	"golang.org/x/sync":                       {[]string{"internal/serve"}, "groups of goroutines"},
}

// testLibraries may be imported by tests only.
var testLibraries = []string{
	"pgregory.net/rapid",                // property tests
	"github.com/anishathalye/porcupine", // whether a history of concurrent calls has an order that explains it
	"go.uber.org/goleak",                // no goroutine is left
	"github.com/rogpeppe/go-internal",   // scripts that run the command
	"github.com/Shopify/toxiproxy/v2",   // broken networks
	"github.com/rs/zerolog",             // what toxiproxy logs with
	"github.com/coder/websocket",        // a WebSocket client
	"golang.org/x/net",                  // HTTP/2 frames
	"golang.org/x/sync",
	"go.opentelemetry.io/proto/otlp",      // a collector
	"go.yaml.in/yaml/v3",                  // reading documents back
	"github.com/prometheus/client_golang", // reading back what was counted
	"github.com/golang-jwt/jwt/v5",        // signing tokens
}

// goPackage is the imports of one folder, each with a file that has it.
type goPackage struct {
	name          string
	code, inTests map[string]string
}

func TestImportsFollowTheArrows(t *testing.T) {
	packages := readPackages(t)
	if len(packages) < 3 {
		t.Fatalf("found %d packages: the walk over the module is broken", len(packages))
	}
	for dir, p := range packages {
		l, known := layers[dir]
		if !known {
			t.Errorf("package %s is new: add a row to layers in deps_test.go that says what it may import, and why no more", dir)
			continue
		}
		for path, file := range p.code {
			checkImport(t, dir, l, path, file)
		}
		for path, file := range p.inTests {
			checkTestImport(t, dir, l, path, file)
		}
	}
}

// TestLayersAreKnown finds names in the tables that no row explains.
func TestLayersAreKnown(t *testing.T) {
	for dir, l := range layers {
		for _, name := range l.imports {
			if _, ok := layers[name]; !ok && name != "*" {
				t.Errorf("layers[%q] allows %q, which has no row itself", dir, name)
			}
		}
		if l.why == "" {
			t.Errorf("layers[%q] gives no reason", dir)
		}
	}
}

func checkImport(t *testing.T, dir string, l layer, path, file string) {
	t.Helper()
	name, ours := inModule(path)
	switch {
	case isStandard(path):
	case ours:
		if !slices.Contains(l.imports, name) && !slices.Contains(l.imports, "*") {
			t.Errorf("%s imports %s, which package %s must not: %s (allowed: %s)", file, name, dir, l.why, allowed(l.imports))
		}
		if slices.Contains(onlyTests, name) && !slices.Contains(onlyTests, dir) {
			t.Errorf("%s imports %s, which is for tests only", file, name)
		}
	default:
		library, row := libraryOf(path)
		switch {
		case library == "":
			t.Errorf("%s imports %s: add a row to libraries in deps_test.go that says which packages may, and a reason to docs/ARCHITECTURE.md", file, path)
		case !slices.Contains(row.imports, dir):
			t.Errorf("%s imports %s, which only %s may: %s", file, path, allowed(row.imports), row.why)
		}
	}
}

func checkTestImport(t *testing.T, dir string, l layer, path, file string) {
	t.Helper()
	name, ours := inModule(path)
	if ours && (name == dir || slices.Contains(testLayers, name) || dir == "." && slices.Contains(houseTests, name)) {
		return
	}
	for _, library := range testLibraries {
		if within(path, library) {
			return
		}
	}
	checkImport(t, dir, l, path, file)
}

// readPackages parses the imports of every package of this module, by folder.
func readPackages(t *testing.T) map[string]*goPackage {
	t.Helper()
	packages := map[string]*goPackage{}
	walkModule(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		p := packages[dir]
		if p == nil {
			p = &goPackage{code: map[string]string{}, inTests: map[string]string{}}
			packages[dir] = p
		}
		into := p.code
		if strings.HasSuffix(path, "_test.go") {
			into = p.inTests
		} else {
			p.name = f.Name.Name
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			into[name] = path
		}
	})
	return packages
}

// walkModule visits the files of this module: not of nested modules, not what
// is hidden, built or test data.
func walkModule(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if !d.IsDir() {
			visit(path)
			return nil
		}
		if path == "." {
			return nil
		}
		_, err = os.Stat(filepath.Join(path, "go.mod"))
		if err == nil || strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "bin", "dist", "tmp"}, name) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inModule gives the folder of an import path of this module.
func inModule(path string) (string, bool) {
	if path == modulePath {
		return ".", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

// isStandard reports whether an import path is of the standard library: its
// first element is no host name.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func libraryOf(path string) (string, layer) {
	for name, row := range libraries {
		if within(path, name) {
			return name, row
		}
	}
	return "", layer{}
}

func within(path, module string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}

func allowed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
