package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// sentinelRefresh is how often the sentinels are asked who the master is, beside
// listening to what they say.
const sentinelRefresh = 5 * time.Second

// DefaultPrefix is what keys begin with when Options.Prefix is empty.
const DefaultPrefix = "caudal:"

// maxPrefix bounds the prefix: it is part of every key.
const maxPrefix = 32

// Options changes a store. The zero value is good for production.
type Options struct {
	// Prefix is what all keys begin with; empty means DefaultPrefix. Stores of one
	// server with different prefixes share nothing. At most 32 bytes, without
	// braces.
	Prefix string

	// CallerTime makes calls that bring an instant be decided for its Wall, not for
	// the server's time: for tests, and for replaying the past. The clocks of all
	// who share a counter then matter. Calls without an instant use the server's
	// time even so.
	CallerTime bool

	// Clock is read where the server does not tell scripts the time, and to guess
	// which calendar window it is. Nil means the system's.
	Clock caudal.Clock

	// Denials is how many denied counters are remembered, so that later calls are
	// denied without asking Redis until they could pass; 0 means none. See
	// [Store.Take].
	Denials int

	// Leases is how many keys of limits whose accuracy is caudal.Leased are leased at
	// a time; 0 means DefaultLeases. Other keys are decided exactly.
	Leases int

	// Late makes Open succeed while Redis cannot be reached: calls fail until it
	// can. What somebody has to mend (URL, password) is an error all the same.
	Late bool

	// TLS is the configuration for URLs with TLS, to which their options add; nil
	// means the system's authorities and TLS 1.2.
	TLS *tls.Config

	// Logger gets one line when the connection is lost and when it is back; nil
	// means slog.Default.
	Logger *slog.Logger

	// Observer is told what happens; nil means nobody.
	Observer Observer
}

// Observer is told what a store does. Its methods are called on the callers' way
// and must be fast and safe for concurrent use.
type Observer interface {
	// Call hears of each call of Redis: what for ("take", "lease", "refund", "reset",
	// "check", "acquire", "renew", "release"), how long it took, and the error if it failed.
	Call(op string, took time.Duration, err error)
	// DeniedLocally hears of each request denied without asking Redis.
	DeniedLocally()
	// Connected hears when the connection is made, and when it is lost and why.
	Connected(up bool, why error)
}

type nobody struct{}

func (nobody) Call(string, time.Duration, error) {}
func (nobody) DeniedLocally()                    {}
func (nobody) Connected(bool, error)             {}

// Store counts in Redis. It is safe for concurrent use. Use [Open]; Close it when
// done.
type Store struct {
	prefix     string
	callerTime bool
	clock      caudal.Clock
	observer   Observer
	observed   bool
	log        *slog.Logger
	scripts    *scripts
	link       *link
	calendar   calendars
	sharer     sharer
	sharers    sharers  // on a Cluster, instead
	denials    *denials // nil when off
	leases     *leases
	channel    string
	cluster    bool
	background chan struct{} // one token per take-back under way
}

var (
	_ caudal.Store    = (*Store)(nil)
	_ caudal.KeyStore = (*Store)(nil)
	_ caudal.Refunder = (*Store)(nil)
	_ caudal.Resetter = (*Store)(nil)
)

// maxBackground bounds the take-backs that run after their call was answered.
const maxBackground = 256

// Open connects to Redis.
//
//	redis://user:password@host:6379/0
//	rediss://host:6379?ca=ca.pem&cert=client.pem&key=client.key&server_name=redis.example
//	redis-sentinel://host:26379,host:26379/master/0?sentinel_password=secret
//	redis-cluster://host:6379,host:6379
//
// rediss-sentinel and rediss-cluster are the same with TLS. User and password are
// those of the data servers, percent-encoded; insecure=true turns the checking of
// certificates off. The context bounds how long connecting may take.
//
// An error is an *Error; one that is not transient (a wrong URL or password) will
// not pass by itself.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	t, err := parseURL(url, o.TLS)
	if err != nil {
		return nil, err
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	t.prefix = o.Prefix
	s := &Store{
		prefix: o.Prefix, callerTime: o.CallerTime, clock: o.Clock, log: o.Logger,
		observer: o.Observer, observed: o.Observer != Observer(nobody{}),
		scripts: theScripts(), link: newLink(t, o.Logger), channel: o.Prefix + "ask-again",
		cluster: t.mode == modeCluster, background: make(chan struct{}, maxBackground),
	}
	s.leases = newLeases(o.Leases)
	s.link.up, s.link.down = s.connected, s.disconnected
	if o.Denials > 0 {
		s.denials = newDenials(o.Denials)
	}
	if err := s.link.start(ctx, o.Late); err != nil {
		s.link.close()
		return nil, err
	}
	if s.denials != nil {
		s.link.wg.Add(1)
		go s.listen()
	}
	s.link.wg.Add(1)
	go s.keepLeases()
	return s, nil
}

func (o *Options) setDefaults() error {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if len(o.Prefix) > maxPrefix || containsAny(o.Prefix, "{}") {
		return &Error{"open", KindOther, false, errors.New("the prefix must be at most 32 bytes, without braces")}
	}
	if o.Leases <= 0 {
		o.Leases = DefaultLeases
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return nil
}

func containsAny(s, chars string) bool {
	for _, c := range s {
		for _, x := range chars {
			if c == x {
				return true
			}
		}
	}
	return false
}

// Close gives back what is leased, ends the connections and waits for what runs in
// the background. Calls after it return caudal.ErrClosed.
func (s *Store) Close() error {
	s.leases.ending.Store(true)
	for end := time.Now().Add(returnWait); s.leases.asked() && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // what is on its way goes back too
	}
	back, _ := s.leases.close(s.clock.Now())
	s.returnLeases(context.Background(), back)
	s.link.close()
	return nil
}

func (s *Store) connected() {
	if s.denials != nil {
		s.denials.clear()
	}
	s.leases.void(func(*lease) bool { return true }) // the server may be another one, which does not know of them
	s.log.Info("connected to redis")
	s.observer.Connected(true, nil)
}

func (s *Store) disconnected(why error) {
	s.log.Warn("lost redis, dialling", "error", why)
	s.observer.Connected(false, why)
}

// instant is the time of a call: what the script is told, and what the caller's
// clock says.
type instant struct {
	now  string // for the script; empty: the server's time
	wall int64  // the caller's idea of it
}

// lastInstant is the latest instant that the scripts tell apart. Up to 2^53, in
// the year 2255, Lua's numbers are exact to a microsecond, and after that to two.
const lastInstant = 1<<54 - 1<<51

func (s *Store) instant(ses *session, at caudal.Instant) instant {
	given := s.callerTime && !at.IsZero()
	if !given {
		at = s.clock.Now()
	}
	wall := min(max(at.Wall, 0), lastInstant)
	if wall > 1<<53 {
		wall &^= 1
	}
	if given || ses.ownTime {
		return instant{strconv.FormatInt(wall, 10), wall}
	}
	return instant{"", wall}
}

// Take decides all limits of a request in one round trip; see caudal.Store.
//
// With Options.Denials, a request is denied without asking Redis when one of its
// enforced limits is known to deny a call of this cost for some time yet: Redis
// said so, and the time has not come. Only requests whose limits are all enforced
// are, and never by a leaky bucket. The decisions then name the known denials
// alone, with the least that must be waited; those of the other limits are
// Unasked and count nothing.
func (s *Store) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	if len(calls) == 0 {
		return nil
	}
	if len(calls) > maxLimits {
		return &Error{"take", KindRequest, false, fmt.Errorf("%d limits on one request: at most %d", len(calls), maxLimits)}
	}
	if len(calls) == 1 {
		c := &calls[0]
		if !s.leasable(at, c) {
			return s.take(ctx, at, c, counterOf(c.Limit, c.Key), &out[0])
		}
		h := hashOf(c.Limit, c.Key)
		if s.spend(h, c.Limit, c.Cost, &out[0]) {
			return nil
		}
		return s.takeLease(ctx, at, c, h, counterOf(c.Limit, c.Key), &out[0])
	}
	if calls[0].Alone {
		return s.takeAlone(ctx, at, calls, out)
	}
	leasing := s.leasing(at, calls)
	if leasing && s.leases.count.Load() > 0 {
		if done, err := s.takeMixed(ctx, at, calls, out); done {
			return err
		}
	}
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.fill(calls)
	if s.denials != nil && s.denyRequest(r, at, calls, out) {
		return nil
	}
	if leasing {
		s.wantLeases(at, r, calls)
	}
	learn := s.denials != nil && s.serverTime(at)
	var sent time.Duration
	var drops []uint64
	if learn {
		sent, drops = s.stamps(r)
	}
	var err error
	if s.cluster {
		err = s.takeScattered(ctx, at, r, calls, out)
	} else {
		err = s.takeTogether(ctx, at, r, calls, out)
	}
	if learn && err == nil {
		s.learnRequest(r, calls, out, sent, drops)
	}
	return err
}

// TakeKey decides one limit; see caudal.KeyStore.
func (s *Store) TakeKey(ctx context.Context, at caudal.Instant, limit *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	var d caudal.Decision
	call := caudal.Call{Limit: limit, Cost: cost}
	if !s.leasable(at, &call) {
		err := s.take(ctx, at, &call, counterOf(limit, key), &d)
		return d, err
	}
	h := hashOf(limit, key)
	if s.spend(h, limit, cost, &d) {
		return d, nil
	}
	err := s.takeLease(ctx, at, &call, h, counterOf(limit, key), &d)
	return d, err
}

// takeLease decides one limit that no lease covers, and takes a lease with it where
// the key is hot.
func (s *Store) takeLease(ctx context.Context, at caudal.Instant, call *caudal.Call, h keyhash.Hash, c counter, d *caudal.Decision) error {
	l, cost := call.Limit, call.Cost
	if cost == 0 {
		return s.take(ctx, at, call, c, d)
	}
	if s.denials != nil && s.denials.deny(l, c, uint64(cost), d) {
		s.observer.DeniedLocally()
		return nil
	}
	w := s.leases.begin(h, l, c, uint64(cost), s.clock.Now())
	if w == nil {
		return s.take(ctx, at, call, c, d)
	}
	ses, err := s.link.session("take")
	if err != nil {
		s.failLease(w)
		return err
	}
	var sent time.Duration
	var drops uint64
	if s.denials != nil {
		sent, drops = s.denials.stamp(c)
	}
	if err := s.askLease(ctx, ses, w, at, cost, d); err != nil {
		return err
	}
	if s.denials != nil && !d.Allowed {
		s.denials.learn(l, c, uint64(cost), d, sent, drops)
	}
	return nil
}

// take decides one limit by itself. Whether it is enforced makes no difference to
// what is charged: it is when it has room.
func (s *Store) take(ctx context.Context, at caudal.Instant, call *caudal.Call, c counter, d *caudal.Decision) error {
	l, cost := call.Limit, call.Cost
	known := s.denials != nil && call.Mode == caudal.Enforce && s.serverTime(at)
	if known && s.denials.deny(l, c, uint64(cost), d) {
		s.observer.DeniedLocally()
		return nil
	}
	ses, err := s.link.session("take")
	if err != nil {
		return err
	}
	var sent time.Duration
	var drops uint64
	if known {
		sent, drops = s.denials.stamp(c)
	}
	q, err := s.askOne(ctx, ses, call, c, s.instant(ses, at))
	if err != nil {
		return err
	}
	q.verdict(0, l).decide(l, c, cost, q.now, rand.Uint64(), d)
	if known && !d.Allowed {
		s.denials.learn(l, c, uint64(cost), d, sent, drops)
	}
	return nil
}

// serverTime reports whether a call is decided by the time that passes, not by an
// instant that the caller brings.
func (s *Store) serverTime(at caudal.Instant) bool { return !s.callerTime || at.IsZero() }

// askOne asks for one limit, again with other boundaries while the server's time
// lies outside those that it was given.
func (s *Store) askOne(ctx context.Context, ses *session, call *caudal.Call, c counter, t instant) (answer, error) {
	var buf [128]byte
	for range maxAsks {
		q, err := s.submit(ctx, ses, s.appendOne(buf[:0], c, call, t.wall), t.now)
		if err != nil || q.answered() {
			return q, err
		}
		t.wall = q.wall
	}
	return answer{}, errNoWindow("take")
}

// request holds what is worked out about a batch. They are pooled.
type request struct {
	counters []counter
	shared   bool // some limits share a counter
}

var requests = sync.Pool{New: func() any { return new(request) }}

func (r *request) fill(calls []caudal.Call) {
	r.counters, r.shared = r.counters[:0], false
	for i := range calls {
		c := counterOf(calls[i].Limit, calls[i].Key)
		for _, other := range r.counters {
			r.shared = r.shared || other == c
		}
		r.counters = append(r.counters, c)
	}
}

// sharedWith reports whether call i shares its counter with another.
func (r *request) sharedWith(i int) bool {
	for j, c := range r.counters {
		if j != i && c == r.counters[i] {
			return true
		}
	}
	return false
}

// maxCost is the largest cost that a script takes: far above every limit.
const maxCost = 1<<40 - 1

// cost is what the request asks of the counter of call i. Calls that are not
// enforced do not weigh on those that are.
func (r *request) cost(calls []caudal.Call, i int) uint64 {
	sum := uint64(0)
	for j := range calls {
		if r.counters[j] == r.counters[i] && (calls[j].Mode != caudal.Shadow || calls[i].Mode == caudal.Shadow) {
			sum += uint64(calls[j].Cost)
		}
	}
	return min(sum, maxCost)
}
