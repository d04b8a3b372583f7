package redisstore_test

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/storetest"
)

// prefixes gives every store of a shared server keys of its own.
var prefixes atomic.Int64

func freshPrefix() string { return "t" + strconv.FormatInt(prefixes.Add(1), 10) + ":" }

// Lua's numbers are exact up to 2^53 microseconds since 1970.
var suite = storetest.Options{OneTimeline: true, OwnClock: true, ExactUntil: time.UnixMicro(1 << 53), Traces: traces()}

// traces is how many random traces each algorithm plays: each call is a round trip,
// and the model is slow under the race detector.
func traces() int {
	if os.Getenv("CAUDAL_SOAK") != "" {
		return 200
	}
	return 10
}

// The suite passes on a single server.
func TestStore(t *testing.T) {
	r := redistest.Start(t)
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		return open(t, r.URL(), redisstore.Options{Prefix: freshPrefix(), CallerTime: true, Clock: clock})
	}, suite)
}

// The suite passes on a Cluster, where the counters of a request live on
// different nodes.
func TestStoreCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	opts := suite
	opts.SplitBatches = true
	opts.Traces /= 2 // the scripts are those of TestStore, where more are played
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		return open(t, c.URL(), redisstore.Options{Prefix: freshPrefix(), CallerTime: true, Clock: clock})
	}, opts)
}
