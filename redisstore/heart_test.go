package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/redisstore"
)

var _ failover.Heart = (*redisstore.Store)(nil)

// An instance counts while it beats: others are those that beat within their time,
// and one that died is forgotten.
func TestBeatCountsTheInstancesThatLive(t *testing.T) {
	server, store := single(t, redisstore.Options{})
	beat := func(want int) {
		t.Helper()
		n, err := store.Beat(context.Background())
		if err != nil || n != want {
			t.Fatalf("Beat() = %d, %v, want %d", n, err, want)
		}
	}
	beat(1)
	beat(1)
	until := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
	server.Do("ZADD", "caudal:{instances}", until(time.Minute), "another")
	beat(2)
	server.Do("ZADD", "caudal:{instances}", until(-time.Millisecond), "another")
	beat(1)
}
