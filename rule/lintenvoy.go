package rule

import (
	"fmt"
	"strings"

	"github.com/caudal-dev/caudal"
)

// differences notes what a file of the reference's means here that it does not
// mean under --compat envoy. A file that uses a key of ours was written for us.
func (l *linter) differences(f *ruleFile) {
	if l.opts.CompatEnvoy || f.ours {
		return
	}
	var buckets, calendars int
	var first *rateLimit
	shared := false
	f.each(func(d *descriptor) {
		for _, limit := range d.limits {
			if limit.unlimited {
				continue
			}
			if buckets++; first == nil {
				first = limit
			}
			if limit.limit.Unit >= caudal.Week {
				calendars++
			}
		}
		shared = shared || d.key == "path" && isPattern(d.value) && d.share == unset
	})
	if first == nil {
		return
	}
	parts := []string{fmt.Sprintf("%s without an algorithm: token_bucket here, fixed_window there", plural(buckets, "limit", "limits"))}
	if calendars > 0 {
		parts = append(parts, "weeks, months and years are 7, 30 and 365 days from 1970 there")
	}
	if shared {
		parts = append(parts, "a * on path is one counter by attributes here, and one for each value there")
	}
	w := Warning{Level: LevelNote, Code: "compat-envoy", Position: first.pos, Path: first.path,
		What: "this file means something else under --compat envoy: " + strings.Join(parts, "; "),
		Why:  "it is in the format of Envoy's reference service, which also charges each descriptor by itself and counts denied calls",
		Mend: "run with --compat envoy to keep that, or write algorithm: token_bucket at the top to say that this is meant"}
	l.warnings = append(l.warnings, w)
}

// each visits all descriptors of a file.
func (f *ruleFile) each(visit func(*descriptor)) {
	var walk func(list []*descriptor)
	walk = func(list []*descriptor) {
		for _, d := range list {
			visit(d)
			walk(d.children)
		}
	}
	walk(f.descriptors)
}
