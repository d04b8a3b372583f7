package rule

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// StatusSet is a set of HTTP statuses, from 100 to 599. Sets are equal when ==
// says so.
type StatusSet struct{ bits [8]uint64 }

const leastStatus, mostStatus = 100, 599

// Has reports whether the status is in the set.
func (s *StatusSet) Has(status int) bool {
	if status < leastStatus || status > mostStatus {
		return false
	}
	i := status - leastStatus
	return s.bits[i/64]&(1<<(i%64)) != 0
}

func (s *StatusSet) add(status int) {
	i := status - leastStatus
	s.bits[i/64] |= 1 << (i % 64)
}

// within reports whether the other set has all of this one.
func (s *StatusSet) within(other *StatusSet) bool {
	for i := range s.bits {
		if s.bits[i]&^other.bits[i] != 0 {
			return false
		}
	}
	return true
}

// words gives the statuses as rule files write them, in order: whole classes as
// 5xx, others by number.
func (s *StatusSet) words() []string {
	var words []string
	for class := leastStatus; class < mostStatus; class += 100 {
		var single []string
		for status := class; status < class+100; status++ {
			if s.Has(status) {
				single = append(single, strconv.Itoa(status))
			}
		}
		if len(single) == 100 {
			single = []string{strconv.Itoa(class/100) + "xx"}
		}
		words = append(words, single...)
	}
	return words
}

// String gives the statuses as rule files write them, such as "401, 403, 5xx".
func (s *StatusSet) String() string { return strings.Join(s.words(), ", ") }

// CountWhen says which calls count under a limit. A call is charged before, and
// what it was charged is given back when the response is none of these.
type CountWhen struct {
	// Status are the statuses of responses that count.
	Status StatusSet
}

// Counts reports whether a call with this response counts. 0 is a response that
// nobody saw: it counts, so that going away early is no way around a limit.
func (c *CountWhen) Counts(status int) bool {
	return c == nil || status == 0 || c.Status.Has(status)
}

// covers reports whether all calls that count for the other do for this one. nil
// counts all.
func (c *CountWhen) covers(other *CountWhen) bool {
	return c == nil || other != nil && other.Status.within(&c.Status)
}

func (c *CountWhen) same(other *CountWhen) bool { return c.covers(other) && other.covers(c) }

// words says what counts, for people.
func (c *CountWhen) words() string {
	if c == nil {
		return "every call"
	}
	return "status " + c.Status.String()
}

// counted says which calls count, and nothing when all do.
func (l *Limit) counted() string {
	if l.CountWhen == nil || l.Unlimited {
		return ""
	}
	return ", counting only responses with " + l.CountWhen.words()
}

// countWhen reads count_when of a descriptor.
func (r *reader) countWhen(f field) *CountWhen {
	fs, good := r.mapping(f.value, f.path, countKeys)
	c := &CountWhen{}
	status, ok := fs.get("status")
	switch {
	case ok:
		r.statuses(status, &c.Status)
	case good:
		r.fail(f.value, f.path, "add status, such as status: [401, 403]", "count_when needs status")
	}
	return c
}

const statusHint = "write statuses and classes, such as [401, 403, 5xx]"

func (r *reader) statuses(f field, set *StatusSet) {
	r.list(f, "statuses", func(n *yaml.Node, path string) {
		least, most, ok := statusRange(n)
		if !ok {
			r.fail(n, path, statusHint, "%s where a status from 100 to 599 is wanted", nodeWords(n))
			return
		}
		for status := least; status <= most; status++ {
			if set.Has(status) {
				r.fail(n, path, "keep one of them", "%s: status %d is in the list already", clip(n.Value), status)
				return
			}
		}
		for status := least; status <= most; status++ {
			set.add(status)
		}
	})
	if f.value.Kind == yaml.SequenceNode && len(f.value.Content) == 0 {
		r.fail(f.value, f.path, statusHint, "no response would ever count")
	}
}

// statusRange reads 401 or 4xx.
func statusRange(n *yaml.Node) (least, most int, ok bool) {
	v := n.Value
	if n.Kind != yaml.ScalarNode || len(v) != 3 || v[0] < '1' || v[0] > '5' {
		return 0, 0, false
	}
	least = int(v[0]-'0') * 100
	if v[1:] == "xx" {
		return least, least + 99, true
	}
	status, err := strconv.Atoi(v)
	if err != nil || n.Style != 0 || !plainDigits(v) {
		return 0, 0, false
	}
	return status, status, true
}

func (m *yamlMap) countWhen(c *CountWhen) {
	if c == nil {
		return
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, word := range c.Status.words() {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: word})
	}
	n := &yamlMap{}
	n.add("status", list)
	m.add("count_when", n.node())
}

// countsWhen compares which calls count.
func (c *comparison) countsWhen() {
	a, b := c.was.CountWhen, c.is.CountWhen
	if a.same(b) {
		return
	}
	c.detail("count_when %s -> %s", a.words(), b.words())
	switch {
	case a.covers(b):
		c.towards(1)
	case b.covers(a):
		c.towards(-1)
	default:
		c.towards(1)
		c.towards(-1)
	}
}

// countLints looks for limits whose count_when does not do what it says.
func (l *linter) countLints(limit *Limit) {
	c := limit.CountWhen
	if c == nil {
		return
	}
	if limit.Compiled.Algorithm() == caudal.LeakyBucket {
		l.add(limit, Warning{Code: "count-when-queue",
			What: fmt.Sprintf("count_when does nothing for %s, a leaky_bucket", limit.Name),
			Why:  "the response comes after the turn, and a turn that was used cannot be given back: every call counts",
			Mend: "move the leaky_bucket to a descriptor without count_when, or use another algorithm"})
	}
}
