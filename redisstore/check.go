package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// Health is what the servers say of themselves.
type Health struct {
	Nodes []NodeHealth
}

// NodeHealth is what one server says of itself.
type NodeHealth struct {
	Addr string
	// Persistent says that the append-only file is on.
	Persistent bool
	// Policy is what happens at maxmemory, as Redis names it; Evicts says that
	// there is a maxmemory at which it drops keys.
	Policy string
	Evicts bool
	// Evicted is how many keys were dropped since the server started.
	Evicted int64
}

// Check asks every server how it keeps its data, for warnings and metrics. An
// error wraps caudal.ErrStore.
func (s *Store) Check(ctx context.Context) (Health, error) {
	ses, err := s.link.session("check")
	if err != nil {
		return Health{}, err
	}
	start := time.Now()
	var h Health
	for addr, node := range ses.client.Nodes() {
		n, err := s.checkNode(ctx, node)
		if s.observed {
			s.observer.Call("check", time.Since(start), err)
		}
		if err != nil {
			return Health{}, s.failed(ctx, ses, "check", err)
		}
		n.Addr = addr
		h.Nodes = append(h.Nodes, n)
	}
	return h, nil
}

func (s *Store) checkNode(ctx context.Context, node rueidis.Client) (NodeHealth, error) {
	var n NodeHealth
	for _, section := range [3]string{"persistence", "memory", "stats"} {
		text, err := node.Do(ctx, node.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return n, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			n.set(name, value)
		}
	}
	return n, nil
}

func (n *NodeHealth) set(name, value string) {
	switch name {
	case "aof_enabled":
		n.Persistent = value == "1"
	case "maxmemory":
		n.Evicts = value != "0"
	case "maxmemory_policy":
		n.Policy = value
		n.Evicts = n.Evicts && value != "noeviction"
	case "evicted_keys":
		n.Evicted, _ = strconv.ParseInt(value, 10, 64) // Redis writes a number
	}
}

// Evicted is how many keys all servers dropped for want of memory. A counter that
// is dropped counts as fresh.
func (h Health) Evicted() int64 {
	sum := int64(0)
	for _, n := range h.Nodes {
		sum += n.Evicted
	}
	return sum
}

// Warnings says what may make counters be forgotten that must last: one line per
// server and cause, when one of the limits has a unit of a day or more. Without
// such limits there is none: what a restart forgets is soon over.
func (h Health) Warnings(limits ...caudal.Limit) []string {
	long := false
	for _, l := range limits {
		long = long || l.Unit >= caudal.Day
	}
	if !long {
		return nil
	}
	var out []string
	for _, n := range h.Nodes {
		if !n.Persistent {
			out = append(out, fmt.Sprintf("redis %s has appendonly no: a restart forgets daily and longer quotas; set appendonly yes", n.Addr))
		}
		if n.Evicts {
			out = append(out, fmt.Sprintf("redis %s has maxmemory-policy %s: counters may be dropped while they count; set noeviction", n.Addr, n.Policy))
		}
	}
	return out
}
