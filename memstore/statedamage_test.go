package memstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// tryState opens a store on a path and closes it; it gives how many keys it had.
func tryState(path string) (keys int64, err error) {
	s, err := memstore.Open(memstore.Options{Clock: storetest.NewClock(storetest.Start)},
		memstore.StateOptions{Path: path, Interval: never, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	return s.StateStats().Restored, s.Close()
}

// goodState makes a state file with an image of some keys and changes behind it,
// and gives where the image ends.
func goodState(t *testing.T) (data []byte, image int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	clock := storetest.NewClock(storetest.Start)
	s := openState(t, path, memstore.Options{Clock: clock})
	for n, l := range restored {
		charge(t, s, l, fmt.Sprint("scope ", n), 5)
	}
	closeStore(t, s)
	s = openState(t, path, memstore.Options{Clock: clock})
	image = int(fileSize(t, path))
	charge(t, s, caudal.PerDay(5), "later", 10)
	closeStore(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, image
}

// wantKept opens a store on a file that cannot be used, and checks that it is told,
// moved aside as it was, and that the next start goes.
func wantKept(t *testing.T, data []byte, word string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := tryState(path)
	var state *memstore.StateError
	if !errors.As(err, &state) || state.Kept == "" || !strings.Contains(err.Error(), word) {
		t.Fatalf("Open = %v, want an error that says %q and where the file is kept", err, word)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	kept, err := os.ReadFile(state.Kept)
	if err != nil || string(kept) != string(data) {
		t.Errorf("what is kept differs from what was there (%v)", err)
	}
	if keys, err := tryState(path); err != nil || keys != 0 {
		t.Errorf("the next start = %d keys, %v, want none and no error", keys, err)
	}
}

func TestABitFlippedAnywhereIsNoticed(t *testing.T) {
	data, _ := goodState(t)
	step := 1 + len(data)/120
	for offset := 0; offset < len(data); offset += step {
		flipped := append([]byte(nil), data...)
		flipped[offset] ^= 1 << (offset % 8)
		t.Run(fmt.Sprint("byte ", offset), func(t *testing.T) { wantKept(t, flipped, "damaged") })
	}
}

// TestATruncatedFile: without its image a file is damaged; behind it, it ends like
// one whose process was killed, and what is whole counts.
func TestATruncatedFile(t *testing.T) {
	data, image := goodState(t)
	for cut := 0; cut < image; cut += 1 + image/40 {
		t.Run(fmt.Sprint("byte ", cut), func(t *testing.T) { wantKept(t, data[:cut], "damaged") })
	}
	before := int64(-1)
	for cut := image; cut <= len(data); cut++ {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := tryState(path)
		if err != nil || keys < before || keys < int64(5*len(restored)) {
			t.Fatalf("cut at %d of %d: %d keys, %v; %d in less", cut, len(data), keys, err, before)
		}
		before = keys
	}
	if want := int64(5*len(restored) + 10); before != want {
		t.Errorf("the whole file holds %d keys, want %d", before, want)
	}
	// Space that was made and never written, as after a loss of power.
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, append(data, make([]byte, 5000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := tryState(path); err != nil || keys != before {
		t.Errorf("with zeros behind it: %d keys, %v, want %d", keys, err, before)
	}
}

func TestFilesOfOtherVersions(t *testing.T) {
	data, _ := goodState(t)
	wantKept(t, memstore.WithVersion(data, 2), "format 2")
	wantKept(t, memstore.WithVersion(data, 0), "format 0")
	wantKept(t, []byte("descriptors:\n"+strings.Repeat("- key: x\n", 20)), "no state file")
	wantKept(t, nil, "cut off")
}

// TestRandomRecords: a file whose checksums are right and whose content is not is
// noticed, or means something; it never panics.
func TestRandomRecords(t *testing.T) {
	data, _ := goodState(t)
	r := rand.New(rand.NewPCG(1, 1))
	noticed := 0
	for range 200 {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, memstore.WithChangedPayload(data, r), 0o600); err != nil {
			t.Fatal(err)
		}
		var state *memstore.StateError
		if _, err := tryState(path); errors.As(err, &state) {
			noticed++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if noticed == 0 {
		t.Error("none of 200 changed files was noticed")
	}
}

func TestAStateFileIsOfOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first := openState(t, path, memstore.Options{})
	if _, err := tryState(path); !errors.Is(err, memstore.ErrStateInUse) {
		t.Errorf("a second Open = %v, want ErrStateInUse", err)
	}
	closeStore(t, first)
	if _, err := tryState(path); err != nil {
		t.Errorf("Open after Close = %v", err)
	}
	if _, err := tryState(filepath.Join(path, "below", "x")); err == nil {
		t.Error("Open in a directory that is not there = nil")
	}
}
