package rule

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// maxRegions bounds share, and maxRegionName the names in it.
const (
	maxRegions    = 100
	maxRegionName = 64
)

// scope reads scope and share.
func (r *reader) scope(l *rateLimit, fs fields) {
	f, written := fs.get("scope")
	if written {
		if s, ok := r.word(f); ok {
			i := slices.Index(scopeWords(), s)
			if i < 0 {
				r.fail(f.value, f.path, "write region or global", "scope %q is not known", clip(s))
			}
			l.scope = Scope(i + 1)
		}
	}
	g, shared := fs.get("share")
	switch {
	case shared && (!written || l.scope == ScopeRegion):
		r.fail(g.key, g.path, "write scope: global, or leave share out", "share goes with scope: global only")
	case shared:
		l.sharePos = r.position(g.key)
		l.shares = r.shares(g)
	case l.scope == ScopeGlobal:
		r.fail(f.key, f.path, "add share: {eu: 60, us: 40}, the percent that each region may use", "scope: global needs share")
	}
}

func (r *reader) shares(f field) []share {
	const hint = "write a region and its percent for each, such as {eu: 60, us: 40}"
	if f.value.Kind != yaml.MappingNode || len(f.value.Content) == 0 {
		r.fail(f.value, f.path, hint, "%s where shares are wanted", emptyWords(f.value))
		return nil
	}
	var list []share
	sum := uint32(0)
	for i := 0; i+1 < len(f.value.Content); i += 2 {
		key, value := deref(f.value.Content[i]), deref(f.value.Content[i+1])
		if !r.count(key) {
			return nil
		}
		g := field{name: key.Value, path: join(f.path, clip(key.Value)), key: key, value: value, spec: number(0, 100)}
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Value == "" || len(key.Value) > maxRegionName:
			r.fail(key, f.path, hint, "%s is not a region's name of at most %d bytes", nodeWords(key), maxRegionName)
			continue
		case slices.ContainsFunc(list, func(s share) bool { return s.region == key.Value }):
			r.fail(key, g.path, "keep one of them", "region %s stands twice", clip(key.Value))
			continue
		case len(list) >= maxRegions:
			r.fail(key, f.path, "", "over %d regions", maxRegions)
			return nil
		}
		if percent, ok := r.number(g); ok {
			list = append(list, share{key.Value, percent})
			sum += percent
		}
	}
	if sum > 100 {
		r.fail(f.value, f.path, "lower them until they are at most 100 together", "the shares are %d %% together", sum)
	}
	slices.SortFunc(list, func(a, b share) int { return strings.Compare(a.region, b.region) })
	return list
}

func emptyWords(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "an empty mapping"
	}
	return nodeWords(n)
}

// checkShares refuses a share that is not written as nothing and rounds down to it:
// the region would be closed, and nothing in the file would say so.
func (r *reader) checkShares(l *rateLimit, n *yaml.Node) {
	if l.limit.Requests == 0 {
		return
	}
	for _, s := range l.shares {
		part := shareOf(l.limit, s.percent)
		path := join(join(l.path, "share"), clip(s.region))
		if err := part.Validate(); err != nil {
			r.fail(n, path, "", "in the region: %s", strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "))
		}
		if part.Requests > 0 || s.percent == 0 {
			continue
		}
		r.fail(n, path, fmt.Sprintf("raise the limit or the share; %s: 0 denies everything there", clip(s.region)),
			"%d %% of %s rounds down to nothing", s.percent, sharedNumber(l.limit, s.percent))
	}
}

// sharedNumber says which number of a limit is too small to be shared.
func sharedNumber(l caudal.Limit, percent uint32) string {
	switch {
	case uint64(l.Requests)*uint64(percent) < 100:
		return fmt.Sprintf("requests_per_unit %d", l.Requests)
	case l.Algorithm == caudal.LeakyBucket:
		return fmt.Sprintf("%d at once (those that wait and the one that leaves)", l.Capacity())
	}
	return fmt.Sprintf("burst %d", l.Burst)
}
