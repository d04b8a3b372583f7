package serve

import (
	"strings"

	"github.com/caudal-dev/caudal/identity"
)

// MatchForm gives rules the form in which requests have an attribute, so that they
// can warn of values that no request has, such as the path /login/. With fold,
// paths are compared in lower case.
func MatchForm(fold bool) func(key, value string) string {
	return func(key, value string) string {
		switch key {
		case "path":
			return pathForm(value, fold)
		case "method":
			return strings.ToUpper(value)
		case "host":
			return identity.HostName(value)
		}
		return value
	}
}

// pathForm gives the matching form of a path, or of one with stars in it.
func pathForm(value string, fold bool) string {
	if i := strings.IndexAny(value, "?#"); i >= 0 { // no part of a path
		value = value[:i]
	}
	if !strings.HasPrefix(value, "*") {
		return identity.MatchPath(value, fold)
	}
	// What a leading star stands for is not known, and may end within a segment.
	star := len(value) - len(strings.TrimLeft(value, "*"))
	if value = value[star:]; value == "" || value == "/" {
		return "*" + value
	}
	path := identity.MatchPath("/x"+value, fold)
	return "*" + strings.TrimPrefix(path, "/x")
}
