package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/internal/redistest"
)

func TestSingle(t *testing.T) {
	r := redistest.Start(t, "maxmemory 20mb")
	if got := r.Do("SET", "k", "v"); got != "OK" {
		t.Errorf("SET = %q, want OK", got)
	}
	r.Kill()
	if got := r.TryDo("PING"); strings.Contains(got, "PONG") {
		t.Errorf("PING after Kill = %q, want no answer", got)
	}
	r.Restart()
	if got := r.Do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after a crash without persistence = %q, want 0", got)
	}
}

func TestTLS(t *testing.T) {
	certs := redistest.MakeCertificates(t, time.Now().Add(time.Hour))
	r := redistest.StartTLS(t, certs, true)
	if got := r.Do("PING"); got != "PONG" {
		t.Errorf("PING = %q, want PONG", got)
	}
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	if n := len(c.Masters()); n != 3 {
		t.Errorf("masters = %d, want 3", n)
	}
	if n := len(c.Replicas()); n != 3 {
		t.Errorf("replicas = %d, want 3", n)
	}
}

func TestSentinels(t *testing.T) {
	g := redistest.StartSentinels(t)
	g.Failover()
	if got := g.Replica.Info("replication", "role"); got != "master" {
		t.Errorf("role after failover = %q, want master", got)
	}
}
