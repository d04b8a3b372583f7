package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// A token bucket costs Redis what the same key with 8 bytes and a time to live
// does.
func TestMemoryPerKey(t *testing.T) {
	r, s := single(t, redisstore.Options{CallerTime: true}) // keys live a minute at least
	for _, c := range []struct {
		limit caudal.Limit
		most  float64
	}{
		{caudal.PerSecond(1000), 1},
		{caudal.PerMinute(100).WithBurst(20), 1},
		{caudal.PerHour(200), 1},
		{caudal.PerDay(10_000), 1.15},
		{caudal.Per(1_000_000, caudal.Month), 1.15},
		{caudal.PerMinute(100).With(caudal.FixedWindow), 1},
		{caudal.PerMinute(100).With(caudal.SlidingWindow), 1},
		{caudal.PerSecond(50).WithQueue(60, 0), 1.2},
	} {
		r.Do("FLUSHALL")
		l := compile(t, c.limit)
		for range 3 {
			take(t, s, at(0), l, "client", 1)
		}
		key := keys(r)[0]
		ours := memoryUsage(t, r, key)
		r.Do("SET", key, "abcdefgh", "PX", "60000")
		floor := memoryUsage(t, r, key)
		if ratio := ours / floor; ratio > c.most {
			t.Errorf("%s: %v bytes a key, %.2f times the %v of a plain one, want at most %.2f", c.limit, ours, ratio, floor, c.most)
		}
	}
}

func memoryUsage(t testing.TB, r *redistest.Server, key string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(r.Do("MEMORY", "USAGE", key), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// calls gives how often the server ran a command.
func calls(r *redistest.Server, command string) int {
	n := 0
	for line := range strings.Lines(r.Do("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, _ = strconv.Atoi(rest[:strings.IndexByte(rest, ',')])
		}
	}
	return n
}

// However many limits a request has, it is one command and one round trip: one
// read and one write per counter inside.
func TestOneRoundTripPerRequest(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	limits := []*caudal.Compiled{
		compile(t, caudal.PerHour(1000)), compile(t, caudal.PerDay(1000).With(caudal.FixedWindow)), compile(t, caudal.PerHour(1000).With(caudal.SlidingWindow)),
	}
	for n := 1; n <= len(limits); n++ {
		batch, out := make([]caudal.Call, n), make([]caudal.Decision, n)
		for i := range batch {
			batch[i] = caudal.Call{Limit: limits[i], Key: []byte("k"), Cost: 1}
		}
		if err := s.Take(context.Background(), caudal.Instant{}, batch, out); err != nil { // loads the script
			t.Fatal(err)
		}
		r.Do("CONFIG", "RESETSTAT")
		in, before := r.InfoInt("stats", "total_net_input_bytes"), r.InfoInt("stats", "total_net_output_bytes")
		const times = 200
		for range times {
			if err := s.Take(context.Background(), caudal.Instant{}, batch, out); err != nil {
				t.Fatal(err)
			}
		}
		bytesIn := (r.InfoInt("stats", "total_net_input_bytes") - in) / times
		bytesOut := (r.InfoInt("stats", "total_net_output_bytes") - before) / times
		for command, want := range map[string]int{"evalsha": times, "eval": 0, "get": n * times, "set": n * times, "time": times, "pttl": 0} {
			if got := calls(r, command); got != want {
				t.Errorf("%d limits: %d calls of %s for %d requests, want %d", n, got, command, times, want)
			}
		}
		if bytesIn > int64(120+130*n) || bytesOut > int64(60+60*n) {
			t.Errorf("%d limits: %d bytes in and %d out per request, want at most %d and %d", n, bytesIn, bytesOut, 120+130*n, 60+60*n)
		}
	}
}

// A large log costs a call what it drops and looks at: a few commands and some
// hundred bytes, not the log.
func TestLargeLogIsNotRead(t *testing.T) {
	r, s := single(t, redisstore.Options{CallerTime: true})
	l := compile(t, caudal.PerHour(20_000).With(caudal.SlidingLog))
	for i := range 5000 {
		take(t, s, at(float64(i)/10), l, "k", 1)
	}
	key := keys(r)[0]
	if size, _ := strconv.Atoi(r.Do("STRLEN", key)); size != 20+11*5000 {
		t.Errorf("a log of 5000 entries = %d bytes, want %d", size, 20+11*5000)
	}
	r.Do("CONFIG", "RESETSTAT")
	take(t, s, at(501), l, "k", 1)
	for command, want := range map[string]int{"get": 0, "set": 0, "getrange": 1, "setrange": 2, "pexpire": 1} {
		if got := calls(r, command); got != want {
			t.Errorf("one call on a log of 5000: %d calls of %s, want %d", got, command, want)
		}
	}
	// An hour later the first thousand have left, and the space with them in time.
	for i := range 3000 {
		take(t, s, at(3600+float64(i)/10), l, "k", 1)
	}
	if size, _ := strconv.Atoi(r.Do("STRLEN", key)); size > 20+11*8001 {
		t.Errorf("after 3000 left = %d bytes, want no more than was ever live", size)
	}
	if d := take(t, s, at(3600+500+3600), l, "k", 0); d.Remaining != 20_000 {
		t.Errorf("an hour after the last = %d remaining, want all", d.Remaining)
	}
}

// Check tells what may lose quotas, and how many keys were evicted.
func TestCheck(t *testing.T) {
	r := redistest.Start(t, "maxmemory 3mb", "maxmemory-policy allkeys-lru")
	s := open(t, r.URL(), redisstore.Options{})
	ctx := context.Background()
	h, err := s.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	day := caudal.PerDay(100).With(caudal.FixedWindow)
	w := h.Warnings(caudal.PerMinute(1), day)
	if len(w) != 2 || !strings.Contains(w[0], "appendonly") || !strings.Contains(w[1], "allkeys-lru") {
		t.Errorf("Warnings with a daily quota = %q, want one about appendonly and one about allkeys-lru", w)
	}
	if w := h.Warnings(caudal.PerMinute(1)); len(w) != 0 {
		t.Errorf("Warnings without long limits = %q, want none", w)
	}
	l := compile(t, day)
	for i := range 30_000 {
		take(t, s, caudal.Instant{}, l, strconv.Itoa(i), 1)
	}
	if h, err = s.Check(ctx); err != nil || h.Evicted() == 0 {
		t.Errorf("Check after 30 000 keys in 3 MB = %+v, %v, want keys evicted", h, err)
	}
	r.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	r.Do("CONFIG", "SET", "appendonly", "yes")
	if h, err = s.Check(ctx); err != nil || len(h.Warnings(day)) != 0 {
		t.Errorf("Warnings with appendonly and noeviction = %q, %v, want none", h.Warnings(day), err)
	}
}
