package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/shed"
)

// call is one request under way. It is the context of that request as well, so
// that what handles the response finds it, at the price of one allocation.
type call struct {
	context.Context // of the client's request
	client          *http.Request
	route           *route
	path            string             // what the upstream is asked for, escaped, below its own path
	outcome         *httplimit.Outcome // nil when nothing limits the call
	timer           *time.Timer        // ends the call; nil without such a bound
	slot            *shed.Slot         // nil where nothing is shed
	upload          *upload            // nil without a slot or a body
	body            *watchedBody       // nil when there is none
	writer          clientWriter
}

type callKey struct{}

// Value gives the call itself under its key.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// callOf finds the call of a context, which is that of a request of this package.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// settle credits calls whose cost the response tells, or that it tells not to
// count, before the headers say what remains. The gateway's own answer for an
// upstream that gave none is a response without headers.
func (c *call) settle(status int, h http.Header) {
	if c.outcome != nil && c.outcome.PaysLater() {
		c.outcome.Settle(c, status, h)
	}
}
