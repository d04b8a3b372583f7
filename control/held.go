package control

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// The names of notes: one says that enforcement is off, the others are blocks. The
// value is when it is over, in microseconds since 1970; 0 is never.
const (
	offNote   = "enforcement-off"
	blockNote = "block:"
)

func noteUntil(us int64) string { return strconv.FormatInt(us, 10) }

// Block is one block in force.
type Block struct {
	// Target is whom it is about.
	Target Target
	// Until is when it is over.
	Until time.Time
}

// held is what the notes say, made ready to look up. It does not change.
type held struct {
	off      bool
	offUntil int64 // microseconds; 0 is never
	list     []Block
	texts    []attributeBlocks
	networks map[netip.Prefix]int64
	bits     []lengths // of the networks
}

// attributeBlocks are the blocked values of one attribute, with their ends.
type attributeBlocks struct {
	attribute string
	hashed    bool
	values    map[string]int64
}

// lengths is a length of networks that occurs.
type lengths struct {
	v6   bool
	bits int
}

// until reads when a note is over; ok is false for what nobody wrote.
func until(value string) (us int64, ok bool) {
	us, err := strconv.ParseInt(value, 10, 64)
	return us, err == nil && us >= 0
}

func over(us, now int64) bool { return us > 0 && us <= now }

// overNotes names the notes whose time is over.
func overNotes(notes map[string]string, now int64) (names []string) {
	for name, value := range notes {
		if us, ok := until(value); !ok || over(us, now) {
			names = append(names, name)
		}
	}
	return names
}

// holdOf reads notes. What it cannot read, and what goes beyond MaxBlocks, is left
// out: others may have written to the store.
func holdOf(notes map[string]string, now int64) *held {
	h := &held{}
	for name, value := range notes {
		us, ok := until(value)
		if !ok || over(us, now) {
			continue
		}
		if name == offNote {
			h.off, h.offUntil = true, us
			continue
		}
		text, ok := strings.CutPrefix(name, blockNote)
		if !ok || us == 0 || len(h.list) >= MaxBlocks {
			continue
		}
		if t, err := ParseTarget(text); err == nil {
			h.list = append(h.list, Block{t, time.UnixMicro(us)})
		}
	}
	slices.SortFunc(h.list, func(a, b Block) int { return strings.Compare(a.Target.String(), b.Target.String()) })
	for _, b := range h.list {
		h.add(b.Target, b.Until.UnixMicro())
	}
	return h
}

func (h *held) add(t Target, us int64) {
	if t.prefix.IsValid() {
		if h.networks == nil {
			h.networks = map[netip.Prefix]int64{}
		}
		h.networks[t.prefix] = us
		if l := (lengths{t.prefix.Addr().Is6(), t.prefix.Bits()}); !slices.Contains(h.bits, l) {
			h.bits = append(h.bits, l)
		}
		return
	}
	i := slices.IndexFunc(h.texts, func(a attributeBlocks) bool { return a.attribute == t.attribute })
	if i < 0 {
		i = len(h.texts)
		h.texts = append(h.texts, attributeBlocks{t.attribute, t.hash != "", map[string]int64{}})
	}
	h.texts[i].values[t.value+t.hash] = us // one of them is empty
}

func (h *held) same(as *held) bool {
	return h.off == as.off && h.offUntil == as.offUntil && slices.Equal(h.list, as.list)
}

// Hit says that a request is blocked.
type Hit struct {
	// Attribute is which of its attributes is.
	Attribute string
	// Left is how long the block lasts.
	Left time.Duration
}

// Off reports whether enforcement is off.
func (c *Controls) Off() bool {
	if c == nil {
		return false
	}
	h := c.held.Load()
	return h.off && (h.offUntil == 0 || h.offUntil > c.wall())
}

// OffUntil gives when enforcement comes back; the zero time when nobody said.
func (c *Controls) OffUntil() time.Time {
	if h := c.held.Load(); h.offUntil > 0 {
		return time.UnixMicro(h.offUntil)
	}
	return time.Time{}
}

// Blocks gives the blocks in force, sorted by target.
func (c *Controls) Blocks() []Block {
	if c == nil {
		return nil
	}
	now := c.wall()
	var live []Block
	for _, b := range c.held.Load().list {
		if !over(b.Until.UnixMicro(), now) {
			live = append(live, b)
		}
	}
	return live
}

// Requests is how many requests were blocked since the start.
func (c *Controls) Requests() uint64 { return c.blocked.Load() }

// Blocked reports whether a request is blocked, and by the block that lasts
// longest, and counts it if so. Nobody is while enforcement is off.
func (c *Controls) Blocked(req rule.Request) (Hit, bool) { return c.counted(c.Lookup(req)) }

// BlockedEntries is Blocked for a descriptor.
func (c *Controls) BlockedEntries(entries []rule.Entry) (Hit, bool) {
	return c.counted(c.LookupEntries(entries))
}

func (c *Controls) counted(hit Hit, ok bool) (Hit, bool) {
	if ok {
		c.blocked.Add(1)
	}
	return hit, ok
}

// Lookup is Blocked for somebody who only looks.
func (c *Controls) Lookup(req rule.Request) (Hit, bool) {
	if c == nil {
		return Hit{}, false
	}
	h := c.held.Load()
	if len(h.list) == 0 || c.Off() {
		return Hit{}, false
	}
	f := finding{now: c.wall()}
	if len(h.bits) > 0 {
		f.take("remote_address", h.network(req.Address()))
	}
	for i := range h.texts {
		a := &h.texts[i]
		if v, ok := req.Attribute(a.attribute); ok {
			f.take(a.attribute, a.find(v))
		}
		if r, ok := req.(sent); ok {
			for _, v := range r.Sent(a.attribute) {
				f.take(a.attribute, a.find(v))
			}
		}
	}
	return f.hit()
}

// sent is the ability of a request to tell of values that are not its attribute
// because there are several, such as two different API keys: a client that is
// blocked by one of them must not go free by adding another. An identity.Request
// has it.
type sent interface {
	Sent(attribute string) []string
}

// LookupEntries is Lookup for a descriptor.
func (c *Controls) LookupEntries(entries []rule.Entry) (Hit, bool) {
	if c == nil {
		return Hit{}, false
	}
	h := c.held.Load()
	if len(h.list) == 0 || c.Off() {
		return Hit{}, false
	}
	f := finding{now: c.wall()}
	for _, e := range entries {
		if e.Key == "remote_address" && len(h.bits) > 0 {
			if a, err := netip.ParseAddr(e.Value); err == nil {
				f.take(e.Key, h.network(a))
			}
		}
		for i := range h.texts {
			if a := &h.texts[i]; a.attribute == e.Key {
				f.take(e.Key, a.find(e.Value))
			}
		}
	}
	return f.hit()
}

// finding is the block that lasts longest of those that were found.
type finding struct {
	now, until int64
	attribute  string
}

func (f *finding) take(attribute string, us int64) {
	if us > f.until && !over(us, f.now) {
		f.until, f.attribute = us, attribute
	}
}

func (f *finding) hit() (Hit, bool) {
	if f.until == 0 {
		return Hit{}, false
	}
	return Hit{f.attribute, time.Duration(f.until-f.now) * time.Microsecond}, true
}

func (a *attributeBlocks) find(value string) int64 {
	if a.hashed {
		value = hashOf(value)
	}
	return a.values[value]
}

func (h *held) network(a netip.Addr) (us int64) {
	a = a.Unmap().WithZone("")
	for _, l := range h.bits {
		if l.v6 != a.Is6() {
			continue
		}
		if p, err := a.Prefix(l.bits); err == nil {
			us = max(us, h.networks[p])
		}
	}
	return us
}
