package algorithm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// machine holds one key under one algorithm, as a store would.
type machine struct {
	kind caudal.Algorithm
	tb   algorithm.TokenBucket
	lb   algorithm.LeakyBucket
	fw   algorithm.FixedWindow
	sl   algorithm.SlidingLog
	sw   algorithm.SlidingWindow
}

func (m *machine) take(c *caudal.Compiled, now int64, cost uint32) (d caudal.Decision) {
	switch m.kind {
	case caudal.TokenBucket:
		m.tb, d = m.tb.Take(c, now, cost)
	case caudal.LeakyBucket:
		m.lb, d = m.lb.Take(c, now, cost)
	case caudal.FixedWindow:
		m.fw, d = m.fw.Take(c, now, cost)
	case caudal.SlidingLog:
		d = m.sl.Take(c, now, cost)
	case caudal.SlidingWindow:
		m.sw, d = m.sw.Take(c, now, cost)
	}
	return d
}

// refund takes back n of a charge of a call that never left.
func (m *machine) refund(c *caudal.Compiled, r caudal.Receipt, now int64, n uint32) {
	switch m.kind {
	case caudal.TokenBucket:
		m.tb = m.tb.Refund(c, n)
	case caudal.LeakyBucket:
		m.lb = m.lb.Refund(r, now, n)
	case caudal.FixedWindow:
		m.fw = m.fw.Refund(r.At, n)
	case caudal.SlidingLog:
		m.sl.Refund(r.At, n)
	case caudal.SlidingWindow:
		m.sw = m.sw.Refund(c, r.At, n)
	}
}

func (m *machine) credit(c *caudal.Compiled, now int64, n uint32) {
	switch m.kind {
	case caudal.TokenBucket:
		m.tb = m.tb.Refund(c, n)
	case caudal.LeakyBucket:
		m.lb = m.lb.Credit(c, now, n)
	case caudal.FixedWindow:
		m.fw = m.fw.Credit(c, now, n)
	case caudal.SlidingLog:
		m.sl.Credit(n)
	case caudal.SlidingWindow:
		m.sw = m.sw.Credit(c, now, n)
	}
}

func (m *machine) freshAt(c *caudal.Compiled) int64 {
	switch m.kind {
	case caudal.TokenBucket:
		return m.tb.FreshAt(c)
	case caudal.LeakyBucket:
		return m.lb.FreshAt(c)
	case caudal.FixedWindow:
		return m.fw.FreshAt(c)
	case caudal.SlidingLog:
		return m.sl.FreshAt(c)
	default:
		return m.sw.FreshAt(c)
	}
}

// clone copies the machine with the memory that it points to.
func (m *machine) clone() *machine {
	n := *m
	n.lb.Freed = slices.Clone(m.lb.Freed)
	n.sl.Entries = slices.Clone(m.sl.Entries)
	return &n
}

// ask decides without changing anything.
func (m *machine) ask(c *caudal.Compiled, now int64, cost uint32) caudal.Decision {
	d := m.clone().take(c, now, cost)
	d.Receipt = caudal.Receipt{}
	return d
}

func compile(t testing.TB, l caudal.Limit) *caudal.Compiled {
	t.Helper()
	c, err := l.Compile("", "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, s string) caudal.Limit {
	t.Helper()
	l, err := caudal.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// event is one line of a timeline: calls of one cost at one instant, and what the
// last of them must say. A change of the limit, a refund or a credit may come
// first.
type event struct {
	at    string // since the start, such as "3s"; "" is the start
	limit string // puts another limit in force
	// refund names an earlier event (see as) whose last charge is taken back:
	// never left, all of it unless n says less.
	refund string
	credit uint32
	n      uint32

	cost  uint32
	times int // 0 is once
	as    string

	denied    bool
	never     bool
	remaining uint64
	retry     string
	reset     string
	delay     string
}

// epochStart is a round instant at which windows of every length up to a day
// begin: 2026-11-30 00:00 UTC, a Monday.
var epochStart = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixMicro()

// runTimeline plays the events against a key of the limit and checks every field
// of every decision.
func runTimeline(t *testing.T, limit string, start int64, events []event) {
	t.Helper()
	l := parse(t, limit)
	c := compile(t, l)
	m := &machine{kind: l.Algorithm}
	receipts := map[string]caudal.Receipt{}
	for i, e := range events {
		now := start + length(t, e.at).Microseconds()
		if e.limit != "" {
			c = compile(t, parse(t, e.limit))
		}
		if e.refund != "" {
			r, ok := receipts[e.refund]
			if !ok || r.Cost == 0 {
				t.Fatalf("event %d: no charge is named %q", i, e.refund)
			}
			n := e.n
			if n == 0 {
				n = r.Cost
			}
			m.refund(c, r, now, n)
		}
		if e.credit > 0 {
			m.credit(c, now, e.credit)
		}
		var d caudal.Decision
		for k := range max(e.times, 1) {
			d = m.take(c, now, e.cost)
			if d.Allowed == e.denied {
				t.Fatalf("event %d: take(%s, cost %d), time %d = allowed %v, want %v", i, e.at, e.cost, k+1, d.Allowed, !e.denied)
			}
		}
		receipts[e.as] = d.Receipt
		want := caudal.Decision{
			Allowed: !e.denied, Never: e.never, Charged: !e.denied && e.cost > 0,
			Limit: c.Limit().Capacity(), Remaining: e.remaining,
			RetryAfter: length(t, e.retry), ResetAfter: length(t, e.reset), Delay: length(t, e.delay),
		}
		d.Receipt = caudal.Receipt{}
		if d != want {
			t.Errorf("event %d: take(%s, cost %d)\n got %+v\nwant %+v", i, e.at, e.cost, d, want)
		}
	}
}

func length(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
