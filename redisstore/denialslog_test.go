package redisstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// lockedBuffer is a buffer that several goroutines may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// TestALostChannelIsOneLine: while Redis is gone the channel of refunds is tried
// again and again; the log has one line for each loss.
func TestALostChannelIsOneLine(t *testing.T) {
	r := redistest.Start(t)
	var log lockedBuffer
	s, err := redisstore.Open(within(t, 10*time.Second), r.URL(), redisstore.Options{Denials: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	remembers := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); s.RemembersDenials() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("RemembersDenials = %v for 10 s, want %v", !want, want)
			}
		}
	}
	remembers(true)
	for loss := 1; loss <= 2; loss++ {
		r.Kill()
		remembers(false)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			_ = s.RemembersDenials() // some three tries pass
		}
		r.Restart()
		remembers(true)
		if got := log.count("not told of refunds"); got != loss {
			t.Errorf("after %d losses the log has %d lines about them", loss, got)
		}
	}
}
