package redistest

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is a Redis Cluster of three masters with a replica each.
type Cluster struct {
	// Nodes are all six; which are masters changes with failovers.
	Nodes []*Server
	t     testing.TB
}

// StartCluster starts a Cluster and waits until it takes commands.
func StartCluster(t testing.TB, config ...string) *Cluster {
	t.Helper()
	need(t, "redis-cli")
	c := &Cluster{t: t}
	args := []string{"--cluster", "create"}
	for range 6 {
		s := Start(t, append(config, "cluster-enabled yes", "cluster-node-timeout 1000",
			"cluster-port "+strconv.Itoa(freePort(t)))...)
		c.Nodes = append(c.Nodes, s)
		args = append(args, s.Addr)
	}
	args = append(args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v: %s", err, out)
	}
	for _, s := range c.Nodes {
		s.Await("cluster_state:ok", "CLUSTER", "INFO")
	}
	c.awaitReplicas()
	return c
}

// awaitReplicas waits until every replica follows its master.
func (c *Cluster) awaitReplicas() {
	c.t.Helper()
	for _, s := range c.Nodes {
		if s.Info("replication", "role") == "slave" {
			s.Await("master_link_status:up", "INFO", "replication")
		}
	}
}

// Masters gives the nodes that are masters now.
func (c *Cluster) Masters() []*Server { return c.role("master") }

// Replicas gives the nodes that are replicas now.
func (c *Cluster) Replicas() []*Server { return c.role("slave") }

func (c *Cluster) role(role string) []*Server {
	c.t.Helper()
	var out []*Server
	for _, s := range c.Nodes {
		if strings.Contains(s.TryDo("INFO", "replication"), "role:"+role) {
			out = append(out, s)
		}
	}
	return out
}

// URL gives the address as the store takes it.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return "redis-cluster://" + strings.Join(addrs, ",")
}

// Failover makes a replica the master of its slots and waits until the old one has
// stepped down.
func (c *Cluster) Failover(replica *Server) {
	c.t.Helper()
	replica.Do("CLUSTER", "FAILOVER")
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if slices.Contains(c.Masters(), replica) && len(c.Masters()) == 3 {
			return
		}
	}
	c.t.Fatalf("%s did not become the one master of its slots", replica.Addr)
}

// Reshard moves n slots from one master to another, by redis-cli. Right after a
// failover it waits until the nodes agree who is master.
func (c *Cluster) Reshard(from, to *Server, n int) {
	c.t.Helper()
	var out []byte
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		out, err = exec.Command("redis-cli", "--cluster", "reshard", from.Addr, "--cluster-from", from.Do("CLUSTER", "MYID"),
			"--cluster-to", to.Do("CLUSTER", "MYID"), "--cluster-slots", strconv.Itoa(n), "--cluster-yes").CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "don't agree") {
			break
		}
	}
	c.t.Fatalf("redis-cli --cluster reshard: %v: %s", err, out)
}

// Sentinels is a master with a replica, watched by three sentinels.
type Sentinels struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// MasterName is the name under which the sentinels know the master.
const MasterName = "caudal"

// StartSentinels starts the group and waits until the sentinels know each other.
func StartSentinels(t testing.TB, config ...string) *Sentinels {
	t.Helper()
	g := &Sentinels{Master: Start(t, config...)}
	g.Replica = Start(t, append(config, "replicaof 127.0.0.1 "+strconv.Itoa(g.Master.port))...)
	g.Replica.Await("master_link_status:up", "INFO", "replication")
	for range 3 {
		s := prepare(t, nil)
		path := s.writeConfig("sentinel.conf",
			"port "+strconv.Itoa(s.port), "bind 127.0.0.1", "dir "+s.dir,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, g.Master.port),
			"sentinel down-after-milliseconds "+MasterName+" 1000",
			"sentinel failover-timeout "+MasterName+" 5000",
			"sentinel resolve-hostnames no")
		s.start("redis-server", path, "--sentinel")
		s.Await("PONG", "PING")
		g.Sentinels = append(g.Sentinels, s)
	}
	for _, s := range g.Sentinels {
		s.Await("sentinels=3", "INFO", "sentinel")
		s.Await("slaves=1", "INFO", "sentinel")
	}
	return g
}

// Failover makes the replica the master and waits until it is.
func (g *Sentinels) Failover() {
	g.Master.t.Helper()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if g.Sentinels[0].TryDo("SENTINEL", "FAILOVER", MasterName) == "OK" {
			break
		}
	}
	g.Replica.Await("role:master", "INFO", "replication")
}

// URL gives the address as the store takes it.
func (g *Sentinels) URL() string {
	addrs := make([]string, len(g.Sentinels))
	for i, s := range g.Sentinels {
		addrs[i] = s.Addr
	}
	return "redis-sentinel://" + strings.Join(addrs, ",") + "/" + MasterName
}
