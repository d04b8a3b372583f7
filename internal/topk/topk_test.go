package topk

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"testing"

	"pgregory.net/rapid"
)

var seed = maphash.MakeSeed()

func add(s interface{ Add(uint64, []byte, uint64) }, key string, n uint64) {
	s.Add(maphash.String(seed, key), []byte(key), n)
}

func entries(s *Sketch) map[string]Entry {
	all := map[string]Entry{}
	for i := range s.hashes {
		all[string(s.keys[i])] = Entry{s.keys[i], s.counts[i], s.errors[i]}
	}
	return all
}

func TestFewKeysAreCountedExactly(t *testing.T) {
	s := New(4)
	for i, key := range []string{"a", "b", "c", "d"} {
		for range i + 1 {
			add(s, key, 2)
		}
	}
	for i, key := range []string{"a", "b", "c", "d"} {
		if e := entries(s)[key]; e.Count != uint64(2*(i+1)) || e.ErrorBound != 0 {
			t.Errorf("%s = %d (+-%d), want %d exactly", key, e.Count, e.ErrorBound, 2*(i+1))
		}
	}
	if string(s.keys[0]) != "d" || s.Total() != 20 {
		t.Errorf("first of %d is %s, want d of 20", s.Total(), s.keys[0])
	}
}

// TestErrorBound holds any stream against the three promises of the package
// comment.
func TestErrorBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 16).Draw(t, "k")
		s, truth := New(k), map[string]uint64{}
		stream := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 400).Draw(t, "stream")
		weights := rapid.SliceOfN(rapid.Uint64Range(1, 5), len(stream), len(stream)).Draw(t, "weights")
		for i, id := range stream {
			key := fmt.Sprint(id * id % 37) // some more often than others
			truth[key] += weights[i]
			add(s, key, weights[i])
		}
		got := entries(s)
		for key, e := range got {
			if e.Count < truth[key] || e.Count-e.ErrorBound > truth[key] {
				t.Fatalf("%s came %d times, counted %d with an error of at most %d", key, truth[key], e.Count, e.ErrorBound)
			}
			if e.ErrorBound > s.Total()/uint64(k) {
				t.Fatalf("error bound %d of %s is over %d/%d", e.ErrorBound, key, s.Total(), k)
			}
		}
		for key, n := range truth {
			if _, ok := got[key]; !ok && n > s.Total()/uint64(k) {
				t.Fatalf("%s came %d times of %d and has none of the %d counters", key, n, s.Total(), k)
			}
		}
		for i := 1; i < len(s.counts); i++ {
			if s.counts[i-1] < s.counts[i] {
				t.Fatalf("counts are not in order: %v", s.counts)
			}
		}
	})
}

func TestHeavyKeysAreFoundAmongAHundredThousand(t *testing.T) {
	w := NewWindow(64)
	var b [8]byte
	for i := range uint64(100_000) {
		binary.LittleEndian.PutUint64(b[:], i)
		add(w, string(b[:]), 1)
		if i%20 == 0 {
			add(w, "heavy", 1)
		}
		if i%25 == 0 {
			add(w, "second", 1)
		}
	}
	top, total := w.Top(2)
	if len(top) != 2 || string(top[0].Key) != "heavy" || string(top[1].Key) != "second" || total != 109_000 {
		t.Fatalf("Top(2) = %+v of %d, want heavy and second of 109000", top, total)
	}
	if e := top[0]; e.Count < 5000 || e.Count-e.ErrorBound > 5000 {
		t.Errorf("heavy came 5000 times, counted %d with an error of at most %d", e.Count, e.ErrorBound)
	}
}

func TestWindowForgetsAfterTwoRotations(t *testing.T) {
	w := NewWindow(2)
	add(w, "a", 5)
	w.Rotate()
	add(w, "a", 1)
	add(w, "b", 2)
	top, total := w.Top(9)
	if len(top) != 2 || string(top[0].Key) != "a" || top[0].Count != 6 || top[0].ErrorBound != 0 || total != 8 {
		t.Errorf("after one rotation Top = %+v of %d, want a 6 times, exactly, of 8", top, total)
	}
	w.Rotate()
	if top, total = w.Top(9); len(top) != 2 || string(top[0].Key) != "b" || total != 3 {
		t.Errorf("after two rotations Top = %+v of %d, want b and then a of 3", top, total)
	}
	w.Rotate()
	if top, total = w.Top(9); len(top) != 0 || total != 0 {
		t.Errorf("after three rotations Top = %+v of %d, want nothing", top, total)
	}
}

// TestWindowBound: over both stretches counts stay bounds of the truth.
func TestWindowBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, truth := NewWindow(rapid.IntRange(1, 6).Draw(t, "k")), map[string]uint64{}
		for stretch := range 2 {
			if stretch > 0 {
				w.Rotate()
			}
			for _, id := range rapid.SliceOfN(rapid.IntRange(0, 12), 0, 100).Draw(t, "stream") {
				key := fmt.Sprint(id)
				truth[key]++
				add(w, key, 1)
			}
		}
		top, _ := w.Top(100)
		for _, e := range top {
			if n := truth[string(e.Key)]; e.Count < n || e.Count-e.ErrorBound > n {
				t.Fatalf("%s came %d times, counted %d with an error of at most %d", e.Key, n, e.Count, e.ErrorBound)
			}
		}
	})
}

func TestAddNeverWaits(t *testing.T) {
	w := NewWindow(2)
	w.mu.Lock()
	add(w, "a", 3) // would hang
	w.mu.Unlock()
	if w.Missed() != 3 {
		t.Errorf("Missed() = %d, want 3", w.Missed())
	}
}

func TestLongKeysAreBounded(t *testing.T) {
	s := New(1)
	add(s, string(make([]byte, 100_000)), 1)
	if n := len(s.keys[0]); n != MaxKey {
		t.Errorf("a key of 100000 bytes takes %d, want %d", n, MaxKey)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	s := New(8)
	keys := make([][]byte, 100)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { i++; s.Add(uint64(i%100), keys[i%100], 1) }); n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}
