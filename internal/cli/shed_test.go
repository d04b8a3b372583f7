package cli

import (
	"strings"
	"testing"
)

func TestBadSheddingSettings(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"plan_weights: {free: 0}", `the weight "0" of plan "free" must be a whole number from 1 to 1000`},
		{"plan_weights: {free: many}", `the weight "many" of plan "free"`},
		{"plan_weights: [free]", `"free" is no pair`},
		{"plan_weights: {free: [1]}", "holds something that is no plain value"},
		{"plan_weights: [free=1, free=2]", `"free" stands twice`},
		{"reserves: {low: 5}", `"low" has no reserve`},
		{"reserves: {urgent: 5}", `"urgent" has no reserve`},
		{"reserves: {critical: 101}", `the reserve "101" of critical`},
		{"reserves: {critical: 60, high: 50}", "reserves of 110 %"},
		{"shed: maybe", `"maybe" is neither true nor false`},
	} {
		_, err := configureWith(t, "upstream: http://127.0.0.1:3000\n"+c.line+"\n", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s gives %v, want %q", c.line, err, c.want)
		}
	}
}
