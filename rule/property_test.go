package rule_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal/rule"
)

// treeNode is a descriptor as the naive model sees it.
type treeNode struct {
	key, value string
	share      string // "", "true" or "false"
	limit      string // the limit's name, "" for none
	below      []*treeNode
}

var (
	modelKeys     = []string{"path", "host", "remote_address", "tenant"}
	modelValues   = []string{"", "a", "ab", "abc", "abab", "b", "ba", "/a/b"}
	modelPatterns = []string{"*", "a*", "ab*", "abc*", "*b", "a*b", "*b*", "ab*ab", "a*a*b", "/a*"}
	modelAddrs    = []string{"", "10.0.0.1", "10.0.1.1", "10.1.0.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}
	modelNets     = []string{"10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24", "0.0.0.0/0", "2001:db8::/32", "2001:db8::/64", "::/0", "10.0.0.1/32"}
	modelNetTexts = []string{"10.*", "*.1", "2001*", "*:1"}
)

// drawDomain makes a random tree, the rules that it stands for, and their text.
func drawDomain(t *rapid.T) (d *rule.Domain, tree []*treeNode, text string) {
	count := 0
	tree = drawTree(t, 2, &count)
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	writeTree(&b, tree, "  ")
	set, _, err := rule.Parse("tree.yaml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	d, err = set.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d, tree, b.String()
}

// drawTree makes random siblings, each unique, and their children.
func drawTree(t *rapid.T, depth int, count *int) []*treeNode {
	var list []*treeNode
	seen := map[[2]string]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "siblings") {
		n := &treeNode{key: rapid.SampledFrom(modelKeys).Draw(t, "key")}
		values := append(slices.Clone(modelValues), modelPatterns...)
		if n.key == "remote_address" {
			values = append(append(slices.Clone(modelAddrs), modelNets...), modelNetTexts...)
		}
		n.value = rapid.SampledFrom(values).Draw(t, "value")
		if seen[[2]string{n.key, n.value}] {
			continue
		}
		seen[[2]string{n.key, n.value}] = true
		if strings.ContainsAny(n.value, "*") || slices.Contains(modelNets, n.value) {
			n.share = rapid.SampledFrom([]string{"", "true", "false"}).Draw(t, "share")
		}
		if rapid.Bool().Draw(t, "limited") {
			*count++
			n.limit = fmt.Sprintf("l%d", *count)
		}
		if depth > 0 {
			n.below = drawTree(t, depth-1, count)
		}
		list = append(list, n)
	}
	return list
}

func writeTree(b *strings.Builder, list []*treeNode, indent string) {
	for _, n := range list {
		fmt.Fprintf(b, "%s- key: %s\n", indent, n.key)
		if n.value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, n.value)
		}
		if n.share != "" {
			fmt.Fprintf(b, "%s  share_threshold: %s\n", indent, n.share)
		}
		if n.limit != "" {
			fmt.Fprintf(b, "%s  rate_limit: {name: %s, unit: minute, requests_per_unit: 5}\n", indent, n.limit)
		}
		if len(n.below) > 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			writeTree(b, n.below, indent+"    ")
		}
	}
}

// choose is the choice among siblings of one key, written as the rules say it.
func choose(list []*treeNode, key, value string) *treeNode {
	var any, wild, longest *treeNode
	bits := -1
	addr, addrErr := netip.ParseAddr(value)
	for _, n := range list {
		if n.key != key {
			continue
		}
		switch {
		case n.value == "":
			any = n
		case strings.Contains(n.value, "*"):
			pieces := strings.Split(n.value, "*")
			for i := range pieces {
				pieces[i] = regexp.QuoteMeta(pieces[i])
			}
			if wild == nil && regexp.MustCompile("(?s)^"+strings.Join(pieces, ".*")+"$").MatchString(value) {
				wild = n
			}
		case key == "remote_address" && strings.Contains(n.value, "/"):
			p := netip.MustParsePrefix(n.value)
			if addrErr == nil && p.Contains(addr) && p.Bits() > bits {
				longest, bits = n, p.Bits()
			}
		case n.value == value:
			return n
		}
	}
	for _, n := range []*treeNode{longest, wild, any} {
		if n != nil {
			return n
		}
	}
	return nil
}

// naiveWalk gives each limit with its counter's identity, by attributes.
func naiveWalk(list []*treeNode, req request, path []string) []string {
	var found []string
	var done []string
	for _, first := range list {
		if slices.Contains(done, first.key) {
			continue
		}
		done = append(done, first.key)
		value, ok := req[first.key]
		if !ok || first.key == "remote_address" && value == "" {
			continue
		}
		n := choose(list, first.key, value)
		if n == nil {
			continue
		}
		exact := n.value != "" && !strings.Contains(n.value, "*") && !slices.Contains(modelNets, n.value)
		shared := n.share == "true" || n.share == "" && n.key == "path" && strings.Contains(n.value, "*")
		part := "exact"
		switch {
		case exact:
		case shared:
			part = "shared"
		case n.key == "remote_address" && strings.Contains(value, ":"):
			part = netip.PrefixFrom(netip.MustParseAddr(value), 64).Masked().String()
		default:
			part = "value " + value
		}
		next := append(slices.Clone(path), n.key+"="+n.value, part)
		if n.limit != "" {
			found = append(found, n.limit+strings.Join(next, "\x00"))
		}
		found = append(found, naiveWalk(n.below, req, next)...)
	}
	return found
}

func limitName(id string) string {
	end := strings.IndexFunc(id[1:], func(r rune) bool { return r < '0' || r > '9' })
	return id[:1+end]
}

// TestMatchEqualsNaiveWalk: a random tree matched by the compiled form finds the
// limits that a naive walk finds, in order, and two requests share a counter
// exactly when the naive walk says so.
func TestMatchEqualsNaiveWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, tree, text := drawDomain(t)
		var m rule.Match
		toNaive, toReal := map[string]string{}, map[string]string{}
		for range 20 {
			req := request{}
			for _, key := range modelKeys {
				values := modelValues
				if key == "remote_address" {
					values = modelAddrs
				}
				if rapid.IntRange(0, 4).Draw(t, "has") > 0 {
					req[key] = rapid.SampledFrom(values).Draw(t, key)
				}
			}
			d.Match(req, &m)
			want := naiveWalk(tree, req, nil)
			ids := identities(m.Calls)
			var got, names []string
			for i := range m.Limits {
				got = append(got, m.Limits[i].Name)
			}
			for _, id := range want {
				names = append(names, limitName(id))
			}
			if !slices.Equal(got, names) {
				t.Fatalf("Match(%v) = %v, want %v\n%s", req, got, names, text)
			}
			for i := range want {
				if other, ok := toNaive[ids[i]]; ok && other != want[i] {
					t.Fatalf("counters %q and %q are one: %s", other, want[i], ids[i])
				}
				if other, ok := toReal[want[i]]; ok && other != ids[i] {
					t.Fatalf("counter %q is two: %s and %s", want[i], other, ids[i])
				}
				toNaive[ids[i]], toReal[want[i]] = want[i], ids[i]
			}
		}
	})
}

// TestDescriptorEqualsNaiveWalk is the same for an ordered list of entries.
func TestDescriptorEqualsNaiveWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, tree, text := drawDomain(t)
		for range 20 {
			var list []rule.Entry
			for range rapid.IntRange(1, 3).Draw(t, "entries") {
				key := rapid.SampledFrom(modelKeys).Draw(t, "key")
				values := modelValues
				if key == "remote_address" {
					values = modelAddrs
				}
				list = append(list, rule.Entry{Key: key, Value: rapid.SampledFrom(values).Draw(t, "value")})
			}
			want, level := "", tree
			for i, e := range list {
				n := choose(level, e.Key, e.Value)
				if n == nil {
					break
				}
				level = n.below
				if i == len(list)-1 {
					want = n.limit
				}
			}
			var m rule.Match
			d.MatchDescriptor(list, &m)
			if got := words(&m); got != want {
				t.Fatalf("MatchDescriptor(%v) = %q, want %q\n%s", list, got, want, text)
			}
		}
	})
}

// TestPatternsEqualRegexp: the linear matcher says what a regular expression
// says.
func TestPatternsEqualRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab*]{1,8}`).Filter(func(s string) bool { return strings.Contains(s, "*") }).Draw(t, "pattern")
		v := rapid.StringMatching(`[ab]{1,12}`).Draw(t, "value")
		set, _, err := rule.Parse("p.yaml", []byte("domain: d\ndescriptors: [{key: host, value: \""+p+"\", rate_limit: {name: l, unit: minute, requests_per_unit: 5}}]"))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := set.Default()
		want := regexp.MustCompile("^" + strings.ReplaceAll(p, "*", ".*") + "$").MatchString(v)
		if got := matched(d, request{"host": v}) == "l"; got != want {
			t.Fatalf("%q matches %q: %v, want %v", p, v, got, want)
		}
	})
}
