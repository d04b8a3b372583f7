package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/rule"
)

// routeSettings are what a route in caudal.yaml can hold. They are set in
// settings.route. What a route leaves out is as the settings for all say.
var routeSettings = []setting{
	{name: "host", help: "a name, or *.example.com for all names under one (default every host)", set: checked(gateway.CheckHost, func(s *settings) *string { return &s.route.Host })},
	{name: "path", help: "the beginning of the paths, by whole segments (default every path)", set: checked(gateway.CheckPath, func(s *settings) *string { return &s.route.Path })},
	{name: "strip_path", help: "take path away from what the upstream is asked for", set: toggle(func(s *settings) *bool { return &s.route.StripPath })},
	{name: "upstream", help: "where the requests go", set: upstreamOf(func(s *settings) **url.URL { return &s.route.Upstream })},
	{name: "upstream_host", help: "send the upstream's host instead of the client's", set: toggle(func(s *settings) *bool { return &s.route.UpstreamHost })},
	{name: "domain", help: "the domain of rules that its requests are under", set: text(func(s *settings) *string { return &s.route.Domain })},
	{name: "timeout", help: "for a whole call", set: duration(true, func(s *settings) *time.Duration { return &s.route.Timeouts.Total })},
	{name: "dial_timeout", help: "for a connection to the upstream", set: duration(true, func(s *settings) *time.Duration { return &s.route.Timeouts.Dial })},
	{name: "tls_timeout", help: "for securing it", set: duration(true, func(s *settings) *time.Duration { return &s.route.Timeouts.TLSHandshake })},
	{name: "header_timeout", help: "for the upstream to begin its answer", set: duration(true, func(s *settings) *time.Duration { return &s.route.Timeouts.ResponseHeader })},
	{name: "max_body_bytes", help: "the longest body of a request, or off", set: bodyBound},
	{name: "retries", help: "how often a call is tried again that the upstream failed", set: retries(func(s *settings) *gateway.Retries { return &s.route.Retries })},
	{name: "retry_statuses", list: true, help: "statuses that are tried again", set: retryStatuses(func(s *settings) *gateway.Retries { return &s.route.Retries })},
	{name: "shed", help: "refuse the least important calls while this upstream is overloaded", set: shedRoute},
	{name: "exempt_paths", list: true, help: "paths that are never limited, or none", set: exemptPaths(func(s *settings) *[]string { return &s.route.Exempt })},
}

func findRouteSetting(name string) *setting { return findIn(routeSettings, name) }

// routes reads the list of routes.
func (r *configReader) routes(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.fail(n, "routes", "write a list, each item with an upstream and with what it takes: host, path", "must be a list of routes")
		return
	}
	seen := map[[2]string]int{}
	for i, item := range n.Content {
		r.prefix = fmt.Sprintf("routes[%d]", i)
		r.route(item, seen)
		r.prefix = ""
	}
}

func (r *configReader) route(n *yaml.Node, seen map[[2]string]int) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "", "write host, path, upstream and the like, each with a value", "must be names with values")
		return
	}
	r.settings.route = new(serve.Route)
	failed := len(r.errs)
	r.mapping(n, findRouteSetting)
	route := r.settings.route
	r.settings.route = nil
	if len(r.errs) > failed {
		return
	}
	if route.Upstream == nil {
		r.fail(n, "", "add upstream: http://127.0.0.1:3000", "says not where its requests go")
		return
	}
	place := [2]string{route.Host, route.Path}
	if place[1] == "/" {
		place[1] = ""
	}
	if first, twice := seen[place]; twice {
		r.fail(n, "", "keep one of them", "takes the same host and path as the route at line %d", first)
		return
	}
	seen[place] = n.Line
	if at := valueOf(n, "domain"); at != nil {
		route.Where = rule.Position{File: r.file, Line: at.Line, Column: at.Column}
	}
	r.settings.Routes = append(r.settings.Routes, *route)
}

// valueOf gives what a mapping holds under a name; nil when it holds nothing.
func valueOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// onlyInFile is for what one line cannot say.
func onlyInFile(*settings, []string) error { return errors.New("can only be set in caudal.yaml") }

// checked takes a text that passes a check.
func checked(check func(string) error, field func(*settings) *string) setter {
	return func(s *settings, v []string) error {
		if err := check(v[0]); err != nil {
			return err
		}
		*field(s) = v[0]
		return nil
	}
}

// bodyBound reads a number of bytes, or the word off.
func bodyBound(s *settings, v []string) error {
	if v[0] == "off" {
		s.route.MaxBody = -1
		return nil
	}
	return number(1, maxBody, func(s *settings) *int64 { return &s.route.MaxBody })(s, v)
}

const maxBody = 1 << 50

// retries reads how often calls are tried again. 0 is never, also where the
// settings for all say otherwise.
func retries(field func(*settings) *gateway.Retries) setter {
	return func(s *settings, v []string) error {
		if err := number(0, gateway.MaxRetries, func(s *settings) *int { return &field(s).Max })(s, v); err != nil {
			return err
		}
		if field(s).Max == 0 {
			field(s).Max = -1
		}
		return nil
	}
}

func retryStatuses(field func(*settings) *gateway.Retries) setter {
	return func(s *settings, v []string) error {
		var statuses []int
		for _, text := range v {
			n, err := strconv.Atoi(text)
			if err != nil || n < 500 || n > 599 {
				return fmt.Errorf("%q is not tried again: write statuses from 500 to 599", text)
			}
			statuses = append(statuses, n)
		}
		field(s).Statuses = statuses
		return nil
	}
}

func exemptPaths(field func(*settings) *[]string) setter {
	return func(s *settings, v []string) error {
		if len(v) == 1 && v[0] == "none" {
			*field(s) = []string{}
			return nil
		}
		for _, path := range v {
			if err := gateway.CheckExempt(path); err != nil {
				return err
			}
		}
		*field(s) = v
		return nil
	}
}
