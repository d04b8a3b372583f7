package storebench

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// Distributions lists how keys can be drawn: hot is one key, zipf prefers a few as
// clients do (exponent 1.1), uniform prefers none, churn makes every key new.
func Distributions() []string { return []string{"hot", "zipf", "uniform", "churn"} }

// walk is how many keys are drawn beforehand, so that drawing them costs next to
// nothing while the clock runs.
const walk = 1 << 20

// keys gives each caller its keys.
type keys struct {
	names []string
	picks []int32       // into names; nil for churn
	made  *atomic.Int64 // how many blocks of new names churn has given out
}

func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "user" + strconv.Itoa(i)
	}
	return names
}

func newKeys(distribution string, names []string) keys {
	k := keys{names: names, made: new(atomic.Int64)}
	k.made.Store(rand.Int64N(1 << 30)) // new to a server that an earlier run has asked, too
	switch distribution {
	case "hot":
		k.picks = []int32{0}
	case "zipf":
		z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(len(names)-1))
		k.picks = draw(func() int32 { return int32(z.Uint64()) })
	case "uniform":
		r := rand.New(rand.NewPCG(3, 4))
		k.picks = draw(func() int32 { return r.Int32N(int32(len(names))) })
	}
	return k
}

func draw(one func() int32) []int32 {
	picks := make([]int32, walk)
	for i := range picks {
		picks[i] = one()
	}
	return picks
}

// block is how many new names a caller takes at a time, so that callers do not meet
// at one counter.
const block = 1 << 20

// walker gives the keys of one caller, which nobody else may use.
func (k keys) walker() func() string {
	if k.picks == nil {
		next, end := int64(0), int64(0)
		return func() string {
			if next == end {
				end = k.made.Add(1) * block
				next = end - block
			}
			next++
			return "new" + strconv.FormatInt(next, 10)
		}
	}
	i := rand.IntN(len(k.picks))
	return func() string {
		i = (i + 1) & (len(k.picks) - 1)
		return k.names[k.picks[i]]
	}
}
