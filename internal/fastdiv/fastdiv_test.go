package fastdiv_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal/internal/fastdiv"
)

func TestDivEqualsDivision(t *testing.T) {
	numbers := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 1000), rapid.Uint64Range(math.MaxUint64-1000, math.MaxUint64))
	rapid.Check(t, func(t *rapid.T) {
		x, d := numbers.Draw(t, "x"), max(numbers.Draw(t, "d"), 1)
		v := fastdiv.By(d)
		if got, want := v.Div(x), x/d; got != want {
			t.Fatalf("By(%d).Div(%d) = %d, want %d", d, x, got, want)
		}
		want := x / d
		if x%d > 0 {
			want++
		}
		if got := v.Ceil(x); got != want {
			t.Fatalf("By(%d).Ceil(%d) = %d, want %d", d, x, got, want)
		}
	})
}
