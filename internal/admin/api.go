package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// Options are what an API works on. All but Token and KeyHeader are required.
type Options struct {
	// Token is asked for; empty lets in clients on this machine alone.
	Token []byte
	// Rules gives the rules in force.
	Rules func() *rule.Set
	// Store counts.
	Store caudal.Store
	// Controls are what is said by hand.
	Controls *control.Controls
	// Who knows API keys, and KeyHeader is the header that carries one.
	Who       *identity.Resolver
	KeyHeader string
	// Status gives the state as it is shown.
	Status func() any
	// History gives what came before, for those who begin to look.
	History func() any
	// Logger gets a line for each change.
	Logger *slog.Logger
}

// API answers operators. It is safe for concurrent use.
type API struct {
	o       Options
	guard   guard
	streams chan struct{} // one token per open stream
}

// New makes an API.
func New(o Options) (*API, error) {
	if n := len(o.Token); n > 0 && n < MinToken {
		return nil, fmt.Errorf("admin: a token of %d bytes is too short: use at least %d, such as openssl rand -base64 32", n, MinToken)
	}
	return &API{o: o, guard: newGuard(o.Token), streams: make(chan struct{}, maxStreams)}, nil
}

// Register puts the paths on a mux.
func (a *API) Register(mux *http.ServeMux) {
	mux.Handle("GET /v1/status", a.reads(a.status))
	mux.Handle("GET /v1/stream", a.reads(a.stream))
	mux.Handle("GET /v1/blocks", a.reads(a.blocks))
	mux.Handle("GET /v1/enforcement", a.reads(a.enforced))
	mux.Handle("POST /v1/counters", a.posts(a.counters))
	mux.Handle("POST /v1/counters/reset", a.posts(a.reset))
	mux.Handle("POST /v1/counters/refund", a.posts(a.refund))
	mux.Handle("POST /v1/block", a.posts(a.block))
	mux.Handle("POST /v1/unblock", a.posts(a.unblock))
	mux.Handle("POST /v1/enforcement", a.posts(a.enforcement))
}

func (a *API) status(w http.ResponseWriter, _ *http.Request) { reply(w, a.o.Status()) }

// maxBody bounds what an operator may send.
const maxBody = 64 << 10

// read reads a body strictly, and answers itself when it cannot.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("the body goes on behind the JSON object: send one object")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return true
	case errors.As(err, &tooLarge):
		problem(w, r, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", maxBody))
	default:
		problem(w, r, http.StatusBadRequest, fmt.Errorf("the body cannot be read: %w", err))
	}
	return false
}

func reply(w http.ResponseWriter, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

// changed logs a change.
func (a *API) changed(r *http.Request, what string, attrs ...any) {
	a.o.Logger.Warn("admin: "+what, append(attrs, "peer", r.RemoteAddr)...)
}

// seconds is a time as JSON has it: a number of seconds.
func seconds(d time.Duration) float64 { return d.Seconds() }
