package admin

import (
	"encoding/json"
	"errors"
	"fmt"
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

// stream sends what came before and then the state, once a second, as server-sent
// events, until the client goes.
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
	if !send(w, out, "history", a.o.History()) {
		return
	}
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	for {
		if !send(w, out, "status", a.o.Status()) {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

// send sends one event, and reports whether the client still reads.
func send(w http.ResponseWriter, out *http.ResponseController, name string, value any) bool {
	text, err := json.Marshal(value)
	if err != nil {
		return false
	}
	if err := out.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return false
	}
	return out.Flush() == nil
}
