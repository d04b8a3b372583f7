package gateway

import (
	"context"
	"mime"
	"net/http"
	"time"
)

// boundTime ends the call when it takes too long, until stop is called. Whoever
// waits for the upstream then sees context.DeadlineExceeded.
func (c *call) boundTime(d time.Duration) (stop func()) {
	ctx, cancel := context.WithCancelCause(c.Context)
	c.Context = ctx
	c.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return func() {
		c.timer.Stop()
		cancel(nil)
	}
}

// letStream takes the bound away from responses that last as long as both sides
// like.
func (c *call) letStream(res *http.Response) {
	if c.timer != nil && (res.StatusCode == http.StatusSwitchingProtocols || isStream(res.Header)) {
		c.timer.Stop()
	}
}

func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}
