package storetest

import (
	"context"
	"fmt"

	"github.com/caudal-dev/caudal"
)

// naivePermit is one that is held.
type naivePermit struct {
	name    string
	expires int64
}

func (n *naive) inUse(name string, now int64) (count uint64) {
	for id, p := range n.held {
		if p.expires <= now && n.fault != "permits never expire" {
			delete(n.held, id)
		} else if p.name == name {
			count++
		}
	}
	return count
}

func (n *naive) permitName(c caudal.PermitCall) string {
	if n.fault == "max is part of the identity" {
		return fmt.Sprint(c.Limit.Max(), c.Limit.Scope(), string(c.Key))
	}
	return string(caudal.AppendPart([]byte(c.Limit.Scope()), c.Key))
}

func (n *naive) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, c := range calls {
		name := n.permitName(c)
		out[i] = caudal.Grant{Max: c.Limit.Max(), Allowed: c.Peek || n.inUse(name, at.Mono) < c.Limit.Max()}
		if out[i].Allowed && !c.Peek {
			n.ids++
			n.held[n.ids] = naivePermit{name, at.Mono + c.Limit.Lease().Microseconds()}
			out[i].Acquired, out[i].Permit = true, caudal.Permit{Limit: c.Limit, ID: n.ids}
		}
	}
	for i, c := range calls {
		if out[i].Acquired && !caudal.Granted(calls, out) && n.fault != "permits limit by limit" {
			delete(n.held, out[i].Permit.ID)
			out[i].Acquired, out[i].Permit = false, caudal.Permit{}
		}
		out[i].InUse = n.inUse(n.permitName(c), at.Mono)
	}
	return nil
}

func (n *naive) Renew(_ context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range permits {
		h, ok := n.held[p.ID]
		ok = ok && (h.expires > at.Mono || n.fault == "expired permits can be renewed")
		if ok {
			h.expires = max(h.expires, at.Mono+p.Limit.Lease().Microseconds())
			n.held[p.ID] = h
		}
		if held != nil {
			held[i] = ok
		}
	}
	return nil
}

func (n *naive) Release(_ context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range permits {
		h, ok := n.held[p.ID]
		ok = ok && h.expires > at.Mono
		if n.fault == "releases any permit" && !ok {
			for id := range n.held {
				delete(n.held, id)
				break
			}
		}
		delete(n.held, p.ID)
		if held != nil {
			held[i] = ok
		}
	}
	return nil
}
