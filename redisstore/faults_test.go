package redisstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

func TestMain(m *testing.M) {
	// The Cluster client closes connections that it no longer needs five seconds
	// later, and waits until it may look for nodes again, in goroutines that end then.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// within gives a context of so long.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantError checks that a call failed as a store does.
func wantError(t testing.TB, what string, err error, kind redisstore.Kind, transient bool) {
	t.Helper()
	var e *redisstore.Error
	if !errors.Is(err, caudal.ErrStore) || !errors.As(err, &e) {
		t.Errorf("%s = %v, want an error that wraps %v", what, err, caudal.ErrStore)
		return
	}
	if redisstore.KindOf(err) != kind || e.Transient() != transient {
		t.Errorf("%s = %v: kind %s, transient %v, want %s, %v", what, err, e.Kind(), e.Transient(), kind, transient)
	}
}

// eventually repeats a call until it succeeds and gives how long that took.
func eventually(t testing.TB, what string, call func() error) time.Duration {
	t.Helper()
	start := time.Now()
	var err error
	for time.Since(start) < 20*time.Second {
		if err = call(); err == nil {
			return time.Since(start)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s = %v, want success within 20 s", what, err)
	return 0
}

func ask(s *redisstore.Store, l *caudal.Compiled, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err := s.TakeKey(ctx, caudal.Instant{}, l, key, 1)
	return err
}

// A key that holds something foreign, or what a later version wrote, is an error
// for its counter alone and is left as it is.
func TestC80ForeignValues(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	for _, limit := range everyAlgorithm(10) {
		r.Do("FLUSHALL")
		l := compile(t, limit)
		take(t, s, caudal.Instant{}, l, "k", 1)
		key := keys(r)[0]
		r.Do("DEL", key)
		r.Do("RPUSH", key, "a")
		wantError(t, limit.String()+" on a list", ask(s, l, "k"), redisstore.KindWrongType, false)
		for _, foreign := range []string{"99", "hello, this is not a counter", "\xffcdefghijklmnopqrst"} {
			r.Do("SET", key, foreign)
			wantError(t, limit.String()+" on a foreign value", ask(s, l, "k"), redisstore.KindWrongType, false)
			err := s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Limit: l, Key: "k", N: 1}})
			wantError(t, limit.String()+": credit on a foreign value", err, redisstore.KindWrongType, false)
			if got := r.Do("GET", key); got != foreign {
				t.Errorf("%s: the foreign value is now %q, want %q", limit, got, foreign)
			}
		}
		if err := ask(s, l, "another"); err != nil {
			t.Errorf("%s: another key = %v", limit, err)
		}
	}
}

// Callers who share a script call do not share a fault.
func TestC80OneBadKeyInABatch(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.Per(1_000_000, caudal.Year))
	take(t, s, caudal.Instant{}, l, "bad", 1)
	key := keys(r)[0]
	r.Do("DEL", key)
	r.Do("RPUSH", key, "a")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 50 {
				if i%8 == 0 {
					wantError(t, "TakeKey of a list", ask(s, l, "bad"), redisstore.KindWrongType, false)
				} else if err := ask(s, l, "good"); err != nil {
					t.Errorf("TakeKey beside a bad key = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if d := take(t, s, caudal.Instant{}, l, "good", 0); d.Remaining > 1_000_000-56*50+300 || d.Remaining < 1_000_000-56*50 {
		t.Errorf("remaining = %d, want all of 2800 calls counted", d.Remaining)
	}
}

func TestC80OutOfMemory(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.PerHour(10))
	take(t, s, caudal.Instant{}, l, "k", 1)
	r.Do("CONFIG", "SET", "maxmemory", "1")
	wantError(t, "TakeKey without memory", ask(s, l, "k"), redisstore.KindOOM, true)
	r.Do("CONFIG", "SET", "maxmemory", "0")
	if d := take(t, s, caudal.Instant{}, l, "k", 1); d.Remaining != 8 {
		t.Errorf("remaining with memory again = %d, want 8: a failed call counts nothing", d.Remaining)
	}
}

func TestC80WrongPassword(t *testing.T) {
	r := redistest.StartPassword(t, "secret")
	for name, url := range map[string]string{
		"a wrong password": strings.Replace(r.URL(), "secret", "wrong", 1),
		"no password":      strings.Replace(r.URL(), ":secret@", "", 1),
		"an unknown user":  strings.Replace(r.URL(), ":secret@", "nobody:secret@", 1),
	} {
		for _, late := range []bool{false, true} {
			_, err := redisstore.Open(within(t, 10*time.Second), url, redisstore.Options{Logger: quiet, Late: late})
			wantError(t, "Open with "+name, err, redisstore.KindAuth, false)
		}
	}
	open(t, r.URL(), redisstore.Options{})
}

// A user with no more rights than the package comment asks for can do everything.
func TestLeastRights(t *testing.T) {
	r := redistest.Start(t)
	r.Do("ACL", "SETUSER", "app", "on", ">secret", "~caudal:*", "&caudal:*", "+evalsha", "+eval", "+script|load", "+get", "+set",
		"+del", "+exists", "+getrange", "+setrange", "+pexpire", "+pttl", "+time", "+publish", "+subscribe", "+ping", "+info")
	s := open(t, strings.Replace(r.URL(), "redis://", "redis://app:secret@", 1), redisstore.Options{Denials: 10})
	for _, limit := range everyAlgorithm(2) {
		l := compile(t, limit)
		awaitDenials(t, s, l)
		d := take(t, s, caudal.Instant{}, l, "k", 1)
		if err := s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Receipt: d.Receipt, N: 1}, {Limit: l, Key: "k", N: 1}}); err != nil {
			t.Errorf("%s: Refund = %v", limit, err)
		}
		if err := s.Reset(context.Background(), l, "k"); err != nil {
			t.Errorf("%s: Reset = %v", limit, err)
		}
	}
	if _, err := s.Check(context.Background()); err != nil {
		t.Errorf("Check = %v", err)
	}
}

func TestC80Refused(t *testing.T) {
	r := redistest.Start(t)
	r.Kill()
	_, err := redisstore.Open(within(t, 5*time.Second), r.URL(), redisstore.Options{Logger: quiet})
	wantError(t, "Open with nobody there", err, redisstore.KindConnection, true)
}

// A late Redis: calls fail at once until it is there, and work then.
func TestLateStart(t *testing.T) {
	r := redistest.Start(t)
	r.Kill()
	s := open(t, r.URL(), redisstore.Options{Late: true})
	l := compile(t, caudal.PerHour(10))
	wantError(t, "TakeKey before Redis is there", ask(s, l, "k"), redisstore.KindConnection, true)
	r.Restart()
	if took := eventually(t, "TakeKey once Redis is there", func() error { return ask(s, l, "k") }); took > 3*time.Second {
		t.Errorf("it took %s until calls worked, want under 3 s", took)
	}
}

// A server that is killed and comes back: errors meanwhile, all well after.
func TestRestart(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.PerHour(10))
	take(t, s, caudal.Instant{}, l, "k", 1)
	r.Kill()
	start := time.Now()
	wantError(t, "TakeKey with Redis killed", ask(s, l, "k"), redisstore.KindConnection, true)
	for range 100 {
		wantError(t, "TakeKey with Redis gone", ask(s, l, "k"), redisstore.KindConnection, true)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("101 calls with Redis gone took %s, want them to fail at once", took)
	}
	r.Restart()
	eventually(t, "TakeKey with Redis back", func() error { return ask(s, l, "k") })
}

// A server that is stopped answers nothing: each call ends at its deadline, those
// that were not sent charge nothing, and goroutines stay bounded.
func TestPausedServer(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.PerHour(10_000))
	take(t, s, caudal.Instant{}, l, "k", 1)
	r.Pause()
	var wg sync.WaitGroup
	var slowest atomic.Int64
	for range 50 {
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				start := time.Now()
				_, err := s.TakeKey(ctx, caudal.Instant{}, l, "k", 1)
				if took := int64(time.Since(start)); took > slowest.Load() {
					slowest.Store(took)
				}
				cancel()
				wantError(t, "TakeKey of a stopped server", err, redisstore.KindTimeout, true)
			}
		})
	}
	wg.Wait()
	if took := time.Duration(slowest.Load()); took > 500*time.Millisecond {
		t.Errorf("a call with a deadline of 5 ms took %s", took)
	}
	r.Resume()
	eventually(t, "TakeKey of a server that goes on", func() error { return ask(s, l, "k") })
	if d := take(t, s, caudal.Instant{}, l, "k", 0); d.Remaining < 10_000-2-200 {
		t.Errorf("remaining = %d: more than the calls under way were charged", d.Remaining)
	}
}

// door is a TCP listener that forwards to a server, which can be changed for new
// connections: what a Kubernetes Service or a DNS name is.
type door struct {
	net.Listener
	mu sync.Mutex
	to string
	wg sync.WaitGroup
}

func openDoor(t testing.TB, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l, to: to}
	go d.serve()
	t.Cleanup(func() { l.Close(); d.wg.Wait() })
	return d
}

func (d *door) serve() {
	for {
		in, err := d.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		to := d.to
		d.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		for _, pair := range [2][2]net.Conn{{in, out}, {out, in}} {
			d.wg.Go(func() {
				defer pair[0].Close()
				defer pair[1].Close()
				_, _ = io.Copy(pair[0], pair[1]) // ends when either side closes
			})
		}
	}
}

func (d *door) leadTo(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = addr
}

// A master that was demoted goes on answering READONLY on the connections that it
// has: they are dropped, and the name leads to the new master.
func TestC29DemotedMaster(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	d := openDoor(t, old.Addr)
	s := open(t, "redis://"+d.Addr().String(), redisstore.Options{})
	l := compile(t, caudal.PerHour(10))
	take(t, s, caudal.Instant{}, l, "k", 1)
	host, port, _ := net.SplitHostPort(next.Addr)
	old.Do("REPLICAOF", host, port)
	old.Await("master_link_status:up", "INFO", "replication")
	wantError(t, "TakeKey of a demoted master", ask(s, l, "k"), redisstore.KindReadOnly, true)
	wantError(t, "TakeKey while dialling", ask(s, l, "k"), redisstore.KindReadOnly, true)
	d.leadTo(next.Addr)
	if took := eventually(t, "TakeKey once the name leads on", func() error { return ask(s, l, "k") }); took > 2*time.Second {
		t.Errorf("recovery took %s, want under 2 s", took)
	}
}

// A failover by Sentinel is followed.
func TestSentinelFailover(t *testing.T) {
	g := redistest.StartSentinels(t)
	s := open(t, g.URL(), redisstore.Options{})
	l := compile(t, caudal.PerHour(10))
	take(t, s, caudal.Instant{}, l, "k", 3)
	g.Replica.Await("1", "DBSIZE")
	g.Failover()
	eventually(t, "TakeKey after the failover", func() error { return ask(s, l, "k") })
	if d := take(t, s, caudal.Instant{}, l, "k", 0); d.Remaining < 5 || d.Remaining > 6 {
		t.Errorf("remaining after the failover = %d, want 6, or 5 when a failed call was charged", d.Remaining)
	}
}

func TestSentinelUnknownMaster(t *testing.T) {
	g := redistest.StartSentinels(t)
	_, err := redisstore.Open(within(t, 10*time.Second), strings.TrimSuffix(g.URL(), redistest.MasterName)+"other", redisstore.Options{Logger: quiet})
	if !errors.Is(err, caudal.ErrStore) {
		t.Errorf("Open with an unknown master = %v, want an error that wraps %v", err, caudal.ErrStore)
	}
}

func TestTLS(t *testing.T) {
	certs := redistest.MakeCertificates(t, time.Now().Add(time.Hour))
	r := redistest.StartTLS(t, certs, true)
	ca := "?ca=" + certs.CA
	both := ca + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	s := open(t, r.URL()+both+"&server_name=redis.example", redisstore.Options{})
	take(t, s, caudal.Instant{}, compile(t, caudal.PerHour(1)), "k", 1)
	for name, query := range map[string]string{
		"an unknown authority":    "?cert=" + certs.ClientCert + "&key=" + certs.ClientKey,
		"no client certificate":   ca,
		"the name of another one": both + "&server_name=other.example",
	} {
		_, err := redisstore.Open(within(t, 10*time.Second), r.URL()+query, redisstore.Options{Logger: quiet})
		wantError(t, "Open with "+name, err, redisstore.KindConnection, true)
	}
	expired := redistest.MakeCertificates(t, time.Now().Add(-time.Hour))
	old := redistest.StartTLS(t, expired, false)
	_, err := redisstore.Open(within(t, 10*time.Second), old.URL()+"?ca="+expired.CA, redisstore.Options{Logger: quiet})
	wantError(t, "Open with an expired certificate", err, redisstore.KindConnection, true)
	open(t, old.URL()+"?insecure=true", redisstore.Options{})
}

func TestClusterNeedsItsURL(t *testing.T) {
	r := redistest.Start(t, "cluster-enabled yes")
	_, err := redisstore.Open(within(t, 10*time.Second), r.URL(), redisstore.Options{Logger: quiet, Late: true})
	if err == nil || !strings.Contains(err.Error(), "redis-cluster://") {
		t.Errorf("Open of a Cluster's node = %v, want an error that says redis-cluster://", err)
	}
}

// While slots move and a master hands over, never more pass than the limit, and
// exactly it when no call failed.
func TestClusterWhileSlotsMove(t *testing.T) {
	c := redistest.StartCluster(t)
	s := open(t, c.URL(), redisstore.Options{})
	masters := c.Masters()
	const keysAsked, limit = 40, 100
	l := compile(t, caudal.Per(limit, caudal.Year).With(caudal.FixedWindow))
	var passed [keysAsked]atomic.Int64
	var failed [keysAsked]atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; ; i++ {
				k := i % keysAsked
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				d, err := s.TakeKey(ctx, caudal.Instant{}, l, "key "+string(rune('A'+k)), 1)
				cancel()
				if err != nil {
					failed[k].Add(1)
				} else if d.Allowed {
					passed[k].Add(1)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	c.Reshard(masters[0], masters[1], 1000)
	c.Failover(c.Replicas()[0])
	masters = c.Masters()
	c.Reshard(masters[1], masters[2], 500)
	close(stop)
	wg.Wait()
	for k := range keysAsked { // everyone asks until the limit is reached
		for range limit + 1 {
			d, err := s.TakeKey(within(t, 10*time.Second), caudal.Instant{}, l, "key "+string(rune('A'+k)), 1)
			if err != nil {
				failed[k].Add(1)
			} else if d.Allowed {
				passed[k].Add(1)
			}
		}
		p, f := passed[k].Load(), failed[k].Load()
		if p > limit || f == 0 && p != limit {
			t.Errorf("key %d: %d passed and %d failed, want at most %d, and exactly that without failures", k, p, f, limit)
		}
	}
}

func TestClose(t *testing.T) {
	_, s := single(t, redisstore.Options{Denials: 10})
	l := compile(t, caudal.PerHour(1))
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again = %v", err)
	}
	if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); !errors.Is(err, caudal.ErrClosed) {
		t.Errorf("TakeKey after Close = %v, want %v", err, caudal.ErrClosed)
	}
}

// The caller's own cancellation is no failure of the store.
func TestCancelled(t *testing.T) {
	_, s := single(t, redisstore.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.TakeKey(ctx, caudal.Instant{}, compile(t, caudal.PerHour(1)), "k", 1)
	if !errors.Is(err, context.Canceled) || errors.Is(err, caudal.ErrStore) {
		t.Errorf("TakeKey of a cancelled context = %v, want %v alone", err, context.Canceled)
	}
}
