package rule

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// limitWords says which algorithm each of these words goes with. Presence is
// what counts, also of a zero that Limit could not tell from nothing.
var limitWords = []struct {
	name  string
	with  caudal.Algorithm
	words string
}{
	{"burst", caudal.TokenBucket, "only a token_bucket has a burst"},
	{"queue", caudal.LeakyBucket, "only a leaky_bucket has a queue"},
	{"max_wait", caudal.LeakyBucket, "only a leaky_bucket has a queue to wait in"},
	{"fair", caudal.LeakyBucket, "only a leaky_bucket has a queue to share"},
	{"timezone", caudal.FixedWindow, "only a fixed_window follows a calendar"},
}

// rateLimit reads one rate_limit mapping, or an entry of rate_limits.
func (r *reader) rateLimit(n *yaml.Node, path string, file *ruleFile, listed bool) *rateLimit {
	before := len(*r.errs)
	fs, good := r.mapping(n, path, limitKeys)
	l := &rateLimit{pos: r.position(n), path: path, percent: 100, limit: caudal.Limit{Algorithm: file.algorithm}, failure: file.failure}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	file.ours = file.ours || fs.anyOf("unit_multiplier", "algorithm", "burst", "queue", "max_wait", "timezone", "enforce_percent", "on_store_error", "local_factor", "accuracy", "scope", "share", "fair")
	if f, ok := fs.get("name"); ok {
		l.name, _ = r.word(f)
	}
	r.replaces(l, fs)
	if f, ok := fs.get("unlimited"); ok {
		l.unlimited, _ = r.flag(f)
		if l.unlimited {
			r.unlimited(f, fs, listed)
			return l
		}
	}
	r.numbers(l, fs, file)
	r.fair(l, n, path, fs)
	l.failure = r.failurePolicy(fs, file.failure)
	l.accuracy = r.limitAccuracy(n, path, fs, l, file)
	r.scope(l, fs)
	if good { // else the key may be there, misspelt
		r.complete(l, n, path, fs)
	}
	if len(*r.errs) > before {
		return nil
	}
	if r.opts.CompatEnvoy && l.limit.Algorithm == caudal.FixedWindow && l.limit.Unit >= caudal.Week && l.limit.Timezone == "" {
		l.limit.Epoch = true
	}
	if err := l.limit.Validate(); err != nil {
		r.fail(n, path, "", "%s", strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "))
		return nil
	}
	if r.checkShares(l, n); len(*r.errs) > before {
		return nil
	}
	return l
}

// unlimited checks what stands beside unlimited: true. The reference loads a
// number there and ignores it, so that is a warning; all else is a mistake.
func (r *reader) unlimited(f field, fs fields, listed bool) {
	if listed {
		r.fail(f.key, f.path, "write rate_limit: {unlimited: true} instead of the list", "unlimited does not go into a list of limits")
	}
	for _, other := range fs {
		switch other.name {
		case "unlimited", "name", "replaces":
		case "requests_per_unit":
			r.warn(other.key, other.path, Warning{Code: "unlimited-number",
				What: "requests_per_unit beside unlimited: true", Why: "the number does nothing", Mend: "leave one of them out"})
		default:
			r.fail(other.key, other.path, "leave one of them out", "%s does not go with unlimited: true", other.name)
		}
	}
}

func (r *reader) replaces(l *rateLimit, fs fields) {
	f, ok := fs.get("replaces")
	if !ok {
		return
	}
	r.list(f, "names", func(n *yaml.Node, path string) {
		entry, ok := r.mapping(n, path, replaceKeys)
		if !ok {
			return
		}
		name, has := entry.get("name")
		if !has {
			r.fail(n, path, "write - name: NAME", "the entry names no limit")
			return
		}
		s, ok := r.word(name)
		switch {
		case !ok:
		case s == l.name:
			r.fail(name.value, name.path, "name another limit", "a limit cannot replace itself")
		default:
			l.replaces = append(l.replaces, s)
		}
	})
}

// complete refuses a limit that leaves out what it needs.
func (r *reader) complete(l *rateLimit, n *yaml.Node, path string, fs fields) {
	if _, ok := fs.get("unit"); !ok {
		r.fail(n, path, "add unit: second, minute, hour, day, week, month or year", "unit is missing")
	}
	if _, ok := fs.get("requests_per_unit"); !ok && r.opts.CompatEnvoy {
		r.warn(n, path, Warning{Code: "no-number",
			What: "requests_per_unit is missing", Why: "the reference reads that as 0, which denies everything",
			Mend: "write requests_per_unit: 0 if that is meant"})
	} else if !ok {
		r.fail(n, path, "add it; 0 denies everything, unlimited: true allows everything", "requests_per_unit is missing")
	}
	if _, ok := fs.get("queue"); !ok && l.limit.Algorithm == caudal.LeakyBucket {
		r.fail(n, path, "add how many calls may wait; queue: 0 spaces calls and lets none wait", "a leaky_bucket needs a queue")
	}
}

// numbers reads the words of a limit that counts.
func (r *reader) numbers(l *rateLimit, fs fields, file *ruleFile) {
	written := file.hasAlgorithm
	if f, ok := fs.get("algorithm"); ok {
		l.limit.Algorithm, written = r.algorithm(f, l.limit.Algorithm), true
	}
	for _, w := range limitWords {
		if f, ok := fs.get(w.name); ok && l.limit.Algorithm != w.with {
			hint := w.words
			if !written {
				hint += "; " + r.opts.defaultWords() + ", so write algorithm: " + w.with.String()
			}
			r.fail(f.key, f.path, hint, "%s does not go with %s", w.name, l.limit.Algorithm)
		}
	}
	if f, ok := fs.get("unit"); ok {
		l.limit.Unit = r.unit(f)
	}
	if f, ok := fs.get("requests_per_unit"); ok {
		l.limit.Requests, _ = r.number(f)
	}
	if f, ok := fs.get("unit_multiplier"); ok {
		l.limit.Multiplier, _ = r.number(f)
	}
	if f, ok := fs.get("burst"); ok {
		l.limit.Burst, _ = r.number(f)
	}
	if f, ok := fs.get("queue"); ok {
		l.limit.Queue, _ = r.number(f)
	}
	if f, ok := fs.get("max_wait"); ok {
		l.limit.MaxWait, _ = r.duration(f)
	}
	if f, ok := fs.get("timezone"); ok {
		l.limit.Timezone, _ = r.word(f)
	}
	if f, ok := fs.get("enforce_percent"); ok {
		l.percent, _ = r.number(f)
	}
}

func (r *reader) unit(f field) caudal.Unit {
	s, ok := r.word(f)
	if !ok {
		return 0
	}
	u, known := caudal.ParseUnit(s)
	if !known {
		hint := "use second, minute, hour, day, week, month or year"
		if near := nearest(s, caudal.Units()); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fail(f.value, f.path, hint, "unit %q is not known", clip(s))
	}
	return u
}
