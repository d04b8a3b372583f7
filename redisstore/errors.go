package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// Kind says what went wrong, in one word that suits a metric's label.
type Kind string

// The kinds of failures.
const (
	// KindTimeout: no answer in time. The call may have been charged.
	KindTimeout Kind = "timeout"
	// KindConnection: no connection, or it broke. The call may have been charged
	// if it broke while waiting for the answer.
	KindConnection Kind = "connection"
	// KindReadOnly: the server is a replica, or lost its master.
	KindReadOnly Kind = "readonly"
	// KindLoading: the server is reading its data set after a start.
	KindLoading Kind = "loading"
	// KindCluster: the Cluster cannot serve the slot now.
	KindCluster Kind = "cluster"
	// KindOOM: the server is out of memory and may not evict.
	KindOOM Kind = "oom"
	// KindWrongType: the counter's key holds something that is not ours, or that a
	// later version wrote.
	KindWrongType Kind = "wrongtype"
	// KindRequest: the request asks for more than a store can decide at once. It says
	// nothing about the server.
	KindRequest Kind = "request"
	// KindAuth: the user or password is wrong, or the user may not do this.
	KindAuth Kind = "auth"
	// KindScript: a script failed.
	KindScript Kind = "script"
	// KindOther: anything else.
	KindOther Kind = "other"
)

// Error is a failure of the store: no decision was made. It wraps
// caudal.ErrStore and the cause.
type Error struct {
	op        string
	kind      Kind
	transient bool
	err       error
}

// Error says what was done, and what came of it.
func (e *Error) Error() string {
	if e.kind == KindOther {
		return fmt.Sprintf("redisstore: %s: %v", e.op, e.err) // the kind would say nothing
	}
	return fmt.Sprintf("redisstore: %s: %s: %v", e.op, e.kind, e.err)
}

// Unwrap gives caudal.ErrStore and the cause.
func (e *Error) Unwrap() []error { return []error{caudal.ErrStore, e.err} }

// Kind gives the kind as text, for a metric's label.
func (e *Error) Kind() string { return string(e.kind) }

// Transient reports whether the failure may pass by itself: false for what
// somebody has to mend, such as a wrong password or URL.
func (e *Error) Transient() bool { return e.transient }

// KindOf gives the kind of a failure of this package, and "" for other errors.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.kind
	}
	return ""
}

// prefixes maps what Redis puts first in its errors to kinds, and whether they
// pass by themselves.
var prefixes = []struct {
	text      string
	kind      Kind
	transient bool
}{
	{"READONLY", KindReadOnly, true},
	{"MASTERDOWN", KindReadOnly, true},
	{"LOADING", KindLoading, true},
	{"CLUSTERDOWN", KindCluster, true},
	{"TRYAGAIN", KindCluster, true},
	{"MOVED", KindCluster, true},
	{"ASK", KindCluster, true},
	{"CROSSSLOT", KindCluster, false},
	{"OOM", KindOOM, true},
	{"WRONGTYPE", KindWrongType, false},
	{"BADSTATE", KindWrongType, false},
	{"WRONGPASS", KindAuth, false},
	{"NOAUTH", KindAuth, false},
	{"NOPERM", KindAuth, false},
	{"ERR AUTH", KindAuth, false},
	{"ERR invalid password", KindAuth, false},
	{"MISCONF", KindOther, true},
	{"NOREPLICAS", KindOther, true},
	{"BUSY", KindOther, true},
	{"UNKILLABLE", KindOther, true},
	{"NOSCRIPT", KindScript, true},
}

// fail makes the error of an operation. The caller's own cancellation is not a
// failure of the store and is given as it is.
func fail(ctx context.Context, op string, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return fmt.Errorf("redisstore: %s: %w", op, ctx.Err())
	}
	var known *Error
	if errors.As(err, &known) || errors.Is(err, caudal.ErrClosed) {
		return err
	}
	kind, transient := classify(err)
	return &Error{op, kind, transient, err}
}

func classify(err error) (Kind, bool) {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		return classifyAnswer(answer.Error())
	}
	var netErr net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return KindTimeout, true
	case errors.Is(err, context.Canceled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, rueidis.ErrClosing), errors.As(err, &netErr):
		return KindConnection, true
	}
	// What remains comes from a connection too: a handshake, a reply that cannot be
	// read.
	return KindConnection, true
}

// classifyAnswer sorts an error that Redis answered. Before Redis 7 an error
// inside a script is wrapped in text of the script's.
func classifyAnswer(text string) (Kind, bool) {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p.text) {
			return p.kind, p.transient
		}
	}
	if strings.Contains(text, "script") {
		for _, p := range prefixes {
			if strings.Contains(text, ": -"+p.text) || strings.Contains(text, ": "+p.text) {
				return p.kind, p.transient
			}
		}
		return KindScript, false
	}
	return KindOther, false
}

// lost reports whether a failure means that the connection is of no use: it
// broke, or the server behind it cannot serve.
func lost(kind Kind) bool {
	return kind == KindConnection || kind == KindReadOnly || kind == KindLoading
}
