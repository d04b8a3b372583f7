package rule

import "strings"

// keySpec is one key that the format knows.
type keySpec struct {
	name string
	acts bool // false: known to the format, refused by this version
}

// keySpecs is what one kind of mapping may hold.
type keySpecs struct {
	of   string // what the mapping is, for messages
	keys []keySpec
}

// The three kinds of mapping in a rule file. A key that does not act yet is
// refused by name: ignoring it would leave a rule that looks enforced.
var (
	fileKeys = &keySpecs{of: "a rule file", keys: []keySpec{
		{"domain", true}, {"algorithm", true}, {"descriptors", true},
		{"on_store_error", false}, {"local_factor", false}, {"on_deny", false}, {"accuracy", false},
	}}
	descriptorKeys = &keySpecs{of: "a descriptor", keys: []keySpec{
		{"key", true}, {"value", true}, {"rate_limit", true}, {"rate_limits", true}, {"descriptors", true},
		{"share_threshold", true}, {"shadow_mode", true}, {"quota_mode", true}, {"missing", true},
		{"detailed_metric", false}, {"value_to_metric", false}, {"metadata", false},
		{"concurrency", false}, {"priority", false}, {"count_when", false}, {"cost", false}, {"on_deny", false},
	}}
	limitKeys = &keySpecs{of: "a rate limit", keys: []keySpec{
		{"name", true}, {"replaces", true}, {"unlimited", true},
		{"unit", true}, {"unit_multiplier", true}, {"requests_per_unit", true}, {"algorithm", true},
		{"burst", true}, {"queue", true}, {"max_wait", true}, {"timezone", true}, {"enforce_percent", true},
		{"on_store_error", false}, {"local_factor", false}, {"fair", false},
		{"accuracy", false}, {"scope", false}, {"share", false},
	}}
	replaceKeys = &keySpecs{of: "an entry of replaces", keys: []keySpec{{"name", true}}}
)

func (s *keySpecs) find(name string) (keySpec, bool) {
	for _, k := range s.keys {
		if k.name == name {
			return k, true
		}
	}
	return keySpec{}, false
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
	for _, other := range []*keySpecs{fileKeys, descriptorKeys, limitKeys} {
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
