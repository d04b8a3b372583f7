package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// heartLife is how long an instance counts after a beat: some missed beats of a
// second do not change the number.
const heartLife = 3500 * time.Millisecond

var heartScript = sync.OnceValue(func() *script { return newScript(theScripts().part("heart")) })

// instanceID tells this process from others that share a server.
var instanceID = sync.OnceValue(rand.Text)

// Beat makes this process count among the instances that share the server and the
// prefix, for 3.5 seconds, and gives how many count now. It is what package
// failover asks for as a Heart. Several stores of one process count as one. The
// user needs +zadd, +zcard and +zremrangebyscore beside what decisions need.
func (s *Store) Beat(ctx context.Context) (int, error) {
	ses, err := s.link.session("beat")
	if err != nil {
		return 0, err
	}
	keys := []string{s.prefix + "{instances}"}
	args := []string{instanceID(), strconv.FormatInt(heartLife.Milliseconds(), 10)}
	if t := s.instant(ses, caudal.Instant{}); t.now != "" {
		args = append(args, strconv.FormatInt(t.wall/1000, 10))
	}
	msg, err := s.exec(ctx, ses, "beat", func(full bool) rueidis.Completed {
		return call(ses, heartScript(), full, keys, args)
	})
	if err != nil {
		return 0, err
	}
	n, err := msg.ToInt64()
	if err != nil {
		return 0, s.failed(ctx, ses, "beat", err)
	}
	return int(n), nil
}
