package caudal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestConcurrencyValidate(t *testing.T) {
	for _, tc := range []struct {
		lease time.Duration
		ok    bool
	}{{0, true}, {time.Second, true}, {24 * time.Hour, true}, {time.Second - time.Millisecond, false}, {25 * time.Hour, false},
		{-time.Second, false}, {1500*time.Millisecond + time.Microsecond, false}} {
		c := caudal.Concurrency{Max: 1, Lease: tc.lease}
		if err := c.Validate(); (err == nil) != tc.ok || !tc.ok && !errors.Is(err, caudal.ErrInvalidLimit) {
			t.Errorf("Concurrency{Lease: %s}.Validate() = %v, want ok %t", tc.lease, err, tc.ok)
		}
		if _, err := c.Compile("n", "s", caudal.FailLocal); (err == nil) != tc.ok {
			t.Errorf("Concurrency{Lease: %s}.Compile = %v, want ok %t", tc.lease, err, tc.ok)
		}
	}
}

func TestConcurrencyIdentity(t *testing.T) {
	compile := func(c caudal.Concurrency, scope string) string {
		l, err := c.Compile("name", scope, caudal.FailLocal)
		if err != nil {
			t.Fatal(err)
		}
		return l.Scope()
	}
	a := compile(caudal.Concurrency{Max: 1}, "s")
	if b := compile(caudal.Concurrency{Max: 9, Lease: time.Hour}, "s"); a != b {
		t.Error("other numbers make another identity, want the same")
	}
	if b := compile(caudal.Concurrency{Max: 1}, "t"); a == b {
		t.Error("two scopes have one identity")
	}
	for _, algorithm := range caudal.Algorithms() {
		kind, _ := caudal.ParseAlgorithm(algorithm)
		l, err := caudal.PerSecond(1).With(kind).Compile("name", "s")
		if err != nil {
			t.Fatal(err)
		}
		if l.Scope() == a {
			t.Errorf("a %s and a concurrency have one identity", algorithm)
		}
	}
}

func TestConcurrencyLocal(t *testing.T) {
	for _, tc := range []struct {
		most      uint32
		instances int
		want      uint64
	}{{20, 1, 20}, {20, 3, 6}, {20, 20, 1}, {20, 100, 1}, {0, 3, 0}, {5, 0, 5}, {5, -1, 5}, {1<<32 - 1, 2, 1<<31 - 1}} {
		l, err := caudal.Concurrency{Max: tc.most}.Compile("name", "s", caudal.FailLocal)
		if err != nil {
			t.Fatal(err)
		}
		local := l.Local(tc.instances)
		if local.Max() != tc.want || local.Scope() != l.Scope() || local.StandsInFor() != l || local.Local(7) != local {
			t.Errorf("max %d, Local(%d) has max %d and stands for %v, want %d and the limit", tc.most, tc.instances, local.Max(), local.StandsInFor(), tc.want)
		}
	}
}
