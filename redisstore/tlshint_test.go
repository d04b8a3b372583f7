package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/internal/redistest"
)

// TestTheWrongSchemeIsNamed: a server without TLS asked with it, and the other way
// round.
func TestTheWrongSchemeIsNamed(t *testing.T) {
	plain := redistest.Start(t)
	secure := redistest.StartTLS(t, redistest.MakeCertificates(t, time.Now().Add(time.Hour)), false)
	for url, want := range map[string]string{
		strings.Replace(plain.URL(), "redis://", "rediss://", 1): "does not speak TLS: begin the URL with redis instead of rediss",
		"redis://" + secure.Addr:                                 "begin the URL with rediss",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		s, err := Open(ctx, url, Options{})
		cancel()
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want %q", url, err, want)
		}
	}
}
