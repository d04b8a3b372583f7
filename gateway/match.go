package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal/identity"
)

// table is the routes of a gateway in the order in which they are tried: exact
// hosts, then wildcards with the longest suffix first, then routes for every host;
// within that the longest path first.
type table struct {
	routes   []*route
	byHost   bool // whether any route asks for the host
	byPath   bool // whether any asks for the path
	foldCase bool // whether letter case in paths says nothing
}

func newTable(routes []*route, foldCase bool) table {
	t := table{routes: routes, foldCase: foldCase}
	for _, r := range routes {
		t.byHost = t.byHost || r.Host != ""
		t.byPath = t.byPath || r.Path != ""
	}
	slices.SortStableFunc(t.routes, func(a, b *route) int {
		return cmp.Or(cmp.Compare(b.hostRank(), a.hostRank()), cmp.Compare(len(b.Path), len(a.Path)))
	})
	return t
}

// hostRank orders routes by how exact their host is. No name has 1000 letters.
func (r *route) hostRank() int {
	switch {
	case r.Host == "":
		return 0
	case r.suffix != "":
		return len(r.suffix)
	}
	return 1000
}

// find gives the route of a request, nil when there is none. Paths are compared in
// the form that rules use, which is never finer than what is forwarded: else an
// odd spelling would lead past a route, and past its limits.
func (t *table) find(r *http.Request) *route {
	var host, path string
	if t.byHost {
		host = identity.HostName(r.Host)
	}
	if t.byPath {
		path = identity.MatchPath(identity.ForwardPath(r.URL), false)
	}
	for _, candidate := range t.routes {
		if candidate.takesHost(host) && (candidate.Path == "" || beginsPath(path, candidate.Path, t.foldCase)) {
			return candidate
		}
	}
	return nil
}

func (r *route) takesHost(host string) bool {
	switch {
	case r.Host == "":
		return true
	case r.suffix != "":
		return len(host) > len(r.suffix) && strings.HasSuffix(host, r.suffix)
	}
	return host == r.Host
}

// beginsPath reports whether a path begins with the segments of another.
func beginsPath(path, prefix string, foldCase bool) bool {
	if len(path) < len(prefix) || len(path) > len(prefix) && path[len(prefix)] != '/' {
		return false
	}
	if foldCase {
		return strings.EqualFold(path[:len(prefix)], prefix)
	}
	return path[:len(prefix)] == prefix
}

// ambiguous reports whether servers lead the path of a request to different
// places, where the path has a say in which upstream and limits it gets. Below a
// path of the upstream's own it could climb out of it.
func (t *table) ambiguous(chosen *route, r *http.Request) bool {
	return (t.byPath || chosen.basePath != "") && identity.AmbiguousPath(identity.ForwardPath(r.URL))
}

// strip takes the path of the route away from the forwarded form. ok is false when
// it does not stand there as it was written, but in a spelling such as /api;v=1/x:
// what would be left is anybody's guess.
func (r *route) strip(forwarded string, foldCase bool) (rest string, ok bool) {
	if !r.StripPath || r.Path == "" {
		return forwarded, true
	}
	if !beginsPath(forwarded, r.Path, foldCase) {
		return "", false
	}
	if rest = forwarded[len(r.Path):]; rest == "" {
		rest = "/"
	}
	return rest, true
}
