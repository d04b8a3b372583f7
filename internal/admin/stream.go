package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	// maxStreams bounds the open streams.
	maxStreams = 32
	// streamEvery is how often a stream sends the state.
	streamEvery = time.Second
	// writeWithin bounds one write: a client that reads no more is let go.
	writeWithin = 10 * time.Second
)

// stream sends the state as server-sent events, once a second, until the client
// goes.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		problem(w, r, http.StatusServiceUnavailable, errors.New("too many streams are open: close a page"))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	for {
		event, err := json.Marshal(a.o.Status())
		if err != nil {
			return
		}
		if err := out.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		event = append(append([]byte("event: status\ndata: "), event...), "\n\n"...)
		if _, err := w.Write(event); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}
