package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// How long parts of a connection may take. They are not deadlines of calls, which
// come with the context: nobody waits for these but the background.
const (
	dialTimeout  = 2 * time.Second
	keepAlive    = time.Second            // how often an idle connection is tried
	firstRetry   = 20 * time.Millisecond  // after a lost connection, doubled
	longestRetry = 250 * time.Millisecond // up to this
)

// session is a client that has been connected and tried.
type session struct {
	client rueidis.Client
	// ownTime says that the server does not tell scripts the time.
	ownTime bool
}

// link keeps a session with Redis. A single server or a Sentinel group that
// cannot serve (it is gone, a replica, loading) loses its session: calls fail at
// once, and the background dials until one can be made, with names resolved anew.
// A Cluster's session stays: its nodes fail one by one, and the client follows
// them.
type link struct {
	target target
	option rueidis.ClientOption
	log    *slog.Logger
	// up is called with each new session, down when it is lost.
	up   func()
	down func(error)

	current atomic.Pointer[session] // nil while there is none
	reason  atomic.Pointer[Error]   // why there is none

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed and replaced with each new session
}

func newLink(t target, log *slog.Logger) *link {
	k := &link{target: t, log: log, changed: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.option = t.option()
	k.option.DialCtxFn = (&dialer{dials: map[string]chan dialed{}, ctx: k.ctx}).dial
	return k
}

// session gives the session to use now.
func (k *link) session(op string) (*session, error) {
	if ses := k.current.Load(); ses != nil {
		return ses, nil
	}
	if k.ctx.Err() != nil {
		return nil, caudal.ErrClosed
	}
	why := k.reason.Load()
	return nil, &Error{op, why.kind, why.transient, fmt.Errorf("not connected: %w", why.err)}
}

// connect makes a session within a context.
func (k *link) connect(ctx context.Context) (*session, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	ch := make(chan made, 1)
	k.wg.Add(1)
	go func() { // NewClient does not take a context
		defer k.wg.Done()
		client, err := rueidis.NewClient(k.option)
		ch <- made{client, err}
	}()
	var m made
	select {
	case m = <-ch:
	case <-ctx.Done():
		k.wg.Add(1)
		go func() {
			defer k.wg.Done()
			if m := <-ch; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, fail(ctx, "connect", ctx.Err())
	}
	if m.err == nil {
		ses := &session{client: m.client}
		if m.err = k.try(ctx, ses); m.err == nil {
			return ses, nil
		}
	}
	if m.client != nil {
		m.client.Close()
	}
	return nil, fail(ctx, "connect", m.err)
}

var errIsCluster = errors.New("the server is part of a Cluster: write the URL as redis-cluster://")

// try finds out whether a session can be used, and whether the server tells
// scripts the time.
func (k *link) try(ctx context.Context, ses *session) error {
	b := ses.client.B()
	if k.target.mode == modeSingle {
		info, err := ses.client.Do(ctx, b.Info().Section("cluster").Build()).ToString()
		if err == nil && strings.Contains(info, "cluster_enabled:1") {
			return &Error{"connect", KindOther, false, errIsCluster}
		}
	}
	sc := theScripts()
	probe := b.Eval().Script(sc.probe.text).Numkeys(1).Key(k.target.prefix + "{probe}").Build()
	if err := ses.client.Do(ctx, probe).Error(); err != nil {
		return err
	}
	err := ses.client.Do(ctx, b.Eval().Script(sc.clock.text).Numkeys(0).Build()).Error()
	if answer, ok := rueidis.IsRedisErr(err); ok {
		ses.ownTime = true
		k.log.Warn("redis does not tell scripts the time: the clocks of the instances are used, and should be kept in step",
			"error", answer.Error())
		return nil
	}
	return err
}

// start makes the first session; when that fails for a reason that may pass, and
// late is set, it goes on trying in the background.
func (k *link) start(ctx context.Context, late bool) error {
	ses, err := k.connect(ctx)
	if err == nil {
		k.install(ses)
		return nil
	}
	err = k.hintTLS(err)
	var e *Error
	if !late || !errors.As(err, &e) || !e.transient {
		return err
	}
	k.reason.Store(e)
	k.down(e)
	k.wg.Add(1)
	go k.recover()
	return nil
}

// install puts a session to use.
func (k *link) install(ses *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		ses.client.Close()
		return
	}
	k.up()
	k.current.Store(ses)
	close(k.changed)
	k.changed = make(chan struct{})
}

// await gives the next session, for what runs in the background.
func (k *link) await(last *session) *session {
	for {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		if ses := k.current.Load(); ses != nil && ses != last {
			return ses
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return nil
		}
	}
}

// failed hears of a failure of a call of a session.
func (k *link) failed(ses *session, err error) {
	var e *Error
	if k.target.mode == modeCluster || !errors.As(err, &e) || !lost(e.kind) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.current.Load() != ses {
		return
	}
	k.reason.Store(e)
	k.current.Store(nil)
	k.down(e)
	k.wg.Add(2)
	go func() {
		defer k.wg.Done()
		ses.client.Close() // waits for the calls under way
	}()
	go k.recover()
}

// background runs f in a goroutine that close waits for; false when it is closed.
func (k *link) background(f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.wg.Add(1)
	go func() {
		defer k.wg.Done()
		f()
	}()
	return true
}

// recover dials until there is a session again.
func (k *link) recover() {
	defer k.wg.Done()
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		ctx, cancel := context.WithTimeout(k.ctx, 2*dialTimeout)
		ses, err := k.connect(ctx)
		cancel()
		if err == nil {
			k.install(ses)
			return
		}
		var e *Error
		if errors.As(err, &e) {
			k.reason.Store(e)
		}
		select {
		case <-time.After(wait):
		case <-k.ctx.Done():
			return
		}
	}
}

// close ends the session and waits for the background.
func (k *link) close() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.closed = true
	k.cancel()
	ses := k.current.Swap(nil)
	k.mu.Unlock()
	if ses != nil {
		ses.client.Close()
	}
	k.wg.Wait()
}

// dialer dials on behalf of callers whose deadlines are shorter than a TLS
// handshake across data centres takes: a caller stops waiting at its deadline, and
// the connection goes to the next who asks. Otherwise none would ever be made.
type dialer struct {
	ctx   context.Context
	mu    sync.Mutex
	dials map[string]chan dialed
}

type dialed struct {
	conn net.Conn
	err  error
}

func (d *dialer) dial(ctx context.Context, addr string, nd *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	d.mu.Lock()
	ch, ok := d.dials[addr]
	if !ok {
		ch = make(chan dialed, 1)
		d.dials[addr] = ch
		go d.run(ch, addr, nd, cfg)
	}
	d.mu.Unlock()
	select {
	case r := <-ch:
		d.mu.Lock()
		if d.dials[addr] == ch {
			delete(d.dials, addr)
		}
		d.mu.Unlock()
		if r.conn == nil && r.err == nil { // somebody else took it
			return d.dial(ctx, addr, nd, cfg)
		}
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run dials once, and closes what nobody came for.
func (d *dialer) run(ch chan dialed, addr string, nd *net.Dialer, cfg *tls.Config) {
	ctx, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	var r dialed
	if cfg != nil {
		r.conn, r.err = (&tls.Dialer{NetDialer: nd, Config: cfg}).DialContext(ctx, "tcp", addr)
	} else {
		r.conn, r.err = nd.DialContext(ctx, "tcp", addr)
	}
	ch <- r
	close(ch)
	if r.conn == nil {
		return
	}
	select {
	case <-time.After(dialTimeout):
	case <-d.ctx.Done():
	}
	d.mu.Lock()
	if d.dials[addr] == ch {
		delete(d.dials, addr)
	}
	d.mu.Unlock()
	if left, ok := <-ch; ok && left.conn != nil {
		left.conn.Close()
	}
}
