package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// notes is a Shared in memory.
type notes struct {
	mu     sync.Mutex
	held   map[string]string
	mark   int
	broken error
	reads  int // of all notes
}

func (n *notes) Notes(_ context.Context, known string) (map[string]string, string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return nil, "", n.broken
	}
	mark := fmt.Sprint(n.mark)
	if mark == known {
		return nil, mark, nil
	}
	n.reads++
	all := map[string]string{}
	for name, value := range n.held {
		all[name] = value
	}
	return all, mark, nil
}

func (n *notes) Note(_ context.Context, write map[string]string, remove []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return n.broken
	}
	if n.held == nil {
		n.held = map[string]string{}
	}
	for _, name := range remove {
		delete(n.held, name)
	}
	for name, value := range write {
		n.held[name] = value
	}
	n.mark++
	return nil
}

func (n *notes) breaks(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = err
}

// request is a request with attributes.
type request map[string]string

func (r request) Attribute(name string) (string, bool) { v, ok := r[name]; return v, ok }

func (r request) Address() netip.Addr {
	a, _ := netip.ParseAddr(r["remote_address"])
	return a
}

func target(t *testing.T, text string) Target {
	t.Helper()
	target, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func quiet(shared Shared) Options {
	return Options{Shared: shared, Logger: slog.New(slog.DiscardHandler)}
}

func block(t *testing.T, c *Controls, text string, d time.Duration) {
	t.Helper()
	if err := c.Block(t.Context(), target(t, text), d); err != nil {
		t.Fatalf("Block(%s, %s) = %v", text, d, err)
	}
}

func TestBlockedFindsEachKindOfTarget(t *testing.T) {
	c := New(quiet(nil))
	for _, text := range []string{"api_key=k-123", "user=eve", "203.0.113.9", "198.51.100.0/24", "2001:db8::7", "header:x-tenant=acme"} {
		block(t, c, text, time.Hour)
	}
	for _, test := range []struct {
		req  request
		want string // attribute; empty for none
	}{
		{request{"api_key": "k-123"}, "api_key"},
		{request{"api_key": "k-124"}, ""},
		{request{"user": "eve"}, "user"},
		{request{"remote_address": "203.0.113.9"}, "remote_address"},
		{request{"remote_address": "::ffff:203.0.113.9"}, "remote_address"},
		{request{"remote_address": "203.0.113.10"}, ""},
		{request{"remote_address": "198.51.100.77"}, "remote_address"},
		{request{"remote_address": "2001:db8::ffff"}, "remote_address"}, // the client's /64
		{request{"remote_address": "2001:db8:0:1::7"}, ""},
		{request{"header:X-Tenant": "acme"}, "header:X-Tenant"},
		{request{}, ""},
	} {
		hit, ok := c.Blocked(test.req)
		if hit.Attribute != test.want || ok != (test.want != "") {
			t.Errorf("Blocked(%v) = %v, %v, want attribute %q", test.req, hit, ok, test.want)
		}
		if test.req["header:X-Tenant"] != "" {
			continue
		}
		for key, value := range test.req {
			hit, ok := c.BlockedEntries([]rule.Entry{{Key: key, Value: value}})
			if hit.Attribute != test.want || ok != (test.want != "") {
				t.Errorf("BlockedEntries(%s=%s) = %v, %v, want attribute %q", key, value, hit, ok, test.want)
			}
		}
	}
}

// several is a request that came with more than one value for an attribute.
type several struct {
	request
	sent map[string][]string
}

func (s several) Sent(attribute string) []string { return s.sent[attribute] }

// TestASecondValueHidesNobody: an API may read either of two keys, so a client that
// is blocked by one of them does not go free by adding another.
func TestASecondValueHidesNobody(t *testing.T) {
	c := New(quiet(nil))
	block(t, c, "api_key=k-123", time.Hour)
	block(t, c, "user=eve", time.Hour)
	for attribute, values := range map[string][]string{"api_key": {"made-up", "k-123"}, "user": {"eve", ""}} {
		if hit, ok := c.Blocked(several{sent: map[string][]string{attribute: values}}); !ok || hit.Attribute != attribute {
			t.Errorf("Blocked of %s %q = %v, %v, want blocked", attribute, values, hit, ok)
		}
	}
	if hit, ok := c.Blocked(several{sent: map[string][]string{"api_key": {"a", "b"}}}); ok {
		t.Errorf("Blocked of others' keys = %v, want none", hit)
	}
}

func TestBlockEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(quiet(&notes{}))
		block(t, c, "user=eve", time.Minute)
		time.Sleep(time.Minute - time.Millisecond)
		if hit, ok := c.Blocked(request{"user": "eve"}); !ok || hit.Left != time.Millisecond {
			t.Errorf("Blocked a millisecond before the end = %v, %v, want 1ms left", hit, ok)
		}
		time.Sleep(time.Millisecond)
		if hit, ok := c.Blocked(request{"user": "eve"}); ok {
			t.Errorf("Blocked at the end = %v, want none", hit)
		}
		if got := c.Blocks(); len(got) != 0 {
			t.Errorf("Blocks() at the end = %v, want none", got)
		}
	})
}

func TestOtherInstancesHearWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &notes{}
		a, b := New(quiet(shared)), New(quiet(shared))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Run(ctx)
		synctest.Wait()
		block(t, a, "user=eve", time.Hour)
		if err := a.Enforce(t.Context(), false, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultEvery)
		synctest.Wait()
		if len(b.Blocks()) != 1 || !b.Off() {
			t.Errorf("after a second the other has %v, off %v, want one block and off", b.Blocks(), b.Off())
		}
		if _, ok := b.Blocked(request{"user": "eve"}); ok {
			t.Error("Blocked while enforcement is off, want nobody")
		}
		reads := shared.reads
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if shared.reads != reads {
			t.Errorf("%d times all notes were read while nothing changed, want 0", shared.reads-reads)
		}
		if err := b.Enforce(t.Context(), true, 0); err != nil {
			t.Fatal(err)
		}
		if there, err := b.Unblock(t.Context(), target(t, "user=eve")); !there || err != nil {
			t.Errorf("Unblock = %v, %v, want true", there, err)
		}
		if err := a.Refresh(t.Context()); err != nil || a.Off() || len(a.Blocks()) != 0 {
			t.Errorf("the first has %v, off %v, %v, want nothing", a.Blocks(), a.Off(), err)
		}
	})
}

// TestWhatWasHeardLastStaysWithoutTheStore is a store that is gone: nothing new can
// be said, and what holds goes on until its time is over.
func TestWhatWasHeardLastStaysWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &notes{}
		c := New(quiet(shared))
		block(t, c, "user=eve", time.Minute)
		shared.breaks(errors.New("gone"))
		if err := c.Refresh(t.Context()); err == nil {
			t.Error("Refresh without the store = nil, want an error")
		}
		if err := c.Block(t.Context(), target(t, "user=bob"), time.Minute); err == nil {
			t.Error("Block without the store = nil, want an error: others would not hear")
		}
		if _, ok := c.Blocked(request{"user": "eve"}); !ok {
			t.Error("the block is gone with the store, want it until its end")
		}
		time.Sleep(time.Minute)
		if _, ok := c.Blocked(request{"user": "eve"}); ok {
			t.Error("the block outlives its end")
		}
	})
}

func TestEnforcementComesBackByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(quiet(nil))
		if err := c.Enforce(t.Context(), false, time.Hour); err != nil || !c.Off() {
			t.Fatalf("Enforce(off) = %v, off %v", err, c.Off())
		}
		if got := c.OffUntil(); time.Until(got) != time.Hour {
			t.Errorf("OffUntil() = %v, want in an hour", got)
		}
		time.Sleep(time.Hour)
		if c.Off() {
			t.Error("off after its time, want on")
		}
	})
}

func TestBlocksAreBounded(t *testing.T) {
	c := New(quiet(nil))
	written := map[string]string{}
	for i := range MaxBlocks {
		written[blockNote+fmt.Sprintf("user=u%d", i)] = noteUntil(caudal.NewSystemClock().Now().Wall + 1e9)
	}
	c.notes = written
	err := c.Block(t.Context(), target(t, "user=one-more"), time.Minute)
	if err == nil || !strings.Contains(err.Error(), "1000 blocks") {
		t.Errorf("Block beyond the bound = %v, want an error", err)
	}
	block(t, c, "user=u1", time.Minute) // one that is there may change
}

// TestNotesOfStrangersAreLeftOut is a store that somebody else wrote to.
func TestNotesOfStrangersAreLeftOut(t *testing.T) {
	h := holdOf(map[string]string{"block:": "1", "block:x": "99", "block:user=a": "soon", "else": "5",
		"block:user=b": "0", "block:user=c": "-5", "block:user=d": "200"}, 100)
	if len(h.list) != 1 || h.list[0].Target.String() != "user=d" {
		t.Errorf("held = %v, want user=d alone", h.list)
	}
}

func TestNilControlsSayNothing(t *testing.T) {
	var c *Controls
	if _, ok := c.Blocked(request{"user": "eve"}); ok || c.Off() || c.Blocks() != nil {
		t.Error("nil Controls block, want nothing")
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, text := range []string{"", "eve", "=eve", "user=", "remote_address=eve", "0.0.0.0/0", "::ffff:1.2.3.0/120", "api_key=sha256:12", "user=" + strings.Repeat("a", 5000)} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("ParseTarget(%.30q) = %v, want an error", text, got)
		}
	}
}

func TestTargetsHideSecrets(t *testing.T) {
	hash := "sha256:" + hashOf("k-123")
	for text, want := range map[string]string{
		"api_key=k-123": "api_key=" + hash, "api_key=" + hash: "api_key=" + hash,
		"user=eve": "user=eve", "203.0.113.9": "remote_address=203.0.113.9", "2001:db8::7": "remote_address=2001:db8::/64",
		"remote_address=198.51.100.7/24": "remote_address=198.51.100.0/24",
	} {
		if got := target(t, text).String(); got != want {
			t.Errorf("ParseTarget(%s) = %s, want %s", text, got, want)
		} else if again := target(t, got); again.String() != got {
			t.Errorf("ParseTarget(%s) = %s, want the same", got, again)
		}
	}
}

func BenchmarkBlocked(b *testing.B) {
	for name, blocks := range map[string]int{"none": 0, "addresses": 100} {
		b.Run(name, func(b *testing.B) {
			c := New(quiet(nil))
			for i := range blocks {
				t, err := ParseTarget(fmt.Sprintf("10.0.0.%d", i+1))
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Block(b.Context(), t, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			req := request{"remote_address": "192.0.2.1", "api_key": "k"}
			for b.Loop() {
				c.Blocked(req)
			}
		})
	}
}
