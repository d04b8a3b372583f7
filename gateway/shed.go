package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/shed"
)

// admit takes a slot for a call that its limits let pass, or answers it.
func (c *call) admit(w http.ResponseWriter, r *http.Request) bool {
	ok := false
	if c.outcome != nil {
		if c.slot, ok = c.outcome.Admit(r.Context(), c.route.shedding); !ok {
			c.route.g.hurry(w, r)
			c.outcome.Refuse(w, r)
		}
	} else if ok = c.admitUnlimited(w, r); !ok {
		return false
	}
	if c.slot != nil && r.Body != nil && r.Body != http.NoBody {
		c.upload = &upload{ReadCloser: r.Body}
		r.Body = c.upload
	}
	return ok
}

// admitUnlimited is admit for a route without limits: all calls are of normal
// priority.
func (c *call) admitUnlimited(w http.ResponseWriter, r *http.Request) bool {
	var who identity.Request
	who.Reset(c.route.g.who, r)
	var err error
	c.slot, err = c.route.shedding.Shedder.Acquire(r.Context(), shed.Call{Client: who.Client()})
	if err == nil {
		return true
	}
	if errors.Is(err, shed.ErrShed) {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(shed.RetryAfter(0)/time.Second), 10))
	}
	c.route.g.hurry(w, r)
	httplimit.Overloaded().Write(w, r)
	return false
}

// slowUpload is how long a call may wait for its client's body for its time to say
// something about the upstream.
const slowUpload = 5 * time.Millisecond

// answered tells the slot that the response has begun. A stream gives it back: it is
// no work under way, and may last for days. gRPC does not tell one from a call; its
// header comes when an answer is there.
func (c *call) answered(res *http.Response) {
	if c.slot == nil {
		return
	}
	streams := httplimit.Streams(res.StatusCode, res.Header)
	slow := c.upload != nil && c.upload.waited.Load() > int64(slowUpload)
	if !streams && !slow && res.StatusCode < http.StatusInternalServerError {
		c.slot.Answered()
	}
	if streams || isGRPC(c.client) {
		c.slot.Release()
	}
}

// upload is a body that counts the time that it is waited for.
type upload struct {
	io.ReadCloser
	waited atomic.Int64 // nanoseconds
}

func (u *upload) Read(p []byte) (int, error) {
	start := time.Now()
	n, err := u.ReadCloser.Read(p)
	u.waited.Add(int64(time.Since(start)))
	return n, err
}

// Shedders gives what sheds load on each route that does, by the route's host and
// path.
func (g *Gateway) Shedders() map[string]*shed.Shedder {
	all := map[string]*shed.Shedder{}
	for _, r := range g.routes.routes {
		if r.shedding != nil {
			all[r.name()] = r.shedding.Shedder
		}
	}
	return all
}

// name is the route's host and path, for metrics.
func (r *route) name() string {
	host, path := r.Host, r.Path
	if host == "" {
		host = "*"
	}
	if path == "" {
		path = "/"
	}
	return host + path
}
