package caudal_test

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestJudge(t *testing.T) {
	ok := func(remaining uint64) caudal.Decision {
		return caudal.Decision{Allowed: true, Charged: true, Limit: 10, Remaining: remaining}
	}
	wait := func(seconds int) caudal.Decision {
		return caudal.Decision{Limit: 10, RetryAfter: time.Duration(seconds) * time.Second}
	}
	delayed := func(seconds int) caudal.Decision {
		d := ok(5)
		d.Delay = time.Duration(seconds) * time.Second
		return d
	}
	never := caudal.Decision{Limit: 10, Never: true}
	degraded := ok(3)
	degraded.Degraded = true

	const e, s, q = caudal.Enforce, caudal.Shadow, caudal.Quota
	tests := []struct {
		name      string
		modes     []caudal.Mode
		decisions []caudal.Decision
		want      caudal.Verdict
	}{
		{"no limits", nil, nil, caudal.Verdict{Allowed: true, Nearest: -1}},
		{"one allows", []caudal.Mode{e}, []caudal.Decision{ok(9)}, caudal.Verdict{Allowed: true}},
		{"one denies", []caudal.Mode{e}, []caudal.Decision{wait(7)}, caudal.Verdict{RetryAfter: 7 * time.Second}},
		{"least remaining is nearest", []caudal.Mode{e, e, e}, []caudal.Decision{ok(5), ok(2), ok(8)}, caudal.Verdict{Allowed: true, Nearest: 1}},
		{"the first of equals is nearest", []caudal.Mode{e, e}, []caudal.Decision{ok(2), ok(2)}, caudal.Verdict{Allowed: true}},
		{"longest wait of the denying", []caudal.Mode{e, e, e}, []caudal.Decision{wait(7), ok(0), wait(9)}, caudal.Verdict{RetryAfter: 9 * time.Second, Nearest: 2}},
		{"a denial is nearer than any that allows", []caudal.Mode{e, e}, []caudal.Decision{ok(0), wait(1)}, caudal.Verdict{RetryAfter: time.Second, Nearest: 1}},
		{"never beats a wait", []caudal.Mode{e, e}, []caudal.Decision{wait(9), never}, caudal.Verdict{Never: true, Nearest: 1}},
		{"longest delay", []caudal.Mode{e, e, e}, []caudal.Decision{delayed(1), delayed(4), delayed(2)}, caudal.Verdict{Allowed: true, Delay: 4 * time.Second}},
		{"denied has no delay", []caudal.Mode{e, e}, []caudal.Decision{delayed(4), wait(1)}, caudal.Verdict{RetryAfter: time.Second, Nearest: 1}},
		{"shadow never denies", []caudal.Mode{s, e}, []caudal.Decision{wait(9), ok(3)}, caudal.Verdict{Allowed: true, Nearest: 1}},
		{"shadow never delays", []caudal.Mode{s, e}, []caudal.Decision{delayed(9), delayed(1)}, caudal.Verdict{Allowed: true, Delay: time.Second, Nearest: 1}},
		{"shadow is not nearest", []caudal.Mode{s, e}, []caudal.Decision{ok(0), ok(9)}, caudal.Verdict{Allowed: true, Nearest: 1}},
		{"shadow alone", []caudal.Mode{s}, []caudal.Decision{never}, caudal.Verdict{Allowed: true, Nearest: -1}},
		{"shadow waits are not told", []caudal.Mode{s, e}, []caudal.Decision{wait(99), wait(1)}, caudal.Verdict{RetryAfter: time.Second, Nearest: 1}},
		{"one quota of two is over", []caudal.Mode{q, q}, []caudal.Decision{wait(9), ok(1)}, caudal.Verdict{Allowed: true, Nearest: -1}},
		{"all quotas are over", []caudal.Mode{q, q, e}, []caudal.Decision{wait(9), wait(3), ok(1)}, caudal.Verdict{RetryAfter: 9 * time.Second}},
		{"a single quota enforces", []caudal.Mode{q, e}, []caudal.Decision{wait(9), ok(1)}, caudal.Verdict{RetryAfter: 9 * time.Second}},
		{"quota beside shadow", []caudal.Mode{q, s}, []caudal.Decision{wait(9), ok(1)}, caudal.Verdict{RetryAfter: 9 * time.Second}},
		{"degraded", []caudal.Mode{e, e}, []caudal.Decision{ok(5), degraded}, caudal.Verdict{Allowed: true, Degraded: true, Nearest: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := make([]caudal.Call, len(tt.modes))
			for i, m := range tt.modes {
				calls[i].Mode = m
			}
			if got := caudal.Judge(calls, tt.decisions); got != tt.want {
				t.Errorf("Judge(%v)\n got %+v\nwant %+v", tt.modes, got, tt.want)
			}
		})
	}
}
