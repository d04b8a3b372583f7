package redisstore

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// Every set of forms gives a script that the server takes.
func TestScriptsCompile(t *testing.T) {
	r := redistest.Start(t)
	s := theScripts()
	load := func(name string, sc *script) {
		if got := r.Do("SCRIPT", "LOAD", sc.text); got != sc.sha {
			t.Errorf("SCRIPT LOAD of %s = %s, want %s", name, got, sc.sha)
		}
	}
	for f := 1; f < formCount; f++ {
		load("one "+takeParts[f], s.one[f])
		load("refund "+takeParts[f], s.refund[f])
	}
	for set := 2; set < 1<<formCount; set += 2 {
		load(fmt.Sprintf("batch %b", set), s.batchFor(set))
	}
	load("reset", s.reset)
	p := thePermitScripts()
	load("permit_acquire", p.acquire)
	load("permit_renew", p.renew)
	load("permit_release", p.release)
}

// Whatever keys and arguments a script has, its file says at the top, with why it
// is a script.
func TestScriptsAreDocumented(t *testing.T) {
	for _, name := range []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window", "one", "batch", "refund", "reset"} {
		text, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "--@")
		for _, want := range []string{"Why ", "KEY", "AR", "R"} {
			if !strings.Contains(strings.ToUpper(head), strings.ToUpper(want)) {
				t.Errorf("the head of %s.lua does not say %q", name, want)
			}
		}
	}
}

// muldiv is exact for all numbers that it is made for: checked against math/big,
// at the edges and at random, many per round trip.
func TestLuaMuldiv(t *testing.T) {
	r := redistest.Start(t)
	part := theScripts().part("muldiv")
	type triple struct{ a, b, d uint64 }
	check := func(t interface {
		Errorf(string, ...any)
	}, all []triple) {
		var b strings.Builder
		b.WriteString("local out = {}\nfor _, x in ipairs({")
		for _, x := range all {
			fmt.Fprintf(&b, "{%d,%d,%d},", x.a, x.b, x.d)
		}
		b.WriteString("}) do local q, r = muldiv(x[1], x[2], x[3]) out[#out+1] = string.format('%.0f %.0f', q, r) end return out")
		got := strings.Split(r.TryDo("EVAL", prelude+part+b.String(), "0"), "\n")
		if len(got) != len(all) {
			t.Errorf("muldiv of %d = %d lines: %v", len(all), len(got), got)
			return
		}
		for i, x := range all {
			p := new(big.Int).Mul(new(big.Int).SetUint64(x.a), new(big.Int).SetUint64(x.b))
			q, m := new(big.Int).QuoRem(p, new(big.Int).SetUint64(x.d), new(big.Int))
			if want := q.String() + " " + m.String(); got[i] != want {
				t.Errorf("muldiv(%d, %d, %d) = %s, want %s", x.a, x.b, x.d, got[i], want)
			}
		}
	}
	fits := func(x triple) bool {
		p := new(big.Int).Mul(new(big.Int).SetUint64(x.a), new(big.Int).SetUint64(x.b))
		return p.Quo(p, new(big.Int).SetUint64(x.d)).Cmp(big.NewInt(1<<53-1)) < 0
	}
	edges := []uint64{0, 1, 2, 511, 512, 513, 65535, 1 << 26, 1<<27 - 1, 1 << 32, 1<<32 - 1, 86_400_000_000, 1<<36 - 1, 1<<40 - 1, 1 << 40, 1<<53 - 1}
	var all []triple
	for _, a := range edges {
		for _, b := range edges {
			for _, d := range edges {
				if x := (triple{a, b, d}); b < 1<<36 && d > 0 && d <= 1<<40 && fits(x) {
					all = append(all, x)
				}
			}
		}
	}
	check(t, all)
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) triple {
			bits := func(name string, most int) uint64 {
				return rapid.Uint64Range(0, 1<<rapid.IntRange(0, most).Draw(t, name+" bits")-1).Draw(t, name)
			}
			return triple{bits("a", 53), bits("b", 36), bits("d", 40) + 1}
		}).Filter(fits), 50, 50).Draw(t, "triples")
		check(t, all)
	})
}

// The script's windows are those of caudal.Compiled, at any instant.
func TestAlignmentIsTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := caudal.Limit{
			Algorithm: caudal.FixedWindow, Requests: 1, Unit: caudal.Unit(rapid.IntRange(1, 7).Draw(t, "unit")),
			Multiplier: rapid.SampledFrom([]uint32{0, 1, 2, 7}).Draw(t, "multiplier"), Epoch: rapid.Bool().Draw(t, "epoch"),
		}
		if l.Unit >= caudal.Day && l.Multiplier < 2 && !l.Epoch {
			l.Timezone = rapid.SampledFrom([]string{"", "UTC", "Asia/Tokyo"}).Draw(t, "zone")
		}
		c, err := l.Compile("", "")
		if err != nil {
			t.Fatal(err)
		}
		wall := rapid.Int64Range(0, 1<<52).Draw(t, "wall")
		start, end := c.Window(wall)
		if offset, ok := alignment(c); ok {
			m := (wall - offset) % c.PeriodMicros()
			if m < 0 {
				m += c.PeriodMicros()
			}
			if wall-m != start || end-start != c.PeriodMicros() {
				t.Fatalf("%s: alignment gives %d, Window %d to %d", l, wall-m, start, end)
			}
			return
		}
		var known calendars
		w := known.around(c, wall)
		if w[1] != start || w[2] != end || w[0] >= w[1] || w[3] <= w[2] {
			t.Fatalf("%s: around(%d) = %v, Window %d to %d", l, wall, w, start, end)
		}
	})
}
