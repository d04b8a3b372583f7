package decisionapi

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// hintEvery is how often hints may write a line of log.
const hintEvery = 10 * time.Second

// hints writes to the log what an operator should mend, not once per request.
type hints struct {
	log     *slog.Logger
	last    atomic.Int64 // nanoseconds since 1970
	skipped atomic.Int64
}

func (h *hints) hint(what string, attrs ...any) {
	now, last := time.Now().UnixNano(), h.last.Load()
	if now-last < int64(hintEvery) || !h.last.CompareAndSwap(last, now) {
		h.skipped.Add(1)
		return
	}
	h.log.Warn(what, append(attrs, "since_the_last_such_line", h.skipped.Swap(0))...)
}
