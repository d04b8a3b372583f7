package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/control"
)

// Block is a block as JSON has it.
type Block struct {
	// Key is whom it is about: ATTRIBUTE=VALUE, secrets as their SHA-256.
	Key string `json:"key"`
	// Until is when it is over.
	Until time.Time `json:"until"`
}

// Blocks is the answer of /v1/blocks, /v1/block and /v1/unblock.
type Blocks struct {
	// Blocks are those in force, sorted.
	Blocks []Block `json:"blocks"`
}

// BlockRequest is the body of /v1/block and /v1/unblock.
type BlockRequest struct {
	// Key is whom it is about; see control.ParseTarget.
	Key string `json:"key"`
	// For is how long, such as "15m"; for /v1/block.
	For string `json:"for,omitempty"`
}

// Enforcement is the body of /v1/enforcement, and its answer.
type Enforcement struct {
	// On says that limits and blocks deny.
	On bool `json:"on"`
	// For is how long they do not, such as "1h"; empty is until somebody says so.
	For string `json:"for,omitempty"`
	// Until is when they do again, in an answer.
	Until *time.Time `json:"until,omitempty"`
}

// BlocksOf gives the blocks of controls as JSON has them.
func BlocksOf(c *control.Controls) []Block {
	list := []Block{}
	for _, b := range c.Blocks() {
		list = append(list, Block{b.Target.String(), b.Until.UTC()})
	}
	return list
}

func (a *API) blocks(w http.ResponseWriter, _ *http.Request) {
	reply(w, Blocks{BlocksOf(a.o.Controls)})
}

func (a *API) block(w http.ResponseWriter, r *http.Request) {
	var body BlockRequest
	if !read(w, r, &body) {
		return
	}
	target, err := control.ParseTarget(body.Key)
	if err != nil {
		problem(w, r, http.StatusBadRequest, plain(err))
		return
	}
	d, err := time.ParseDuration(body.For)
	if err != nil {
		problem(w, r, http.StatusBadRequest, fmt.Errorf("for: %.40q is no time: write it like 15m or 24h", body.For))
		return
	}
	if err := a.o.Controls.Block(r.Context(), target, d); err != nil {
		problem(w, r, statusOf(err), plain(err))
		return
	}
	a.changed(r, "blocked", "key", target.String(), "for", d)
	a.blocks(w, r)
}

func (a *API) unblock(w http.ResponseWriter, r *http.Request) {
	var body BlockRequest
	if !read(w, r, &body) {
		return
	}
	target, err := control.ParseTarget(body.Key)
	if err != nil {
		problem(w, r, http.StatusBadRequest, plain(err))
		return
	}
	there, err := a.o.Controls.Unblock(r.Context(), target)
	switch {
	case err != nil:
		problem(w, r, statusOf(err), plain(err))
		return
	case !there:
		problem(w, r, http.StatusNotFound, fmt.Errorf("%s is not blocked", target))
		return
	}
	a.changed(r, "unblocked", "key", target.String())
	a.blocks(w, r)
}

func (a *API) enforcement(w http.ResponseWriter, r *http.Request) {
	var body Enforcement
	if !read(w, r, &body) {
		return
	}
	d := time.Duration(0)
	if body.For != "" {
		var err error
		if d, err = time.ParseDuration(body.For); err != nil || d <= 0 || body.On {
			problem(w, r, http.StatusBadRequest, fmt.Errorf("for: %.40q: write a time such as 1h, and only to turn enforcement off", body.For))
			return
		}
	}
	if err := a.o.Controls.Enforce(r.Context(), body.On, d); err != nil {
		problem(w, r, statusOf(err), plain(err))
		return
	}
	a.changed(r, "enforcement set", "on", body.On, "for", d)
	reply(w, EnforcementOf(a.o.Controls))
}

func (a *API) enforced(w http.ResponseWriter, _ *http.Request) { reply(w, EnforcementOf(a.o.Controls)) }

// EnforcementOf gives the enforcement of controls as JSON has it.
func EnforcementOf(c *control.Controls) Enforcement {
	e := Enforcement{On: !c.Off()}
	if until := c.OffUntil(); !e.On && !until.IsZero() {
		until = until.UTC()
		e.Until = &until
	}
	return e
}

// statusOf tells a store that is gone from a request that is wrong.
func statusOf(err error) int {
	if errors.Is(err, control.ErrShared) {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// plain is an error without the name of the package that it comes from.
func plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "control: ")) }
