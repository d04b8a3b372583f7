package identity

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func readKeys(t testing.TB, text string) *Keys {
	t.Helper()
	k, err := ReadKeys("keys.jsonl", strings.NewReader(text))
	if err != nil {
		t.Fatalf("ReadKeys = %v", err)
	}
	return k
}

// lineOf is a line of a keys file.
func lineOf(key, user, plan string) string {
	return fmt.Sprintf(`{"hash":%q,"user":%q,"plan":%q}`+"\n", HashKey(key), user, plan)
}

func TestKeys(t *testing.T) {
	k := readKeys(t, "# known\n\n"+lineOf("k1", "acme", "pro")+lineOf("k2", "acme", "free")+
		"  {\"plan\" : \"caf\\u00e9\" , \"hash\":\""+strings.ToUpper(HashKey("k3").String())+"\"}\r\n"+
		`{"hash":"`+HashKey("k4").String()+`"}`)
	for key, want := range map[string]KeyInfo{
		"k1": {User: "acme", Plan: "pro"}, "k2": {User: "acme", Plan: "free"}, "k3": {Plan: "café"}, "k4": {},
	} {
		want.Hash = HashKey(key)
		if got, ok := k.Find(HashKey(key)); !ok || got != want {
			t.Errorf("Find(%s) = %+v, %v, want %+v", key, got, ok, want)
		}
	}
	if got, ok := k.Find(HashKey("k5")); ok {
		t.Errorf("Find(k5) = %+v, true, want none", got)
	}
	if _, ok := new(Keys).Find(HashKey("k1")); ok || k.Len() != 4 {
		t.Errorf("no keys find one: %v; Len = %d, want 4", ok, k.Len())
	}
}

func TestLimitsOfOneKey(t *testing.T) {
	k := readKeys(t, `{"hash":"`+HashKey("k1").String()+`","limits": { "day" : 50000, "rate":0 },"user":"acme"}`+"\n"+
		`{"hash":"`+HashKey("k2").String()+`","limits":{"day":50000}}`+"\n"+lineOf("k3", "a", "b"))
	for key, want := range map[string][]OwnLimit{"k1": {{"day", 50000}, {"rate", 0}}, "k2": {{"day", 50000}}, "k3": nil} {
		if info, _ := k.Find(HashKey(key)); !slices.Equal(info.Limits(), want) {
			t.Errorf("limits of %s = %v, want %v", key, info.Limits(), want)
		}
	}
	if got, want := k.OwnLimits(), []OwnLimit{{"day", 50000}, {"rate", 0}}; !slices.Equal(got, want) {
		t.Errorf("OwnLimits = %v, want %v", got, want)
	}
}

func TestKeysRefuse(t *testing.T) {
	h := `"hash":"` + HashKey("k").String() + `"`
	for _, c := range []struct{ line, want string }{
		{`x`, "k:1:1: a line must hold one JSON object"},
		{`{}`, "k:1:3: the key has no hash"},
		{`{"hash":"12"}`, "k:1:2: a key's hash has 64 hex digits, not 2"},
		{`{"hash":"` + strings.Repeat("z", 64) + `"}`, "k:1:2: a key's hash holds something that is no hex digit"},
		{`{` + h + `,"usr":"a"}`, `k:1:76: "usr" is not known`},
		{`{` + h + `,` + h + `}`, "k:1:76: hash stands twice"},
		{`{` + h + `,"user":""}`, "k:1:76: user must have 1 to 256 bytes"},
		{`{` + h + `,"user":"` + strings.Repeat("u", 257) + `"}`, "user must have 1 to 256 bytes"},
		{`{` + h + `,"user":7}`, "k:1:83: a text in double quotes is missing"},
		{`{` + h + `,"limits":7}`, "k:1:85: limits must be an object"},
		{`{` + h + `,"limits":{"day":"7"}}`, "k:1:92: a whole number is missing"},
		{`{` + h + `,"limits":{"day":-7}}`, "a whole number is missing"},
		{`{` + h + `,"limits":{"day":07}}`, "a whole number is missing"},
		{`{` + h + `,"limits":{"day":4294967296}}`, "a whole number is missing"},
		{`{` + h + `,"limits":{"day":7.5}}`, "a comma or } is missing"},
		{`{` + h + `,"limits":{"day":7,"day":7}}`, "k:1:94: the name of a limit is empty, stands twice"},
		{`{` + h + `,"limits":{"":7}}`, "the name of a limit is empty"},
		{`{` + h + `,"limits":{"day" 7}}`, "a colon is missing"},
		{`{` + h + `,"limits":{"day":7}`, "a comma or } is missing"},
		{`{` + h + `,"limits":{},"limits":{}}`, "limits stands twice"},
		{`{` + h + `} {}`, "the line goes on behind the object"},
		{`{` + h + ` "user":"a"}`, "a comma or } is missing"},
		{`{` + h + `,"user" "a"}`, "a colon is missing"},
		{`{` + h + `,"user":"a`, "a text does not end"},
		{`{` + h + `,"user":"\x"}`, "an escape that JSON does not know"},
		{`{` + h + `,"user":"` + "\xff" + `"}`, "a text is no UTF-8"},
		{`{` + h + `,"user":"` + "\t" + `"}`, "a control character"},
		{`{` + h + "}\n{" + h + "}", "k:2:76: this key stands twice"},
		{strings.Repeat(" ", maxKeyLine+1), "the line is over 8192 bytes"},
	} {
		k, err := ReadKeys("k", strings.NewReader(c.line))
		var e *KeyError
		if err == nil || k != nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("ReadKeys(%.100q) = %v, %v, want %q", c.line, k, err, c.want)
		}
	}
	if _, err := ReadKeys("k", strings.NewReader(strings.Repeat("x\n", 100))); strings.Count(err.Error(), "\n") != maxKeyErrors-1 {
		t.Errorf("100 mistakes = %d lines, want %d", strings.Count(err.Error(), "\n")+1, maxKeyErrors)
	}
}

func FuzzReadKeys(f *testing.F) {
	f.Add([]byte(lineOf("k", "a", "b")))
	f.Add([]byte(`{"hash":"\u0030`))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ReadKeys("k", bytes.NewReader(text))
		if err != nil {
			return
		}
		for i := range k.Len() {
			if info, ok := k.Find(k.At(i).Hash); !ok || info != k.At(i) {
				t.Fatalf("key %d of %q = %+v, %v", i, text, info, ok)
			}
		}
	})
}

// TestManyKeys: reading keys anew takes under two seconds for a million, and
// nobody who looks one up meanwhile waits for it.
func TestManyKeys(t *testing.T) {
	n, bound := 50_000, 30*time.Second // beside other tests, with the race detector
	if os.Getenv("CAUDAL_SOAK") != "" {
		n, bound = 1_000_000, 2*time.Second
	}
	var text bytes.Buffer
	for i := range n {
		text.WriteString(lineOf(fmt.Sprint("key-", i), fmt.Sprint("customer-", i), []string{"free", "pro", "enterprise"}[i%3]))
	}
	var ring KeyRing
	ring.Set(readKeys(t, lineOf("key-7", "customer-7", "pro")))
	var stop atomic.Bool
	var lookups, lost atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		h := HashKey("key-7")
		for !stop.Load() {
			if info, ok := ring.Keys().Find(h); !ok || info.User != "customer-7" {
				lost.Add(1)
			}
			lookups.Add(1)
			runtime.Gosched()
		}
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var k *Keys
	took := time.Hour
	for range 3 { // others may be busy on the same machine
		start := time.Now()
		var err error
		if k, err = ReadKeys("keys.jsonl", bytes.NewReader(text.Bytes())); err != nil {
			t.Fatal(err)
		}
		if took = min(took, time.Since(start)); took <= bound {
			break
		}
	}
	ring.Set(k)
	runtime.GC()
	runtime.ReadMemStats(&after)
	stop.Store(true)
	wg.Wait()
	perKey := float64(int64(after.HeapAlloc-before.HeapAlloc)) / float64(n)
	t.Logf("%d keys in %s, %.0f bytes a key; %d lookups meanwhile", n, took, perKey, lookups.Load())
	if k.Len() != n || lost.Load() > 0 || lookups.Load() == 0 {
		t.Errorf("%d keys, %d of %d lookups lost; want %d and none", k.Len(), lost.Load(), lookups.Load(), n)
	}
	if took > bound || perKey > 120 {
		t.Errorf("%d keys took %s and %.0f bytes a key, want under %s and 120", n, took, perKey, bound)
	}
	runtime.KeepAlive(k)
	runtime.KeepAlive(text)
}

func BenchmarkFindKey(b *testing.B) {
	k := readKeys(b, lineOf("k1", "acme", "pro"))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := k.Find(HashKey("k1")); !ok {
			b.Fatal("not found")
		}
	}
}
