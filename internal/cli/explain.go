package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/rule"
)

type explainOptions struct {
	rule        rule.Options
	rules       []string
	domain      string
	headers     []string
	ip          string
	attributes  []string
	descriptors []string
	json        bool
	served      *settingFlags
}

func newExplain(s Streams) *cobra.Command {
	o := explainOptions{rule: rule.Options{ForAttributes: true}}
	cmd := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "Say which limits apply to a request, and why",
		Long: `It walks the rules as serve would: which branches, which descriptor was chosen at each level, which
siblings lost and why; then each limit that applies, with its worst case and whose calls share its
counter. Who is asking depends on settings, such as trusted_proxies: it reads them as serve would, from
caudal.yaml and the environment.`,
		Example: `  caudal explain --rules rules/ --ip 203.0.113.7 POST https://api.example.com/login
  caudal explain --rules rules/ --header 'X-API-Key: k' --attribute plan=free GET /v1/items
  caudal explain --rules rules/ --domain shop --descriptor tenant=acme,path=/login`,
		RunE: func(_ *cobra.Command, args []string) error { return explain(s, o, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.rules, "rules", nil, "a rule file, or a directory of them, at `PATH`; can be repeated (default those of the settings)")
	flags.StringVar(&o.domain, "domain", "", "the domain `NAME`, when the rules hold several")
	flags.StringArrayVar(&o.headers, "header", nil, "a `HEADER` of the request, such as 'X-API-Key: k'; can be repeated")
	flags.StringVar(&o.ip, "ip", "", "the client's `ADDRESS`")
	flags.StringArrayVar(&o.attributes, "attribute", nil, "an attribute that is not in the request itself, as `NAME=VALUE`, such as plan=free; can be repeated")
	flags.StringArrayVar(&o.descriptors, "descriptor", nil, "match by a descriptor instead, as `KEY=VALUE`, such as k=v,k2=v2; can be repeated")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	addRuleOptions(cmd, &o.rule)
	o.served = addServed(cmd)
	return cmd
}

func explain(s Streams, o explainOptions, args []string) error {
	var req *described
	settings, err := asServed(o.served, s.Environ, &o.rule)
	if err != nil {
		return err
	}
	if len(o.rules) == 0 {
		o.rules = settings.Rules
	}
	if len(o.rules) == 0 {
		return usagef("name a rule file or a directory, such as --rules rules/", "no rules to explain")
	}
	switch {
	case len(o.descriptors) > 0 && (len(args) > 0 || len(o.headers)+len(o.attributes) > 0 || o.ip != ""):
		return usagef("use one of them", "a descriptor goes with no request")
	case len(o.descriptors) == 0 && len(args) != 2:
		return usagef("such as caudal explain --rules rules/ GET /v1/items", "give a method and a URL, or --descriptor")
	case len(o.descriptors) == 0:
		if req, err = o.request(settings, args[0], args[1]); err != nil {
			return err
		}
	}
	set, _, err := o.rule.Load(o.rules...)
	if err != nil {
		return failedAs(s, o.json, err)
	}
	domain, err := chosenDomain(set, cmp.Or(o.domain, settings.Domain))
	if err != nil {
		return err
	}
	var e *rule.Explanation
	if req != nil {
		e = domain.Explain(req)
	} else {
		var list [][]rule.Entry
		for _, text := range o.descriptors {
			list = append(list, rule.ParseDescriptor(text))
		}
		e = domain.ExplainDescriptor(list...)
	}
	if o.json {
		err = printJSON(s.Out, e)
	} else {
		_, err = fmt.Fprint(s.Out, e)
	}
	if err == nil && req != nil {
		err = o.note(s.Err, e)
	}
	return err
}

// note says what was probably forgotten: a served request has an address, and an
// attribute that no rule asks for is most often mistyped.
func (o *explainOptions) note(w io.Writer, e *rule.Explanation) error {
	keys, absent := map[string]bool{}, false
	var walk func([]rule.Step)
	walk = func(steps []rule.Step) {
		for _, step := range steps {
			keys[step.Key] = true
			absent = absent || step.Absent && (step.Key == "remote_address" || step.Key == "api_key")
			walk(step.Below)
		}
	}
	walk(e.Steps)
	given := o.ip != ""
	for _, text := range o.attributes {
		name, _, _ := strings.Cut(text, "=")
		given = given || name == "remote_address"
		if keys[name] {
			continue
		}
		known := ""
		if near := nearest(name, slices.Sorted(maps.Keys(keys))); near != "" {
			known = "; did you mean " + near + "?"
		}
		if _, err := fmt.Fprintf(w, "caudal: note: no rule that was reached asks for %s%s\n", name, known); err != nil {
			return err
		}
	}
	if !absent || given {
		return nil
	}
	_, err := fmt.Fprintln(w, "caudal: note: a served request always has an address; give one with --ip to see the limits that count by it")
	return err
}

func chosenDomain(set *rule.Set, name string) (*rule.Domain, error) {
	if name == "" {
		domain, err := set.Default()
		if err != nil {
			return nil, usagef("use --domain NAME", "%s", strings.TrimPrefix(err.Error(), "rule: "))
		}
		return domain, nil
	}
	domain, ok := set.Domain(name)
	if !ok {
		var names []string
		for _, d := range set.Domains() {
			names = append(names, d.Name())
		}
		return nil, usagef("use one of "+strings.Join(names, ", "), "the rules hold no domain %q", name)
	}
	return domain, nil
}

// described is a request with attributes beside it.
type described struct {
	identity.Request
	more map[string]string
}

func (d *described) Attribute(name string) (string, bool) {
	if v, ok := d.more[name]; ok {
		return v, true
	}
	return d.Request.Attribute(name)
}

// request makes the request that the flags describe.
func (o *explainOptions) request(settings *settings, method, target string) (*described, error) {
	r, err := http.NewRequest(method, target, http.NoBody)
	if err != nil {
		return nil, usagef("write a method and a URL, such as GET /v1/items", "%v", err)
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef("write --header 'NAME: value'", "--header %q is no header", h)
		}
		if name = strings.TrimSpace(name); strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(value)
			continue
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	if o.ip != "" {
		a, err := netip.ParseAddr(o.ip)
		if err != nil {
			return nil, usagef("write an address such as 203.0.113.7", "--ip %q is not an address", o.ip)
		}
		r.RemoteAddr = net.JoinHostPort(a.String(), "1")
	}
	who, err := serve.NewResolver(settings.Config)
	if err != nil {
		return nil, err
	}
	d := &described{more: map[string]string{}}
	d.Reset(who, r)
	for _, text := range o.attributes {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("write --attribute plan=free", "--attribute %q is no attribute with a value", text)
		}
		d.more[name] = value
	}
	return d, nil
}
