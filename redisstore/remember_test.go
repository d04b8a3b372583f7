package redisstore

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// A denial until midnight is believed for some seconds only: that somebody deleted
// the key, or a failover lost it, is told to nobody.
func TestDenialsAreBelievedForSeconds(t *testing.T) {
	l, err := caudal.PerDay(1).Compile("", "")
	if err != nil {
		t.Fatal(err)
	}
	x, c := newDenials(64), counter{1, 2}
	x.set(true)
	sent, drops := x.stamp(c)
	x.learn(l, c, 1, &caudal.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}, sent, drops)
	var d caudal.Decision
	x.base = x.base.Add(-maxRemembered + time.Second) // as if so much had passed
	if !x.deny(l, c, 1, &d) || d.RetryAfter <= time.Hour-maxRemembered || d.RetryAfter > time.Hour-maxRemembered+time.Second {
		t.Errorf("deny after %s = %+v, want a denial with what is left of the hour", maxRemembered-time.Second, d)
	}
	x.base = x.base.Add(-time.Second)
	if x.deny(l, c, 1, &d) {
		t.Errorf("deny after %s = %+v, want Redis to be asked", maxRemembered, d)
	}
}
