package rule

import (
	"strings"

	"github.com/caudal-dev/caudal"
)

// keySpec is one key that the format knows: what the reader accepts, what it says
// of a key that is wrong, and what JSONSchema tells an editor all come from here.
type keySpec struct {
	name  string
	acts  bool // false: known to the format, refused by this version
	value valueSpec
	about string // one line for people
}

// valueSpec says what may stand behind a key.
type valueSpec struct {
	kind     kind
	min, max uint32
	words    func() []string // of an enumeration
	holds    string          // of a mapping or a list: the name in allSpecs of what it holds
}

// kind is a kind of value in a rule file.
type kind uint8

const (
	anyText kind = iota // text that may be empty
	aWord               // text that is not empty
	aNumber
	aFactor // a number that may have a fraction
	aFlag
	aLength // of time
	anEnum
	aUnit // an enumeration in any letter case
	aMapping
	aList
	freeMapping  // any keys
	textMapping  // any keys with text
	shareMapping // regions with their percent
	statusList   // of HTTP statuses and classes of them
)

// keySpecs is what one kind of mapping may hold.
type keySpecs struct {
	of       string // what the mapping is, for messages
	required []string
	keys     []keySpec
}

const maxUint32 = 1<<32 - 1

func number(least, most uint32) valueSpec { return valueSpec{kind: aNumber, min: least, max: most} }

func flag() valueSpec { return valueSpec{kind: aFlag} }

func oneOf(words func() []string) valueSpec { return valueSpec{kind: anEnum, words: words} }

func mapping(of string) valueSpec { return valueSpec{kind: aMapping, holds: of} }

func list(of string) valueSpec { return valueSpec{kind: aList, holds: of} }

func failures() []string { return []string{"local", "allow", "deny"} }

func missingWords() []string { return missingNames[1:] }

// The kinds of mapping in a rule file. A key that does not act yet is refused by
// name: ignoring it would leave a rule that looks enforced.
var (
	fileKeys = &keySpecs{of: "a rule file", required: []string{"domain"}, keys: []keySpec{
		{"domain", true, valueSpec{kind: aWord}, "The name of the set."},
		{"algorithm", true, oneOf(caudal.Algorithms), "The algorithm of limits that name none; token_bucket when absent."},
		{"on_store_error", true, oneOf(failures), "What limits do when their store is slow or gone; local when absent."},
		{"local_factor", true, valueSpec{kind: aFactor}, "How much more generous all local counts together are than the limit; 2 when absent."},
		{"on_deny", true, mapping("on_deny"), "What a denied request is answered."},
		{"descriptors", true, list("descriptor"), "The rules."},
		{"accuracy", true, oneOf(caudal.Accuracies), "How closely limits that say nothing are counted on Redis; exact when absent."},
	}}
	descriptorKeys = &keySpecs{of: "a descriptor", required: []string{"key"}, keys: []keySpec{
		{"key", true, valueSpec{kind: aWord}, "The attribute of the request, such as remote_address, path or header:X-Tenant."},
		{"value", true, valueSpec{kind: anyText}, "The value to match: exact, with * for any text, or for remote_address a network. Absent: any value."},
		{"rate_limit", true, mapping("rate_limit"), "One limit."},
		{"rate_limits", true, list("rate_limit"), "Several limits, such as a rate and a quota."},
		{"descriptors", true, list("descriptor"), "More descriptors, which must match too."},
		{"share_threshold", true, flag(), "One counter for all values that a * or a network matches."},
		{"shadow_mode", true, flag(), "Count and report, but never deny."},
		{"quota_mode", true, flag(), "As in shadow mode, until all quota limits of the request are over."},
		{"missing", true, oneOf(missingWords), "What a request without the attribute means."},
		{"cost", true, mapping("cost"), "What a call costs under the limits here and below; 1 when absent."},
		{"count_when", true, mapping("count_when"), "Which calls count under the limits here and below, by their responses; all when absent."},
		{"on_deny", true, mapping("on_deny"), "What a request is answered that a limit here or below denies."},
		{"detailed_metric", true, flag(), "Metrics name the values of every level."},
		{"value_to_metric", true, flag(), "Metrics name the value of this level."},
		{"metadata", true, valueSpec{kind: freeMapping}, "Anything; given to those who asked, with the decision."},
		{"concurrency", true, mapping("concurrency"), "How many calls may be under way at once."},
		{"priority", true, oneOf(Priorities), "How important the requests are when there is not room for all; normal when absent."},
	}}
	limitKeys = &keySpecs{of: "a rate limit", keys: []keySpec{
		{"name", true, valueSpec{kind: aWord}, "What people see; tells limits of one list apart."},
		{"replaces", true, list("replaces"), "Names of limits that this one stands in for."},
		{"unlimited", true, flag(), "No limit, instead of all the rest."},
		{"unit", true, valueSpec{kind: aUnit, words: caudal.Units}, "The period."},
		{"unit_multiplier", true, number(1, maxUint32), "The period is so many units; 1 when absent."},
		{"requests_per_unit", true, number(0, maxUint32), "How many calls; 0 denies everything."},
		{"algorithm", true, oneOf(caudal.Algorithms), "How calls are counted."},
		{"burst", true, number(1, maxUint32), "token_bucket: how many at once; requests_per_unit when absent."},
		{"queue", true, number(0, maxUint32), "leaky_bucket: how many may wait."},
		{"max_wait", true, valueSpec{kind: aLength}, "leaky_bucket: the longest wait, such as 2s."},
		{"timezone", true, valueSpec{kind: aWord}, "fixed_window by day, week, month or year: whose calendar, such as Europe/Madrid."},
		{"enforce_percent", true, number(0, 100), "For how many in a hundred clients the limit is enforced; 100 when absent."},
		{"on_store_error", true, oneOf(failures), "What the limit does when its store is slow or gone."},
		{"local_factor", true, valueSpec{kind: aFactor}, "How much more generous all local counts together are than the limit."},
		{"accuracy", true, oneOf(caudal.Accuracies), "How closely the limit is counted on Redis: exact, or leased, in batches that instances take; exact when absent."},
		{"fair", true, valueSpec{kind: aWord}, "leaky_bucket: the attribute of whose values none may fill the queue, such as api_key."},
		{"scope", true, oneOf(scopeWords), "Where the limit holds: region, in each by itself, or global, over all by their share; in the store that an instance uses when absent."},
		{"share", true, valueSpec{kind: shareMapping}, "scope: global: the percent of the limit that each region may use, such as {eu: 60, us: 40}."},
	}}
	replaceKeys = &keySpecs{of: "an entry of replaces", required: []string{"name"}, keys: []keySpec{
		{"name", true, valueSpec{kind: aWord}, "The name of a limit."}}}
	costKeys = &keySpecs{of: "a cost", keys: []keySpec{
		{"header", true, valueSpec{kind: aWord}, "The request header that holds the cost."},
		{"query", true, valueSpec{kind: aWord}, "The query parameter that holds the cost."},
		{"response_header", true, valueSpec{kind: aWord}, "The response header that holds the cost: max is charged first, and credited down to it."},
		{"default", true, number(0, maxUint32), "The cost when there is none; 1 when absent."},
		{"max", true, number(1, maxUint32), "The largest cost, and that of a request whose cost is no whole number."},
	}}
	countKeys = &keySpecs{of: "count_when", keys: []keySpec{
		{"status", true, valueSpec{kind: statusList}, "The statuses that count, such as [401, 403, 5xx]; a call with another response is given back what it was charged."},
	}}
	denyKeys = &keySpecs{of: "on_deny", keys: []keySpec{
		{"status", true, number(400, 599), "The HTTP status; 429 when absent."},
		{"content_type", true, valueSpec{kind: aWord}, "The type of body; text/plain when absent."},
		{"body", true, valueSpec{kind: anyText}, "The body, with variables such as {{.RetryAfter}}."},
		{"headers", true, valueSpec{kind: textMapping}, "Further headers, with variables."},
	}}
)

// allSpecs are the kinds of mapping by the name that valueSpec.holds uses.
func allSpecs() map[string]*keySpecs {
	return map[string]*keySpecs{"file": fileKeys, "descriptor": descriptorKeys, "rate_limit": limitKeys,
		"replaces": replaceKeys, "cost": costKeys, "count_when": countKeys, "on_deny": denyKeys, "concurrency": concurrencyKeys}
}

func (s *keySpecs) find(name string) (keySpec, bool) {
	for _, k := range s.keys {
		if k.name == name {
			return k, true
		}
	}
	return keySpec{}, false
}

// otherFiles say what a file is that was taken for one of rules, by a key of it.
var otherFiles = map[string]string{
	"tests":    "this is a file of tests: run it with caudal test",
	"rules":    "tests and settings of the server name their rules; a file of rules holds them",
	"upstream": "this is a file of settings: give it to --config",
	"routes":   "this is a file of settings: give it to --config",
}

// hint says what the author of an unknown key probably meant: a near miss of a
// key that belongs here, or a key that belongs elsewhere.
func (s *keySpecs) hint(name string) string {
	var names []string
	for _, k := range s.keys {
		if k.acts {
			names = append(names, k.name)
		}
	}
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if hint := otherFiles[name]; s == fileKeys && hint != "" {
		return hint
	}
	if s == concurrencyKeys && name == "accuracy" {
		return "leave it out: a permit is held while its call runs, so it cannot be handed out ahead in a batch"
	}
	for _, other := range []*keySpecs{fileKeys, descriptorKeys, limitKeys, costKeys, countKeys, denyKeys, concurrencyKeys} {
		if _, ok := other.find(name); ok {
			return name + " belongs in " + other.of
		}
	}
	return s.of + " may hold " + strings.Join(names, ", ")
}

// nearest gives the candidate that a misspelt word most likely stands for, and ""
// when none is near. Letter case, underscores and hyphens do not count.
func nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return "" // not a typing mistake, and distance takes its square
	}
	best, bestDistance := "", 3
	for _, c := range candidates {
		d := distance(plainWord(word), plainWord(c))
		if d < bestDistance && d*2 < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

func plainWord(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, drop or change to make a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
