package memstore

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// A slot packs a key, a state and more into 32 bytes: whatever goes in comes out,
// and nothing spills over into its neighbours.
func TestSlotKeepsWhatIsPutIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := keyhash.Hash{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		instant := rapid.Int64Range(0, caudal.MaxInstant).Draw(t, "instant")
		lifetime := rapid.Int64Range(0, 400*365*24*3600*1e6).Draw(t, "lifetime")
		lvl := level(rapid.IntRange(0, 2).Draw(t, "level"))
		var s slot
		check := func(a caudal.Algorithm) {
			t.Helper()
			s.setLife(lifetime)
			s.setLevel(lvl)
			if !s.is(h) || s.hash(h.Hi>>(64-shardBits)) != h {
				t.Fatalf("%s: the key %x changed", a, h)
			}
			if s.algorithm() != a || s.level() != lvl {
				t.Fatalf("algorithm, level = %s, %d, want %s, %d", s.algorithm(), s.level(), a, lvl)
			}
			if got := s.life(); got < lifetime || got > lifetime+max(lifetime/4, 5<<20) {
				t.Fatalf("life = %d, want at least %d and not much more", got, lifetime)
			}
		}

		s.setKey(h, caudal.TokenBucket)
		bucket := algorithm.TokenBucketOf(rapid.Uint64Range(0, 255).Draw(t, "used hi"), rapid.Uint64().Draw(t, "used lo"), instant)
		s.setTokenBucket(bucket)
		check(caudal.TokenBucket)
		if got := s.tokenBucket(); got != bucket {
			t.Fatalf("tokenBucket() = %+v, want %+v", got, bucket)
		}

		s.setKey(h, caudal.FixedWindow)
		fixed := algorithm.FixedWindow{Start: instant, Count: rapid.Uint64().Draw(t, "count")}
		s.setFixedWindow(fixed)
		check(caudal.FixedWindow)
		if got := s.fixedWindow(); got != fixed {
			t.Fatalf("fixedWindow() = %+v, want %+v", got, fixed)
		}

		s.setKey(h, caudal.SlidingWindow)
		words := rapid.Uint64Range(0, 1<<32-1)
		sliding := algorithm.SlidingWindow{Start: instant, Current: words.Draw(t, "current"), Previous: words.Draw(t, "previous")}
		s.setSlidingWindow(sliding)
		check(caudal.SlidingWindow)
		if got := s.slidingWindow(); got != sliding {
			t.Fatalf("slidingWindow() = %+v, want %+v", got, sliding)
		}

		s.setKey(h, caudal.LeakyBucket)
		leaky := algorithm.LeakyBucket{
			Last: algorithm.Turn{Micros: rapid.Int64Range(-1<<52, 1<<55).Draw(t, "turn"), Frac: rapid.Uint32().Draw(t, "frac")},
			Rate: rapid.Uint32().Draw(t, "rate"),
		}
		s.setLeakyBucket(leaky)
		check(caudal.LeakyBucket)
		if got, freed := s.leakyBucket(); got.Last != leaky.Last || got.Rate != leaky.Rate || freed {
			t.Fatalf("leakyBucket() = %+v, %t, want %+v, false", got, freed, leaky)
		}

		s.setKey(h, caudal.SlidingLog)
		n := rapid.Uint32().Draw(t, "log")
		s.setLog(n, instant)
		check(caudal.SlidingLog)
		if s.log() != n || s.at() != instant {
			t.Fatalf("log(), at() = %d, %d, want %d, %d", s.log(), s.at(), n, instant)
		}
	})
}

func TestLifeCodeIsStable(t *testing.T) {
	for code := range uint64(lifeMask + 1) {
		if got := lifeCode(lifeOf(code)); got != code {
			t.Errorf("lifeCode(lifeOf(%d)) = %d", code, got)
		}
	}
}

// The table against a map: random inserts, finds and removes, through rebuilds.
func TestTableEqualsMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const shard = 5
		var tab table
		want := map[keyhash.Hash]uint64{}
		keys := rapid.Custom(func(t *rapid.T) keyhash.Hash {
			// Few distinct values, so that buckets and favourites collide often.
			return keyhash.Hash{
				Hi: shard<<(64-shardBits) | rapid.Uint64Range(0, 3).Draw(t, "hi"),
				Lo: rapid.Uint64Range(0, 20).Draw(t, "lo") << 59,
			}
		})
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				h := keys.Draw(t, "key")
				if tab.find(h) >= 0 {
					return
				}
				if tab.full() {
					tab.rebuild(shard, nil)
				}
				i := tab.insert(h, caudal.FixedWindow)
				v := rapid.Uint64().Draw(t, "value")
				tab.slot(i)[2] = v
				want[h] = v
			},
			"remove": func(t *rapid.T) {
				h := keys.Draw(t, "key")
				if i := tab.find(h); i >= 0 {
					tab.remove(i)
					delete(want, h)
				}
			},
			"": func(t *rapid.T) {
				if tab.live != len(want) {
					t.Fatalf("live = %d, want %d", tab.live, len(want))
				}
				dead := 0
				for i := range tab.slots() {
					if tab.slot(i).algorithm() == slotDead {
						dead++
					}
				}
				if tab.dead != dead {
					t.Fatalf("dead = %d, but %d slots are", tab.dead, dead)
				}
				for h, v := range want {
					if i := tab.find(h); i < 0 || tab.slot(i)[2] != v {
						t.Fatalf("find(%x) = %d, want the slot with %d", h, i, v)
					}
				}
			},
		})
	})
}

// Logs of many lengths share blocks: what is pushed comes out, whatever the
// others do.
func TestLogsEqualSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l logs
		taken := int64(0)
		want := map[uint32][]algorithm.Entry{}
		pick := func(t *rapid.T) (uint32, bool) {
			var ids []uint32
			for i := range uint32(len(l.headers)) {
				if _, ok := want[i]; ok {
					ids = append(ids, i)
				}
			}
			if len(ids) == 0 {
				return 0, false
			}
			return rapid.SampledFrom(ids).Draw(t, "log"), true
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				want[l.add()] = nil
				taken += places(0)
			},
			"push": func(t *rapid.T) {
				if i, ok := pick(t); ok {
					for range rapid.IntRange(1, 40).Draw(t, "entries") {
						e := algorithm.Entry{At: rapid.Int64().Draw(t, "at"), Cost: rapid.Uint32Range(0, 1000).Draw(t, "cost")}
						taken += l.push(i, e)
						want[i] = append(want[i], e)
					}
				}
			},
			"purge": func(t *rapid.T) {
				if i, ok := pick(t); ok {
					v := l.view(i)
					gone := rapid.IntRange(0, len(v.Entries)).Draw(t, "gone")
					for _, e := range v.Entries[:gone] {
						v.Used -= uint64(e.Cost)
					}
					v.Entries = v.Entries[gone:]
					l.trim(i, v, gone)
					taken += l.shrink(i)
					want[i] = want[i][gone:]
				}
			},
			"drop": func(t *rapid.T) {
				if i, ok := pick(t); ok {
					taken -= l.drop(i)
					delete(want, i)
				}
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for i, entries := range want {
					v, used := l.view(i), uint64(0)
					if len(v.Entries) != len(entries) {
						t.Fatalf("log %d has %d entries, want %d", i, len(v.Entries), len(entries))
					}
					for k, e := range entries {
						used += uint64(e.Cost)
						if v.Entries[k] != e {
							t.Fatalf("log %d entry %d = %v, want %v", i, k, v.Entries[k], e)
						}
					}
					if v.Used != used {
						t.Fatalf("log %d used = %d, want %d", i, v.Used, used)
					}
					sum += places(l.headers[i].class)
				}
				if sum != taken {
					t.Fatalf("logs take %d places, but %d were counted", sum, taken)
				}
			},
		})
	})
}
