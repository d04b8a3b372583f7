package rule

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Options changes how rules are read and matched. The zero value is the default.
type Options struct {
	// IPv4Prefix and IPv6Prefix say how many bits of a client's address make one
	// counter. 0 means 32 and 64. CIDR values are compared with the whole address
	// before it is grouped.
	IPv4Prefix, IPv6Prefix int

	// ForAttributes says that requests will be matched by attributes, and warns
	// of keys that no request can have then, such as Envoy's own.
	ForAttributes bool

	// VerifiedKeys says that API keys are verified before they count as
	// present, so that clients cannot make them up. It silences a warning.
	VerifiedKeys bool

	// MatchForm gives the one form in which requests have the value of an attribute,
	// such as /login for the path /login/. Values in another form are warned of, as
	// they never match. It is asked of texts with stars, too. nil warns of nothing.
	MatchForm func(key, value string) string

	// Unfound says of an attribute that no request has, by the settings around the
	// rules, how to change that, and "" of all others. What it finds is noted.
	Unfound func(key string) (mend string)

	// MergeDomains lets several files hold rules of one domain. A descriptor that
	// stands in two of them is still an error.
	MergeDomains bool

	// Region is where the rules are enforced: limits that are shared among regions
	// hold by its share. Without it such limits are refused, unless AllRegions reads
	// them whole: for those who look at rules and enforce nothing.
	Region     string
	AllRegions bool

	// CompatEnvoy reads rules as Envoy's reference service does: fixed_window is
	// the default algorithm, and weeks, months and years are fixed lengths from
	// 1970.
	CompatEnvoy bool
}

func (o *Options) defaultAlgorithm() caudal.Algorithm {
	if o.CompatEnvoy {
		return caudal.FixedWindow
	}
	return caudal.TokenBucket
}

// defaultWords says which algorithm is the default.
func (o *Options) defaultWords() string {
	words := o.defaultAlgorithm().String() + " is the default"
	if o.CompatEnvoy {
		words += " under --compat envoy"
	}
	return words
}

func (o *Options) check() error {
	if o.IPv4Prefix < 0 || o.IPv4Prefix > 32 {
		return fmt.Errorf("rule: IPv4Prefix %d must be from 1 to 32, or 0 for 32", o.IPv4Prefix)
	}
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		return fmt.Errorf("rule: IPv6Prefix %d must be from 1 to 128, or 0 for 64", o.IPv6Prefix)
	}
	return nil
}

// Load reads the rules at the paths with the default options; see Options.Load.
func Load(paths ...string) (*Set, []Warning, error) { return Options{}.Load(paths...) }

// Parse reads one file's text with the default options; see Options.Parse.
func Parse(name string, data []byte) (*Set, []Warning, error) { return Options{}.Parse(name, data) }

// Parse reads one file's text; the name is what messages call it. The error, if
// any, is of type Errors.
func (o Options) Parse(name string, data []byte) (*Set, []Warning, error) {
	return o.parse([]source{{name: name, data: data}})
}

// Load reads the rules at the paths, each a file or a directory. Of a directory
// it reads the files that end in .yaml or .yml, without dot files, what editors
// leave behind, tests (names that end in _test.yaml), and folders in it; an empty file there is skipped with a
// warning. The whole set loads, or none of it. The error is of type Errors when
// files were read and are wrong.
func (o Options) Load(paths ...string) (*Set, []Warning, error) {
	sources, err := listAll(paths)
	if err != nil {
		return nil, nil, err
	}
	for i := range sources {
		if sources[i].data, err = readBounded(sources[i].name); err != nil {
			return nil, nil, err
		}
	}
	return o.parse(sources)
}

// Files gives the names of the files that Load reads at the paths.
func Files(paths ...string) ([]string, error) {
	sources, err := listAll(paths)
	names := make([]string, len(sources))
	for i, src := range sources {
		names[i] = src.name
	}
	return names, err
}

func listAll(paths []string) ([]source, error) {
	if len(paths) == 0 {
		return nil, errors.New("rule: no path to load rules from")
	}
	var sources []source
	seen := map[string]bool{}
	for _, path := range paths {
		found, err := listFiles(path)
		if err != nil {
			return nil, err
		}
		for _, src := range found {
			if !seen[src.name] { // a directory and a file in it
				seen[src.name] = true
				sources = append(sources, src)
			}
		}
	}
	return sources, nil
}

// source is the text of one file.
type source struct {
	name     string
	data     []byte
	mayEmpty bool // found in a directory, not named
}

func listFiles(path string) ([]source, error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rule: cannot read rules: %w", err)
	}
	if !info.IsDir() {
		return []source{{name: path}}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("rule: cannot read rules: %w", err)
	}
	var found []source
	for _, e := range entries { // sorted by name
		name := filepath.Join(path, e.Name())
		if !isRuleFile(e.Name()) {
			continue
		}
		// Stat follows symbolic links, of which a mounted ConfigMap is made.
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("rule: cannot read rules: %w", err)
		}
		if info.Mode().IsRegular() {
			found = append(found, source{name: name, mayEmpty: true})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("rule: no rules in %s: it holds no file that ends in .yaml or .yml", path)
	}
	return found, nil
}

// isRuleFile leaves out dot files (..data of a ConfigMap among them), the names
// that editors give to copies and locks, and the tests that lie beside rules.
func isRuleFile(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "~") {
		return false
	}
	base, isYAML := strings.CutSuffix(name, ".yaml")
	if !isYAML {
		base, isYAML = strings.CutSuffix(name, ".yml")
	}
	return isYAML && !strings.HasSuffix(base, "_test")
}

// readBounded reads a file, but not much more than the parser would accept.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("rule: cannot read rules: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("rule: cannot read rules: %w", err)
	}
	return data, nil
}

func (o Options) parse(sources []source) (*Set, []Warning, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	var errs Errors
	var warnings []Warning
	var files []*ruleFile
	for _, src := range sources {
		before := len(errs)
		file, w := readFile(src.name, src.data, &o, &errs)
		warnings = append(warnings, w...)
		switch {
		case file != nil:
			files = append(files, file)
		case len(errs) > before:
		case src.mayEmpty:
			warnings = append(warnings, Warning{Code: "empty-file", Position: Position{File: src.name},
				What: "the file is empty", Why: "it is skipped", Mend: "write its rules or remove it"})
		default:
			errs.add(&Error{Position: Position{File: src.name}, What: "the file holds no rules", Hint: "write domain: NAME and descriptors"})
		}
	}
	if len(files) == 0 && len(errs) == 0 {
		errs.add(&Error{Position: Position{File: sources[0].name}, What: "no file holds rules", Hint: "write domain: NAME and descriptors"})
	}
	if len(errs) == 0 {
		set, w := compile(files, &o, &errs)
		if len(errs) == 0 {
			warnings = append(warnings, w...)
			sortWarnings(warnings)
			return set, warnings, nil
		}
	}
	return nil, nil, errs.err()
}

// sortFiles puts files in an order that does not depend on how they were named
// on the command line.
func sortFiles(files []*ruleFile) {
	slices.SortStableFunc(files, func(a, b *ruleFile) int { return strings.Compare(a.name, b.name) })
}
